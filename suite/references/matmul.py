"""Matrix product."""

import torch


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """c = a @ b: a [m, k], b [k, n] -> c [m, n], in the dtype of the inputs."""
    return torch.matmul(a, b)
