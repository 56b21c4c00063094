"""Samplers: what to try next in a space. Each is a pure function of (space, judged, rng) and keeps no state.

judged: every configuration tried so far, in order, with its score (higher is better), None where it got none.
A sampler returns a valid configuration that has not been judged, or None when there is none left.
"""

from __future__ import annotations

import random as _random
from collections.abc import Callable, Sequence

from harness.search.space import Configuration, Key, Space
from harness.search.tpe import tpe
from harness.spec.errors import GauntletError, near

Judged = Sequence[tuple[Configuration, float | None]]
Sampler = Callable[[Space, Judged, _random.Random], "Configuration | None"]


def exhaustive(space: Space, judged: Judged, rng: _random.Random) -> Configuration | None:
    """The first configuration not judged yet, in the space's canonical order."""
    seen = _seen(space, judged)
    return next((c for c in space.configurations() if space.key(c) not in seen), None)


def random(space: Space, judged: Judged, rng: _random.Random) -> Configuration | None:
    """Any configuration not judged yet, each as likely: random search without replacement."""
    seen = _seen(space, judged)
    left = [c for c in space.configurations() if space.key(c) not in seen]
    return rng.choice(left) if left else None


def hill_climb(space: Space, judged: Judged, rng: _random.Random) -> Configuration | None:
    """An untried neighbour of the best since the last restart; the default first; a random one to (re)start."""
    seen = _seen(space, judged)
    if not seen:
        return dict(space.default)
    hill = _top(space, judged)
    if hill is not None:
        left = [c for c in space.neighbours(hill) if space.key(c) not in seen]
        if left:
            return rng.choice(left)
    return random(space, judged, rng)


SAMPLERS: dict[str, Sampler] = {"exhaustive": exhaustive, "random": random, "hill_climb": hill_climb, "tpe": tpe}


def find_sampler(name: str) -> Sampler:
    """The sampler of that name. Raises GauntletError, with near names."""
    if name not in SAMPLERS:
        raise GauntletError(f"no sampler is called {name!r}{near(str(name), SAMPLERS)}")
    return SAMPLERS[name]


def _seen(space: Space, judged: Judged) -> set[Key]:
    return {space.key(configuration) for configuration, _ in judged}


def _top(space: Space, judged: Judged) -> Configuration | None:
    """Where the climb stands, told from the judged ones: a step up moves it, a jump (no neighbour) restarts it."""
    hill: Configuration | None = None
    height = 0.0
    around: set[Key] = set()
    for configuration, score in judged:
        if hill is not None and space.key(configuration) in around and (score is None or score <= height):
            continue
        if score is None:
            hill = None
            continue
        hill, height = configuration, score
        around = {space.key(c) for c in space.neighbours(configuration)}
    return hill
