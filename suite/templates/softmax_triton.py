"""Row softmax in Triton, [rows, cols] contiguous along cols, float32 or float16, computed in float32.

One program owns a row. Rows of up to BLOCK columns are read once; longer ones twice, the first time with a maximum and a
sum that are carried along. What is tuned:

  BLOCK       columns that are read at a time
  NUM_STAGES  reads in flight ahead of the arithmetic, where a row is longer than BLOCK
  NUM_WARPS   warps of a program
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024
NUM_STAGES = 2
NUM_WARPS = 4


@triton.jit
def short_rows(x, out, cols, x_row, out_row, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    v = tl.load(x + row * x_row + col, mask=col < cols, other=float("-inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * out_row + col, (e / tl.sum(e, 0)).to(out.dtype.element_ty), mask=col < cols)


@triton.jit
def long_rows(x, out, cols, x_row, out_row, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        v = tl.load(x + row * x_row + start + col, mask=start + col < cols, other=float("-inf")).to(tl.float32)
        now = tl.maximum(most, v)
        reached = now > float("-inf")  # exp(-inf - -inf) would be NaN
        total = tl.where(reached, total * tl.exp(most - now) + tl.exp(v - now), total)
        most = now
    top = tl.max(most, 0)
    sum_ = tl.sum(tl.where(most > float("-inf"), total * tl.exp(most - top), 0.0), 0)
    for start in range(0, cols, BLOCK):
        v = tl.load(x + row * x_row + start + col, mask=start + col < cols, other=0.0).to(tl.float32)
        y = tl.exp(v - top) / sum_
        tl.store(out + row * out_row + start + col, y.to(out.dtype.element_ty), mask=start + col < cols)


def kernel(x):
    rows, cols = x.shape
    out = torch.empty_like(x)
    one = short_rows if cols <= BLOCK else long_rows
    one[(rows,)](x, out, cols, x.stride(0), out.stride(0), BLOCK=BLOCK, num_stages=NUM_STAGES, num_warps=NUM_WARPS)
    return out
