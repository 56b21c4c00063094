// entry: kernel
// out = a @ (b @ c) instead of (a @ b) @ c, float32, a [m, k], b [k, n], c [n, p] with a thin c.
//
// Both products have the thin form [r, s] @ [s, p]: the right factor is padded to whole vectors and stays in a near
// cache, eight rows of the left one are read together, each element once.
#include <cstdint>
#include <cstring>
#include <vector>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between inlined functions only

namespace {

constexpr int VEC = 8;
constexpr int64_t kRows = 8;
constexpr int64_t kParallelFrom = 16384;

typedef float vf __attribute__((vector_size(VEC * 4)));

inline vf load(const float* p) {
    vf v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(float* p, vf v) { std::memcpy(p, &v, sizeof v); }

// ROWS rows of left [., s] times VEC columns of right [s, stride], into to[ROWS][VEC]. Every 512 terms the sums are
// put aside, which keeps the rounding error of long sums small.
template <int ROWS>
inline void block(const float* left, int64_t s, const float* right, int64_t stride, float* to) {
    vf total[ROWS] = {};
    for (int64_t from = 0; from < s; from += 512) {
        const int64_t end = from + 512 < s ? from + 512 : s;
        vf sum[ROWS] = {};
        for (int64_t j = from; j < end; ++j) {
            const vf r = load(right + j * stride);
            for (int i = 0; i < ROWS; ++i) sum[i] += left[i * s + j] * r;
        }
        for (int i = 0; i < ROWS; ++i) total[i] += sum[i];
    }
    for (int i = 0; i < ROWS; ++i) store(to + i * VEC, total[i]);
}

// out [r, width of out_stride] = left [r, s] @ right [s, padded], only the first `width` columns written.
void thin_product(const float* left, const float* right, int64_t r, int64_t s, int64_t padded, float* out,
                  int64_t out_stride, int64_t width) {
#pragma omp parallel for collapse(2) schedule(static) if (r * s >= kParallelFrom)
    for (int64_t i = 0; i < r; i += kRows)
        for (int64_t c = 0; c < padded; c += VEC) {
            float part[kRows * VEC];
            const int64_t height = r - i < kRows ? r - i : kRows;
            if (height == kRows) {
                block<kRows>(left + i * s, s, right + c, padded, part);
            } else {
                for (int64_t h = 0; h < height; ++h)
                    block<1>(left + (i + h) * s, s, right + c, padded, part + h * VEC);
            }
            for (int64_t h = 0; h < height; ++h)
                for (int64_t j = 0; j < VEC && c + j < width; ++j)
                    out[(i + h) * out_stride + c + j] = part[h * VEC + j];
        }
}

}  // namespace

extern "C" void kernel(const float* a, const float* b, const float* c, int64_t m, int64_t k, int64_t n, int64_t p,
                       float* out) {
    const int64_t padded = (p + VEC - 1) / VEC * VEC;
    std::vector<float> thin(n * padded, 0.f), inner(k * padded, 0.f);
    for (int64_t j = 0; j < n; ++j) std::memcpy(&thin[j * padded], c + j * p, p * sizeof(float));
    thin_product(b, thin.data(), k, n, padded, inner.data(), padded, padded);
    thin_product(a, inner.data(), m, k, padded, out, p, p);
}
