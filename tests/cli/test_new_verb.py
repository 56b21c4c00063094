"""``harness new``: what it writes works as it is, and it writes over nothing."""

import pytest
import yaml

from harness.agents.load import load_agent
from harness.agents.protocol import History, View
from harness.judge.validity import validate
from harness.spec.content import Content


def test_a_task_is_valid_as_written(harness, project):
    code, out, err = harness("new", "task", "mine")
    assert code == 0 and out.splitlines() == ["suite/references/mine.py", "tasks/mine.yaml"]
    assert "harness validate mine" in err and "harness judge kernel.py --task mine" in err
    task = Content.discover(project).task("mine")
    assert task.name == "mine" and [case.name for case in task.timed_cases("cpu")] == ["square", "odd"]
    assert validate(task, seeds=2).refusals == []
    assert harness("list", "tasks")[1].count("mine") >= 1


def test_a_task_around_a_function_of_ones_own(harness, project):
    (project / "ops.py").write_text("import torch\n\n\ndef gated(x, g, k):\n    return x * torch.sigmoid(g) + k\n")
    code, out, err = harness("new", "task", "gated", "--reference", "ops.py:gated", "--input", "x=512x300:f32",
                             "--input", "g=512x300", "--arg", "k=2.0")
    assert code == 0, err
    assert out == "tasks/gated.yaml\n"
    task = Content.discover(project).task("gated")
    assert "reference: ops.py:gated" in (project / "tasks" / "gated.yaml").read_text()
    assert task.name == "gated" and list(task.inputs) == ["x", "g"] and task.args == {"k": 2.0}
    assert validate(task, seeds=2).refusals == []


def test_an_agent_that_answers_as_written(harness, project):
    code, out, err = harness("new", "agent", "my_agent")
    assert code == 0 and out.splitlines() == ["agents/my_agent.py", "agents/my_agent.yaml"]
    content = Content.discover(project)
    loaded = load_agent("my_agent", content)
    view = View(task=content.task("double"), device={}, seed=0, attempts=4, content=content.find)
    answers = list(loaded.agent.propose(view, History()))
    assert len(answers) == 1 and "def double" in answers[0].source
    code, _, _ = harness("run", "--agent", "my_agent", "--tasks", "double", "--depth", "screen")
    assert code == 0
    assert yaml.safe_load((project / "agents" / "my_agent.yaml").read_text())["strategy"] == "my_agent.py:MyAgent"


@pytest.mark.parametrize("arguments, words", [
    (["task", "double"], "there is a task 'double' already"),
    (["task", "softmax"], "there is a task 'softmax' already"),
    (["agent", "count"], "there is a agent 'count' already"),
    (["task", "../x"], "cannot name a task"),
    (["task", "Mine"], "cannot name a task"),
    (["agent", "class"], "cannot name a agent"),
    (["task", "x" * 80], "cannot name a task"),
    (["task", "mine", "--input", "x=3x4"], "--input goes with --reference"),
    (["task", "mine", "--reference", "none.py:f", "--input", "x=3x4"], "none.py"),
    (["task", "mine", "--reference", "k.py:mine"], "at least one input"),
    (["sask", "mine"], "No such command"),
])
def test_mistakes_write_nothing(harness, project, arguments, words):
    before = sorted(project.rglob("*"))
    code, out, err = harness("new", *arguments)
    assert (code, out) == (2, "") and words in err.replace("an agent", "a agent")
    assert sorted(project.rglob("*")) == before


def test_nothing_is_written_over(harness, project):
    (project / "suite" / "references" / "mine.py").write_text("# mine\n")
    code, _, err = harness("new", "task", "mine")
    assert code == 2 and "exists already; nothing was written" in err
    assert not (project / "tasks" / "mine.yaml").exists()
    assert (project / "suite" / "references" / "mine.py").read_text() == "# mine\n"


def test_outside_a_project(harness, tmp_path, monkeypatch):
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    code, _, err = harness("new", "agent", "mine")
    assert code == 2 and "--here makes this folder one" in err and list(folder.iterdir()) == []
    code, out, _ = harness("new", "agent", "mine", "--here")
    assert code == 0 and out.splitlines()[0] == "gauntlet.toml" and (folder / "agents" / "mine.yaml").exists()
    assert harness("new", "task", "other", "--here")[0] == 0


def test_a_folder_that_cannot_be_written(harness, project):
    (project / "suite" / "references" / "sub").write_text("")
    (project / "agents" / "mine.py").mkdir()
    assert harness("new", "agent", "mine")[0] == 2
