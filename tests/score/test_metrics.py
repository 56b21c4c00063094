"""Credits and figures over tasks, by hand."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.score import metrics
from harness.spec.verdict import Estimate, JudgeResult, Status

settings.register_profile("no-deadline", deadline=None)  # a busy machine is not a failure
settings.load_profile("no-deadline")

credit_lists = st.lists(st.floats(1.0, 1000.0), min_size=1, max_size=12)


def estimate(value, low=None, high=None):
    return Estimate(value=value, low=value * 0.97 if low is None else low, high=high or value * 1.03, n=8)


def result(status="ok", speedup=None, depth="final"):
    return JudgeResult(
        id="j1",
        status=status,
        depth=depth,
        device="cpu",
        task="softmax",
        task_hash="t",
        candidate_hash="c",
        speedup=speedup,
    )


def test_credit_needs_the_lower_bound_above_one():
    assert metrics.credit(estimate(1.4, 1.2)) == 1.4
    assert metrics.credit(estimate(1.4, 0.99)) == 1.0
    assert metrics.credit(estimate(1.4, 1.0)) == 1.0
    assert metrics.credit(estimate(0.3, 0.2)) == 1.0
    assert metrics.credit(None) == 1.0


@pytest.mark.parametrize("status", list(Status))
def test_only_correct_finals_are_solved_and_only_ok_ones_have_a_score(status):
    found = result(status, speedup=estimate(2.0))
    assert metrics.is_solved(found) == (status in ("ok", "noisy"))
    assert (metrics.score_of(found) is not None) == (status == "ok")


def test_no_result_and_an_untimed_result_have_no_score():
    assert not metrics.is_solved(None) and metrics.score_of(None) is None
    assert metrics.is_solved(result()) and metrics.score_of(result()) is None


def test_a_screen_is_no_score():
    with pytest.raises(metrics.ScoreError, match="task softmax: judgement j1 is a screen; only a final is a score"):
        metrics.score_of(result(speedup=estimate(2.0), depth="screen"))


def test_geometric_means_by_hand():
    assert metrics.geomean([1.0, 2.0, 4.0]) == pytest.approx(2.0)
    assert metrics.capped_geomean([1.0, 10.0, 1000.0]) == pytest.approx(100 ** (1 / 3))
    assert metrics.median([5.0, 1.0, 3.0]) == 3.0
    with pytest.raises(ValueError, match="at least one value"):
        metrics.geomean([])


def test_leave_one_out_by_hand():
    low, high = metrics.leave_one_out([1.0, 4.0, 9.0])
    assert (low, high) == pytest.approx((2.0, 6.0))
    assert metrics.leave_one_out([3.0]) == (3.0, 3.0)


@given(credit_lists)
def test_leave_one_out_brackets_and_the_cap_never_raises(credits):
    low, high = metrics.leave_one_out(credits)
    mean = metrics.geomean(credits)
    assert low <= mean * (1 + 1e-12) and mean <= high * (1 + 1e-12)
    assert metrics.capped_geomean(credits) <= mean * (1 + 1e-12)
    assert metrics.capped_geomean(credits) <= 10 * (1 + 1e-12)


def test_interval_over_tasks_by_hand():
    value, low, high = metrics.geomean_interval([math.exp(v) for v in (0.1, 0.2, 0.3)])
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert (math.log(value), math.log(low), math.log(high)) == pytest.approx((0.2, 0.2 - half, 0.2 + half), rel=1e-6)
    assert metrics.geomean_interval([2.0]) == pytest.approx((2.0, 0.0, math.inf))


def test_fast_p_goes_by_the_lower_bound():
    scores = [estimate(1.2, 1.1), estimate(1.6, 1.4), estimate(2.5, 2.1), None]
    assert [metrics.fast_p(scores, p) for p in (1.0, 1.5, 2.0)] == [0.75, 0.25, 0.25]
    assert metrics.fast_p([estimate(1.0, 0.98)], 1.0) == 0.0


def test_solved_rate():
    assert metrics.solved_rate([result(), result("wrong_output"), None, result("noisy")]) == 0.5
