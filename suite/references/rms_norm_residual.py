"""Residual addition and RMS normalisation, both results of which are used on."""

import torch


def rms_norm_residual(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """s = x + residual; y = s / sqrt(mean(s²) + eps) · weight over the last axis: x and residual [rows, cols], weight
    [cols] -> (y, s), both [rows, cols]. The mean is taken in float32, as language models do."""
    s = x + residual
    wide = s.float() if s.dtype in (torch.float16, torch.bfloat16) else s
    y = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return y.to(s.dtype) * weight, s
