"""A batch of matrix products."""

import torch


def batched_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """c[i] = a[i] b[i]: a [batch, m, k], b [batch, k, n] -> c [batch, m, n]."""
    return torch.bmm(a, b)
