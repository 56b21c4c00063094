// entry: kernel
// s = x + residual, y = s / sqrt(mean(s^2) + eps) * weight, float32, x and residual [rows, cols], weight [cols]: one pass
// over memory. The sum is written and squared in one go, and scaled while its row is still in the first-level cache.
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

inline void row(const float* x, const float* residual, const float* weight, float* y, float* s, int64_t n, float eps) {
    vf q0 = vf{}, q1 = vf{};
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC) {
        const vf a = load(x + i) + load(residual + i), b = load(x + i + VEC) + load(residual + i + VEC);
        store(s + i, a);
        store(s + i + VEC, b);
        q0 += a * a;
        q1 += b * b;
    }
    q0 += q1;
    float squares = 0.f;
    for (int64_t k = 0; k < VEC; ++k) squares += q0[k];
    for (; i < n; ++i) {
        s[i] = x[i] + residual[i];
        squares += s[i] * s[i];
    }
    const float inverse = 1.f / std::sqrt(squares / n + eps);
    for (i = 0; i + VEC <= n; i += VEC) store(y + i, load(s + i) * inverse * load(weight + i));
    for (; i < n; ++i) y[i] = s[i] * inverse * weight[i];
}

}  // namespace

extern "C" void kernel(const float* x, const float* residual, const float* weight, int64_t rows, int64_t cols, double eps,
                       float* y, float* s) {
#pragma omp parallel for if (rows * cols >= kParallelFrom)
    for (int64_t r = 0; r < rows; ++r)
        row(x + r * cols, residual + r * cols, weight, y + r * cols, s + r * cols, cols, static_cast<float>(eps));
}
