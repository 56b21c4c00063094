"""Samplers replayed over a recorded space: each configuration answers with the time it had when it was measured."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from harness.search.baseline import Baseline, baseline, score
from harness.search.recording import Recording, dump, loads
from harness.search.samplers import find_sampler

REPLAYS = 200  # 25 cannot resolve a difference of 0.2
RESAMPLES = 2000


@dataclass(frozen=True)
class Outcome:
    """How a sampler did. score, low, high: with a 95 % interval by bootstrap over the replays.

    curves: [replays, horizon] best time so far. to_near: median evaluations until a configuration near the optimum was
    met, None where half of the replays had not met one by the horizon.
    """

    sampler: str
    score: float
    low: float
    high: float
    curves: np.ndarray
    to_near: float | None

    @property
    def mean(self) -> np.ndarray:
        """[horizon] mean best time after n evaluations."""
        return self.curves.mean(axis=0)


def simulate(recording: Recording, samplers: Iterable[str], *, replays: int = REPLAYS, seed: int = 0, jobs: int = 1,
             tell: Callable[[str], None] = lambda text: None) -> tuple[Baseline, list[Outcome]]:
    """Every sampler against chance. jobs: processes at once. Raises GauntletError for an unknown sampler."""
    names = list(samplers)
    for name in names:
        find_sampler(name)
    chance = baseline(list(recording.times.values()), recording.optimum)
    outcomes = []
    text = dump(recording)
    with ProcessPoolExecutor(jobs) if jobs > 1 else nullcontext() as pool:
        for name in names:
            tell(f"replaying {name}")
            one = partial(_replay, text, name, chance.horizon, chance.median)
            seeds = [f"{seed}/{name}/{number}" for number in range(replays)]
            curves = pool.map(one, seeds, chunksize=max(1, replays // (4 * jobs))) if pool else map(one, seeds)
            outcomes.append(outcome(name, np.array(list(curves)), chance, seed))
    return chance, outcomes


def _replay(text: str, sampler: str, evaluations: int, median: float, seed: str) -> np.ndarray:
    return replay(_loaded(text), sampler, evaluations, median, seed)


_loaded = lru_cache(maxsize=2)(loads)  # the conditions of a space cannot be sent to another process, its text can


def replay(recording: Recording, sampler: str, evaluations: int, median: float, seed: str) -> np.ndarray:
    """[evaluations] best time so far; `median` until a configuration with a time was met, as in the curve of chance."""
    space, propose = recording.space, find_sampler(sampler)
    judged: list = []
    best = np.full(evaluations, median)
    least = float("inf")
    for number in range(evaluations):
        configuration = propose(space, judged, random.Random(f"{seed}/{number}"))
        if configuration is None:
            best[number:] = least if least < float("inf") else median
            break
        time = recording.times[space.key(configuration)]
        judged.append((configuration, None if time is None else 1 / time))
        least = min(least, float("inf") if time is None else time)
        best[number] = least if least < float("inf") else median
    return best


def outcome(name: str, curves: np.ndarray, chance: Baseline, seed: int = 0) -> Outcome:
    """Score and interval of a sampler's replays."""
    rng = np.random.default_rng(seed)
    points = np.array(chance.points) - 1
    at = curves[:, points]
    means = np.zeros(len(chance.curve))
    found = []
    for _ in range(RESAMPLES if len(curves) > 1 else 0):
        means[points] = at[rng.integers(0, len(at), len(at))].mean(axis=0)
        found.append(score(chance, means))
    value = score(chance, curves.mean(axis=0))
    low, high = np.quantile(found, [0.025, 0.975]) if found else (value, value)
    near = chance.optimum / curves >= 0.95
    first = np.where(near.any(axis=1), near.argmax(axis=1) + 1.0, np.inf)
    middle = float(np.median(first))
    return Outcome(name, value, float(low), float(high), curves, middle if middle < np.inf else None)
