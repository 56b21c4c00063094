"""Replays: a sampler that knows is 1, chance is 0, and the same seed gives the same figures."""


import numpy as np
import pytest

from harness.search import samplers
from harness.search.expression import condition
from harness.search.recording import Recording
from harness.search.simulate import outcome, replay, simulate
from harness.search.space import Space
from harness.spec.errors import GauntletError

PARAMETERS = {"A": tuple(range(8)), "B": tuple(range(8))}


@pytest.fixture
def hill():
    """64 configurations, 8 of them without a time; the further from (5, 2), the slower."""
    space = Space("toy", PARAMETERS, {"A": 0, "B": 0}, [("A >= 0", condition("A >= 0", PARAMETERS))])
    times = {space.key(c): None if c["A"] == c["B"] else 1.0 + abs(c["A"] - 5) + abs(c["B"] - 2) + 0.01 * c["A"]
             for c in space.configurations()}
    return Recording(space, times)


@pytest.fixture
def oracle(hill, monkeypatch):
    """A sampler that proposes the configurations from the best to the worst."""
    order = sorted(hill.times, key=lambda key: hill.times[key] or 99)
    monkeypatch.setitem(samplers.SAMPLERS, "oracle",
                        lambda space, judged, rng: dict(order[len(judged)]) if len(judged) < len(order) else None)


def test_scores_of_chance_and_of_one_that_knows(hill, oracle):
    chance, (lucky, knowing) = simulate(hill, ["random", "oracle"], replays=300)
    assert knowing.score == pytest.approx(1) and knowing.to_near == 1 and knowing.low == knowing.high == knowing.score
    assert lucky.low < 0 < lucky.high and abs(lucky.score) < 0.15 and lucky.high - lucky.low < 0.3
    np.testing.assert_allclose(lucky.mean, chance.curve[: chance.horizon], atol=0.5)


def test_a_climb_on_a_hill_is_better_than_chance(hill):
    assert simulate(hill, ["hill_climb"], replays=80)[1][0].low > 0
    assert simulate(hill, ["tpe"], replays=10)[1][0].high > 0


def test_a_replay_never_gets_worse_and_ends_at_the_best(hill):
    curve = replay(hill, "random", 64, 99.0, "s")
    assert (np.diff(curve) <= 0).all() and curve[-1] == min(t for t in hill.times.values() if t)
    np.testing.assert_array_equal(curve, replay(hill, "random", 64, 99.0, "s"))
    assert not np.array_equal(curve, replay(hill, "random", 64, 99.0, "other"))
    exhausted = replay(hill, "exhaustive", 80, 99.0, "s")
    assert len(exhausted) == 80 and exhausted[0] == 99.0 and exhausted[-1] == curve[-1]


def test_several_processes_give_the_same(hill):
    one = simulate(hill, ["random", "hill_climb"], replays=12, seed=3)
    two = simulate(hill, ["random", "hill_climb"], replays=12, seed=3, jobs=2)
    for a, b in zip(one[1], two[1], strict=True):
        np.testing.assert_array_equal(a.curves, b.curves)
        assert (a.score, a.low, a.high) == (b.score, b.low, b.high)
    assert simulate(hill, ["random"], replays=12, seed=4)[1][0].score != one[1][0].score


def test_the_interval_covers_the_score_of_many_replays(hill):
    truth = simulate(hill, ["hill_climb"], replays=300, seed=99)[1][0].score
    inside = 0
    for seed in range(12):
        found = simulate(hill, ["hill_climb"], replays=25, seed=seed)[1][0]
        inside += found.low <= truth <= found.high
    assert inside >= 8  # fewer happens once in 8,000 times at 95 %


def test_one_replay_has_no_interval_and_one_configuration_nothing_to_find(hill):
    chance, _ = simulate(hill, [])
    found = outcome("x", replay(hill, "random", chance.horizon, chance.median, "s")[None], chance)
    assert found.low == found.score == found.high
    space = hill.space.only([(("A", 1), ("B", 0))])
    lone = Recording(space, {(("A", 1), ("B", 0)): 2.0})
    assert simulate(lone, ["random", "hill_climb", "exhaustive", "tpe"], replays=3)[1][0].score == 0


def test_an_unknown_sampler_is_refused_before_anything_runs(hill):
    with pytest.raises(GauntletError, match="did you mean 'random'"):
        simulate(hill, ["hill_climb", "randm"])
