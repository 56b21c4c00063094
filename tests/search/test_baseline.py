"""The closed form of random search against every order of evaluation there is, and the score against its ends."""

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.search.baseline import NEAR, POINTS, Baseline, baseline, expected_best, score

TIMES = st.lists(st.one_of(st.none(), st.floats(0.1, 10)), min_size=1, max_size=6).filter(
    lambda times: any(t is not None for t in times))


def brute(times):
    """The expected best after each number of evaluations, over all orders."""
    middle = statistics.median(t for t in times if t is not None)
    curves = []
    for order in itertools.permutations(times):
        best = [min((t for t in order[:n] if t is not None), default=middle) for n in range(1, len(times) + 1)]
        curves.append(best)
    return np.mean(curves, axis=0)


@settings(max_examples=60, deadline=None)
@given(TIMES)
def test_chance_is_the_mean_over_all_orders(times):
    valid = sorted(t for t in times if t is not None)
    np.testing.assert_allclose(expected_best(valid, len(times)), brute(times), rtol=1e-9)


def test_a_large_space_against_a_hundred_thousand_draws():
    rng = np.random.default_rng(0)
    times = rng.lognormal(0, 1, 4800)
    found = expected_best(sorted(times), 4800)
    assert (np.diff(found) <= 1e-12).all() and found[-1] == pytest.approx(times.min())
    for n in (1, 10, 300):
        drawn = times[rng.random((4000, 4800)).argpartition(n, axis=1)[:, :n]].min(axis=1) if n == 10 else None
        if drawn is not None:
            assert abs(drawn.mean() - found[n - 1]) < 5 * drawn.std() / math.sqrt(len(drawn))
    assert found[0] == pytest.approx(times.mean())


@given(TIMES)
def test_the_horizon_is_where_chance_has_come_near(times):
    chance = baseline(times)
    assert 1 <= chance.horizon <= len(times) and chance.points[0] == 1 and chance.points[-1] == chance.horizon
    limit = chance.optimum + 0.05 * (chance.median - chance.optimum)
    reached = [n for n, value in enumerate(chance.curve, start=1) if value <= limit]
    assert chance.horizon == (reached[0] if reached else len(times))


def test_points_are_fifty_over_a_long_curve():
    chance = baseline(list(np.random.default_rng(0).lognormal(0, 1, 3000)))
    assert len(chance.points) == POINTS and np.ptp(np.diff(chance.points)) <= 1


def test_the_share_near_the_optimum_and_the_chance_to_meet_it():
    times = [1.0, 1.04, 1.06, 2.0, 3.0, None]
    chance = baseline(times)
    assert chance.near == sum(t is not None and 1 / t >= NEAR for t in times) / 6 == pytest.approx(2 / 6)
    assert chance.chance_of_near(1) == pytest.approx(2 / 6)
    assert chance.chance_of_near(3) == pytest.approx(1 - (4 * 3 * 2) / (6 * 5 * 4))
    assert chance.chance_of_near(99) == 1
    assert baseline(times, optimum=1.02).near == pytest.approx(3 / 6)  # 1.02 / 1.06 is 0.96
    assert baseline(times, optimum=0.9).near == 0


def test_chance_scores_zero_the_optimum_at_once_one_and_the_median_below():
    times = list(np.random.default_rng(1).lognormal(0, 0.5, 200)) + [None] * 30
    chance = baseline(times)
    assert score(chance, chance.curve) == pytest.approx(0, abs=1e-12)
    assert score(chance, np.full(230, chance.optimum)) == pytest.approx(1)
    assert score(chance, np.full(230, chance.median)) < 0
    assert score(chance, (chance.curve + chance.optimum) / 2) == pytest.approx(0.5)


def test_a_space_of_equals_has_nothing_to_find():
    assert score(baseline([2.0] * 9), np.full(9, 2.0)) == 0
    assert baseline([3.0]).horizon == 1


def test_without_times_there_is_no_baseline():
    with pytest.raises(ValueError, match="no configuration has a time"):
        baseline([None, None])
    assert isinstance(baseline([None, 1.0]), Baseline)
