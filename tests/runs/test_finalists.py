"""Choosing finalists and the attempt that speaks for an agent."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from run_fakes import candidate, make_task, verdict

from harness.agents.protocol import Attempt
from harness.runs.finalists import CLOSENESS, ELIGIBLE, best_attempt, choose_finalists, selected_speedup
from harness.spec.verdict import CaseResult, Estimate, JudgeRequest, Status

TASK = make_task()


def attempt(index: int, status: Status = Status.ok, speedup: float | None = None, number: int | None = None) -> Attempt:
    request = JudgeRequest(id=str(index), task=TASK, candidate=candidate(index if number is None else number))
    return Attempt(index, request.candidate, verdict(request, status, speedup))


def estimate(value: float) -> Estimate:
    return Estimate(value=value, low=value, high=value, n=4)


def test_the_best_first_and_distinct():
    attempts = [attempt(0, speedup=1.2), attempt(1, speedup=1.9), attempt(2, speedup=1.9, number=1)]
    attempts.append(attempt(3, speedup=1.5))
    assert [one.index for one in choose_finalists(attempts, 2)] == [1, 3]
    assert [one.index for one in choose_finalists(attempts, 9)] == [1, 3, 0]


def test_right_but_untimed_and_noisy_come_after_the_timed():
    attempts = [attempt(0, Status.noisy), attempt(1), attempt(2, speedup=0.1), attempt(3, Status.wrong_output)]
    assert [one.index for one in choose_finalists(attempts, 9)] == [2, 1, 0]


def test_equals_keep_the_order_of_proposal():
    assert [one.index for one in choose_finalists([attempt(i, speedup=1.5) for i in range(4)], 2)] == [0, 1]


@given(st.lists(st.tuples(st.sampled_from(list(Status)), st.floats(0.1, 10)), max_size=12), st.integers(0, 5))
def test_no_eligible_attempt_beats_a_chosen_one(drawn, count):
    attempts = [attempt(i, status, speed if status == Status.ok else None) for i, (status, speed) in enumerate(drawn)]
    chosen = choose_finalists(attempts, count)
    eligible = [one for one in attempts if one.result.status in ELIGIBLE]
    assert len(chosen) == min(count, len(eligible))

    def speed(one: Attempt) -> float:
        return one.result.speedup.value if one.result.speedup else 0.0

    left = [one for one in eligible if one not in chosen]
    assert all(speed(winner) >= speed(loser) for winner in chosen for loser in left)


def test_every_status_has_a_place():
    assert set(CLOSENESS) == set(Status)
    assert CLOSENESS[0] == Status.ok and CLOSENESS[-1] == Status.infra_error


def test_best_of_failures_is_the_nearest_and_earliest():
    attempts = [attempt(0, Status.compile_error), attempt(1, Status.wrong_output), attempt(2, Status.wrong_output)]
    assert best_attempt(attempts).index == 1
    assert best_attempt([]) is None


def test_the_machines_failure_speaks_only_when_nothing_else_does():
    assert best_attempt([attempt(0, Status.infra_error), attempt(1, Status.tampered)]).index == 1


def test_selection_looks_only_at_the_half_that_is_not_reported():
    lucky, steady = attempt(0, speedup=2.0), attempt(1, speedup=1.8)
    lucky.result.cases[0].selected, steady.result.cases[0].selected = estimate(1.5), estimate(1.7)
    assert best_attempt([lucky, steady]).index == 1


def test_selected_speedup_is_a_geometric_mean_over_cases():
    result = attempt(0, speedup=1.0).result
    result.cases = [
        CaseResult(name=str(value), dims={}, dtype="float32", status=Status.ok, selected=estimate(value))
        for value in (2.0, 8.0)
    ]
    assert math.isclose(selected_speedup(result), 4.0)
    result.cases[0].selected = None  # one case without: the whole verdict's figure instead
    assert selected_speedup(result) == 1.0
