"""The sign-flip test against brute force and closed forms, Holm against a worked example, ranks by hand."""

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.score import ranking

settings.register_profile("no-deadline", deadline=None)  # a busy machine is not a failure
settings.load_profile("no-deadline")

# Multiples of 1/64 add up exactly, so that the brute force below decides ties exactly too.
differences = st.lists(st.integers(-256, 256).map(lambda i: i / 64), min_size=1, max_size=9)


def brute_force(d):
    observed = abs(sum(d))
    sums = [abs(sum(s * x for s, x in zip(signs, d))) for signs in itertools.product((1, -1), repeat=len(d))]
    return sum(s >= observed for s in sums) / len(sums)


@given(differences)
def test_sign_flip_is_the_share_of_all_sign_patterns(d):
    assert ranking.sign_flip_p(d) == pytest.approx(brute_force(d), abs=1e-12)


@given(differences, st.randoms(use_true_random=False))
def test_sign_flip_ignores_order_direction_and_scale(d, shuffler):
    p = ranking.sign_flip_p(d)
    shuffled = list(d)
    shuffler.shuffle(shuffled)
    assert ranking.sign_flip_p(shuffled) == p
    assert ranking.sign_flip_p([-x for x in d]) == p
    assert ranking.sign_flip_p([x * 8 for x in d]) == p


@pytest.mark.parametrize("n", range(1, 21))
def test_winning_every_task_gives_the_smallest_p_there_is(n):
    assert ranking.sign_flip_p([0.1 * (i + 1) for i in range(n)]) == 2.0 ** -(n - 1)


@pytest.mark.parametrize("wins, n", [(9, 10), (7, 9), (15, 20), (10, 20)])
def test_equal_differences_give_the_binomial_sign_test(wins, n):
    tail = sum(math.comb(n, k) for k in range(max(wins, n - wins), n + 1)) / 2**n
    expected = min(1.0, 2 * tail)
    assert ranking.sign_flip_p([0.3] * wins + [-0.3] * (n - wins)) == pytest.approx(expected)


def test_zeros_say_nothing():
    assert ranking.sign_flip_p([0.0, 0.0]) == 1.0
    assert ranking.sign_flip_p([0.0, 0.5, 0.25, 0.0]) == ranking.sign_flip_p([0.5, 0.25]) == 0.5


def test_monte_carlo_beyond_twenty_tasks_agrees_with_the_closed_form():
    d = [0.3] * 21 + [-0.3] * 9
    expected = 2 * sum(math.comb(30, k) for k in range(21, 31)) / 2**30  # 0.0428
    p = ranking.sign_flip_p(d)
    assert p == pytest.approx(expected, abs=4 * math.sqrt(expected / ranking.MONTE_CARLO_DRAWS))
    assert ranking.sign_flip_p(d) == p
    assert ranking.sign_flip_p([0.1] * 40) == pytest.approx(1 / (ranking.MONTE_CARLO_DRAWS + 1))


def test_the_test_keeps_its_level():
    """Two equal agents on eight tasks: at most one comparison in twenty may look significant."""
    rng = random.Random(5)
    hits = sum(ranking.sign_flip_p([rng.gauss(0, 0.2) for _ in range(8)]) <= 0.05 for _ in range(2000))
    assert 60 < hits < 135  # 0.047 · 2000 = 94 ± 9


def test_holm_worked_example():
    # Four tests: 4 · 0.005, 3 · 0.01, 2 · 0.03, then 0.04 kept at no less than what came before.
    assert ranking.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert ranking.holm([0.6, 0.7]) == [1.0, 1.0]
    assert ranking.holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_holm_is_monotone_and_between_raw_and_bonferroni(p):
    adjusted = ranking.holm(p)
    for raw, after in zip(p, adjusted):
        assert raw <= after <= min(1.0, len(p) * raw) + 1e-15
    assert all(a <= b for (p1, a), (p2, b) in itertools.product(zip(p, adjusted), repeat=2) if p1 < p2)


def test_compare_all_and_ranks_by_hand():
    base = [0.01 * i for i in range(12)]
    logs = {
        "slow": base,
        "fast": [x + 1.0 + 0.1 * (i % 3) for i, x in enumerate(base)],
        "alike": [x + (0.1 if i % 2 else -0.1) for i, x in enumerate(base)],
    }
    pairs = ranking.compare_all(logs)
    assert [(p.first, p.second) for p in pairs] == [("slow", "fast"), ("slow", "alike"), ("fast", "alike")]
    assert pairs[0].p == 2.0**-11 and pairs[0].adjusted == pytest.approx(3 * 2.0**-11)
    assert [p.better() for p in pairs] == ["fast", None, "fast"]
    assert pairs[0].mean_log == pytest.approx(-1.1)
    assert ranking.ranks(list(logs), pairs) == {
        "slow": ranking.Rank(2, 3),
        "fast": ranking.Rank(1, 1),
        "alike": ranking.Rank(2, 3),
    }


def test_three_agents_on_six_tasks_cannot_be_told_apart():
    logs = {"a": [0.0] * 6, "b": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], "c": [3.0, 3.1, 3.3, 3.7, 3.8, 4.0]}
    pairs = ranking.compare_all(logs)
    assert all(p.p == 2.0**-5 and p.better() is None for p in pairs)
    assert set(ranking.ranks(list(logs), pairs).values()) == {ranking.Rank(1, 3)}


def test_agents_with_different_tasks_are_not_compared():
    with pytest.raises(ValueError, match="only be compared on the same tasks, got a: 2, b: 1"):
        ranking.compare_all({"a": [1.0, 2.0], "b": [1.0]})


@pytest.mark.parametrize("comparisons, fewest", [(1, 6), (2, 7), (3, 7), (6, 8), (10, 9)])
def test_fewest_tasks_is_where_the_smallest_p_gets_under_alpha(comparisons, fewest):
    assert ranking.fewest_tasks(comparisons) == fewest
    assert 2.0 ** -(fewest - 1) <= 0.05 / comparisons < 2.0 ** -(fewest - 2)


def test_tasks_to_separate():
    # sd/mean = 2: (1.96 + 0.8416)² · 4 = 31.4
    spread = math.sqrt(0.5) * 2  # of ±x around the mean: sd of two points is √2·x
    assert ranking.tasks_to_separate([1 + spread, 1 - spread]) == math.ceil(4 * (1.959964 + 0.841621) ** 2)
    assert ranking.tasks_to_separate([0.5, 0.5, 0.5]) == 6
    assert ranking.tasks_to_separate([0.5, 0.5, 0.5], comparisons=3) == 7
    assert ranking.tasks_to_separate([0.5, -0.5]) is None
    assert ranking.tasks_to_separate([0.5]) is None


def test_that_many_tasks_do_separate_about_as_often_as_promised():
    rng = random.Random(9)
    pilot = [0.2 + 0.3 * z for z in (-1.2, -0.8, -0.4, 0.0, 0.4, 0.8, 1.2)]
    n = ranking.tasks_to_separate(pilot)
    sd = math.sqrt(sum((x - 0.2) ** 2 for x in pilot) / 6)
    assert n <= 20
    told = sum(ranking.sign_flip_p([rng.gauss(0.2, sd) for _ in range(n)]) <= 0.05 for _ in range(150)) / 150
    assert 0.62 < told < 0.92
