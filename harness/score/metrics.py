"""What an agent's finals are worth: credits per task and the figures over tasks. Plain numbers in and out.

A task's score S is the geometric mean of its cases' speedups over the faster opponent. The headline credit is
C = S where the lower end of S's interval exceeds 1, else 1: a wrong kernel and a slow one both leave the user on
PyTorch, and a lucky draw is not a gain.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from harness.judge.ratio import t_interval
from harness.spec.verdict import Estimate, JudgeResult, Status

CREDIT_CAP = 10.0


class ScoreError(ValueError):
    """Results that cannot be turned into a score, such as a screen where a final is needed."""


def is_solved(result: JudgeResult | None) -> bool:
    """Whether the final answer is correct. `noisy` is: its outputs passed, only its time could not be told."""
    return result is not None and result.status in (Status.ok, Status.noisy)


def score_of(result: JudgeResult | None) -> Estimate | None:
    """S with its interval: the speedup of a correct, timed final; None where there is none.

    Raises ScoreError for the speedup of a screen, which is no score.
    """
    if result is None or result.status != Status.ok or result.speedup is None:
        return None
    if result.depth != "final":
        raise ScoreError(
            f"task {result.task}: judgement {result.id} is a {result.depth}; only a final is a score: "
            f"judge the candidate again with depth final"
        )
    return result.speedup


def credit(score: Estimate | None) -> float:
    """C: the score where its lower bound exceeds 1, else 1; 1 also for a task not solved."""
    return score.value if score is not None and score.low > 1 else 1.0


def geomean(values: Sequence[float]) -> float:
    """Geometric mean of positive values. Raises ValueError without values."""
    if not values:
        raise ValueError("a geometric mean needs at least one value")
    return math.exp(math.fsum(math.log(v) for v in values) / len(values))


def geomean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """(geometric mean, low, high) by Student's t on the logs: approximate, since tasks are no random sample.

    One value gives (value, 0, inf).
    """
    mean, low, high = t_interval([math.log(v) for v in values])
    return math.exp(mean), math.exp(low), math.inf if high > 700 else math.exp(high)


def capped_geomean(credits: Sequence[float], cap: float = CREDIT_CAP) -> float:
    """Geometric mean of credits cut at `cap`: what is left when no single task may carry the figure."""
    return geomean([min(c, cap) for c in credits])


def median(values: Sequence[float]) -> float:
    """Median. Raises ValueError (statistics.StatisticsError) without values."""
    return statistics.median(values)


def leave_one_out(credits: Sequence[float]) -> tuple[float, float]:
    """(least, most) geometric mean with one task left out: how far a single task moves the figure.

    With one task there is nothing to leave out: its own value twice.
    """
    if len(credits) == 1:
        return credits[0], credits[0]
    total = math.fsum(math.log(c) for c in credits)
    left = [math.exp((total - math.log(c)) / (len(credits) - 1)) for c in credits]
    return min(left), max(left)


def is_fast(score: Estimate | None, p: float) -> bool:
    """Whether a task counts for fast_p: solved, with the *lower bound* of its speedup above p."""
    return score is not None and score.low > p


def fast_p(scores: Sequence[Estimate | None], p: float) -> float:
    """Share of tasks that are correct and more than p times faster by the lower bound; None marks a task without S.

    By the lower bound PyTorch against itself gets 2.5 % for p = 1, by the value it would get half. After KernelBench's
    fast_p (arXiv 2502.10517). Raises ValueError without tasks.
    """
    if not scores:
        raise ValueError("fast_p needs at least one task")
    return sum(is_fast(s, p) for s in scores) / len(scores)


def solved_rate(results: Sequence[JudgeResult | None]) -> float:
    """Share of tasks whose final answer is correct, fast or not. Raises ValueError without tasks."""
    if not results:
        raise ValueError("a solved rate needs at least one task")
    return sum(is_solved(r) for r in results) / len(results)
