"""Which candidates get a final judgement, which of those speaks for the agent, and what is left when none is right.

Pure functions over verdicts. Choosing and reporting on the same data overstates the best of many (MEASURING section
4), so the choice among finals looks only at `CaseResult.selected`, the estimate from the first half of the instances.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from harness.agents.protocol import Attempt
from harness.spec.verdict import JudgeResult, Status

# A correct candidate whose screening was only too restless to time deserves its final; a wrong one does not.
ELIGIBLE = (Status.ok, Status.noisy)

# The nearer to a right answer, the earlier. The machine's own failures come last: any verdict says more.
CLOSENESS = (
    Status.ok,
    Status.noisy,
    Status.wrong_output,
    Status.timeout,
    Status.out_of_memory,
    Status.runtime_error,
    Status.compile_error,
    Status.unsupported,
    Status.forbidden,
    Status.tampered,
    Status.infra_error,
)


def _screened(attempt: Attempt) -> tuple[int, float]:
    """Sort key, the larger the better: timed before untimed before noisy, then by screened speedup."""
    result = attempt.result
    if result.status == Status.ok and result.speedup:
        return (2, result.speedup.value)
    return (1 if result.status == Status.ok else 0, 0.0)


def choose_finalists(attempts: Iterable[Attempt], count: int) -> list[Attempt]:
    """The best `count` distinct candidates by screened speedup, best first; equals in the order of proposal."""
    chosen: list[Attempt] = []
    eligible = [attempt for attempt in attempts if attempt.result.status in ELIGIBLE]
    for attempt in sorted(eligible, key=lambda a: (*(-x for x in _screened(a)), a.index)):
        if all(attempt.candidate.hash != other.candidate.hash for other in chosen):
            chosen.append(attempt)
    return chosen[: max(count, 0)]


def selected_speedup(result: JudgeResult) -> float | None:
    """Geometric mean over cases of the selection estimates; the overall speedup where a case has none; None untimed."""
    selected = [case.selected.value for case in result.cases if case.selected and case.selected.value > 0]
    if selected and len(selected) == len(result.cases):
        return math.exp(sum(map(math.log, selected)) / len(selected))
    return result.speedup.value if result.speedup else None


def best_attempt(attempts: Sequence[Attempt]) -> Attempt | None:
    """The attempt that speaks for the agent: right and fastest by `selected_speedup`, else the nearest failure.

    None of nothing. Equals in the order given.
    """

    def rank(attempt: Attempt) -> tuple[int, float]:
        speed = selected_speedup(attempt.result) if attempt.result.status == Status.ok else None
        return (CLOSENESS.index(attempt.result.status), -(speed or 0.0))

    return min(attempts, key=rank, default=None)
