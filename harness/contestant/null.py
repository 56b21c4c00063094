"""The null kernel: answers at once with memory it already has. Its block time is the constant c of MEASURING section 3.

Run through exactly the same contestant and protocol as any candidate; nothing else may be subtracted from a score.
"""

import itertools

import torch

_answers = itertools.cycle([torch.zeros(1) for _ in range(64)])


def kernel(*inputs):
    """The next of a few preallocated answers, shape ``[1]``, float32; computes nothing."""
    return next(_answers)
