"""The tree-structured Parzen estimator as a sampler, through optuna (Bergstra et al., NeurIPS 2011).

The study is rebuilt from what has been judged at every proposal, so that the sampler keeps no state: what it proposes
follows from (space, judged, rng) alone.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.search.space import Configuration, Space, Value
from harness.spec.errors import GauntletError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

STARTUP = 10  # judged configurations before the estimator takes over from chance
MOST_ASKED = 64  # suggestions that are invalid or known before one is drawn at random


def tpe(space: Space, judged: Sequence[tuple[Configuration, float | None]], rng: random.Random) -> Configuration | None:
    """The estimator's suggestion among the configurations not judged yet; the default first.

    A configuration that got no score counts as worse than any that did. Raises GauntletError without optuna.
    """
    seen = {space.key(configuration) for configuration, _ in judged}
    if not seen:
        return dict(space.default)
    if len(seen) >= space.size:
        return None
    if len(judged) >= STARTUP:
        study, distributions = _study(space, judged, rng)
        for _ in range(MOST_ASKED):
            suggested = study.ask(distributions).params
            configuration = {name: _value(space, name, suggested[name]) for name in space.parameters}
            if space.holds(configuration) and space.key(configuration) not in seen:
                return configuration
    return rng.choice([c for c in space.configurations() if space.key(c) not in seen])


def _study(space: Space, judged: Sequence[tuple[Configuration, float | None]], rng: random.Random
           ) -> tuple[Any, dict[str, BaseDistribution]]:
    try:
        import optuna
    except ImportError:
        raise GauntletError("the sampler 'tpe' needs optuna: pip install 'kernel-gauntlet[search]'") from None

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions: dict[str, BaseDistribution] = {
        name: optuna.distributions.IntDistribution(0, len(values) - 1) if _ordered(values)
        else optuna.distributions.CategoricalDistribution(range(len(values)))
        for name, values in space.parameters.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(multivariate=True, n_startup_trials=0, seed=rng.getrandbits(31))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    scores = [score for _, score in judged if score is not None]
    worst = min(scores, default=0.0) - 1.0
    study.add_trials([
        optuna.trial.create_trial(
            params={name: space.parameters[name].index(configuration[name]) for name in space.parameters},
            distributions=distributions, value=worst if score is None else score)
        for configuration, score in judged
    ])
    return study, distributions


def _ordered(values: Sequence[Value]) -> bool:
    """Whether neighbours in a parameter's list of values are likely to do alike: three numbers or more, rising."""
    return len(values) > 2 and all(isinstance(v, int) for v in values) and list(values) == sorted(values)  # type: ignore[type-var]


def _value(space: Space, name: str, index: int) -> Value:
    return space.parameters[name][index]
