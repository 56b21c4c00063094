"""Attention under a boolean mask."""

import torch


def masked_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """softmax(q kᵀ/√d, where mask) v: q [heads, queries, width], k and v [heads, keys, width], mask [queries, keys] bool
    (True: may be attended to) -> [heads, queries, width]. A query that may attend to nothing gives zeros."""
    scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
    return torch.where(mask.any(-1)[:, None], weights, 0.0).to(v.dtype) @ v
