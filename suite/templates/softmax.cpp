// Row softmax: out[r, c] = exp(x[r, c] - max(x[r, :])) / sum(exp(x[r, :] - max(x[r, :]))), float32, contiguous.
//
// One thread owns a row and keeps it in its first-level cache for three passes: maximum, exponential with sum, scale.
// PyTorch eager does the same work with the same traffic; what is tuned here is how the passes are vectorised, where
// the exponentials wait for their sum, and how the result leaves the cache.
//
//   VEC       floats per vector operation; above the machine's width the compiler splits it, which unrolls by itself
//   UNROLL    independent maxima and sums, to hide the latency of the reductions
//   KEEP      0: exponentials wait in the output row   1: they wait in a buffer of the thread
//             2: they are not kept; the last pass computes them again
//   STREAM    1: write the output past the caches (only from a buffer or recomputed: a line is written once)
//   SCHEDULE  OpenMP schedule over rows
#include <cstdint>
#include <cstring>
#include <vector>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between inlined functions only

#ifndef VEC
#define VEC 8
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
#ifndef KEEP
#define KEEP 1
#endif
#ifndef STREAM
#define STREAM 0
#endif
#ifndef SCHEDULE
#define SCHEDULE static
#endif

#if STREAM && (VEC < 8 || KEEP == 0)
#error "STREAM writes 8 floats at a time and each line once: VEC must be 8 or more and KEEP not 0"
#endif
#if STREAM && defined(__AVX__)
#include <immintrin.h>
#endif

namespace {

// Below this many elements starting a team of threads costs more than it gains.
constexpr int64_t kParallelFrom = 16384;

typedef float vf __attribute__((vector_size(VEC * 4)));
typedef int32_t vi __attribute__((vector_size(VEC * 4)));

inline vf load(const float* p) {
    vf v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(float* p, vf v) { std::memcpy(p, &v, sizeof v); }

inline vf splat(float s) { return vf{} + s; }

// exp(x) for x <= 0: n = round(x / ln 2), a polynomial in r = x - n ln 2 with a relative error of 1.1e-7, times 2^n.
// Below the smallest normal number the result is 0; NaN stays NaN.
inline vf exp_nonpositive(vf x) {
    const vf low = splat(-87.3f), magic = splat(12582912.f);
    const vi tiny = x < low;
    x = tiny ? low : x;
    const vf shifted = x * 1.44269504f + magic;  // the low mantissa bits now hold n
    const vf n = shifted - magic;
    const vf r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    vf p = splat(8.312477652e-3f);
    p = p * r + 4.189055003e-2f;
    p = p * r + 1.666711631e-1f;
    p = p * r + 4.999922883e-1f;
    p = p * r + 1.f;
    p = p * r + 1.f;
    vi bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000;
    vf scale;
    std::memcpy(&scale, &bits, sizeof scale);
    const vf e = p * scale;
    return tiny ? splat(0.f) : e;
}

inline float exp_one(float x) { return exp_nonpositive(splat(x))[0]; }

inline vf larger(vf a, vf b) { return a > b ? a : b; }

inline float horizontal_max(vf v) {
    float m = v[0];
    for (int i = 1; i < VEC; ++i) m = v[i] > m ? v[i] : m;
    return m;
}

inline float horizontal_sum(vf v) {
    float s = 0.f;
    for (int i = 0; i < VEC; ++i) s += v[i];
    return s;
}

inline float row_max(const float* x, int64_t n) {
    if (n < VEC) {
        float m = x[0];
        for (int64_t i = 1; i < n; ++i) m = x[i] > m ? x[i] : m;
        return m;
    }
    vf m[UNROLL];
    for (int u = 0; u < UNROLL; ++u) m[u] = load(x);
    int64_t i = 0;
    for (; i + UNROLL * VEC <= n; i += UNROLL * VEC)
        for (int u = 0; u < UNROLL; ++u) m[u] = larger(m[u], load(x + i + u * VEC));
    for (; i + VEC <= n; i += VEC) m[0] = larger(m[0], load(x + i));
    m[0] = larger(m[0], load(x + n - VEC));  // overlaps what was seen: harmless for a maximum
    for (int u = 1; u < UNROLL; ++u) m[0] = larger(m[0], m[u]);
    return horizontal_max(m[0]);
}

// Sum of exp(x - m) over a row; where `keep` is not null the exponentials are written there.
inline float exp_sum(const float* x, float m, float* keep, int64_t n) {
    vf sum[UNROLL];
    for (int u = 0; u < UNROLL; ++u) sum[u] = splat(0.f);
    int64_t i = 0;
    for (; i + UNROLL * VEC <= n; i += UNROLL * VEC)
        for (int u = 0; u < UNROLL; ++u) {
            const vf e = exp_nonpositive(load(x + i + u * VEC) - m);
            if (keep) store(keep + i + u * VEC, e);
            sum[u] += e;
        }
    for (; i + VEC <= n; i += VEC) {
        const vf e = exp_nonpositive(load(x + i) - m);
        if (keep) store(keep + i, e);
        sum[0] += e;
    }
    if (i < n) {  // the tail as one vector, padded with a value whose exponential is 0
        vf t = splat(-1e38f);
        for (int64_t j = i; j < n; ++j) t[j - i] = x[j] - m;
        const vf e = exp_nonpositive(t);
        if (keep)
            for (int64_t j = i; j < n; ++j) keep[j] = e[j - i];
        sum[0] += e;
    }
    for (int u = 1; u < UNROLL; ++u) sum[0] += sum[u];
    return horizontal_sum(sum[0]);
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

// out = kept * inverse, or exp(x - m) * inverse where nothing was kept.
inline void finish(const float* kept, float m, float inverse, float* out, int64_t n) {
    int64_t i = 0;
#if STREAM
    for (; i < n && reinterpret_cast<uintptr_t>(out + i) % 32 != 0; ++i)
        out[i] = (KEEP == 2 ? exp_one(kept[i] - m) : kept[i]) * inverse;
#endif
    for (; i + UNROLL * VEC <= n; i += UNROLL * VEC)
        for (int u = 0; u < UNROLL; ++u) {
            const vf v = load(kept + i + u * VEC);
            emit(out + i + u * VEC, (KEEP == 2 ? exp_nonpositive(v - m) : v) * inverse);
        }
    for (; i + VEC <= n; i += VEC) {
        const vf v = load(kept + i);
        emit(out + i, (KEEP == 2 ? exp_nonpositive(v - m) : v) * inverse);
    }
    for (; i < n; ++i) out[i] = (KEEP == 2 ? exp_one(kept[i] - m) : kept[i]) * inverse;
}

}  // namespace

extern "C" void kernel(const float* x, int64_t rows, int64_t cols, float* out) {
#pragma omp parallel if (rows * cols >= kParallelFrom)
    {
        std::vector<float> buffer(KEEP == 1 ? cols : 0);
#pragma omp for schedule(SCHEDULE) nowait
        for (int64_t r = 0; r < rows; ++r) {
            const float* in = x + r * cols;
            float* result = out + r * cols;
            float* keep = KEEP == 0 ? result : KEEP == 1 ? buffer.data() : nullptr;
            const float m = row_max(in, cols);
            const float sum = exp_sum(in, m, keep, cols);
            finish(KEEP == 2 ? in : keep, m, 1.f / sum, result, cols);
        }
#if STREAM && defined(__AVX__)
        _mm_sfence();
#endif
    }
}
