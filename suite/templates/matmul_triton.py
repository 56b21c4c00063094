"""C = A B in Triton, A [m, k], B [k, n], float32 or float16, accumulated in float32.

One program computes a tile of C. What is tuned:

  BLOCK_M, BLOCK_N  the tile
  BLOCK_K           how much of k is loaded at a time
  GROUP_M           rows of tiles that are worked on together, so that their part of B stays in the second-level cache
  NUM_STAGES        loads in flight ahead of the product
  NUM_WARPS         warps of a program
"""

import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64
BLOCK_K = 32
GROUP_M = 4
NUM_STAGES = 3
NUM_WARPS = 4


@triton.jit
def matmul(a, b, c, m, n, k, a_row, a_col, b_row, b_col, c_row, c_col,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    group = tl.program_id(0) // (GROUP_M * tiles_n)
    first = group * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    within = tl.program_id(0) % (GROUP_M * tiles_n)
    row, col = first + within % height, within // height

    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = col * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_tile = a + rows.to(tl.int64)[:, None] * a_row + depth[None, :] * a_col
    b_tile = b + depth.to(tl.int64)[:, None] * b_row + cols[None, :] * b_col
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for done in range(0, k, BLOCK_K):
        left = k - done
        x = tl.load(a_tile, mask=(rows[:, None] < m) & (depth[None, :] < left), other=0.0)
        y = tl.load(b_tile, mask=(depth[:, None] < left) & (cols[None, :] < n), other=0.0)
        total = tl.dot(x, y, total, input_precision="ieee")
        a_tile += BLOCK_K * a_col
        b_tile += BLOCK_K * b_row
    place = c + rows.to(tl.int64)[:, None] * c_row + cols[None, :] * c_col
    tl.store(place, total.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (cols[None, :] < n))


def kernel(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(m, BLOCK_M) * triton.cdiv(n, BLOCK_N),)
    matmul[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
                 BLOCK_K=BLOCK_K, GROUP_M=GROUP_M, num_stages=NUM_STAGES, num_warps=NUM_WARPS)
    return c
