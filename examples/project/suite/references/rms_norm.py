"""Root mean square normalisation."""

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x / sqrt(mean(x², over cols) + eps) · weight: x [rows, cols], weight [cols] -> [rows, cols]."""
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight
