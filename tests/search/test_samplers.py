"""Samplers: they cover the space once, never repeat, are deterministic, and a hill climb reaches the top."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.search.expression import condition
from harness.search.samplers import SAMPLERS, find_sampler
from harness.search.space import Space
from harness.spec.errors import GauntletError


def make_space(sizes=(5, 4, 6), constraint="A + B + C <= 10"):
    parameters = {name: tuple(range(n)) for name, n in zip("ABC", sizes)}
    return Space("toy", parameters, {name: 0 for name in parameters}, [(constraint, condition(constraint, parameters))])


def search(space, name, score, steps, seed=0):
    judged = []
    for index in range(steps):
        configuration = SAMPLERS[name](space, judged, random.Random(f"{seed}/{index}"))
        if configuration is None:
            break
        judged.append((configuration, score(configuration)))
    return judged


@pytest.mark.parametrize("name", SAMPLERS)
@settings(max_examples=15, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 4)] * 3),
    limit=st.integers(0, 9),
    seed=st.integers(0, 100),
    failures=st.integers(1, 4),
)
def test_every_valid_configuration_is_proposed_exactly_once(name, sizes, limit, seed, failures):
    space = make_space(sizes, f"A + B + C <= {limit}")
    scores = random.Random(seed)
    score = lambda c: None if scores.randrange(failures + 1) == 0 else scores.random()  # noqa: E731
    judged = search(space, name, score, space.size + 5, seed)
    keys = [space.key(c) for c, _ in judged]
    assert len(keys) == len(set(keys)) == space.size
    assert set(keys) == {space.key(c) for c in space.configurations()}


@pytest.mark.parametrize("name", SAMPLERS)
def test_same_seed_same_search(name):
    space = make_space()
    score = lambda c: float(c["A"] * 3 - c["B"] + c["C"] % 3)  # noqa: E731
    assert search(space, name, score, 30, seed=4) == search(space, name, score, 30, seed=4)
    if name != "exhaustive":
        assert search(space, name, score, 30, seed=4) != search(space, name, score, 30, seed=5)


def test_exhaustive_keeps_canonical_order():
    space = make_space()
    assert [c for c, _ in search(space, "exhaustive", lambda c: None, 999)] == list(space.configurations())


def test_random_takes_every_configuration_first_about_equally_often():
    space = make_space((2, 2, 1))
    first = [space.key(SAMPLERS["random"](space, [], random.Random(i))) for i in range(400)]
    counts = [first.count(space.key(c)) for c in space.configurations()]
    assert sum(counts) == 400 and all(60 <= n <= 140 for n in counts)  # 100 ± 4.6 standard deviations


@pytest.mark.parametrize("seed", range(5))
def test_hill_climb_reaches_the_optimum_of_a_separable_function(seed):
    space = make_space((9, 9, 9), "A >= 0")
    target = {"A": 7, "B": 2, "C": 5}
    score = lambda c: -sum((c[k] - target[k]) ** 2 for k in target)  # noqa: E731
    judged = search(space, "hill_climb", score, 95, seed)
    assert judged[0][0] == space.default
    # 14 steps up from the default, at most 6 neighbours looked at for each, of 729 configurations
    assert target in [c for c, _ in judged]


def test_hill_climb_asks_for_a_neighbour_of_the_best():
    space = make_space()
    judged = [({"A": 0, "B": 0, "C": 0}, 1.0), ({"A": 1, "B": 0, "C": 0}, 3.0), ({"A": 1, "B": 1, "C": 0}, 2.0)]
    for seed in range(20):
        proposed = SAMPLERS["hill_climb"](space, judged, random.Random(seed))
        assert proposed in space.neighbours({"A": 1, "B": 0, "C": 0})


def test_hill_climb_climbs_anew_from_where_it_restarts():
    space = make_space((9, 1, 1), "A >= 0")
    at = lambda a: {"A": a, "B": 0, "C": 0}  # noqa: E731
    judged = [(at(0), 5.0), (at(1), 4.0)]  # a top with no untried neighbour
    restarted = {SAMPLERS["hill_climb"](space, judged, random.Random(s))["A"] for s in range(60)}
    assert restarted == set(range(2, 9))
    judged += [(at(6), 1.0)]
    assert {SAMPLERS["hill_climb"](space, judged, random.Random(s))["A"] for s in range(20)} == {5, 7}
    judged += [(at(7), 2.0)]
    assert SAMPLERS["hill_climb"](space, judged, random.Random(0)) == at(8)


def test_hill_climb_survives_a_default_that_fails():
    space = make_space()
    assert SAMPLERS["hill_climb"](space, [(space.default, None)], random.Random(0)) not in (None, space.default)


def test_unknown_sampler_names_the_nearest():
    with pytest.raises(GauntletError, match="hill_clim'.*hill_climb"):
        find_sampler("hill_clim")
