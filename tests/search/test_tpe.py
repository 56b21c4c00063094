"""The estimator finds the better part of a space sooner than chance, and keeps away from what fails."""

import random
import statistics
import sys

import pytest

from harness.search.expression import condition
from harness.search.samplers import SAMPLERS
from harness.search.space import Space
from harness.search.tpe import STARTUP, tpe
from harness.spec.errors import GauntletError

PARAMETERS = {"A": (1, 2, 4, 8, 16, 32), "B": tuple(range(8)), "MODE": ("static", "dynamic", "guided")}


def make_space(constraint="A * B <= 128"):
    return Space("toy", PARAMETERS, {"A": 1, "B": 0, "MODE": "static"}, [(constraint, condition(constraint, PARAMETERS))])


def height(c):
    """A smooth hill with its top at A=8, B=5, MODE=dynamic."""
    return 10 - abs(PARAMETERS["A"].index(c["A"]) - 3) - abs(c["B"] - 5) - 3 * (c["MODE"] != "dynamic")


def search(space, sampler, score, steps, seed):
    judged = []
    for index in range(steps):
        configuration = sampler(space, judged, random.Random(f"{seed}/{index}"))
        judged.append((configuration, score(configuration)))
    return judged


def test_it_is_better_than_chance():
    space = make_space()
    found = {name: [max(s for _, s in search(space, SAMPLERS[name], height, 28, seed)) for seed in range(12)]
             for name in ("tpe", "random")}
    assert statistics.mean(found["tpe"]) > statistics.mean(found["random"])
    assert sum(a > b for a, b in zip(*found.values(), strict=True)) > sum(b > a for a, b in zip(*found.values(), strict=True))


def test_it_keeps_away_from_what_fails():
    space = make_space()

    def score(c):
        return None if c["MODE"] == "guided" else height(c)

    judged = search(space, tpe, score, 40, 3)
    share = sum(s is None for _, s in judged[STARTUP:]) / len(judged[STARTUP:])
    assert share < 0.2  # a third of the space


def test_a_space_in_which_everything_fails_is_searched_all_the_same():
    space = make_space()
    judged = search(space, tpe, lambda c: None, space.size, 0)
    assert len({space.key(c) for c, _ in judged}) == space.size and tpe(space, judged, random.Random(0)) is None


@pytest.mark.parametrize("score", [0.0, -5.0, 1e-9, 1e9])
def test_any_scores(score):
    space = make_space()
    judged = search(space, tpe, lambda c: score, 15, 0)
    assert len({space.key(c) for c, _ in judged}) == 15


def test_the_default_is_first_and_chance_until_there_is_something_to_learn_from(monkeypatch):
    space = make_space()
    assert tpe(space, [], random.Random(0)) == space.default
    monkeypatch.setitem(sys.modules, "optuna", None)
    judged = search(space, tpe, height, STARTUP, 0)
    with pytest.raises(GauntletError, match=r"pip install 'kernel-gauntlet\[search\]'"):
        tpe(space, judged, random.Random(0))


def test_nothing_is_printed(capfd):
    search(make_space(), tpe, height, STARTUP + 3, 0)
    assert capfd.readouterr() == ("", "")
