// entry: kernel
// out = x Phi(x), exact gelu, float32, any shape.
//
// Phi(x) = 1/2 + x P(x^2) / Q(x^2), fitted on |x| <= 5.5 (beyond, Phi is 0 or 1 to the last bit) to an absolute error of
// 2e-7: one division where the error function takes an exponential and a division.
#include <cstdint>
#include <cstring>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between inlined functions only

namespace {

constexpr int64_t VEC = 8;
constexpr int64_t kPiece = 4096;          // elements of one piece of work
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

inline void piece(const float* x, float* out, int64_t n) {
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC) {
        const vf a = gelu(load(x + i)), b = gelu(load(x + i + VEC));
        store(out + i, a);
        store(out + i + VEC, b);
    }
    for (; i < n; ++i) out[i] = gelu(splat(x[i]))[0];
}

}  // namespace

extern "C" void kernel(const float* x, int64_t rows, int64_t cols, float* out) {
    const int64_t total = rows * cols;
#pragma omp parallel for if (total >= kParallelFrom)
    for (int64_t at = 0; at < total; at += kPiece)
        piece(x + at, out + at, total - at < kPiece ? total - at : kPiece);
}
