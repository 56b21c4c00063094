"""RMS normalisation over rows."""

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """y = x / sqrt(mean(x²) + eps) · weight over the last axis: x [rows, cols], weight [cols] -> y [rows, cols]."""
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)
