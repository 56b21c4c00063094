// entry: kernel
// The k largest values of each row and their indices, float32 [rows, cols] -> values [rows, k], indices [rows, k] int64,
// in falling order.
//
// The k best so far are kept sorted; sixteen elements at a time are compared with the last of them, and only where one is
// larger (about k ln(cols / k) times a row) is it put in its place. NaN counts as the largest, as in PyTorch.
#include <cstdint>
#include <cstring>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between inlined functions only

namespace {

constexpr int64_t VEC = 8;
constexpr int64_t kParallelFrom = 16384;  // elements; below, a team of threads costs more than it gains

typedef float vf __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));

inline vf load(const float* p) {
    vf v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline bool any(vi mask) {
    int64_t part[4];
    std::memcpy(part, &mask, sizeof part);
    return (part[0] | part[1] | part[2] | part[3]) != 0;
}

inline bool larger(float a, float b) { return a > b || (a != a && b == b); }

inline void put(float v, int64_t at, float* values, int64_t* indices, int64_t count, int64_t k) {
    int64_t place = count < k ? count : k - 1;
    for (; place > 0 && larger(v, values[place - 1]); --place) {
        values[place] = values[place - 1];
        indices[place] = indices[place - 1];
    }
    values[place] = v;
    indices[place] = at;
}

inline void row(const float* x, int64_t n, int64_t k, float* values, int64_t* indices) {
    int64_t i = 0;
    for (; i < k; ++i) put(x[i], i, values, indices, i, k);
    for (; i + 2 * VEC <= n; i += 2 * VEC) {
        const float last = values[k - 1];
        const vf a = load(x + i), b = load(x + i + VEC);
        if (!any(~(a <= last) | ~(b <= last))) continue;  // not "larger", so that NaN is looked at
        for (int64_t j = i; j < i + 2 * VEC; ++j)
            if (larger(x[j], values[k - 1])) put(x[j], j, values, indices, k, k);
    }
    for (; i < n; ++i)
        if (larger(x[i], values[k - 1])) put(x[i], i, values, indices, k, k);
}

}  // namespace

extern "C" void kernel(const float* x, int64_t rows, int64_t cols, int64_t k, float* values, int64_t* indices) {
#pragma omp parallel for if (rows * cols >= kParallelFrom)
    for (int64_t r = 0; r < rows; ++r) row(x + r * cols, cols, k, values + r * k, indices + r * k);
}
