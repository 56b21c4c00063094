"""The event log: every prefix of a log is readable, everything else that is wrong is named by its line."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.runs import events as ev
from harness.runs.events import EventLog, find_run, list_runs, new_run_id, read_events
from harness.spec.errors import GauntletError

DATA = [
    (ev.RUN_STARTED, {"config": {"seed": 3}, "text": "zwölf µs ⟨\n⟩"}),
    (ev.PROPOSAL, {"agent": "a", "task": "t", "index": 0, "nested": [{"x": [1, 2.5, None, True]}]}),
    (ev.ATTEMPT, {"agent": "a", "task": "t", "value": 0.1 + 0.2, "huge": 10**30}),
    (ev.RUN_FINISHED, {}),
]


def write_log(folder: Path) -> Path:
    with EventLog.create(folder) as log:
        for kind, data in DATA:
            log.append(kind, data)
    return folder / ev.FILE_NAME


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> bytes:
    return write_log(tmp_path_factory.mktemp("log") / "run").read_bytes()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("scratch") / ev.FILE_NAME


def test_what_is_written_is_read(tmp_path):
    path = write_log(tmp_path / "run")
    content = read_events(path)
    assert [(event.kind, event.data) for event in content.events] == DATA
    assert [event.seq for event in content.events] == [0, 1, 2, 3]
    assert (content.good_bytes, content.note) == (path.stat().st_size, "")
    assert all(json.loads(line)["schema"] == 1 for line in path.read_text().splitlines())


def test_non_finite_numbers_are_strict_json(tmp_path):
    with EventLog.create(tmp_path / "run") as log:
        event = log.append(ev.RUN_STARTED, {"x": [float("inf"), float("-inf"), float("nan")]})
    assert event.data == {"x": ["Infinity", "-Infinity", "NaN"]}
    json.loads((tmp_path / "run" / ev.FILE_NAME).read_text(), parse_constant=pytest.fail)


@given(cut=st.integers(min_value=0, max_value=10**6))
def test_every_prefix_is_readable(raw, scratch, cut):
    cut %= len(raw) + 1
    scratch.write_bytes(raw[:cut])
    content = read_events(scratch)
    assert len(content.events) == raw[:cut].count(b"\n")
    assert [event.data for event in content.events] == [data for _, data in DATA[: len(content.events)]]
    assert bool(content.note) == (content.good_bytes < cut)
    if content.note:
        assert f":{len(content.events) + 1}:" in content.note


@settings(max_examples=300)
@given(place=st.integers(min_value=0, max_value=10**6), byte=st.integers(min_value=0, max_value=255))
def test_any_changed_byte_is_found_and_its_line_named(raw, scratch, place, byte):
    place %= len(raw)
    damaged = raw[:place] + bytes([byte]) + raw[place + 1 :]
    scratch.write_bytes(damaged)
    if damaged == raw:
        assert len(read_events(scratch).events) == len(DATA)
    elif place == len(raw) - 1:  # the last newline gone: indistinguishable from a line cut off
        assert len(read_events(scratch).events) == len(DATA) - 1
    else:
        line = raw[:place].count(b"\n") + 1
        with pytest.raises(GauntletError, match=rf"{ev.FILE_NAME}:{line}: "):
            read_events(scratch)


@given(junk=st.binary(max_size=200))
def test_arbitrary_bytes_never_end_in_a_traceback(scratch, junk):
    scratch.write_bytes(junk)
    try:
        assert read_events(scratch).events == []
    except GauntletError as error:
        assert ev.FILE_NAME in str(error)


def test_a_missing_or_repeated_line_is_damage(raw, tmp_path):
    lines = raw.splitlines(keepends=True)
    path = tmp_path / ev.FILE_NAME
    for changed in (lines[:1] + lines[2:], lines[:2] + lines[1:]):
        path.write_bytes(b"".join(changed))
        with pytest.raises(GauntletError, match="sequence number"):
            read_events(path)


def test_a_newer_schema_says_so(raw, tmp_path):
    path = tmp_path / ev.FILE_NAME
    path.write_bytes(raw.replace(b'"schema":1', b'"schema":2', 1))
    with pytest.raises(GauntletError, match=r":1: written by a newer version \(event schema 2"):
        read_events(path)


def test_opening_again_removes_a_cut_line_and_goes_on(raw, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ev.FILE_NAME).write_bytes(raw[:-20])
    with EventLog.open(folder) as log:
        assert "cut off" in log.note
        log.append(ev.RUN_FINISHED, {"again": True})
    content = read_events(folder / ev.FILE_NAME)
    assert (content.note, len(content.events), content.events[-1].data) == ("", len(DATA), {"again": True})


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_refusing_disk_is_one_clear_error_and_loses_nothing(tmp_path, monkeypatch, code):
    with EventLog.create(tmp_path / "run") as log:
        log.append(*DATA[0])
        whole = os.write

        def refusing(descriptor, data):
            whole(descriptor, data[:10])  # a full disk takes a part
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "write", refusing)
        with pytest.raises(GauntletError, match=f"{os.strerror(code)}.*--resume run"):
            log.append(*DATA[1])
        monkeypatch.undo()
        log.append(*DATA[1])
    content = read_events(tmp_path / "run" / ev.FILE_NAME)
    assert (content.note, [event.data for event in content.events]) == ("", [data for _, data in DATA[:2]])


def test_a_really_full_device(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    (tmp_path / "run").mkdir()
    descriptor = os.open("/dev/full", os.O_WRONLY)
    with EventLog(tmp_path / "run", _NoLock(), descriptor, ev.LogContent([], 0)) as log:
        with pytest.raises(GauntletError, match="No space left"):
            log.append(*DATA[0])


class _NoLock:
    def release(self) -> None:
        pass


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GauntletError, match="cannot create the run folder"):
        EventLog.create(tmp_path / "file" / "run")


def test_an_existing_run_is_not_started_over(tmp_path):
    write_log(tmp_path / "run")
    with pytest.raises(GauntletError, match="--resume run"):
        EventLog.create(tmp_path / "run")


def test_a_run_killed_before_its_log_was_there_can_be_started(tmp_path):
    for left in ((), ("lock",)):
        folder = tmp_path / f"run-{len(left)}"
        folder.mkdir()
        for name in left:
            (folder / name).write_text("")
        with EventLog.create(folder) as log:
            assert log.events == []
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(GauntletError, match="exists already"):
        EventLog.create(tmp_path / "other")


def test_runs_are_found_by_name_and_last(tmp_path):
    with pytest.raises(GauntletError, match="there is none"):
        find_run(tmp_path, "last")
    for age, name in enumerate(("20260101-000000-aaaa", "20260102-000000-bbbb")):
        path = write_log(ev.runs_folder(tmp_path) / name)
        os.utime(path, (1000 - age, 1000 - age))  # the first was written last
    assert list_runs(tmp_path)[-1] == "20260101-000000-aaaa"
    assert find_run(tmp_path, "last").name == "20260101-000000-aaaa"
    with pytest.raises(GauntletError, match="Did you mean 20260102-000000-bbbb"):
        find_run(tmp_path, "20260102-000000-bbbc")


def test_run_ids_are_portable_and_differ():
    from harness.runs.record import portable_name

    ids = {new_run_id() for _ in range(50)}
    assert len(ids) > 40
    assert all(portable_name(one) == one for one in ids)
