"""Integer matrix product."""

import torch


def int8_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """c[i, j] = Σₗ a[i, l]·b[l, j] in int32: a [m, k] int8, b [k, n] int8 -> c [m, n] int32.

    By way of float64, in which the sum is exact below k = 2⁵³/127²: PyTorch has no product of integer matrices on GPUs.
    """
    return (a.double() @ b.double()).to(torch.int32)
