// RMS norm over rows: out = x / sqrt(mean(x^2) + eps) * weight, float32, x [rows, cols], weight [cols].
//
// One thread owns a row, which stays in its first-level cache between the two passes: sum of squares, scale.
//
//   VEC       floats per vector operation; above the machine's width the compiler splits it, which unrolls by itself
//   UNROLL    independent sums, to hide the latency of the reduction
//   STREAM    1: write the output past the caches
//   AHEAD     1: the sum of squares of the next row is taken while the present one is scaled, to mix reads and writes
//   SCHEDULE  OpenMP schedule over rows
#include <cmath>
#include <cstdint>
#include <cstring>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between inlined functions only

#ifndef VEC
#define VEC 8
#endif
#ifndef UNROLL
#define UNROLL 2
#endif
#ifndef STREAM
#define STREAM 0
#endif
#ifndef AHEAD
#define AHEAD 0
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

inline float inverse_rms(const float* x, int64_t n, float eps) {
    vf q[UNROLL];
    for (int u = 0; u < UNROLL; ++u) q[u] = splat(0.f);
    int64_t i = 0;
    for (; i + UNROLL * VEC <= n; i += UNROLL * VEC)
        for (int u = 0; u < UNROLL; ++u) {
            const vf v = load(x + i + u * VEC);
            q[u] += v * v;
        }
    for (; i + VEC <= n; i += VEC) q[0] += load(x + i) * load(x + i);
    for (int u = 1; u < UNROLL; ++u) q[0] += q[u];
    float squares = horizontal_sum(q[0]);
    for (; i < n; ++i) squares += x[i] * x[i];
    return 1.f / std::sqrt(squares / n + eps);
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

// out = x * inverse * weight; where `next` is not null, its inverse rms is returned, taken on the way.
inline float scale(const float* x, float inverse, const float* weight, float* out, int64_t n, const float* next, float eps) {
    vf q = splat(0.f);
    float squares = 0.f;
    int64_t i = 0;
#if STREAM && defined(__AVX__)
    for (; i < n && reinterpret_cast<uintptr_t>(out + i) % 32 != 0; ++i) {
        out[i] = x[i] * inverse * weight[i];
        if (next) squares += next[i] * next[i];
    }
#endif
    for (; i + VEC <= n; i += VEC) {
        emit(out + i, load(x + i) * inverse * load(weight + i));
        if (next) q += load(next + i) * load(next + i);
    }
    for (; i < n; ++i) {
        out[i] = x[i] * inverse * weight[i];
        if (next) squares += next[i] * next[i];
    }
    return 1.f / std::sqrt((horizontal_sum(q) + squares) / n + eps);
}

}  // namespace

extern "C" void kernel(const float* x, const float* weight, int64_t rows, int64_t cols, double epsilon, float* out) {
    const float eps = static_cast<float>(epsilon);
    constexpr int64_t kBlock = AHEAD ? 16 : 1;  // rows in a row for one thread
#pragma omp parallel if (rows * cols >= kParallelFrom)
    {
#pragma omp for schedule(SCHEDULE) nowait
        for (int64_t first = 0; first < rows; first += kBlock) {
            const int64_t end = first + kBlock < rows ? first + kBlock : rows;
            float inverse = inverse_rms(x + first * cols, cols, eps);
            for (int64_t r = first; r < end; ++r)
                inverse = scale(x + r * cols, inverse, weight, out + r * cols, cols,
                                r + 1 < end ? x + (r + 1) * cols : nullptr, eps);
        }
#if STREAM && defined(__AVX__)
        _mm_sfence();
#endif
    }
}
