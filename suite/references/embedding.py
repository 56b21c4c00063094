"""Rows gathered by index."""

import torch


def embedding(index: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """y[i, j, :] = table[index[i, j], :]: index [batch, length] int64, table [entries, width] -> [batch, length, width]."""
    return torch.nn.functional.embedding(index, table)
