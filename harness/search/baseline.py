"""Random search without replacement in closed form, and the score of a sampler against it (MEASURING section 5).

After the methodology of Willemsen, Schoonhoven, Filipovič, Tørring, van Nieuwpoort, van Werkhoven (doi
10.1016/j.future.2024.05.021), with configurations that have no time counted as evaluations.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

POINTS = 50  # places along the curve at which a score is taken
REACH = 0.05  # of the way from the optimum to the median: where the curve of chance ends
NEAR = 0.95  # "95 % of the optimum"


@dataclass(frozen=True)
class Baseline:
    """What chance finds in a space.

    curve: [N₀] expected best time after n = 1 … N₀ evaluations. optimum: f*, the best there is. median: of the valid.
    horizon: the least n at which the curve has come within REACH of the optimum. near: share of all configurations
    whose time t has f*/t ≥ NEAR.
    """

    curve: np.ndarray
    optimum: float
    median: float
    horizon: int
    near: float

    @property
    def points(self) -> list[int]:
        """The numbers of evaluations at which scores are taken: at most POINTS, equidistant, from 1 to the horizon."""
        return sorted({int(n) for n in np.rint(np.linspace(1, self.horizon, POINTS))})

    def chance_of_near(self, evaluations: int) -> float:
        """Probability that random search has met a configuration near the optimum after `evaluations`."""
        total = len(self.curve)
        good = round(self.near * total)
        return 1 - _none_of(good, total, min(evaluations, total))


def baseline(times: Sequence[float | None], optimum: float | None = None) -> Baseline:
    """Of every configuration's time (any unit, lower is better; None where it has none).

    optimum: f*, from timing the best again; by default the least of `times`, which is too good by the luck of one
    measurement. Raises ValueError when no configuration has a time.
    """
    valid = sorted(time for time in times if time is not None)
    if not valid:
        raise ValueError("no configuration has a time")
    curve = expected_best(valid, len(times))
    best, middle = valid[0] if optimum is None else optimum, statistics.median(valid)
    # Re-timing may find the optimum above what the curve comes down to: then all of it counts.
    reached = np.nonzero(curve <= best + REACH * (middle - best))[0]
    horizon = int(reached[0]) + 1 if len(reached) else len(times)
    near = sum(best / time >= NEAR for time in valid) / len(times)
    return Baseline(curve, best, middle, horizon, near)


def expected_best(valid: Sequence[float], total: int) -> np.ndarray:
    """[total] R(n): the expected least time of n configurations drawn from `total` without replacement.

    valid: the times in rising order; the other total − len(valid) have none, and the median stands for having met none
    but them. R(n) = Σᵢ vᵢ·C(N₀−i, n−1)/C(N₀, n) + P(no valid)·median(v).
    """
    v = np.asarray(valid, dtype=np.float64)
    n = np.arange(1, total + 1)
    log = np.array([math.lgamma(k + 1) for k in range(total + 1)])
    log_all = log[total] - log[n] - log[total - n]
    found = np.zeros(total)
    for i, time in enumerate(v, start=1):
        most = total - i  # configurations that are worse than this one
        fits = n - 1 <= most
        k = n[fits] - 1
        found[fits] += time * np.exp(log[most] - log[k] - log[most - k] - log_all[fits])
    none = np.array([_none_of(len(v), total, int(k)) for k in n])
    return found + none * statistics.median(valid)


def _none_of(good: int, total: int, drawn: int) -> float:
    """Probability that `drawn` of `total` without replacement hold none of `good`."""
    if drawn > total - good:
        return 0.0
    lg = math.lgamma
    return math.exp(lg(total - good + 1) - lg(total - good - drawn + 1) - lg(total + 1) + lg(total - drawn + 1))


def score(chance: Baseline, best: np.ndarray) -> float:
    """How much of the way from chance to the optimum a sampler is ahead, averaged over the curve: 0 is chance, 1 at once.

    best: [≥ horizon] mean over replays of the best time after n = 1, 2, … evaluations.
    score(n) = (R(n) − F̄(n))/(R(n) − f*); points at which chance is at the optimum already are left out.
    """
    at = np.array(chance.points) - 1
    room = chance.curve[at] - chance.optimum
    counts = room > 1e-12 * abs(chance.median)
    if not counts.any():
        return 0.0
    return float(np.mean((chance.curve[at] - best[at])[counts] / room[counts]))
