// Layer norm over rows: out = (x - mean) / sqrt(var + eps) * weight + bias, var biased, float32, x [rows, cols].
//
// One thread owns a row, which stays in its first-level cache between the passes. The deviations are taken from the mean
// or from a guess near it, never as E[x^2] - E[x]^2, which loses everything where the mean is large.
//
//   MOMENTS   0: the mean, then the squared deviations from it: two passes
//             1: both in one pass, as deviations from the mean of the row's first vector
//   VEC       floats per vector operation; above the machine's width the compiler splits it, which unrolls by itself
//   UNROLL    independent sums, to hide the latency of the reductions
//   STREAM    1: write the output past the caches
//   SCHEDULE  OpenMP schedule over rows
#include <cmath>
#include <cstdint>
#include <cstring>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between inlined functions only

#ifndef MOMENTS
#define MOMENTS 0
#endif
#ifndef VEC
#define VEC 8
#endif
#ifndef UNROLL
#define UNROLL 2
#endif
#ifndef STREAM
#define STREAM 0
#endif
#ifndef SCHEDULE
#define SCHEDULE static
#endif

#if STREAM && VEC < 8
#error "STREAM writes 8 floats at a time: VEC must be 8 or more"
#endif
#if STREAM && defined(__AVX__)
#include <immintrin.h>
#endif

namespace {

// Below this many elements starting a team of threads costs more than it gains.
constexpr int64_t kParallelFrom = 16384;

typedef float vf __attribute__((vector_size(VEC * 4)));

inline vf load(const float* p) {
    vf v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(float* p, vf v) { std::memcpy(p, &v, sizeof v); }

inline vf splat(float s) { return vf{} + s; }

inline float horizontal_sum(vf v) {
    float s = 0.f;
    for (int i = 0; i < VEC; ++i) s += v[i];
    return s;
}

// Sum of (x - shift) over a row, and of its square where `square` is not null.
inline float sums(const float* x, int64_t n, float shift, float* square) {
    vf s[UNROLL], q[UNROLL];
    for (int u = 0; u < UNROLL; ++u) s[u] = q[u] = splat(0.f);
    int64_t i = 0;
    for (; i + UNROLL * VEC <= n; i += UNROLL * VEC)
        for (int u = 0; u < UNROLL; ++u) {
            const vf d = load(x + i + u * VEC) - shift;
            s[u] += d;
            if (square) q[u] += d * d;
        }
    for (; i + VEC <= n; i += VEC) {
        const vf d = load(x + i) - shift;
        s[0] += d;
        if (square) q[0] += d * d;
    }
    for (int u = 1; u < UNROLL; ++u) {
        s[0] += s[u];
        q[0] += q[u];
    }
    float sum = horizontal_sum(s[0]), squares = horizontal_sum(q[0]);
    for (; i < n; ++i) {
        const float d = x[i] - shift;
        sum += d;
        squares += d * d;
    }
    if (square) *square = squares;
    return sum;
}

inline void emit(float* p, vf v) {
#if STREAM && defined(__AVX__)
    float part[VEC];
    store(part, v);
    if (reinterpret_cast<uintptr_t>(p) % 32 == 0) {
        for (int i = 0; i < VEC; i += 8) _mm256_stream_ps(p + i, _mm256_loadu_ps(part + i));
        return;
    }
#endif
    store(p, v);
}

inline void row(const float* x, const float* weight, const float* bias, float* out, int64_t n, float eps) {
    float guess = x[0];
    if (n >= VEC) guess = horizontal_sum(load(x)) / VEC;
    float squares = 0.f;
#if MOMENTS == 0
    const float mean = guess + sums(x, n, guess, nullptr) / n;
    const float off = sums(x, n, mean, &squares) / n;
#else
    const float off = sums(x, n, guess, &squares) / n, mean = guess + off;
#endif
    const float inverse = 1.f / std::sqrt(squares / n - off * off + eps);
    int64_t i = 0;
#if STREAM && defined(__AVX__)
    for (; i < n && reinterpret_cast<uintptr_t>(out + i) % 32 != 0; ++i)
        out[i] = (x[i] - mean) * inverse * weight[i] + bias[i];
#endif
    for (; i + VEC <= n; i += VEC) emit(out + i, (load(x + i) - mean) * inverse * load(weight + i) + load(bias + i));
    for (; i < n; ++i) out[i] = (x[i] - mean) * inverse * weight[i] + bias[i];
}

}  // namespace

extern "C" void kernel(const float* x, const float* weight, const float* bias, int64_t rows, int64_t cols, double eps,
                       float* out) {
#pragma omp parallel if (rows * cols >= kParallelFrom)
    {
#pragma omp for schedule(SCHEDULE) nowait
        for (int64_t r = 0; r < rows; ++r)
            row(x + r * cols, weight, bias, out + r * cols, cols, static_cast<float>(eps));
#if STREAM && defined(__AVX__)
        _mm_sfence();
#endif
    }
}
