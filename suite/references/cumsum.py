"""Cumulative sum over rows."""

import torch


def cumsum(x: torch.Tensor) -> torch.Tensor:
    """y[i, j] = Σ_{l ≤ j} x[i, l]: x [rows, cols] -> y [rows, cols]."""
    return torch.cumsum(x, dim=-1)
