// out = a @ b, float32, a [m, k], b [k, n], all row-major and contiguous.
//
// Blocked as in Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (ACM TOMS 34(3), 2008): a
// slice of b is packed for all threads, each thread packs blocks of a, and a micro-kernel keeps an MR x NR tile of the
// result in registers. Eager calls a vendor library with hand-written assembly, built on the same idea: the best
// configurations come close to it, expect no more than a draw. What is tuned is the shape of the tile and the blocks.
//
//   MR, NV    the tile: MR rows of NV vectors; MR * NV sums, NV loads of b and one of a must fit the registers
//   KC        depth of a block: a KC x NR panel of b stays in the first-level cache
//   MC        rows of a block of a, which stays in the second-level cache; a multiple of MR
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include <omp.h>

#ifndef MR
#define MR 4
#endif
#ifndef NV
#define NV 2
#endif
#ifndef KC
#define KC 256
#endif
#ifndef MC
#define MC 96
#endif

static_assert(MC % MR == 0, "MC must be a multiple of MR");

namespace {

constexpr int VEC = 8;
constexpr int64_t NR = NV * VEC;
constexpr int64_t NC = 3072 / NR * NR;  // columns of b packed at a time
constexpr int64_t kParallelFrom = 64 * 64 * 64;

typedef float vf __attribute__((vector_size(VEC * 4)));

struct Free {
    void operator()(float* p) const { ::operator delete[](p, std::align_val_t(64)); }
};
using Buffer = std::unique_ptr<float[], Free>;

Buffer allocate(int64_t n) {
    return Buffer(static_cast<float*>(::operator new[](n * sizeof(float), std::align_val_t(64))));
}

inline vf load(const float* p) {
    vf v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(float* p, vf v) { std::memcpy(p, &v, sizeof v); }

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// depth x width of b as one panel NR wide, padded with zeros.
inline void pack_b(const float* b, int64_t stride, int64_t depth, int64_t width, float* to) {
    for (int64_t p = 0; p < depth; ++p, to += NR) {
        if (width == NR) {
            for (int v = 0; v < NV; ++v) store(to + v * VEC, load(b + p * stride + v * VEC));
        } else {
            for (int64_t j = 0; j < NR; ++j) to[j] = j < width ? b[p * stride + j] : 0.f;
        }
    }
}

// height x depth of a as one panel MR high, column after column, padded with zeros.
inline void pack_a(const float* a, int64_t stride, int64_t height, int64_t depth, float* to) {
    for (int64_t i = 0; i < MR; ++i)
        for (int64_t p = 0; p < depth; ++p) to[p * MR + i] = i < height ? a[i * stride + p] : 0.f;
}

// c[height, width] = (or += unless `first`) the product of the two panels.
inline void tile(const float* a, const float* b, int64_t depth, float* c, int64_t stride, int64_t height, int64_t width,
                 bool first) {
    vf sum[MR][NV];
    for (int i = 0; i < MR; ++i)
        for (int v = 0; v < NV; ++v) sum[i][v] = vf{};
    for (int64_t p = 0; p < depth; ++p, a += MR, b += NR) {
        vf column[NV];
        for (int v = 0; v < NV; ++v) column[v] = load(b + v * VEC);
        for (int i = 0; i < MR; ++i)
            for (int v = 0; v < NV; ++v) sum[i][v] += a[i] * column[v];
    }
    if (height == MR && width == NR) {
        for (int i = 0; i < MR; ++i)
            for (int v = 0; v < NV; ++v) {
                float* at = c + i * stride + v * VEC;
                store(at, first ? sum[i][v] : load(at) + sum[i][v]);
            }
        return;
    }
    float part[MR * NR];
    for (int i = 0; i < MR; ++i)
        for (int v = 0; v < NV; ++v) store(part + i * NR + v * VEC, sum[i][v]);
    for (int64_t i = 0; i < height; ++i)
        for (int64_t j = 0; j < width; ++j)
            c[i * stride + j] = (first ? 0.f : c[i * stride + j]) + part[i * NR + j];
}

}  // namespace

extern "C" void kernel(const float* a, const float* b, int64_t m, int64_t n, int64_t k, float* out) {
    const int64_t panels = (least(n, NC) + NR - 1) / NR;
    // Fewer rows than MC per thread: smaller blocks, so that every thread has one.
    const int64_t share = (m + omp_get_max_threads() - 1) / omp_get_max_threads();
    const int64_t block = least(MC, (share + MR - 1) / MR * MR);
    const Buffer packed_b = allocate(panels * NR * least(k, KC));
#pragma omp parallel if (m * n * k >= kParallelFrom)
    {
        const Buffer packed_a = allocate(block * least(k, KC));
        for (int64_t jc = 0; jc < n; jc += NC) {
            const int64_t nc = least(NC, n - jc);
            for (int64_t pc = 0; pc < k; pc += KC) {
                const int64_t kc = least(KC, k - pc);
#pragma omp for schedule(static)
                for (int64_t j = 0; j < nc; j += NR)
                    pack_b(b + pc * n + jc + j, n, kc, least(NR, nc - j), packed_b.get() + j * kc);
#pragma omp for schedule(dynamic)
                for (int64_t ic = 0; ic < m; ic += block) {
                    const int64_t mc = least(block, m - ic);
                    for (int64_t i = 0; i < mc; i += MR)
                        pack_a(a + (ic + i) * k + pc, k, least(MR, mc - i), kc, packed_a.get() + i * kc);
                    for (int64_t j = 0; j < nc; j += NR)
                        for (int64_t i = 0; i < mc; i += MR)
                            tile(packed_a.get() + i * kc, packed_b.get() + j * kc, kc, out + (ic + i) * n + jc + j, n,
                                 least(MR, mc - i), least(NR, nc - j), pc == 0);
                }
            }
        }
    }
}
