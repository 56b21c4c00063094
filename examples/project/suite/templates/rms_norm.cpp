// RMS normalisation of rows, float32: inputs, then sizes, then scalars, then outputs.
#include <cmath>
#include <cstdint>

#ifndef WIDTH
#define WIDTH 8  // independent sums: the additions of one sum wait for each other
#endif

extern "C" void kernel(const float* x, const float* weight, int64_t rows, int64_t cols, double eps, float* out) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r) {
        const float* in = x + r * cols;
        float sums[WIDTH] = {};
        double total = 0;
        int64_t c = 0;
        for (; c + WIDTH <= cols; c += WIDTH)
            for (int i = 0; i < WIDTH; ++i) sums[i] += in[c + i] * in[c + i];
        for (; c < cols; ++c) total += in[c] * in[c];
        for (float sum : sums) total += sum;
        const float scale = static_cast<float>(1 / std::sqrt(total / cols + eps));
        for (c = 0; c < cols; ++c) out[r * cols + c] = in[c] * scale * weight[c];
    }
}
