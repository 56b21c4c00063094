"""Softmax over rows."""

import torch


def softmax(x: torch.Tensor) -> torch.Tensor:
    """y[i, j] = exp(x[i, j]) / sum over j of exp(x[i, j]): x [rows, cols] -> y [rows, cols], in the dtype of x."""
    return torch.softmax(x, dim=-1)
