// out = x * Phi(x), the exact (erf) gelu, float32, any shape.
//
// Elementwise: what is tuned is how Phi, the normal distribution function, is computed, and how the result leaves.
//
//   METHOD    0: Phi(-|x|) = exp(-|x| P(|x|)) / 2, P a polynomial: absolute error 4e-8, accurate in the tail too
//             1: Phi(x) = 1/2 + x P(x^2) / Q(x^2), one division and no exponential: absolute error 2e-7
//   VEC       floats per vector operation; above the machine's width the compiler splits it, which unrolls by itself
//   UNROLL    vectors in flight, to hide the latency of the polynomials
//   STREAM    1: write the output past the caches
//   SCHEDULE  OpenMP schedule over pieces
#include <cstdint>
#include <cstring>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between inlined functions only

#ifndef METHOD
#define METHOD 0
#endif
#ifndef VEC
#define VEC 8
#endif
#ifndef UNROLL
#define UNROLL 1
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
constexpr int64_t kPiece = 4096;  // elements of one piece of work

typedef float vf __attribute__((vector_size(VEC * 4)));
typedef int32_t vi __attribute__((vector_size(VEC * 4)));

inline vf load(const float* p) {
    vf v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(float* p, vf v) { std::memcpy(p, &v, sizeof v); }

inline vf splat(float s) { return vf{} + s; }

#if METHOD == 0

// exp(x) for x <= 0: n = round(x / ln 2), a polynomial in r = x - n ln 2 with a relative error of 1.1e-7, times 2^n.
inline vf exp_nonpositive(vf x) {
    const vf low = splat(-87.3f), magic = splat(12582912.f);
    x = x < low ? low : x;
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
    return p * scale;
}

// gelu(z) = max(z, 0) - |z| Phi(-|z|): nothing cancels. P was fitted to -ln(2 Phi(-t)) / t on 0 < t <= 6, weighted by
// its effect on Phi; it stays increasing to t = 12, beyond which the second term is far below any float32 of interest.
inline vf gelu(vf z) {
    const vf zero = splat(0.f), end = splat(12.f);
    const vf positive = z > zero ? z : zero;
    vf t = z < zero ? -z : z;
    t = t > end ? end : t;
    vf p = splat(1.965011835e-6f);
    p = p * t - 2.729453588e-5f;
    p = p * t + 1.290503105e-4f;
    p = p * t + 9.491705464e-5f;
    p = p * t - 4.895989740e-3f;
    p = p * t + 3.638757801e-2f;
    p = p * t + 3.182988668e-1f;
    p = p * t + 7.978853276e-1f;
    return positive - 0.5f * t * exp_nonpositive(-t * p);
}

#else

// P / Q was fitted to (Phi(z) - 1/2) / z on |z| <= 5.5, where Phi is 0 or 1 to float32's last bit.
inline vf gelu(vf z) {
    const vf low = splat(-5.5f), high = splat(5.5f);
    vf c = z < low ? low : z;
    c = c > high ? high : c;
    const vf u = c * c;
    vf p = splat(2.274941015e-8f);
    p = p * u + 6.352125522e-6f;
    p = p * u + 1.688260531e-4f;
    p = p * u + 4.677262916e-3f;
    p = p * u + 3.385267812e-2f;
    p = p * u + 3.989422346e-1f;
    vf q = splat(1.197505833e-6f);
    q = q * u + 7.364765225e-5f;
    q = q * u + 1.884446904e-3f;
    q = q * u + 2.864589056e-2f;
    q = q * u + 2.515219985e-1f;
    q = q * u + 1.f;
    return z * (0.5f + c * p / q);
}

#endif

inline float one(float x) { return gelu(splat(x))[0]; }

inline void emit(float* p, vf v) {
#if STREAM && defined(__AVX__)
    float part[VEC];
    store(part, v);
    for (int i = 0; i < VEC; i += 8) _mm256_stream_ps(p + i, _mm256_loadu_ps(part + i));
#else
    store(p, v);
#endif
}

inline void piece(const float* x, float* out, int64_t n) {
    int64_t i = 0;
#if STREAM && defined(__AVX__)
    for (; i < n && reinterpret_cast<uintptr_t>(out + i) % 32 != 0; ++i) out[i] = one(x[i]);
#endif
    for (; i + UNROLL * VEC <= n; i += UNROLL * VEC) {
        vf v[UNROLL];
        for (int u = 0; u < UNROLL; ++u) v[u] = gelu(load(x + i + u * VEC));
        for (int u = 0; u < UNROLL; ++u) emit(out + i + u * VEC, v[u]);
    }
    for (; i + VEC <= n; i += VEC) emit(out + i, gelu(load(x + i)));
    for (; i < n; ++i) out[i] = one(x[i]);
}

}  // namespace

extern "C" void kernel(const float* x, int64_t rows, int64_t cols, float* out) {
    const int64_t total = rows * cols;
#pragma omp parallel if (total >= kParallelFrom)
    {
#pragma omp for schedule(SCHEDULE) nowait
        for (int64_t at = 0; at < total; at += kPiece)
            piece(x + at, out + at, total - at < kPiece ? total - at : kPiece);
#if STREAM && defined(__AVX__)
        _mm_sfence();
#endif
    }
}
