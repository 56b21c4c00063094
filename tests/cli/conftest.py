"""A small project and a scripted executor, so that the command line is tested without a judge."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "runs"))

from run_fakes import FakeExecutor, verdict  # noqa: E402

from harness.spec.task import Task  # noqa: E402
from harness.spec.validity import Finding, Validity  # noqa: E402
from harness.spec.verdict import JudgeRequest, JudgeResult  # noqa: E402

TASK = """\
schema: 1
name: {name}
title: Doubling
reference: references/double.py:double
inputs:
  x: {{shape: [rows, cols]}}
cases:
  odd: {{rows: 3, cols: 5}}
  wide: {{rows: 64, cols: 8}}
"""
REFERENCE = "import torch\n\n\ndef double(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n"
AGENT = "schema: 1\nname: count\nstrategy: count.py:Count\nparameters: {upto: 3}\nattempts: 5\ndescription: Counts.\n"
STRATEGY = '''\
from harness.spec.candidate import Candidate


class Count:
    def __init__(self, upto: int = 3) -> None:
        self.upto = upto

    def propose(self, view, history):
        if len(history) < self.upto:
            n = len(history)
            yield Candidate(source=f"def kernel(x):\\n    return x + x  # {n}\\n", parameters={"number": n})
'''


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A project with tasks double and twice and the agent count; the current folder."""
    root = tmp_path / "project"
    for folder in ("tasks", "agents", "suite/references", "suite/suites"):
        (root / folder).mkdir(parents=True)
    (root / "gauntlet.toml").write_text("schema = 1\n")
    for name in ("double", "twice"):
        (root / "tasks" / f"{name}.yaml").write_text(TASK.format(name=name))
    (root / "suite/references/double.py").write_text(REFERENCE)
    (root / "suite/suites/pair.yaml").write_text("schema: 1\nname: pair\nversion: 4\ntasks: [double, twice]\n")
    (root / "agents" / "count.yaml").write_text(AGENT)
    (root / "agents" / "count.py").write_text(STRATEGY)
    (root / "k.py").write_text("def mine(x):\n    return x * 2\n")
    (root / "kernel.py").write_text("def kernel(x):\n    return x * 2\n")
    monkeypatch.chdir(root)
    monkeypatch.setenv("COLUMNS", "100")
    return root


class Script:
    """What the scripted executor answers; tests replace `answer`. made: the executors' arguments.

    judge_task: what the scripted gate says of a task (its refusals); gated: the tasks it was asked about.
    """

    def __init__(self) -> None:
        self.answer: Callable[[JudgeRequest], JudgeResult] = lambda request: verdict(request, speedup=1.5)
        self.requests: list[JudgeRequest] = []
        self.made: list[dict] = []
        self.judge_task: Callable[[Task], list[Finding]] = lambda task: []
        self.gated: list[str] = []

    def gate(self, function: str, argument: dict, **_options: object) -> dict:
        """In the place of a process that runs the reference."""
        assert function == "harness.judge.validity:validate_json"
        task = Task.model_validate(argument["task"])
        self.gated.append(task.name)
        found = Validity(task=task.name, task_hash=task.content_hash,
                         margins={"zeros": 1e4, "an echo of input x": 12.5}, reference_ratio=0.2, refusals=self.judge_task(task), seconds=0.1)
        return found.model_dump(mode="json")


@pytest.fixture(autouse=True)
def script(monkeypatch, tmp_path) -> Script:
    """Puts a scripted executor in the place of the judge."""
    script = Script()

    class Scripted(FakeExecutor):
        def __init__(self, **options: object) -> None:
            super().__init__(lambda request: script.answer(request))
            self.requests = script.requests
            script.made.append(options)

    module = types.ModuleType("harness.runs.executor")
    module.LocalExecutor = Scripted
    monkeypatch.setitem(sys.modules, "harness.runs.executor", module)
    monkeypatch.setattr("harness.runs.validation.call", script.gate)
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    return script


@pytest.fixture
def harness(capsys) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line: exit code, stdout, stderr."""
    from harness.cli.main import main

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return call


@pytest.fixture
def as_json(harness) -> Callable[..., tuple[int, dict]]:
    """Runs the command line; stdout must be one strict JSON document."""

    def call(*arguments: object) -> tuple[int, dict]:
        code, out, _ = harness(*arguments)
        return code, json.loads(out, parse_constant=pytest.fail)

    return call
