// entry: kernel
// out = a @ b, float32, a [m, k], b [k, n]: a 6 x 16 register tile, b packed, a read where it lies.
//
// For matrices of a few hundred the rows of a stay in the second-level cache, so packing them (as large products need)
// costs more than it saves. Comes close to the vendor library behind eager; expect no more than a draw.
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include <omp.h>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between inlined functions only

namespace {

constexpr int VEC = 8, MR = 6, NV = 2, NR = NV * VEC;
constexpr int64_t KC = 512;   // depth of b packed at a time: a panel of KC x NR floats is 32 KiB
constexpr int64_t NC = 1024;  // columns of b packed at a time
constexpr int64_t kParallelFrom = 64 * 64 * 64;

typedef float vf __attribute__((vector_size(VEC * 4)));

inline vf load(const float* p) {
    vf v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(float* p, vf v) { std::memcpy(p, &v, sizeof v); }

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

inline void pack(const float* b, int64_t stride, int64_t depth, int64_t width, float* to) {
    for (int64_t p = 0; p < depth; ++p, to += NR)
        for (int64_t j = 0; j < NR; ++j) to[j] = j < width ? b[p * stride + j] : 0.f;
}

template <int ROWS>
inline void tile(const float* a, int64_t k, const float* b, int64_t depth, float* c, int64_t n, int64_t width,
                 bool first) {
    vf sum[ROWS][NV] = {};
    for (int64_t p = 0; p < depth; ++p) {
        const vf left = load(b + p * NR), right = load(b + p * NR + VEC);
        for (int i = 0; i < ROWS; ++i) {
            const float s = a[i * k + p];
            sum[i][0] += s * left;
            sum[i][1] += s * right;
        }
    }
    if (width == NR) {
        for (int i = 0; i < ROWS; ++i)
            for (int v = 0; v < NV; ++v) {
                float* at = c + i * n + v * VEC;
                store(at, first ? sum[i][v] : load(at) + sum[i][v]);
            }
        return;
    }
    float part[ROWS * NR];
    for (int i = 0; i < ROWS; ++i)
        for (int v = 0; v < NV; ++v) store(part + i * NR + v * VEC, sum[i][v]);
    for (int i = 0; i < ROWS; ++i)
        for (int64_t j = 0; j < width; ++j) c[i * n + j] = (first ? 0.f : c[i * n + j]) + part[i * NR + j];
}

inline void rows(int64_t height, const float* a, int64_t k, const float* b, int64_t depth, float* c, int64_t n,
                 int64_t width, bool first) {
    switch (height) {
        case 6: return tile<6>(a, k, b, depth, c, n, width, first);
        case 5: return tile<5>(a, k, b, depth, c, n, width, first);
        case 4: return tile<4>(a, k, b, depth, c, n, width, first);
        case 3: return tile<3>(a, k, b, depth, c, n, width, first);
        case 2: return tile<2>(a, k, b, depth, c, n, width, first);
        default: return tile<1>(a, k, b, depth, c, n, width, first);
    }
}

struct Free {
    void operator()(float* p) const { ::operator delete[](p, std::align_val_t(64)); }
};

}  // namespace

extern "C" void kernel(const float* a, const float* b, int64_t m, int64_t n, int64_t k, float* out) {
    const int64_t panels = (least(n, NC) + NR - 1) / NR;
    const std::unique_ptr<float[], Free> packed(static_cast<float*>(
        ::operator new[](panels * NR * least(k, KC) * sizeof(float), std::align_val_t(64))));
    const int64_t share = (m + 4 * omp_get_max_threads() - 1) / (4 * omp_get_max_threads());
    const int64_t block = least(96, (share + MR - 1) / MR * MR);
#pragma omp parallel if (m * n * k >= kParallelFrom)
    for (int64_t jc = 0; jc < n; jc += NC)
        for (int64_t pc = 0; pc < k; pc += KC) {
            const int64_t nc = least(NC, n - jc), kc = least(KC, k - pc);
#pragma omp for schedule(static)
            for (int64_t j = 0; j < nc; j += NR)
                pack(b + pc * n + jc + j, n, kc, least(NR, nc - j), packed.get() + j * kc);
#pragma omp for schedule(dynamic)
            for (int64_t ic = 0; ic < m; ic += block)
                for (int64_t j = 0; j < nc; j += NR)
                    for (int64_t i = ic; i < least(m, ic + block); i += MR)
                        rows(least(MR, least(m, ic + block) - i), a + i * k + pc, k, packed.get() + j * kc, kc,
                             out + i * n + jc + j, n, least(NR, nc - j), pc == 0);
        }
}
