"""Correctness trials: which workloads a candidate must get right, and what it got wrong (MEASURING section 1).

Shapes of 3 and 17 along every dynamic dimension and a small-scale trial catch every skipped tail, ddof and eps error
that wide shapes hide; shapes drawn from the verification range are known to nobody before.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from harness.judge import compare as comparing
from harness.judge.oracle import Reference
from harness.judge.layout import Layout
from harness.judge.selection import compare_selection
from harness.spec.errors import SpecError
from harness.spec.inputs import SCALED
from harness.spec.task import Case, Task
from harness.spec.verdict import Status, Trial

SMALL = (3, 17)
DRAWN = 3
SMALL_ELEMENTS = 1 << 18
MAX_DRAWN_ELEMENTS = 1 << 22  # of any input of a drawn shape: a trial must not cost more than a timed case


@dataclass(frozen=True)
class Plan:
    """One trial to be run. fresh: in an instance of its own, because a dimension changed that need not be dynamic."""

    kind: str
    case: str
    dims: dict[str, int]
    dtype: str
    scale: float = 1.0
    calls: int = 2
    fresh: bool = False


def plan(task: Task, cases: list[Case], rng: np.random.Generator, *, drawn: bool) -> Iterator[Plan]:
    """The trials of a judgement. The cases come first: a candidate that compiles for the shapes it sees then does so for
    those that are timed, and later instances start from its caches."""
    first_of_dtype: dict[str, Case] = {}
    for case in cases:
        first_of_dtype.setdefault(case.dtype, case)
    for case in cases:
        yield Plan("case", case.name, dict(case.dims), case.dtype, calls=3)
    for dtype, case in first_of_dtype.items():
        dynamic = [d for d in task.dynamic if d in case.dims]
        for size in SMALL:
            if dynamic:
                yield Plan("small", case.name, {**case.dims, **dict.fromkeys(dynamic, size)}, dtype)
        for dimension in dynamic if len(dynamic) > 1 else []:
            size = SMALL[int(rng.integers(0, len(SMALL)))]
            yield Plan("small", case.name, {**case.dims, dimension: size}, dtype)
    for case in cases:
        for scale in scales(task):
            if scale != 1.0:
                yield Plan("scaled", case.name, dict(case.dims), case.dtype, scale=scale)
    if drawn and task.verify:
        for dtype, case in first_of_dtype.items():
            for _ in range(DRAWN):
                dims = {**case.dims, **{d: int(rng.integers(low, high + 1)) for d, (low, high) in task.verify.items()}}
                fresh = any(dims[d] != case.dims[d] for d in dims if d not in task.dynamic)
                yield Plan("drawn", case.name, shrink(task, dims, dtype), dtype, fresh=fresh)


def scales(task: Task) -> list[float]:
    """Factors at which every floating input of the task may be drawn."""
    allowed = [set(spec.scales) for spec in task.inputs.values() if next(iter(spec.init)) in SCALED]
    return sorted(set.intersection(*allowed)) if allowed else [1.0]


def shrink(task: Task, dims: dict[str, int], dtype: str, most: int = MAX_DRAWN_ELEMENTS) -> dict[str, int]:
    """Halve the largest drawn dimension until no input has more than `most` elements, as a drawn trial may not."""
    from harness.judge.fill import torch_shape

    dims = dict(dims)
    while max((math.prod(torch_shape(s, dims, dtype)[1]) for s in task.inputs.values()), default=0) > most:
        able = {d: v for d, v in dims.items() if d in task.verify and v // 2 >= task.verify[d][0]}
        if not able:
            break
        largest = max(able, key=lambda d: able[d])
        dims[largest] //= 2
    return dims


def make_layout(task: Task, reference: Reference, dims: dict[str, int], dtype: str, scale: float = 1.0) -> Layout:
    """The layout of a workload; the outputs' dtypes and shapes are those of the reference.

    Raises SpecError when the workload does not fit into the arenas.
    """
    probe = Layout(task, dims, dtype, [], scale)
    inputs = [torch.empty(shape, dtype=kind) for kind, shape in probe.inputs]
    for bank, tensor in zip(probe.banks, inputs, strict=True):
        bank.fill(tensor)
    outputs = [(o.dtype, tuple(o.shape)) for o in reference.outputs(inputs)]
    layout = Layout.over(probe, outputs)
    if not layout.fits:
        raise SpecError(f"task {task.name}: one call at {dims} ({dtype}) does not fit into the judge's "
                        "1 GiB of slots; use a smaller case")
    return layout


def judge_call(task: Task, reference: Reference, inputs: list[torch.Tensor], answers: list[torch.Tensor],
               layout: Layout) -> list[comparing.Comparison]:
    """Compare the answers to one call with the oracle; one Comparison per output."""
    elements = max(tensor.numel() for tensor in (*inputs, *answers))
    with one_thread() if elements <= SMALL_ELEMENTS else contextlib.nullcontext():
        return _judge_call(task, reference, inputs, answers, layout)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch on one thread: waking a second one takes longer than an operation on a small tensor."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _judge_call(task: Task, reference: Reference, inputs: list[torch.Tensor], answers: list[torch.Tensor],
                layout: Layout) -> list[comparing.Comparison]:
    if task.compare == "selection":
        return compare_selection(
            answers, reference.scores(inputs, double=True), layout.outputs, score_dtype=getattr(torch, layout.dtype),
            reference=lambda: reference.scores(inputs), tolerance=task.tolerance, precision=task.precision,
            cap=layout.scale == 1.0)
    oracle = reference.oracle(inputs)
    calibration: list[list[torch.Tensor]] = []

    def calibrate(index: int) -> torch.Tensor:
        if not calibration:
            calibration.append(reference.outputs(inputs))
        return calibration[0][index]

    return [comparing.compare(y, o, dtype=dtype, reference=lambda j=j: calibrate(j), tolerance=task.tolerance,
                              precision=task.precision, kind=task.compare, cap=layout.scale == 1.0, output=j)
            for j, (y, o, (dtype, _)) in enumerate(zip(answers, oracle, layout.outputs, strict=True))]


def record(item: Plan, comparisons: list[comparing.Comparison]) -> Trial:
    """The trial's record: ok, or the first wrong output."""
    wrong = next((c for c in comparisons if not c.ok), None)
    worst = max((c.worst_ratio for c in comparisons), default=None)
    largest = max((c.max_abs for c in comparisons if c.max_abs is not None), default=None)
    return Trial(kind=item.kind, case=item.case, dims=item.dims, dtype=item.dtype, scale=item.scale,
                 status=Status.wrong_output if wrong else Status.ok, message=wrong.message if wrong else "",
                 worst_ratio=worst, max_abs=largest, mismatch=wrong.mismatch if wrong else None)
