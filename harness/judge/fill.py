"""Fresh inputs, cheaply: every slot is a window of a secret bank, mixed with another window by a secret factor.

Generating each input anew would cost more than judging it. A bank is drawn once from the system's entropy; then
x = W[o1:] + b·W[o2:] with o1, o2 and b drawn anew for every chunk of every slot is one pass over memory, never repeats,
and is unknown to everyone before the go. Every instance of a match gets new banks. For normal inputs the distribution
stays normal: |b| in [0.5, 1], so the standard deviation stays within 12 % of the declared one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

import numpy as np
import torch

from harness.spec.data import quantiles
from harness.spec.inputs import draw, is_floating, torch_dtype
from harness.spec.shapes import evaluate, shape
from harness.spec.task import InputSpec

_SLACK = 1 << 16
# Elements that share offsets and factor: no relation holds over a whole input. Small enough that torch does not wake
# its threads for each.
CHUNK = 1 << 15
_MEAN_SQUARE = (1 - 0.5**3) / 3 / 0.5  # E[b²] for b uniform in [0.5, 1]


def entropy() -> np.random.Generator:
    """A generator seeded by the operating system; never by --seed."""
    return np.random.default_rng(int.from_bytes(os.urandom(16), "big"))


class Bank:
    """The secret source of one input of one case. dtype: the case's dtype by name; scale: multiplies floating inputs."""

    def __init__(self, spec: InputSpec, dims: Mapping[str, int], dtype: str, scale: float = 1.0):
        self.spec, self.dims, self.dtype, self.scale = spec, dims, spec.dtype or dtype, scale
        self.shape = shape(spec.shape, dims)
        self.count = math.prod(self.shape)
        self.rng = entropy()
        (self.kind, options), *_ = spec.init.items()
        size = self.count + max(_SLACK, self.count // 4)
        if self.kind == "normal" and is_floating(self.dtype):
            width = float(options.get("std", 1.0)) * scale / math.sqrt(1 + _MEAN_SQUARE)
            self.mean = float(options.get("mean", 0.0)) * scale
            self.bank = torch.from_numpy(self.rng.standard_normal(size, dtype=np.float32)) * width
        elif self.kind == "uniform" and is_floating(self.dtype):
            self.low = float(options.get("low", 0.0)) * scale
            self.width = float(options.get("high", 1.0)) * scale - self.low
            self.bank = torch.from_numpy(self.rng.random(size, dtype=np.float32))
        elif self.kind == "integers":
            self.low = evaluate(options.get("low", 0), dims)
            self.range = max(1, evaluate(options["high"], dims) - self.low)
            self.bank = torch.from_numpy(self.rng.integers(0, self.range, size, dtype=np.int64))
        elif self.kind == "like":
            table = quantiles(options["low"], options["high"], options["mean"], options["std"])
            self.table = torch.from_numpy(table).to(torch.float64 if self.dtype == "float64" else torch.float32)
            self.table *= scale if is_floating(self.dtype) else 1
            self.bank = torch.from_numpy(self.rng.random(size, dtype=np.float32))
        else:
            self.bank = None

    def fill(self, *targets: torch.Tensor) -> None:
        """Write fresh inputs of shape `shape` into `targets` (the judge's views of slots)."""
        if self.bank is None:  # permutation, bernoulli, constant, file: drawn anew
            for target in targets:
                target.copy_(draw(self.spec, self.dims, self.dtype, self.rng, self.scale))
            return
        chunks = -(-self.count // CHUNK)
        # All draws of all targets at once: one by one they would cost more than the filling of small inputs.
        last = len(self.bank) - min(CHUNK, self.count)
        starts = self.rng.integers(0, last + 1, size=(len(targets), chunks, 2)).tolist()
        factors = self._factors(len(targets) * chunks)
        for index, target in enumerate(targets):
            self._mix(target, starts[index], factors[index * chunks: (index + 1) * chunks])

    def _mix(self, target: torch.Tensor, starts: list[list[int]], factors: list[float]) -> None:
        bank, flat = self.bank, target.view(-1)
        direct = flat if flat.dtype == bank.dtype else torch.empty(self.count, dtype=bank.dtype)
        for index, (one, other) in enumerate(starts):
            size = min(CHUNK, self.count - index * CHUNK)
            chunk = direct.narrow(0, index * CHUNK, size)
            torch.add(bank.narrow(0, one, size), bank.narrow(0, other, size), alpha=factors[index], out=chunk)
        if self.kind == "normal" and self.mean:
            direct.add_(self.mean)
        elif self.kind == "uniform":
            direct.frac_().mul_(self.width).add_(self.low)
        elif self.kind == "integers":
            direct.remainder_(self.range).add_(self.low)
        elif self.kind == "like":
            direct = self._like(direct.frac_())
        if direct is not flat:
            flat.copy_(direct)

    def _like(self, uniform: torch.Tensor) -> torch.Tensor:
        """The quantile at each number in [0, 1)."""
        place = uniform.mul_(len(self.table) - 1)
        index = place.to(torch.int64)
        below = self.table[index]
        values = below + (place - index) * (self.table[index + 1] - below)
        return values if is_floating(self.dtype) else values.round_()

    def _factors(self, chunks: int) -> list[float]:
        """The factor of the second window of each chunk; sums of uniform windows stay uniform only with factor 1."""
        if self.kind == "normal":
            return (self.rng.uniform(0.5, 1.0, chunks) * (2 * self.rng.integers(0, 2, chunks) - 1)).tolist()
        return [1] * chunks


def torch_shape(spec: InputSpec, dims: Mapping[str, int], dtype: str) -> tuple[torch.dtype, tuple[int, ...]]:
    """(torch dtype, shape) of one input of a case."""
    return torch_dtype(spec.dtype or dtype), shape(spec.shape, dims)
