"""Which axes of a reference's inputs belong together: found by running it, for tasks described on a command line.

``x=4096x4096`` does not say whether both axes are one dimension. A kernel that is right on squares only would pass if
they were taken as one, and a matrix product could not be called if they never were.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from harness.judge.oracle import Reference
from harness.spec.adhoc import Axis
from harness.spec.errors import SpecError
from harness.spec.inputs import draw_all
from harness.spec.task import Case, Task

MOST_AXES = 9  # 2^(9-1) runs of the reference at small sizes
SMALL = 48  # divisible by what references tend to divide by, as its half is
SEED = 5


def tie(task: Task) -> tuple[dict[Axis, list[Axis]], int | None]:
    """For each axis the axes that must be as long as it is, itself among them; and the number of outputs.

    task: one case, every axis a dimension of its own; axes of different extents in the case are never tied.
    A set of axes can be resized together when the reference runs with all of them at half the size; two axes belong
    together when no set that can be resized holds only one of them. Where the reference does not run at small sizes at
    all, all axes of one extent belong together, and the number of outputs is None. Raises SpecError when the reference
    cannot be loaded.
    """
    case = task.cases[0]
    axes = [((name, i), dim) for name, spec in task.inputs.items()
            for i, dim in enumerate(spec.shape) if dim in case.dims]
    together: dict[Axis, list[Axis]] = {}
    by_extent: dict[int, list[tuple[Axis, str]]] = {}
    for axis, dim in axes:
        by_extent.setdefault(case.dims[dim], []).append((axis, dim))
    reference = Reference(task)
    small = {dim: min(size, SMALL) for dim, size in case.dims.items()}
    outputs = _outputs(reference, task, small)
    for extent, group in by_extent.items():
        names = [axis for axis, _ in group]
        if outputs is None or extent < 4 or not 1 < len(group) <= MOST_AXES:  # halves of 1 would be broadcast
            together.update(dict.fromkeys(names, names))
            continue
        movable = [chosen for chosen in _bipartitions(group)
                   if _outputs(reference, task, {**small, **{dim: small[dim] // 2 for _, dim in chosen}}) is not None]
        sides = [{axis for axis, _ in chosen} for chosen in movable]
        for a in names:
            together[a] = [b for b in names if all((a in side) == (b in side) for side in sides)]
    return together, outputs


def tie_json(task: dict[str, Any]) -> dict[str, Any]:
    """`tie` on plain values, for a process of its own: {"together": [[axis, [axis, …]], …], "outputs": …}."""
    together, outputs = tie(Task.model_validate(task))
    return {"together": [[list(axis), [list(one) for one in others]] for axis, others in together.items()],
            "outputs": outputs}


def _bipartitions(group: list[tuple[Axis, str]]) -> Iterator[tuple[tuple[Axis, str], ...]]:
    """One side of every way to split `group` in two: the side without its first member."""
    for size in range(1, len(group)):
        yield from itertools.combinations(group[1:], size)


def _outputs(reference: Reference, task: Task, dims: Mapping[str, int]) -> int | None:
    """How many tensors the reference returns at `dims`; None when it does not run."""
    case = Case(name="small", dims=dict(dims), dtype=task.cases[0].dtype)
    try:
        with torch.no_grad():
            found = reference.call(*draw_all(task, case, np.random.default_rng(SEED)).values(), **task.args)
    except Exception:  # whatever a reference raises at sizes that it does not take
        return None
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    if not found or not all(isinstance(one, torch.Tensor) for one in found):
        raise SpecError(f"the reference {task.reference} returned {', '.join(type(one).__name__ for one in found)}; "
                        "it must return a tensor or several")
    return len(found)
