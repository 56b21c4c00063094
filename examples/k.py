"""A kernel to be judged: softmax over rows, with as few new tensors as torch operations allow."""

import torch


def my_softmax(x: torch.Tensor) -> torch.Tensor:
    """x [rows, cols] -> [rows, cols]. Inputs are read-only; what the function allocates itself is its own."""
    out = x - x.amax(dim=-1, keepdim=True)
    out.exp_()
    return out.div_(out.sum(dim=-1, keepdim=True))
