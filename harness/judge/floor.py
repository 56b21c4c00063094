"""The least time a call can take on this machine: what must be written, and what must be computed, at its peaks.

A floor accuses nobody: below it every answer is looked at, and only a wrong one is evidence. What fits into the caches is
exempt, and peaks are the best ever measured here, doubled: on a shared machine a single measurement is off by a factor.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from harness.devices.cpu import cache_bytes
from harness.judge.layout import Layout
from harness.spec.shapes import evaluate
from harness.spec.task import Task

MARGIN = 2.0
_BUFFER = 1 << 26
_MATRIX = 768


@dataclass
class Peaks:
    """Best rates seen: bytes written and float32 operations, per second."""

    bandwidth: float = 0.0
    flops: float = 0.0

    def measure(self, tries: int = 4) -> None:
        """Look again, some 0.2 s; only a better figure changes anything."""
        buffer, matrix = torch.empty(_BUFFER, dtype=torch.uint8), torch.ones(_MATRIX, _MATRIX)
        for _ in range(tries):
            begun = time.perf_counter()
            buffer.fill_(1)
            self.bandwidth = max(self.bandwidth, _BUFFER / (time.perf_counter() - begun))
            begun = time.perf_counter()
            matrix @ matrix
            self.flops = max(self.flops, 2 * _MATRIX**3 / (time.perf_counter() - begun))


def floor_seconds(task: Task, layout: Layout, peaks: Peaks) -> float:
    """Seconds below which a call of this workload is not to be believed without looking; 0 where there is no telling."""
    names = {"itemsize": getattr(torch, layout.dtype).itemsize}
    declared = task.floor
    moved = (evaluate(declared.bytes, layout.dims, names) if declared and declared.bytes is not None else
             sum(layout.nbytes(index) for index in range(len(layout.outputs))))
    operations = evaluate(declared.flops, layout.dims, names) if declared and declared.flops is not None else 0
    writing = moved / (MARGIN * peaks.bandwidth) if moved > cache_bytes() and peaks.bandwidth else 0.0
    return max(writing, operations / (MARGIN * peaks.flops) if peaks.flops else 0.0)
