// entry: kernel
// Row softmax, float32, x [rows, cols] -> out [rows, cols]: the row's exponentials wait in the output row, which is
// still in the first-level cache when their sum is known.
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

inline void store(float* p, vf v) { std::memcpy(p, &v, sizeof v); }

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

inline void row(const float* x, float* out, int64_t n) {
    const int64_t whole = n / VEC * VEC, pairs = n / (2 * VEC) * (2 * VEC);
    const float lowest = -__builtin_inff();

    vf m0 = load_some(x + whole, n - whole, lowest), m1 = splat(lowest);
    for (int64_t i = 0; i < pairs; i += 2 * VEC) {
        m0 = larger(m0, load(x + i));
        m1 = larger(m1, load(x + i + VEC));
    }
    if (pairs < whole) m1 = larger(m1, load(x + pairs));
    m0 = larger(m0, m1);
    float m = m0[0];
    for (int i = 1; i < VEC; ++i) m = m0[i] > m ? m0[i] : m;

    vf s0 = splat(0.f), s1 = splat(0.f);
    for (int64_t i = 0; i < pairs; i += 2 * VEC) {
        const vf e0 = exp_nonpositive(load(x + i) - m), e1 = exp_nonpositive(load(x + i + VEC) - m);
        store(out + i, e0);
        store(out + i + VEC, e1);
        s0 += e0;
        s1 += e1;
    }
    if (pairs < whole) {
        const vf e = exp_nonpositive(load(x + pairs) - m);
        store(out + pairs, e);
        s1 += e;
    }
    vf tail = splat(0.f);
    if (whole < n) {
        tail = exp_nonpositive(load_some(x + whole, n - whole, lowest) - m);
        for (int64_t i = 0; i < n - whole; ++i) s0[i] += tail[i];
    }
    s0 += s1;
    float sum = 0.f;
    for (int i = 0; i < VEC; ++i) sum += s0[i];

    const float inverse = 1.f / sum;
    for (int64_t i = 0; i < whole; i += VEC) store(out + i, load(out + i) * inverse);
    for (int64_t i = whole; i < n; ++i) out[i] = tail[i - whole] * inverse;
}

}  // namespace

extern "C" void kernel(const float* x, int64_t rows, int64_t cols, float* out) {
#pragma omp parallel for schedule(dynamic, 16) if (rows * cols >= kParallelFrom)
    for (int64_t r = 0; r < rows; ++r) row(x + r * cols, out + r * cols, cols);
}
