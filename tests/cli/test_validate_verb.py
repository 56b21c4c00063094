"""``harness validate``, and the gate before judging and running."""

import json

import pytest

from harness.spec.errors import GauntletError
from harness.spec.validity import Finding

WEAK = Finding(probe="null", what="zeros", output=0, case="odd", dims={"rows": 3, "cols": 5}, dtype="float32", scale=0.01,
               seed=4, found=2.0, needed=10.0, message="zeros instead of output 0 misses the bound by 2× only")
WARNING = Finding(probe="precision", message="PyTorch's own error makes up 60 %")


@pytest.fixture
def weak(script):
    """The task `twice` is refused."""
    script.judge_task = lambda task: [WEAK] if task.name == "twice" else []
    return script


def test_a_table_and_what_is_wrong(harness, project, weak):
    code, out, err = harness("validate", "double", "twice")
    assert code == 1
    rows = [line.split() for line in out.splitlines()]
    assert ["double", "valid", "≥", "12.5×", "an", "echo", "of", "input", "x", "0.200"] in rows
    assert any(row[:3] == ["twice", "not", "valid"] for row in rows)
    assert "twice: not valid (null)" in out and WEAK.message in out
    assert "found at 3×5 float32, inputs scaled by 0.01, seed 4" in out
    assert err.splitlines() == ["double: valid", "twice: not valid"]
    assert harness("validate", "double")[0] == 0


def test_without_names_all_tasks_are_checked_and_patterns_work(harness, project, script):
    assert harness("validate")[0] == 0
    assert {"double", "twice", "softmax", "matmul"} <= set(script.gated)
    script.gated.clear()
    harness("validate", "--fresh", "twi*")
    assert script.gated == ["twice"]
    code, _, err = harness("validate", "twicee")
    assert code == 2 and "did you mean 'twice'" in err


def test_what_is_known_is_not_tried_again_until_the_task_changes(harness, project, script):
    harness("validate", "double")
    harness("validate", "double")
    assert script.gated == ["double"]
    harness("validate", "--fresh", "double")
    assert len(script.gated) == 2
    (project / "suite/references/double.py").write_text("def double(x):\n    return x * 2.0\n")
    harness("validate", "double")
    assert len(script.gated) == 3
    harness("validate", "--seeds", "2", "double")
    harness("validate", "--seeds", "2", "double")
    assert len(script.gated) == 5  # a quick look is not kept


def test_json(as_json, project, weak):
    code, found = as_json("validate", "double,twice", "--format", "json")
    assert code == 1 and [(one["task"], one["valid"]) for one in found["tasks"]] == [("double", True), ("twice", False)]
    assert found["tasks"][1]["refusals"][0]["found"] == 2.0 and found["errors"] == []


def test_one_that_cannot_be_tried_does_not_stop_the_others(harness, as_json, project, script, monkeypatch):
    def call(function, argument, **options):
        if argument["task"]["name"] == "double":
            raise GauntletError("task double: its reference ended the process that ran it (killed by SIGSEGV)")
        return script.gate(function, argument)

    monkeypatch.setattr("harness.runs.validation.call", call)
    code, out, err = harness("validate", "double", "twice")
    assert code == 1 and "killed by SIGSEGV" in out and "double: cannot be tried\ntwice: valid\n" in err
    assert as_json("validate", "double", "twice", "--format", "json")[1]["errors"] == [
        "task double: its reference ended the process that ran it (killed by SIGSEGV)"]


def test_the_record_holds_the_valid_ones(harness, project, weak, tmp_path):
    from harness.spec.content import Content

    path = tmp_path / "validated.json"
    harness("validate", "double", "twice", "--record", path)
    task = Content.discover(project).task("double")
    assert json.loads(path.read_text()) == {"gate": 1, "tasks": {"double": task.content_hash}}
    assert harness("validate", "double", "--record", tmp_path / "no" / "where")[0] == 2
    assert harness("validate", "double", "--record", path, "--seeds", "3")[0] == 2


# Before judging, and before a run


def test_nothing_is_judged_on_a_task_that_is_not_valid(harness, project, weak):
    code, out, err = harness("judge", "kernel.py", "--task", "twice")
    assert code == 2 and weak.requests == [] and out == ""
    assert "task twice cannot tell right from wrong: zeros instead of output 0 misses" in err
    assert "harness validate twice" in err and "--no-validate" in err
    assert harness("judge", "kernel.py", "--task", "twice", "--no-validate")[0] == 0
    assert harness("judge", "kernel.py", "--task", "double")[0] == 0
    assert len(weak.requests) == 2


def test_a_run_is_refused_before_anything_is_judged(harness, project, weak):
    arguments = ("run", "--agent", "count", "--budget", "attempts=1", "--tasks")
    code, _, err = harness(*arguments, "double,twice")
    assert code == 2 and weak.requests == [] and "task twice cannot tell right from wrong" in err
    code, _, err = harness(*arguments, "double")
    assert code == 0 and weak.requests and weak.gated == ["double", "twice"]
    assert "checking" not in err  # it was known by then


def test_a_new_task_is_announced_and_shipped_ones_are_vouched_for(harness, project, script):
    _, _, err = harness("judge", "kernel.py", "--task", "double")
    assert "checking once whether task double can tell right from wrong" in err and script.gated == ["double"]
    _, _, err = harness("judge", "kernel.py", "--task", "softmax")
    assert "checking" not in err and script.gated == ["double"]
