"""Budgets as written on a command line, and the plan of a run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_fakes import make_task

from harness.runs.plan import AgentEntry, RunConfig, cells, make_plan, parse_budget
from harness.spec.errors import GauntletError


def config(**more) -> RunConfig:
    agents = [AgentEntry(name=name, spec=name, attempts=attempts) for name, attempts in (("one", 1), ("many", 10))]
    return RunConfig(tasks=[make_task("softmax"), make_task("matmul")], agents=agents, **more)


def test_budgets():
    assert parse_budget("attempts=8, seconds=1.5") == {"attempts": 8, "seconds": 1.5}
    assert parse_budget(None) == parse_budget("") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("atempts=8", "did you mean attempts"),
        ("usd=3", "known: attempts, seconds"),
        ("attempts=0", "whole number above 0"),
        ("attempts=1.5", "whole number above 0"),
        ("attempts", "whole number above 0"),
        ("seconds=nan", "seconds above 0"),
        ("seconds=inf", "seconds above 0"),
        ("seconds=-1", "seconds above 0"),
        ("attempts=1,attempts=2", "given twice"),
    ],
)
def test_wrong_budgets(text, message):
    with pytest.raises(GauntletError, match=message):
        parse_budget(text)


@given(st.text(max_size=40))
def test_any_budget_is_read_or_refused_in_words(text):
    try:
        assert all(value > 0 for value in parse_budget(text).values())
    except GauntletError as error:
        assert "--budget" in str(error)


def test_cells_go_task_by_task():
    assert [(task.name, agent.name) for agent, task in cells(config())] == [
        ("softmax", "one"), ("softmax", "many"), ("matmul", "one"), ("matmul", "many"),
    ]


def test_the_plan_counts_what_will_be_judged():
    plan = make_plan(config(finals=3))
    assert [(row["attempts"], row["finals"]) for row in plan.rows[:2]] == [(1, 1), (10, 3)]
    assert all(0 < row["low_s"] <= row["high_s"] for row in plan.rows)
    assert make_plan(config(depth="screen")).rows[0]["finals"] == 0


def test_estimates_follow_the_options():
    usual = make_plan(config())
    assert make_plan(config(half_width=0.01)).seconds[1] > 5 * usual.seconds[1]
    assert make_plan(config(opponents=["eager"])).seconds[1] < usual.seconds[1]
    assert make_plan(config(depth="screen", seconds=2.0)).seconds[1] <= 4 * 2.0
