"""A linear layer with ReLU."""

import torch


def matmul_bias_relu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """c = max(a b + bias, 0): a [m, k], b [k, n], bias [n] -> c [m, n]."""
    return torch.relu(torch.addmm(bias, a, b))
