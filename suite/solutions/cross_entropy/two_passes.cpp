// entry: kernel
// Cross entropy of rows, not reduced: out[r] = log(sum_j exp(x[r, j])) - x[r, target[r]], float32 logits [rows, classes],
// int64 targets. Maximum, then the sum of exponentials, on a row that stays in the first-level cache; nothing but the one
// number is written, where log_softmax writes the whole row.
#include <cmath>
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

inline vf splat(float s) { return vf{} + s; }

inline vf larger(vf a, vf b) { return a > b ? a : b; }

// exp(x) for x <= 0 as 2^n exp(r), |r| <= ln(2)/2, the polynomial fitted to a relative error of 1.1e-7; 0 below the
// normal numbers, NaN stays NaN.
inline vf exp_nonpositive(vf x) {
    const vi tiny = x < splat(-87.3f);
    x = tiny ? splat(-87.3f) : x;
    const vf shifted = x * 1.44269504f + 12582912.f;  // rounds to n and leaves it in the low mantissa bits
    const vf n = shifted - 12582912.f;
    const vf r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    const vf p = ((8.312477652e-3f * r + 4.189055003e-2f) * r + 1.666711631e-1f) * r + 4.999922883e-1f;
    vi bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000;
    vf scale;
    std::memcpy(&scale, &bits, sizeof scale);
    return tiny ? splat(0.f) : ((p * r + 1.f) * r + 1.f) * scale;
}

// Up to VEC elements as a vector, filled up with `rest`.
inline vf load_some(const float* p, int64_t n, float rest) {
    vf v = splat(rest);
    for (int64_t i = 0; i < n; ++i) v[i] = p[i];
    return v;
}

inline float row(const float* x, int64_t n, int64_t target) {
    const int64_t whole = n / VEC * VEC, pairs = n / (2 * VEC) * (2 * VEC);
    const float lowest = -3e38f;  // its exponential is 0

    vf m0 = load_some(x + whole, n - whole, lowest), m1 = splat(lowest);
    for (int64_t i = 0; i < pairs; i += 2 * VEC) {
        m0 = larger(m0, load(x + i));
        m1 = larger(m1, load(x + i + VEC));
    }
    if (pairs < whole) m0 = larger(m0, load(x + pairs));
    m0 = larger(m0, m1);
    float top = m0[0];
    for (int64_t i = 1; i < VEC; ++i) top = m0[i] > top ? m0[i] : top;

    vf s0 = exp_nonpositive(load_some(x + whole, n - whole, lowest) - top), s1 = splat(0.f);
    for (int64_t i = 0; i < pairs; i += 2 * VEC) {
        s0 += exp_nonpositive(load(x + i) - top);
        s1 += exp_nonpositive(load(x + i + VEC) - top);
    }
    if (pairs < whole) s0 += exp_nonpositive(load(x + pairs) - top);
    s0 += s1;
    float sum = 0.f;
    for (int64_t i = 0; i < VEC; ++i) sum += s0[i];
    return std::log(sum) + (top - x[target]);
}

}  // namespace

extern "C" void kernel(const float* logits, const int64_t* target, int64_t rows, int64_t classes, float* out) {
#pragma omp parallel for if (rows * classes >= kParallelFrom)
    for (int64_t r = 0; r < rows; ++r) out[r] = row(logits + r * classes, classes, target[r]);
}
