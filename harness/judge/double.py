"""A reference in float64 although it says float32: what makes the oracle of references that name a precision.

Many references write ``x.float()`` for accuracy in half types. Taken at its word, such an oracle would be no more exact
than the kernels it decides about.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_NARROWER = (torch.float32, torch.float16, torch.bfloat16)
_CASTS = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}


class _Double(TorchFunctionMode):
    """float64 wherever a call asks for a narrower floating type."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _CASTS:
            return args[0].double()
        return func(*(_wide(a) for a in args), **{name: _wide(value) for name, value in (kwargs or {}).items()})


def _wide(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _NARROWER else value


@contextmanager
def in_double() -> Iterator[None]:
    """Within it, casts to and results in narrower floating types are float64, and so is the default dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Double():
            yield
    finally:
        torch.set_default_dtype(before)
