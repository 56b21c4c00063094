"""Quantisation of rows."""

import torch


def quantise(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """q = clamp(round(x / scale), −127, 127): x [rows, cols], scale [rows] -> q [rows, cols] int8. Divided in float32."""
    return torch.clamp(torch.round(x.float() / scale.float()[:, None]), -127, 127).to(torch.int8)
