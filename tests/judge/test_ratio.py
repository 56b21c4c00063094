"""Block times to speedups: published quantiles, closed forms, symmetries, and coverage by simulation."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judge import ratio
from harness.spec.verdict import Estimate

settings.register_profile("no-deadline", deadline=None)  # a busy machine is not a failure
settings.load_profile("no-deadline")

seconds = st.floats(1e-6, 10.0)
pair_lists = st.lists(st.tuples(seconds, seconds), min_size=1, max_size=20)
log_lists = st.lists(st.floats(-1.5, 1.5), min_size=2, max_size=12)  # wider ones of two leave their interval open


def estimate_of(value, low, high, n=8):
    return Estimate(value=value, low=low, high=high, n=n)


# Block lengths


@pytest.mark.parametrize(
    "t_hat, c, expected",
    [
        (1e-3, 28e-6, 8),  # 8 ms of 1 ms calls
        (1e-4, 28e-6, 80),
        (1e-4, 4e-4, 200),  # 50 · 0.4 ms = 20 ms
        (3e-3, 0.0, 8),  # never fewer than 8
        (3.3e-4, 0.0, 25),  # rounded up
        (1e-9, 0.0, 100_000),
        (0.0, 0.0, 100_000),
    ],
)
def test_calls_per_block(t_hat, c, expected):
    assert ratio.calls_per_block(t_hat, c) == expected


@given(st.integers(1, 100_000), st.integers(0, 2**32))
def test_vary_stays_around_n_and_follows_from_the_generator(n, seed):
    drawn = [ratio.vary(n, random.Random(seed)) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert drawn[0] == 1 or n / 2 <= drawn[0] <= 1.5 * n


def test_vary_includes_single_calls_and_keeps_the_mean():
    rng = random.Random(3)
    drawn = [ratio.vary(100, rng) for _ in range(8000)]
    singles = drawn.count(1)
    assert 400 < singles < 600  # a sixteenth: 500 ± 22
    longer = [n for n in drawn if n > 1]
    assert sum(longer) / len(longer) == pytest.approx(100, abs=1.5)
    assert min(longer) == 50 and max(longer) == 150


def test_per_call_removes_the_constant_and_stays_positive():
    assert ratio.per_call(10e-3, 100, 2e-3) == pytest.approx(8e-5)
    assert ratio.per_call(1e-3, 10, 2e-3) == pytest.approx(1e-10)


# The line


@given(st.floats(0, 1e-3), st.floats(1e-6, 1e-3), st.lists(st.integers(1, 1000), min_size=2, max_size=20))
def test_fit_line_recovers_an_exact_line(a, b, ns):
    if len(set(ns)) == 1:
        ns.append(ns[0] + 1)
    found_a, found_b = ratio.fit_line(ns, [a + b * n for n in ns])
    assert found_b == pytest.approx(b, rel=1e-6)
    assert found_a == pytest.approx(a, abs=1e-6 * (a + b * max(ns)))


def test_fit_line_shrugs_off_outliers():
    rng = random.Random(0)
    ns = [ratio.vary(100, rng) for _ in range(60)]
    ts = [4e-4 + 8e-5 * n * (1 + rng.gauss(0, 0.01)) for n in ns]
    for i in range(0, 60, 10):
        ts[i] *= 3
    a, b = ratio.fit_line(ns, ts)
    assert b == pytest.approx(8e-5, rel=0.01)
    assert a == pytest.approx(4e-4, abs=1.5e-4)


def test_fit_line_sees_a_hidden_intercept():
    """A candidate that does its work once per block: the intercept is what gives it away."""
    rng = random.Random(1)
    ns = [ratio.vary(50, rng) for _ in range(60)]
    a, b = ratio.fit_line(ns, [5e-3 + 1e-6 * n + abs(rng.gauss(0, 1e-5)) for n in ns])
    assert a == pytest.approx(5e-3, rel=0.02) and b < 2e-6


def test_fit_line_with_one_length_has_no_intercept():
    assert ratio.fit_line([10, 10, 10], [1.0, 2.0, 9.0]) == (0.0, 0.2)
    with pytest.raises(ValueError, match="at least one"):
        ratio.fit_line([], [])


# Ratios


@given(pair_lists)
def test_instance_log_ratio_of_swapped_sides_is_its_negative(pairs):
    swapped = [(candidate, opponent) for opponent, candidate in pairs]
    assert ratio.instance_log_ratio(swapped) == pytest.approx(-ratio.instance_log_ratio(pairs), abs=1e-12)


@given(pair_lists, st.randoms(use_true_random=False))
def test_instance_log_ratio_ignores_the_order_of_pairs(pairs, shuffler):
    shuffled = list(pairs)
    shuffler.shuffle(shuffled)
    assert ratio.instance_log_ratio(shuffled) == ratio.instance_log_ratio(pairs)


def test_instance_log_ratio_is_the_median():
    pairs = [(2.0, 1.0), (4.0, 1.0), (100.0, 1.0)]
    assert ratio.instance_log_ratio(pairs) == pytest.approx(math.log(4))
    with pytest.raises(ValueError, match="at least one pair"):
        ratio.instance_log_ratio([])


@given(log_lists)
def test_estimate_of_negated_logs_is_the_inverse(logs):
    one, other = ratio.estimate(logs), ratio.estimate([-v for v in logs])
    assert other.value == pytest.approx(1 / one.value, rel=1e-9)
    assert other.low == pytest.approx(1 / one.high, rel=1e-9)
    assert other.high == pytest.approx(1 / one.low, rel=1e-9)
    assert one.low <= one.value <= one.high and one.n == len(logs)


@given(pair_lists, st.floats(0.2, 5.0), st.floats(0.2, 5.0))
def test_balanced_takes_out_what_alternates(pairs, first, second):
    """Whoever goes first takes `first` times as long: with AB, BA, AB … nothing of it is left."""
    pairs = pairs[: len(pairs) // 2 * 2] or [pairs[0], pairs[0]]
    ordered = [(o * second, c * first) if i % 2 == 0 else (o * first, c * second) for i, (o, c) in enumerate(pairs)]
    plain = ratio.instance_log_ratio(ratio.balanced(pairs))
    assert ratio.instance_log_ratio(ratio.balanced(ordered)) == pytest.approx(plain, abs=1e-9)


def flat(pairs):
    return [value for pair in pairs for value in pair]


def test_balanced_by_hand():
    pairs = [(1.0, 2.0), (4.0, 8.0), (9.0, 1.0), (1.0, 1.0), (7.0, 7.0)]
    assert ratio.balanced(pairs) == [(2.0, 4.0), (3.0, 1.0)]  # the odd one is dropped
    assert ratio.balanced(pairs[:1]) == pairs[:1] and ratio.balanced([]) == []


@given(pair_lists)
def test_balanced_of_swapped_sides_is_swapped(pairs):
    swapped = [(c, o) for o, c in pairs]
    assert ratio.balanced(swapped) == [(c, o) for o, c in ratio.balanced(pairs)]


def test_scaled_multiplies_all_three():
    e = ratio.scaled(estimate_of(2.0, 1.5, 3.0), 0.5)
    assert (e.value, e.low, e.high, e.n) == (1.0, 0.75, 1.5, 8)
    assert ratio.scaled(e, 1.0) is e


# Student's t


@pytest.mark.parametrize(
    "freedom, published",
    [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (7, 2.365), (9, 2.262), (23, 2.069), (30, 2.042), (120, 1.980)],
)
def test_t_quantiles_are_the_published_ones(freedom, published):
    assert ratio.t_quantile(freedom) == pytest.approx(published, abs=5e-4)


@pytest.mark.parametrize("confidence, published", [(0.90, 1.833), (0.99, 3.250)])
def test_t_quantiles_at_other_confidences(confidence, published):
    assert ratio.t_quantile(9, confidence) == pytest.approx(published, abs=5e-4)


def test_t_interval_by_hand():
    mean, low, high = ratio.t_interval([1.0, 2.0, 3.0])
    half = 4.302653 * 1.0 / math.sqrt(3)
    assert (mean, low, high) == pytest.approx((2.0, 2 - half, 2 + half), rel=1e-6)


def test_one_value_has_an_open_interval():
    assert ratio.t_interval([0.5]) == (0.5, -math.inf, math.inf)
    alone = ratio.estimate([math.log(2)])
    assert alone.value == pytest.approx(2) and (alone.low, alone.high, alone.n) == (0.0, ratio.NO_BOUND, 1)
    assert ratio.is_noisy(alone)
    assert Estimate.model_validate_json(alone.model_dump_json()) == alone


@pytest.mark.parametrize("count", [4, 8, 24])
def test_the_interval_covers_the_truth_as_often_as_it_says(count):
    """Each instance: its own bias plus the median of 15 noisy pairs. 1500 sessions: 95 % ± 1.7 % at three sigma."""
    rng = random.Random(count)
    truth, covered, sessions = math.log(1.7), 0, 1500
    for _ in range(sessions):
        logs = []
        for _ in range(count):
            bias = rng.gauss(0, 0.03)
            noise = sorted(rng.gauss(0, 0.05) for _ in range(15))
            logs.append(truth + bias + noise[7])
        e = ratio.estimate(logs)
        covered += e.low <= 1.7 <= e.high
    assert covered / sessions == pytest.approx(0.95, abs=0.018)


# A screen's interval


@pytest.mark.parametrize("count, rank", [(6, 1), (9, 2), (10, 2), (15, 4), (20, 6), (25, 8)])
def test_screen_interval_uses_the_published_order_statistics_of_the_median(count, rank):
    pairs = [(float(i), 1.0) for i in range(1, count + 1)]
    e = ratio.screen_estimate(pairs)
    assert (e.low, e.high) == pytest.approx((rank, count + 1 - rank))
    assert e.n == 1


def test_screen_interval_with_few_pairs():
    e = ratio.screen_estimate([(1.0, 1.0), (2.0, 1.0), (4.0, 1.0)])
    assert (e.low, e.value, e.high) == pytest.approx((1, 2, 4))
    alone = ratio.screen_estimate([(2.0, 1.0)])
    assert (alone.low, alone.high) == (0.0, ratio.NO_BOUND)


# Combining


def test_derived_multiplies_and_adds_widths_in_quadrature():
    paired = estimate_of(2.0, 2 / math.exp(0.03), 2 * math.exp(0.03), 8)
    e = ratio.derived(paired, estimate_of(1.5, 1.5 / math.exp(0.04), 1.5 * math.exp(0.04), 6))
    assert e.value == pytest.approx(3.0) and e.derived and e.n == 6
    assert e.low == pytest.approx(3 / math.exp(0.05)) and e.high == pytest.approx(3 * math.exp(0.05))


def test_faster_of_takes_the_least_of_each():
    e = ratio.faster_of(estimate_of(1.5, 1.2, 1.6, 8), estimate_of(1.4, 1.3, 1.7, 10))
    assert (e.value, e.low, e.high, e.n) == (1.4, 1.2, 1.6, 8)
    assert ratio.faster_of(None, estimate_of(1.4, 1.3, 1.7)).value == 1.4
    assert ratio.faster_of(None, None) is None


def test_faster_of_is_derived_where_the_smaller_one_is():
    derived = Estimate(value=1.1, low=1.0, high=1.2, n=8, derived=True)
    assert ratio.faster_of(estimate_of(2, 1.9, 2.1), derived).derived
    assert not ratio.faster_of(estimate_of(1.05, 1.0, 1.1), derived).derived


def test_geometric_mean_of_cases_by_hand():
    cases = [
        estimate_of(2.0, 2 / math.exp(0.03), 2 * math.exp(0.06)),
        estimate_of(8.0, 8 / math.exp(0.04), 8 * math.exp(0.08)),
    ]
    e = ratio.geometric_mean(cases)
    assert e.value == pytest.approx(4.0)
    assert e.low == pytest.approx(4 / math.exp(0.025)) and e.high == pytest.approx(4 * math.exp(0.05))
    same = ratio.geometric_mean(cases[:1])
    assert (same.value, same.low, same.high) == pytest.approx((2.0, cases[0].low, cases[0].high))


def test_geometric_mean_with_an_open_case_is_open():
    e = ratio.geometric_mean([estimate_of(2.0, 0.0, ratio.NO_BOUND, 1), estimate_of(2.0, 1.9, 2.1)])
    assert (e.low, e.high, e.n) == (0.0, ratio.NO_BOUND, 1)


def test_the_combined_interval_of_cases_covers_at_least_as_often_as_it_says():
    rng = random.Random(11)
    covered, sessions, truth = 0, 1500, [0.2, 0.5, 1.0]
    for _ in range(sessions):
        cases = [ratio.estimate([m + rng.gauss(0, s) for _ in range(8)]) for m, s in zip(truth, (0.02, 0.05, 0.03))]
        e = ratio.geometric_mean(cases)
        covered += e.low <= math.exp(sum(truth) / 3) <= e.high
    assert covered / sessions > 0.94


# Marks


@pytest.mark.parametrize(
    "value, half, aa, noisy",
    [
        (1.0, 0.029, None, False),
        (1.0, 0.031, None, True),
        (math.e, 0.099, None, False),  # a tenth of |ln s|
        (math.e, 0.101, None, True),
        (1 / math.e, 0.099, None, False),
        (1.0, 0.01, 1.019, False),
        (1.0, 0.01, 1.021, True),
        (1.0, 0.01, 0.979, True),
    ],
)
def test_is_noisy(value, half, aa, noisy):
    e = estimate_of(value, value * math.exp(-half), value * math.exp(half))
    assert ratio.half_width(e) == pytest.approx(half)
    assert ratio.is_noisy(e, aa) is noisy


@pytest.mark.parametrize(
    "half, asked, aa, noisy",
    [
        (0.05, 0.03, None, True),
        (0.05, 0.06, None, False),  # whoever asks for ±6 % gets a figure with ±5 %
        (0.07, 0.06, None, True),
        (0.025, 0.005, None, False),  # asking for more does not make noisy what was not
        (0.01, 0.03, 1.03, True),
        (0.01, 0.06, 1.05, False),  # the control is held to no more than the figure
        (0.01, 0.06, 1.07, True),
        (0.01, 0.005, 1.015, False),
    ],
)
def test_is_noisy_for_those_who_ask_for_less(half, asked, aa, noisy):
    assert ratio.is_noisy(estimate_of(1.0, math.exp(-half), math.exp(half)), aa, asked) is noisy


def test_is_launch_bound():
    assert ratio.is_launch_bound(19e-6, 1e-6) and not ratio.is_launch_bound(21e-6, 1e-6)
    assert ratio.is_launch_bound(49e-6, 10e-6) and not ratio.is_launch_bound(51e-6, 10e-6)


def test_skip_detectable_solves_its_equation():
    p = ratio.skip_detectable(300, 10_000)
    assert (1 - p) ** 300 == pytest.approx(0.05)
    assert p == pytest.approx(0.01, abs=1e-4)  # about 300 checks find a share of 1 %
    assert ratio.skip_detectable(0, 100) == 1.0
    assert ratio.skip_detectable(100, 100) == 0.01
