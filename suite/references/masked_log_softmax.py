"""Log-softmax under a mask."""

import torch


def masked_log_softmax(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """y = x − log Σ exp(x) over the last axis where mask is True, −∞ where it is not: x [rows, cols], mask [rows, cols] bool
    -> y [rows, cols]. A row without a True is NaN."""
    return torch.log_softmax(x.masked_fill(~mask, float("-inf")), dim=-1)
