// entry: kernel
// Cumulative sum along rows, float32, [rows, cols] contiguous.
//
// Prefix sums of eight elements by three shifted additions within a vector, then the carry: a chain of one addition for
// eight elements instead of eight, and four rows at a time are four independent chains.
#include <cstdint>
#include <cstring>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between inlined functions only

namespace {

constexpr int64_t kParallelFrom = 16384;  // elements; below, a team of threads costs more than it gains

typedef float vf __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));

inline vf prefix(vf v) {
    const vf zero = vf{};
    v += __builtin_shuffle(zero, v, vi{0, 8, 9, 10, 11, 12, 13, 14});
    v += __builtin_shuffle(zero, v, vi{0, 1, 8, 9, 10, 11, 12, 13});
    v += __builtin_shuffle(zero, v, vi{0, 1, 2, 3, 8, 9, 10, 11});
    return v;
}

template <int group>
inline void rows_of(const float* x, float* out, int64_t cols) {
    double sum[group] = {};  // as wide as PyTorch's, at no cost: it is not what the chain waits for
    int64_t j = 0;
    for (; j + 8 <= cols; j += 8)
        for (int r = 0; r < group; ++r) {
            vf v;
            std::memcpy(&v, x + r * cols + j, sizeof v);
            v = prefix(v);
            const float last = v[7];
            v += static_cast<float>(sum[r]);
            std::memcpy(out + r * cols + j, &v, sizeof v);
            sum[r] += last;
        }
    for (; j < cols; ++j)
        for (int r = 0; r < group; ++r) {
            sum[r] += x[r * cols + j];
            out[r * cols + j] = static_cast<float>(sum[r]);
        }
}

}  // namespace

extern "C" void kernel(const float* x, int64_t rows, int64_t cols, float* out) {
    constexpr int64_t kRows = 4;
#pragma omp parallel for if (rows * cols >= kParallelFrom)
    for (int64_t first = 0; first < rows; first += kRows) {
        if (first + kRows <= rows) {
            rows_of<kRows>(x + first * cols, out + first * cols, cols);
        } else {
            for (int64_t r = first; r < rows; ++r) rows_of<1>(x + r * cols, out + r * cols, cols);
        }
    }
}
