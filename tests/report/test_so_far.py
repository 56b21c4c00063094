"""How far a run has come: every state a cell can be in, in words."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "runs"))

from run_fakes import candidate, make_task, verdict  # noqa: E402

from harness.report.so_far import rows, table, text  # noqa: E402
from harness.runs.plan import AgentEntry, RunConfig  # noqa: E402
from harness.runs.record import Outcome  # noqa: E402
from harness.runs.replay import Judged, Recorded  # noqa: E402
from harness.spec.candidate import Candidate  # noqa: E402
from harness.spec.verdict import JudgeRequest, Status  # noqa: E402


def recorded():
    config = RunConfig(tasks=[make_task("softmax"), make_task("matmul")],
                       agents=[AgentEntry(name=name, spec=name, attempts=8) for name in ("a", "b")])
    return Recorded(config, {}, {}, "2026-01-01T00:00:00Z")


def judge(state, agent, task, index, depth="screen", status=Status.ok, speedup=None):
    cell = state.cell(agent, task)
    cell.proposals[index] = candidate(index)
    request = JudgeRequest(id="x", task=make_task(task), candidate=Candidate(source="x"), depth=depth)
    cell.attempts[index, depth] = Judged(index, depth, verdict(request, status, speedup), None, 1, 0.1, "")


def texts(state):
    return {(row["agent"], row["task"]): text(row) for row in rows(state)}


def test_every_state_in_words():
    state = recorded()
    assert set(texts(state).values()) == {"not begun"}
    state.cell("a", "softmax").proposals[0] = candidate(0)
    assert texts(state)["a", "softmax"] == "thinking, 0 of 8"
    judge(state, "a", "softmax", 0, status=Status.wrong_output)
    assert texts(state)["a", "softmax"] == "wrong output, 1 of 8"
    judge(state, "a", "softmax", 1, speedup=1.5)
    judge(state, "a", "softmax", 2, speedup=1.25)
    assert texts(state)["a", "softmax"] == "1.50× screened, 3 of 8"
    judge(state, "a", "softmax", 1, "final", speedup=1.4)
    assert texts(state)["a", "softmax"] == "1.40×, 3 of 8"
    outcome = {"task": "softmax", "task_hash": "h", "status": "ok", "stop": "done"}
    state.cell("a", "softmax").outcome = Outcome.model_validate(outcome)
    state.cell("b", "softmax").proposals[0] = candidate(0)
    state.cell("b", "softmax").outcome = Outcome.model_validate({**outcome, "status": None})
    assert texts(state)["a", "softmax"] == "1.40×" and texts(state)["b", "softmax"] == "no answer"
    assert table(state) == [{"agent": "a", "softmax": "1.40×", "matmul": "not begun"},
                            {"agent": "b", "softmax": "no answer", "matmul": "not begun"}]


def test_rows_are_plain_data_in_the_order_of_running():
    state = recorded()
    judge(state, "b", "softmax", 0, speedup=2.0)
    found = rows(state)
    assert [(row["task"], row["agent"]) for row in found] == [("softmax", "a"), ("softmax", "b"), ("matmul", "a"), ("matmul", "b")]
    assert found[1] == {"task": "softmax", "agent": "b", "attempts": 1, "most": 8, "state": "at work", "speedup": 2.0,
                        "depth": "screen", "verdict": None}
