"""What a kernel author compares with: plain PyTorch."""

import torch


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over rows: x [rows, cols] -> [rows, cols]."""
    return torch.softmax(x, dim=-1)
