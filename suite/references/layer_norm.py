"""Layer normalisation over rows."""

import torch


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """y = (x − mean) / sqrt(var + eps) · weight + bias over the last axis, var biased: x [rows, cols], weight and bias
    [cols] -> y [rows, cols]."""
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)
