"""Two matrix products in a row, the last factor thin."""

import torch


def two_matmul(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """(a @ b) @ c: a [m, k], b [k, n], c [n, p] -> [m, p], in the dtype of the inputs."""
    return torch.matmul(torch.matmul(a, b), c)
