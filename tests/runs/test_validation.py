"""Verdicts on tasks: found in a process of their own, kept by content, and vouched for where tasks are shipped."""

import json

import pytest

from harness.runs import validation
from harness.runs.validation import RECORD, InvalidTask, ensure_valid, record_text, shipped_verdicts, validate_task
from harness.spec.content import Content, Layer, shipped_root
from harness.spec.task import Case, InputSpec, Task
from harness.spec.validity import GATE_VERSION, Finding, Validity

CONTENT = Content((Layer("shipped", shipped_root()),), shipped_root())


def task(source="def f(x):\n    return x * 2\n", name="t"):
    return Task(schema=1, name=name, reference="f.py:f", reference_source=source, reference_entry="f",
                inputs={"x": InputSpec(shape=["n"], scales=[1.0])}, cases=[Case(name="only", dims={"n": 64})])


def found(one, *refusals):
    return Validity(task=one.name, task_hash=one.content_hash, margins={"zeros": float("inf")}, refusals=list(refusals))


@pytest.fixture
def calls(monkeypatch):
    """Tasks that the gate was asked about, in the place of a process."""
    calls = []

    def call(function, argument, **options):
        one = Task.model_validate(argument["task"])
        calls.append(one.name)
        refusals = [Finding(probe="constant", message="nothing to compute")] if "0 * x" in one.reference_source else []
        return found(one, *refusals).model_dump(mode="json")

    monkeypatch.setattr(validation, "call", call)
    return calls


def test_through_a_real_process(tmp_path):
    good = validate_task(task(), tmp_path)
    assert good.valid and good.margins and good.task_hash == task().content_hash and good.torch
    bad = validate_task(task("def f(x):\n    return x * 0\n"), tmp_path)
    assert [one.probe for one in bad.refusals] == ["constant"]
    assert validate_task(task(), tmp_path) == good  # read back as it was


def test_kept_by_content_whatever_the_name(tmp_path, calls):
    validate_task(task(), tmp_path)
    validate_task(task(), tmp_path)
    assert calls == ["t"]
    validate_task(task("def f(x):\n    return 2 * x\n", "other"), tmp_path)
    validate_task(task(), tmp_path, fresh=True)
    validate_task(task(), tmp_path / "elsewhere")
    assert calls == ["t", "other", "t", "t"]


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xff", b"[]", b'{"task": "t"}'])
def test_a_damaged_verdict_is_found_anew(tmp_path, calls, damage):
    validate_task(task(), tmp_path)
    kept, = (tmp_path / "validity").iterdir()
    kept.write_bytes(damage)
    assert validate_task(task(), tmp_path).valid and calls == ["t", "t"]
    assert validate_task(task(), tmp_path).valid and len(calls) == 2


def test_a_verdict_on_something_else_is_none(tmp_path, calls):
    validate_task(task(), tmp_path)
    kept, = (tmp_path / "validity").iterdir()
    kept.write_text(kept.read_text().replace(task().content_hash, "0" * 64))
    validate_task(task(), tmp_path)
    assert calls == ["t", "t"]


def test_a_cache_that_cannot_be_written_is_only_slower(tmp_path, calls):
    (tmp_path / "file").write_text("")
    assert validate_task(task(), tmp_path / "file").valid
    assert ensure_valid([task()], tmp_path / "file") is None and calls == ["t", "t"]


def test_all_that_are_refused_are_named(tmp_path, calls):
    told = []
    tasks = [task("def f(x):\n    return 0 * x\n", "a"), task(), task("def f(x):\n    return 0 * x + 1\n", "b")]
    with pytest.raises(InvalidTask, match="task a cannot .*: nothing to compute\ntask b cannot .*\n.*harness validate a b"):
        ensure_valid(tasks, tmp_path, tell=told.append)
    assert len(told) == 3 and "task a" in told[0]
    with pytest.raises(InvalidTask):
        ensure_valid(tasks, tmp_path, tell=told.append)
    assert len(told) == 3 and calls == ["a", "t", "b"]


def test_shipped_tasks_are_vouched_for_as_they_are():
    """After a change to a task: harness validate --fresh --record suite/validated.json."""
    record = json.loads((shipped_root() / RECORD).read_text())
    assert record == {"gate": GATE_VERSION, "tasks": {name: CONTENT.task(name).content_hash for name in CONTENT.tasks()}}
    assert shipped_verdicts() == set(record["tasks"].values())


def test_the_record_holds_what_is_valid(tmp_path, monkeypatch):
    a, b = task(name="b"), task("def f(x):\n    return 0 * x\n", "a")
    text = record_text([found(a), found(b, Finding(probe="constant", message=""))])
    assert json.loads(text) == {"gate": GATE_VERSION, "tasks": {"b": a.content_hash}} and text.endswith("}\n")
    (tmp_path / "suite").mkdir()
    monkeypatch.setattr(validation, "shipped_root", lambda: tmp_path)
    assert shipped_verdicts() == set()
    (tmp_path / RECORD).write_text(text)
    assert shipped_verdicts() == {a.content_hash}
    for other in ('{"gate": 0, "tasks": {"b": "x"}}', "[]", '{"gate": 1}', '{"gate": 1, "tasks": 3}', "\0"):
        (tmp_path / RECORD).write_text(other)
        assert shipped_verdicts() == set()
