// Cumulative sum along rows: out[r, j] = sum of x[r, 0..j], float32, contiguous.
//
// A running sum is one long chain of additions; what is tuned is how much else happens while one waits for the last.
//
//   PREFIX    0: element by element
//             1: eight at a time: prefix sums within a vector by three shifted additions, then the carry
//   ROWS      rows that one thread works on at a time: as many independent chains
//   WIDE      1: the running sum is a double, as PyTorch's is
//   SCHEDULE  OpenMP schedule over groups of rows
#include <cstdint>
#include <cstring>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between inlined functions only

#ifndef PREFIX
#define PREFIX 0
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef WIDE
#define WIDE 0
#endif
#ifndef SCHEDULE
#define SCHEDULE static
#endif

namespace {

// Below this many elements starting a team of threads costs more than it gains.
constexpr int64_t kParallelFrom = 16384;

#if WIDE
typedef double sum_t;
#else
typedef float sum_t;
#endif

typedef float vf __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));

// The elements of v moved up by `by` places, zeros below.
template <int by>
inline vf shifted(vf v) {
    vi from;
    for (int i = 0; i < 8; ++i) from[i] = i < by ? i : 8 + i - by;
    return __builtin_shuffle(vf{}, v, from);
}

inline vf prefix(vf v) {
    v += shifted<1>(v);
    v += shifted<2>(v);
    v += shifted<4>(v);
    return v;
}

template <int group>
inline void rows_of(const float* x, float* out, int64_t cols) {
    sum_t sum[group] = {};
    int64_t j = 0;
#if PREFIX
    for (; j + 8 <= cols; j += 8)
        for (int r = 0; r < group; ++r) {
            vf v;
            std::memcpy(&v, x + r * cols + j, sizeof v);
            v = prefix(v);
            const vf now = v + static_cast<float>(sum[r]);
            std::memcpy(out + r * cols + j, &now, sizeof now);
            sum[r] += v[7];
        }
#endif
    for (; j < cols; ++j)
        for (int r = 0; r < group; ++r) {
            sum[r] += x[r * cols + j];
            out[r * cols + j] = static_cast<float>(sum[r]);
        }
}

}  // namespace

extern "C" void kernel(const float* x, int64_t rows, int64_t cols, float* out) {
#pragma omp parallel for schedule(SCHEDULE) if (rows * cols >= kParallelFrom)
    for (int64_t first = 0; first < rows; first += ROWS) {
        if (first + ROWS <= rows) {
            rows_of<ROWS>(x + first * cols, out + first * cols, cols);
        } else {
            for (int64_t r = first; r < rows; ++r) rows_of<1>(x + r * cols, out + r * cols, cols);
        }
    }
}
