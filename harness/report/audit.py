"""Records that read well and still cannot be shown: a stranger's record must not bring the whole site down."""

from __future__ import annotations

import math

from harness.runs.record import Record
from harness.spec.verdict import Estimate


def defect(record: Record) -> str:
    """Why a record contradicts itself or holds impossible figures; "" for a sound one."""
    tasks = [o.task for o in record.run.outcomes]
    if len(set(tasks)) != len(tasks):
        return "two outcomes for one task"
    rows = {(row.task, row.index, row.depth): row for row in record.attempts}
    if len(rows) != len(record.attempts):
        return "two lines for one judgement"
    for row in record.attempts:
        place = f"attempt {row.index} at {row.task}"
        if row.task not in tasks:
            return f"{place}, a task without an outcome"
        if row.index < 0:
            return f"{place}: numbers start at 0"
        if row.duplicate_of is not None and (row.task, row.duplicate_of, "screen") not in rows:
            return f"{place} repeats attempt {row.duplicate_of}, which is not there"
        if row.result is None:
            return f"{place} has no verdict"
        if row.duplicate_of is None and row.result.depth != row.depth:
            return f"{place}: a {row.depth} line with a {row.result.depth} verdict"
        estimates = [row.result.speedup, *(e for c in row.result.cases for e in (c.vs_eager, c.vs_compile, c.speedup))]
        if not all(map(_possible, filter(None, estimates))):
            return f"{place}: a speedup that no interval can have"
    for outcome in record.run.outcomes:
        if (outcome.index is None) != (outcome.depth is None):
            return f"the outcome of {outcome.task} names half an attempt"
        if outcome.index is not None and (outcome.task, outcome.index, outcome.depth) not in rows:
            return f"the outcome of {outcome.task} names attempt {outcome.index}, which is not there"
    return ""


def _possible(e: Estimate) -> bool:
    return 0 < e.value < math.inf and 0 <= e.low <= e.value * (1 + 1e-9) and e.high >= e.value * (1 - 1e-9)
