// entry: kernel
// out = gelu(x + bias) + residual, exact gelu, float32, x and residual [rows, cols], bias [cols]: one pass over memory.
//
// gelu(z) = z Phi(z) with Phi(z) = 1/2 + z P(z^2) / Q(z^2), fitted on |z| <= 5.5 (beyond, Phi is 0 or 1 to the last
// bit) to an absolute error of 2e-7: one division instead of an exponential and a division.
#include <cstdint>
#include <cstring>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between inlined functions only

namespace {

constexpr int64_t VEC = 8;
constexpr int64_t kPiece = 4096;          // columns of one piece of work, so that a few long rows can be shared too
constexpr int64_t kParallelFrom = 16384;  // elements; below, a team of threads costs more than it gains

typedef float vf __attribute__((vector_size(32)));

inline vf load(const float* p) {
    vf v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(float* p, vf v) { std::memcpy(p, &v, sizeof v); }

inline vf splat(float s) { return vf{} + s; }

inline vf gelu(vf z) {
    vf c = z < splat(-5.5f) ? splat(-5.5f) : z;
    c = c > splat(5.5f) ? splat(5.5f) : c;
    const vf u = c * c;
    const vf p = ((((2.274941015e-8f * u + 6.352125522e-6f) * u + 1.688260531e-4f) * u + 4.677262916e-3f) * u +
                  3.385267812e-2f) * u + 3.989422346e-1f;
    const vf q = ((((1.197505833e-6f * u + 7.364765225e-5f) * u + 1.884446904e-3f) * u + 2.864589056e-2f) * u +
                  2.515219985e-1f) * u + 1.f;
    return z * (0.5f + c * p / q);
}

inline void piece(const float* x, const float* bias, const float* residual, float* out, int64_t n) {
    int64_t i = 0;
    for (; i + 4 * VEC <= n; i += 4 * VEC) {
        vf v[4];
        for (int u = 0; u < 4; ++u) v[u] = gelu(load(x + i + u * VEC) + load(bias + i + u * VEC));
        for (int u = 0; u < 4; ++u) store(out + i + u * VEC, v[u] + load(residual + i + u * VEC));
    }
    for (; i + VEC <= n; i += VEC) store(out + i, gelu(load(x + i) + load(bias + i)) + load(residual + i));
    for (; i < n; ++i) out[i] = gelu(splat(x[i] + bias[i]))[0] + residual[i];
}

}  // namespace

extern "C" void kernel(const float* x, const float* bias, const float* residual, int64_t rows, int64_t cols,
                       float* out) {
#pragma omp parallel for collapse(2) schedule(static) if (rows * cols >= kParallelFrom)
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; c += kPiece) {
            const int64_t at = r * cols + c;
            piece(x + at, bias + c, residual + at, out + at, cols - c < kPiece ? cols - c : kPiece);
        }
}
