"""The end of a transformer's feed-forward block: bias, GELU, residual."""

import torch


def bias_gelu_residual(x: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """gelu(x + bias) + residual, with the exact (erf) GELU: x, residual [rows, cols], bias [cols] -> [rows, cols]."""
    return torch.nn.functional.gelu(x + bias, approximate="none") + residual
