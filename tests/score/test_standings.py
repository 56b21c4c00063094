"""The board: credits, ranks, repeated runs, and who is left unranked."""

import math

import pytest

from harness.score import metrics
from harness.score.ranking import Rank
from harness.score.standings import Finish, standings
from harness.spec.verdict import Estimate, JudgeResult

TASKS = ["gelu", "matmul", "softmax", "two-matmul"]
MANY = [f"task-{i:02}" for i in range(12)]


def final(task, value=None, status="ok", spread=0.02, depth="final"):
    speedup = None
    if value is not None:
        speedup = Estimate(value=value, low=value * (1 - spread), high=value * (1 + spread), n=8)
    return JudgeResult(
        id=f"{task}-1",
        status=status,
        depth=depth,
        device="cpu",
        task=task,
        task_hash="t",
        candidate_hash="c",
        speedup=speedup,
    )


def finishes(agent, values, tasks=TASKS, **more):
    return [Finish(agent, task, final(task, v), attempts=3, wall_s=2.0, **more) for task, v in zip(tasks, values)]


def row_of(board, agent):
    return next(r for r in board.rows if r.agent == agent)


def test_figures_of_one_agent_by_hand():
    board = standings(
        [
            Finish("a", "gelu", final("gelu", 4.0), 5, 10.0),
            Finish("a", "matmul", final("matmul", 0.5), 2, 1.0),  # correct, slow: credit 1
            Finish("a", "softmax", final("softmax", status="wrong_output"), 7, 2.0),
            Finish("a", "two-matmul", None, 0, 0.5),
        ]
    )
    (row,) = board.rows
    assert (row.tasks, row.solved, row.attempts, row.wall_s, row.runs) == (4, 2, 14, 13.5, 1)
    assert row.credit == pytest.approx(4 ** (1 / 4))
    assert row.unclamped == pytest.approx(math.sqrt(2.0))
    assert row.fast == {1.0: 0.25, 1.5: 0.25, 2.0: 0.25}
    assert row.median == 1.0 and row.capped == pytest.approx(4 ** (1 / 4))
    assert row.leave_one_out == pytest.approx((1.0, 4 ** (1 / 3)))
    half = 3.182446 * math.log(4) / 2 / 2  # t with 3 degrees of freedom · sd of (ln 4, 0, 0, 0) / √4
    assert math.log(row.credit_high) == pytest.approx(math.log(4) / 4 + half, rel=1e-6)
    assert math.log(row.credit_low) == pytest.approx(math.log(4) / 4 - half, rel=1e-6)
    assert row.rank == Rank(1, 1) and row.unranked == ""


def test_order_and_ranks_on_few_tasks_stay_open():
    eager, good = finishes("eager", [1, 1, 1, 1]), finishes("good", [3, 2, 4, 5])
    board = standings(eager + good + finishes("fair", [1.2, 1.3, 1.2, 2]))
    assert [r.agent for r in board.rows] == ["good", "fair", "eager"]
    assert {r.rank for r in board.rows} == {Rank(1, 3)}
    assert board.tasks_to_separate("good", "eager") == 7
    with pytest.raises(KeyError):
        board.tasks_to_separate("good", "nobody")


def test_enough_tasks_separate():
    board = standings(
        finishes("eager", [1] * 12, MANY)
        + finishes("good", [2 + 0.1 * i for i in range(12)], MANY)
        + finishes("best", [4 + 0.1 * i for i in range(12)], MANY)
    )
    places = [(r.agent, r.rank) for r in board.rows]
    assert places == [("best", Rank(1, 1)), ("good", Rank(2, 2)), ("eager", Rank(3, 3))]
    assert len(board.pairs) == 3


def test_infrastructure_errors_are_nobodys_fault_but_leave_the_agent_unranked():
    broken = Finish("unlucky", "two-matmul", final("two-matmul", status="infra_error"), 1, 1.0)
    board = standings(finishes("eager", [1, 1, 1, 1]) + finishes("unlucky", [9, 9, 9]) + [broken])
    assert [r.agent for r in board.rows] == ["eager", "unlucky"]
    row = row_of(board, "unlucky")
    assert row.rank is None and row.unranked == "1 infrastructure error: run again"
    assert row.tasks == 3 and row.credit == pytest.approx(9.0)  # not averaged with a 1 for the machine's failure
    assert row_of(board, "eager").rank == Rank(1, 1) and board.pairs == []


def test_an_agent_with_nothing_but_infrastructure_errors_has_no_figures():
    board = standings([Finish("unlucky", "gelu", final("gelu", status="infra_error"), 1, 1.0)])
    (row,) = board.rows
    assert row.credit is None and row.tasks == 0 and row.solved == 0 and row.rank is None


def test_missing_tasks_leave_an_agent_unranked():
    board = standings(finishes("eager", [1, 1, 1, 1]) + finishes("partial", [5, 5]))
    assert row_of(board, "partial").unranked == "not run on softmax, two-matmul"


def test_repeated_runs_are_averaged_per_task_before_anything_else():
    runs = finishes("dice", [4, 1, 1, 1]) + finishes("dice", [1, 1, 1, 1])
    runs[-1] = Finish("dice", "two-matmul", final("two-matmul", status="timeout"), 3, 2.0)
    row = standings(runs).rows[0]
    assert row.runs == 2 and row.tasks == 4 and row.solved == pytest.approx(3.5)
    assert row.credit == pytest.approx(2 ** (1 / 4))  # ln C of gelu: the mean of ln 4 and 0
    assert row.unclamped == pytest.approx(2 ** (1 / 4))
    assert row.fast[1.0] == pytest.approx(0.125)


def test_an_untimed_correct_answer_is_solved_without_a_score():
    board = standings([Finish("triton", "gelu", final("gelu"), 1, 1.0)])
    row = board.rows[0]
    assert row.solved == 1 and row.unclamped is None and row.credit == 1.0
    assert row.credit_low is None and row.credit_high is None


def test_screens_do_not_reach_the_board():
    with pytest.raises(metrics.ScoreError, match="only a final is a score"):
        standings([Finish("a", "gelu", final("gelu", 2.0, depth="screen"), 1, 1.0)])


def test_an_empty_board():
    board = standings([])
    assert board.rows == [] and board.pairs == [] and board.tasks == []
