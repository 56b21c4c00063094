"""The baselines as candidates like any other: PyTorch's eager reference, and torch.compile of it.

The opponents of every timed case and the agents `eager` and `torch-compile` are made here alike, so that a baseline
that competes is the very code it is measured against.
"""

from __future__ import annotations

from harness.spec.candidate import Candidate
from harness.spec.task import Task


def eager(task: Task) -> Candidate:
    """The task's own reference."""
    return Candidate(source=task.reference_source, entry=task.reference_entry, note="the reference itself")


def compiled(task: Task, mode: str = "default", dynamic: bool | None = None) -> Candidate:
    """``torch.compile(reference)``; mode and dynamic are its arguments."""
    wrapper = f"""

import torch

_reference = {task.reference_entry}
if isinstance(_reference, type):
    _reference = _reference(*globals().get("get_init_inputs", list)()).eval()
kernel = torch.compile(_reference, mode={mode!r}, dynamic={dynamic!r})
"""
    return Candidate(source=task.reference_source + wrapper, entry="kernel",
                     parameters={"mode": mode, "dynamic": dynamic}, note="torch.compile of the reference")


BASELINES = {"eager": eager, "compile": compiled}
