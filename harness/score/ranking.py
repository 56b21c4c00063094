"""Which agent is better than which, and what the tasks at hand can tell at all.

Two agents are compared by their ln C on the same tasks with an exact sign-flip (paired permutation) test; the p-values
of all pairs are adjusted by Holm's method. An agent's rank is 1 + the number of agents significantly better than it;
its range says which places the data leave open.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

ALPHA = 0.05
EXACT_TASKS = 20
MONTE_CARLO_DRAWS = 200_000
_POWER = 0.8


@dataclass(frozen=True)
class Pair:
    """Two agents compared. mean_log: mean of ln C of `first` minus `second`; p: raw; adjusted: after Holm."""

    first: str
    second: str
    mean_log: float
    p: float
    adjusted: float

    def better(self, alpha: float = ALPHA) -> str | None:
        """The agent that is significantly better, or None."""
        if self.adjusted > alpha:
            return None
        return self.first if self.mean_log > 0 else self.second


@dataclass(frozen=True)
class Rank:
    """low: 1 + agents significantly better (the rank); high: the last place the data allow."""

    low: int
    high: int


def sign_flip_p(differences: Sequence[float], *, seed: int = 0) -> float:
    """Two-sided p-value of "the differences are symmetric about 0", by flipping their signs (Fisher 1935, ch. 3).

    All 2ⁿ sign patterns up to 20 non-zero differences, hence never below 2^−(n−1); beyond that 200,000 seeded draws,
    with (1 + hits)/(1 + draws) so that p is never 0. Zero differences say nothing and leave the result as it is; none
    but zeros gives 1.
    """
    import numpy as np

    d = np.array([x for x in differences if x != 0], dtype=np.float64)
    if d.size == 0:
        return 1.0
    observed = abs(float(d.sum()))
    slack = 1e-12 * float(np.abs(d).sum())  # equal sums must count as equal however they were added up
    if d.size <= EXACT_TASKS:
        sums = d[:1].copy()  # the first sign is fixed: the other half of the patterns mirrors this one
        for x in d[1:]:
            sums = np.concatenate([sums + x, sums - x])
        return float(np.mean(np.abs(sums) >= observed - slack))
    rng = np.random.default_rng(seed)
    hits, left = 0, MONTE_CARLO_DRAWS
    while left:
        rows = min(left, 20_000)
        signs = rng.integers(0, 2, size=(rows, d.size), dtype=np.int8) * 2 - 1
        hits += int(np.count_nonzero(np.abs(signs @ d) >= observed - slack))
        left -= rows
    return (1 + hits) / (1 + MONTE_CARLO_DRAWS)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values by Holm's step-down method, in the given order; reject where ≤ α. Holm 1979 (jstor 4615733)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, running = [0.0] * len(p_values), 0.0
    for position, i in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - position) * p_values[i]))
        adjusted[i] = running
    return adjusted


def compare_all(log_credits: dict[str, Sequence[float]], *, seed: int = 0) -> list[Pair]:
    """Every pair of agents. log_credits: agent → ln C per task, the same tasks in the same order for all.

    Raises ValueError if the agents have different numbers of tasks.
    """
    if len({len(v) for v in log_credits.values()}) > 1:
        sizes = ", ".join(f"{a}: {len(v)}" for a, v in log_credits.items())
        raise ValueError(f"agents can only be compared on the same tasks, got {sizes}")
    pairs = list(combinations(log_credits, 2))
    gaps = [[x - y for x, y in zip(log_credits[a], log_credits[b])] for a, b in pairs]
    raw = [sign_flip_p(d, seed=seed) for d in gaps]
    return [
        Pair(a, b, statistics.fmean(d) if d else 0.0, p, q) for (a, b), d, p, q in zip(pairs, gaps, raw, holm(raw))
    ]


def ranks(agents: Sequence[str], pairs: Sequence[Pair], alpha: float = ALPHA) -> dict[str, Rank]:
    """agent → Rank from the comparison of all pairs."""
    above, below = dict.fromkeys(agents, 0), dict.fromkeys(agents, 0)
    for pair in pairs:
        winner = pair.better(alpha)
        if winner is not None:
            below[winner] += 1
            above[pair.second if winner == pair.first else pair.first] += 1
    return {a: Rank(1 + above[a], len(agents) - below[a]) for a in agents}


def fewest_tasks(comparisons: int = 1, alpha: float = ALPHA) -> int:
    """The number of tasks below which not even winning every one is significant after Holm over `comparisons` pairs.

    The smallest n with 2^−(n−1) ≤ alpha/comparisons: 6 for one pair, 7 already for two, 9 for ten.
    """
    return 1 + max(0, math.ceil(math.log2(comparisons / alpha) - 1e-12))


def tasks_to_separate(differences: Sequence[float], *, comparisons: int = 1, alpha: float = ALPHA) -> int | None:
    """About how many tasks like these would tell two agents apart; None if they differ by nothing, or on one task only.

    differences: ln C of one minus the other per task. The paired normal approximation ((z₁₋α/₂ + z₀.₈)·sd/mean)², at
    80 % power and α divided by the number of comparisons (Holm's first and hardest step), never below `fewest_tasks`.
    """
    if len(differences) < 2 or statistics.fmean(differences) == 0:
        return None
    normal = statistics.NormalDist()
    z = normal.inv_cdf(1 - alpha / comparisons / 2) + normal.inv_cdf(_POWER)
    wanted = (z * statistics.stdev(differences) / statistics.fmean(differences)) ** 2
    return max(fewest_tasks(comparisons, alpha), math.ceil(wanted))
