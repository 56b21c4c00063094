"""Where the inputs and outputs of each call lie: one layout per dims × dtype, over the arenas."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch

from harness.judge.arena import Arena, align
from harness.judge.fill import Bank, torch_shape
from harness.spec.task import Task

ARENA_BYTES = 1 << 30  # sparse: only what is touched exists
SLOT_BUDGET = 192 * 2**20  # bytes of inputs, and of outputs, that one block may use
MAX_SLOTS = 20_000


@dataclass
class Layout:
    """The slots of one workload. Offsets in bytes from the slot's start; the commit table leads the output arena.

    outputs: (torch dtype, shape) of each. args: the task's keyword arguments travel with `load`, not here.
    """

    task: Task
    dims: dict[str, int]
    dtype: str
    outputs: list[tuple[torch.dtype, tuple[int, ...]]]
    scale: float = 1.0
    banks: list[Bank] = field(init=False)
    slots: int = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = [torch_shape(spec, self.dims, self.dtype) for spec in self.task.inputs.values()]
        self.banks = [Bank(spec, self.dims, self.dtype, self.scale) for spec in self.task.inputs.values()]
        self._place()

    @classmethod
    def over(cls, probe: Layout, outputs: list[tuple[torch.dtype, tuple[int, ...]]]) -> Layout:
        """`probe` with its outputs known; its banks are used on."""
        layout = copy.copy(probe)
        layout.outputs = outputs
        layout._place()
        return layout

    def renew(self) -> None:
        """Draw new banks: nothing that was learnt of the old ones holds any more."""
        self.banks = [Bank(spec, self.dims, self.dtype, self.scale) for spec in self.task.inputs.values()]

    def _place(self) -> None:
        self.offsets, self.stride = _pack(self.inputs)
        self.out_offsets, self.out_stride = _pack(self.outputs)
        widest = max(self.stride, self.out_stride, 1)
        self.slots = max(1, min(MAX_SLOTS, SLOT_BUDGET // widest))
        self.commit_bytes = align(8 * self.slots * len(self.outputs), 4096)
        self._views: WeakKeyDictionary[Arena, list[list[torch.Tensor]]] = WeakKeyDictionary()

    @property
    def fits(self) -> bool:
        """Whether a single call fits into the arenas at all."""
        return self.slots * self.stride <= ARENA_BYTES and self.slots * self.out_stride + self.commit_bytes <= ARENA_BYTES

    def message(self) -> dict:
        """What the contestant is told."""
        return {
            "op": "layout", "slots": self.slots, "stride": self.stride, "out_stride": self.out_stride,
            "commit_bytes": self.commit_bytes, "dims": self.dims,
            "inputs": [{"dtype": _name(d), "shape": list(s), "offset": o, "count": math.prod(s)}
                       for (d, s), o in zip(self.inputs, self.offsets, strict=True)],
            "outputs": [{"dtype": _name(d), "shape": list(s), "offset": o}
                        for (d, s), o in zip(self.outputs, self.out_offsets, strict=True)],
        }

    def slot(self, arena: Arena, index: int) -> list[torch.Tensor]:
        """The judge's views of the inputs of call `index`."""
        views = self._views.setdefault(arena, [])
        while len(views) <= index:  # making them takes as long as filling small inputs
            views.append(self._view(arena, len(views)))
        return views[index]

    def _view(self, arena: Arena, index: int) -> list[torch.Tensor]:
        base = index * self.stride
        return [arena.tensor(dtype, shape, base + offset)
                for (dtype, shape), offset in zip(self.inputs, self.offsets, strict=True)]

    def fill(self, arena: Arena, calls: int) -> None:
        """Write fresh inputs into the first `calls` slots. Every contestant must be frozen."""
        for input_, bank in enumerate(self.banks):
            bank.fill(*(self.slot(arena, index)[input_] for index in range(calls)))

    def nbytes(self, output: int) -> int:
        """Bytes of one output of one call."""
        dtype, shape = self.outputs[output]
        return math.prod(shape) * dtype.itemsize


def _pack(tensors: list[tuple[torch.dtype, tuple[int, ...]]]) -> tuple[list[int], int]:
    offsets, end = [], 0
    for dtype, shape in tensors:
        offsets.append(end)
        end = align(end + math.prod(shape) * dtype.itemsize)
    # An odd number of cache lines between slots: equal addresses modulo 4096 in every slot would share cache sets.
    return offsets, max(end, 64) + (64 if end % 4096 == 0 else 0)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
