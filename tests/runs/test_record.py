"""Published records: written once, read whole, and any change to them is found."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_fakes import Counting, FakeExecutor, candidate, make_task, verdict

from harness.runs.canonical import canonical_json
from harness.runs.events import EventLog
from harness.runs.plan import AgentEntry, RunConfig
from harness.runs.publish import publish_run
from harness.runs.record import device_folder, portable_name, read_record, read_results, write_record
from harness.runs.replay import Recorded
from harness.runs.run import Run
from harness.spec.errors import GauntletError
from harness.spec.verdict import Status


def make_run(folder: Path, script=None) -> Recorded:
    config = RunConfig(
        suite="smoke",
        suite_version="3",
        tasks=[make_task("softmax", source_file="/home/somebody/tasks/softmax.yaml"), make_task("matmul")],
        agents=[AgentEntry(name="one", spec="count:x=1,as=one", config={"x": 1}, attempts=4)],
    )
    with EventLog.create(folder) as log:
        agents = {"one": Counting([3, 8, 3])}
        return Run(log, config, agents, FakeExecutor(script), Path, {"git": None, "python": "CPython 3"}).execute()


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    base = tmp_path_factory.mktemp("published")
    return publish_run(make_run(base / "run"), "run", base / "results")[0]


@pytest.fixture
def copy(published, tmp_path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "copy" / published.name))


def test_the_layout(published):
    stamp = published.name
    assert re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{8}", stamp)
    assert published.parts[-4:-1] == ("smoke@3", "cpu-Test-CPU", "one")
    hashes = sorted([candidate(3).hash, candidate(8).hash])
    files = sorted(path.relative_to(published).as_posix() for path in published.rglob("*") if path.is_file())
    assert files == ["attempts.jsonl", *[f"candidates/{one}.py" for one in hashes], "run.json"]


def test_what_is_read_is_what_was_run(published):
    record = read_record(published)
    assert [(r.task, r.index, r.depth, r.duplicate_of) for r in record.attempts] == [
        (task, *rest)
        for task in ("softmax", "matmul")
        for rest in [(0, "screen", None), (1, "screen", None), (1, "final", None), (2, "screen", 0)]
    ]
    assert record.attempts[3].result == record.attempts[0].result  # a duplicate reads as its original
    assert record.result("softmax").depth == "final"
    assert record.outcome("softmax").speedup.value == pytest.approx(1.8 * 0.98)
    assert record.result("softmax").cases[0].blocks  # raw block times
    assert record.source(record.attempts[0].candidate) == candidate(3).source
    assert record.run.containment == [{"level": 3}]
    assert record.run.agent.spec == "count:x=1,as=one"
    with pytest.raises(KeyError):
        record.outcome("conv")


def test_every_file_is_canonical_and_hashed(published):
    data = json.loads((published / "run.json").read_text())
    assert (published / "run.json").read_text() == canonical_json(data, indent=1) + "\n"
    for line in (published / "attempts.jsonl").read_text().splitlines():
        assert line == canonical_json(json.loads(line))
    for name, expected in data["files"].items():
        assert hashlib.sha256((published / name).read_bytes()).hexdigest() == expected
    assert set(data["files"]) == {
        path.relative_to(published).as_posix() for path in published.rglob("*") if path.is_file()
    } - {"run.json"}


def test_nothing_of_the_machine_that_is_nobodys_business(published):
    assert "/home/somebody" not in (published / "run.json").read_text()


def test_an_unfinished_run_is_not_published(tmp_path):
    recorded = make_run(tmp_path / "run")
    recorded.finished = ""
    with pytest.raises(GauntletError, match="not finished.*--resume run"):
        publish_run(recorded, "run", tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_publishing_again_touches_nothing_and_never_overwrites(tmp_path):
    recorded = make_run(tmp_path / "run")
    path = publish_run(recorded, "run", tmp_path / "results")[0]
    times = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    assert publish_run(recorded, "run", tmp_path / "results") == [path]
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*")} == times
    (path / "attempts.jsonl").write_text("mine\n")
    with pytest.raises(GauntletError, match="written once"):
        publish_run(recorded, "run", tmp_path / "results")
    assert (path / "attempts.jsonl").read_text() == "mine\n"


def test_a_refusing_disk_leaves_no_half_record(tmp_path, monkeypatch):
    import os

    recorded = make_run(tmp_path / "run")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(GauntletError, match="No space left.*--resume run"):
        publish_run(recorded, "run", tmp_path / "results")
    assert [path for path in (tmp_path / "results").rglob("*") if path.is_file()] == []


def test_a_folder_left_by_a_killed_run_is_no_record(tmp_path, published):
    leftover = tmp_path / "smoke@3" / "cpu" / "one" / f".{published.name}.tmp-7"
    shutil.copytree(published, leftover)
    assert read_results(tmp_path, lambda path, why: pytest.fail(why)) == []


def test_non_finite_errors_survive(tmp_path):
    def script(request):
        result = verdict(request, Status.wrong_output)
        result.cases[0].errors.max_abs = float("inf")
        return result

    path = publish_run(make_run(tmp_path / "run", script), "run", tmp_path / "results")[0]
    json.loads((path / "attempts.jsonl").read_text().splitlines()[0], parse_constant=pytest.fail)
    assert read_record(path).attempts[0].result.cases[0].errors.max_abs == float("inf")


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run.json", "attempts.jsonl", f"candidates/{candidate(3).hash}.py"])
def test_a_missing_file_is_named(copy, name):
    (copy / name).unlink()
    with pytest.raises(GauntletError, match=f"{re.escape(str(copy))}.*cannot read {re.escape(name)}"):
        read_record(copy)


@pytest.mark.parametrize("name", ["attempts.jsonl", f"candidates/{candidate(3).hash}.py"])
def test_a_changed_file_is_named(copy, name):
    (copy / name).write_bytes((copy / name).read_bytes() + b" ")
    with pytest.raises(GauntletError, match=f"{re.escape(name)} was changed after"):
        read_record(copy)


def rewrite(path: Path, **changes: object) -> None:
    data = {**json.loads((path / "run.json").read_text()), **changes}
    (path / "run.json").write_text(json.dumps(data))


def test_a_changed_run_json_is_found_even_where_it_stays_valid(copy):
    data = json.loads((copy / "run.json").read_text())
    data["outcomes"][0]["speedup"]["value"] = 99.0
    rewrite(copy, outcomes=data["outcomes"])
    with pytest.raises(GauntletError, match="run.json was changed"):
        read_record(copy)


def test_other_schemas_are_told_apart_from_damage(copy):
    rewrite(copy, schema=2)
    with pytest.raises(GauntletError, match="newer version.*update"):
        read_record(copy)
    rewrite(copy, schema=1, surprise=True)
    with pytest.raises(GauntletError, match="surprise"):
        read_record(copy)


def test_files_outside_the_record_are_never_read(copy, tmp_path):
    (tmp_path / "copy" / "secret.txt").write_text("x")
    data = json.loads((copy / "run.json").read_text())
    data["files"]["../secret.txt"] = hashlib.sha256(b"x").hexdigest()
    body = {**data, "id": ""}
    digest = hashlib.sha256(canonical_json(body).encode()).hexdigest()[:8]
    (copy / "run.json").write_text(json.dumps({**data, "id": f"20260101T000000Z-{digest}"}))
    with pytest.raises(GauntletError, match="a file that no record has"):
        read_record(copy)


def test_reading_many_skips_and_names_the_damaged(published, tmp_path):
    for name in ("a", "b", "c"):
        shutil.copytree(published, tmp_path / "results" / name)
    (tmp_path / "results" / "b" / "attempts.jsonl").write_text("")
    (tmp_path / "results" / "c" / "run.json").unlink()
    skipped: list[str] = []
    records = read_results(tmp_path / "results", lambda path, why: skipped.append(path.name))
    assert [record.path.name for record in records] == ["a"]
    assert skipped == ["b", "c"]
    with pytest.warns(UserWarning) as warned:
        read_results(tmp_path / "results")
    assert ["attempts.jsonl was changed" in str(one.message) for one in warned] == [True, False]


def test_a_results_folder_that_is_not_there(tmp_path):
    with pytest.raises(GauntletError, match="no results folder"):
        read_results(tmp_path / "nowhere")


KEYS = st.sampled_from(["schema", "id", "files", "run"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
    max_leaves=8,
)


@given(junk=st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_is_in_run_json_is_one_clear_error(tmp_path_factory, junk):
    folder = tmp_path_factory.mktemp("junk")
    (folder / "run.json").write_bytes(junk)
    with pytest.raises(GauntletError, match=re.escape(str(folder))):
        read_record(folder)


# -- names ---------------------------------------------------------------------------------------------------------


@given(st.text(max_size=200))
def test_portable_names(text):
    name = portable_name(text)
    assert re.fullmatch(r"[A-Za-z0-9._@-]{1,81}", name)
    assert name not in (".", "..") and not name.startswith((".", "-")) and not name.endswith(".")
    assert name.split(".")[0].lower() not in {"con", "prn", "aux", "nul", "com1", "lpt9"}
    assert portable_name(name) == name


def test_device_folders():
    assert device_folder("cpu", {"name": "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"}) == (
        "cpu-Intel-Xeon-Platinum-8481C-CPU-@-2.70GHz"
    )
    assert device_folder("cpu", {}) == "cpu"
    assert device_folder("cpu", {"name": "cpu"}) == "cpu"
    assert ":" not in device_folder("cuda", {"name": "cuda:0 NVIDIA H200"})


def test_write_record_needs_no_run(published, tmp_path):
    """Rows read back are written again to the same bytes: reading loses nothing."""
    record = read_record(published)
    rows = [row.model_copy(update={"result": None}) if row.duplicate_of is not None else row for row in record.attempts]
    path = write_record(tmp_path, record.run, rows, {candidate(n).hash: candidate(n) for n in (3, 8)})
    for file in published.rglob("*"):
        if file.is_file():
            assert (path / file.relative_to(published)).read_bytes() == file.read_bytes()
    assert path.name == published.name
