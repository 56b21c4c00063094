// entry: kernel
// Layer norm over rows, float32, x [rows, cols], weight and bias [cols]: mean, squared deviations from it, scale, all on a
// row that stays in the first-level cache.
#include <cmath>
#include <cstdint>
#include <cstring>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between inlined functions only

namespace {

constexpr int64_t VEC = 8;
constexpr int64_t kParallelFrom = 16384;  // elements; below, a team of threads costs more than it gains

typedef float vf __attribute__((vector_size(32)));

inline vf load(const float* p) {
    vf v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(float* p, vf v) { std::memcpy(p, &v, sizeof v); }

inline float total(vf v) { return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])); }

inline void row(const float* x, const float* weight, const float* bias, float* out, int64_t n, float eps) {
    const int64_t wide = n / (4 * VEC) * (4 * VEC), whole = n / VEC * VEC;
    vf s0 = vf{}, s1 = vf{}, s2 = vf{}, s3 = vf{};
    for (int64_t i = 0; i < wide; i += 4 * VEC) {
        s0 += load(x + i);
        s1 += load(x + i + VEC);
        s2 += load(x + i + 2 * VEC);
        s3 += load(x + i + 3 * VEC);
    }
    for (int64_t i = wide; i < whole; i += VEC) s0 += load(x + i);
    float sum = total((s0 + s1) + (s2 + s3));
    for (int64_t i = whole; i < n; ++i) sum += x[i];
    const float mean = sum / n;

    vf d0 = vf{}, q0 = vf{}, q1 = vf{}, q2 = vf{}, q3 = vf{};
    for (int64_t i = 0; i < wide; i += 4 * VEC) {
        const vf a = load(x + i) - mean, b = load(x + i + VEC) - mean;
        const vf c = load(x + i + 2 * VEC) - mean, d = load(x + i + 3 * VEC) - mean;
        d0 += (a + b) + (c + d);
        q0 += a * a;
        q1 += b * b;
        q2 += c * c;
        q3 += d * d;
    }
    for (int64_t i = wide; i < whole; i += VEC) {
        const vf a = load(x + i) - mean;
        d0 += a;
        q0 += a * a;
    }
    float off = total(d0), squares = total((q0 + q1) + (q2 + q3));
    for (int64_t i = whole; i < n; ++i) {
        const float a = x[i] - mean;
        off += a;
        squares += a * a;
    }
    off /= n;  // what rounding has left of the mean
    const float inverse = 1.f / std::sqrt(squares / n - off * off + eps), shift = mean + off;
    for (int64_t i = 0; i < whole; i += VEC)
        store(out + i, (load(x + i) - shift) * inverse * load(weight + i) + load(bias + i));
    for (int64_t i = whole; i < n; ++i) out[i] = (x[i] - shift) * inverse * weight[i] + bias[i];
}

}  // namespace

extern "C" void kernel(const float* x, const float* weight, const float* bias, int64_t rows, int64_t cols, double eps,
                       float* out) {
#pragma omp parallel for if (rows * cols >= kParallelFrom)
    for (int64_t r = 0; r < rows; ++r) row(x + r * cols, weight, bias, out + r * cols, cols, static_cast<float>(eps));
}
