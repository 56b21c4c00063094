// Cross entropy of rows, not reduced: out[r] = log(sum_j exp(logits[r, j])) - logits[r, target[r]], float32 logits
// [rows, classes], int64 targets in [0, classes).
//
// Read once from memory, written as one number per row: what is tuned is the arithmetic.
//
//   ONLINE    0: the maximum, then the sum of exponentials: two passes over a row that is in the first-level cache
//             1: one pass; each lane keeps a maximum of its own and scales its sum where that grows
//   VEC       floats per vector operation; above the machine's width the compiler splits it, which unrolls by itself
//   UNROLL    independent maxima and sums, to hide the latency of the reductions
//   SCHEDULE  OpenMP schedule over rows
#include <cmath>
#include <cstdint>
#include <cstring>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between inlined functions only

#ifndef ONLINE
#define ONLINE 0
#endif
#ifndef VEC
#define VEC 8
#endif
#ifndef UNROLL
#define UNROLL 2
#endif
#ifndef SCHEDULE
#define SCHEDULE static
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

inline vf larger(vf a, vf b) { return a > b ? a : b; }

// The tail of a row as one vector, padded with a value whose exponential is 0.
inline vf load_tail(const float* p, int64_t n) {
    vf v = splat(-3e38f);
    for (int64_t i = 0; i < n; ++i) v[i] = p[i];
    return v;
}

inline float row(const float* x, int64_t n, int64_t target) {
    const int64_t whole = n / VEC * VEC, wide = n / (UNROLL * VEC) * (UNROLL * VEC);
    vf m[UNROLL], s[UNROLL];
    for (int u = 0; u < UNROLL; ++u) {
        m[u] = splat(-3e38f);
        s[u] = splat(0.f);
    }
#if ONLINE
    const auto take = [&](int u, vf v) {
        const vf top = larger(m[u], v);
        s[u] = s[u] * exp_nonpositive(m[u] - top) + exp_nonpositive(v - top);
        m[u] = top;
    };
    for (int64_t i = 0; i < wide; i += UNROLL * VEC)
        for (int u = 0; u < UNROLL; ++u) take(u, load(x + i + u * VEC));
    for (int64_t i = wide; i < whole; i += VEC) take(0, load(x + i));
    if (whole < n) take(0, load_tail(x + whole, n - whole));
    vf most = m[0];
    for (int u = 1; u < UNROLL; ++u) most = larger(most, m[u]);
    float top = most[0];
    for (int i = 1; i < VEC; ++i) top = most[i] > top ? most[i] : top;
    float sum = 0.f;
    for (int u = 0; u < UNROLL; ++u) {
        const vf part = s[u] * exp_nonpositive(m[u] - top);
        for (int i = 0; i < VEC; ++i) sum += part[i];
    }
#else
    for (int64_t i = 0; i < wide; i += UNROLL * VEC)
        for (int u = 0; u < UNROLL; ++u) m[u] = larger(m[u], load(x + i + u * VEC));
    for (int64_t i = wide; i < whole; i += VEC) m[0] = larger(m[0], load(x + i));
    if (whole < n) m[0] = larger(m[0], load_tail(x + whole, n - whole));
    for (int u = 1; u < UNROLL; ++u) m[0] = larger(m[0], m[u]);
    float top = m[0][0];
    for (int i = 1; i < VEC; ++i) top = m[0][i] > top ? m[0][i] : top;
    for (int64_t i = 0; i < wide; i += UNROLL * VEC)
        for (int u = 0; u < UNROLL; ++u) s[u] += exp_nonpositive(load(x + i + u * VEC) - top);
    for (int64_t i = wide; i < whole; i += VEC) s[0] += exp_nonpositive(load(x + i) - top);
    if (whole < n) s[0] += exp_nonpositive(load_tail(x + whole, n - whole) - top);
    for (int u = 1; u < UNROLL; ++u) s[0] += s[u];
    float sum = 0.f;
    for (int i = 0; i < VEC; ++i) sum += s[0][i];
#endif
    return std::log(sum) + (top - x[target]);
}

}  // namespace

extern "C" void kernel(const float* logits, const int64_t* target, int64_t rows, int64_t classes, float* out) {
#pragma omp parallel for schedule(SCHEDULE) if (rows * classes >= kParallelFrom)
    for (int64_t r = 0; r < rows; ++r) out[r] = row(logits + r * classes, classes, target[r]);
}
