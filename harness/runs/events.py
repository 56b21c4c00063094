"""The event log of a run: append-only, fsynced, one JSON object a line (DESIGN section 8).

A line is ``{"crc", "data", "kind", "schema", "seq", "time"}``. It is on the disk before anything is done that depends
on it. A crash can leave the last line incomplete; reading drops that line. Anything else that does not read as written
is damage, and an error that names the line.
"""

from __future__ import annotations

import json
import os
import secrets
import zlib
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from harness.runs.canonical import canonical_json
from harness.spec.errors import GauntletError

SCHEMA = 1
FILE_NAME = "events.jsonl"

# What is logged …
RUN_STARTED = "run_started"  # config, provenance, device
RUN_RESUMED = "run_resumed"  # provenance, device
PROPOSAL = "proposal"  # agent, task, index, candidate
ATTEMPT = "attempt"  # agent, task, index, depth, tries, elapsed_s, result | duplicate_of
TASK_DONE = "task_done"  # agent, task, outcome
RUN_FINISHED = "run_finished"
LOGGED = (RUN_STARTED, RUN_RESUMED, PROPOSAL, ATTEMPT, TASK_DONE, RUN_FINISHED)

# … and what observers hear besides, which leaves no trace.
JUDGING = "judging"  # agent, task, index, depth, tries
WAITING = "waiting"  # message
NOTE = "note"  # message


@dataclass(frozen=True)
class Event:
    """One thing that happened. seq counts logged events from 0 and is -1 for those only observers hear.

    time: UTC, ISO 8601 with milliseconds.
    """

    kind: str
    data: dict[str, Any] = field(default_factory=dict)
    seq: int = -1
    time: str = ""


class Observer(Protocol):
    """Follows a run: a progress display, a test. Called in the run's own thread, after the event is on the disk."""

    def on_event(self, event: Event) -> None:
        """Take note of `event`."""
        ...


@dataclass(frozen=True)
class LogContent:
    """What a log holds: events in order, the length in bytes of its whole lines, a note when a cut line was dropped."""

    events: list[Event]
    good_bytes: int
    note: str = ""


def utc_now() -> str:
    """The time now in UTC, ISO 8601 with milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _encode(event: Event) -> bytes:
    body = {"schema": SCHEMA, "seq": event.seq, "time": event.time, "kind": event.kind, "data": event.data}
    body["crc"] = zlib.crc32(canonical_json(body).encode())
    return canonical_json(body).encode() + b"\n"


def _decode(line: bytes, number: int, path: Path) -> Event:
    def damaged(why: str) -> GauntletError:
        return GauntletError(
            f"{path}:{number}: this event log is damaged ({why}). Lines before it are intact; restore the file from a "
            f"copy, or cut it to its first {number - 1} lines and resume the run from there"
        )

    try:
        body = json.loads(line.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise damaged("not a JSON object") from None
    if not isinstance(body, dict):
        raise damaged("not a JSON object")
    schema = body.get("schema")
    if type(schema) is int and schema > SCHEMA:
        raise GauntletError(
            f"{path}:{number}: written by a newer version (event schema {schema}, this one reads up to {SCHEMA}); "
            "update kernel-gauntlet to read it"
        )
    crc = body.pop("crc", None)
    try:
        agrees = crc == zlib.crc32(canonical_json(body).encode())
        # The exact bytes too: other digits of the same number are not what was written.
        agrees = agrees and canonical_json({**body, "crc": crc}).encode() == line
    except (TypeError, ValueError, RecursionError):
        agrees = False
    if not agrees:
        raise damaged("its checksum does not match")
    if body.get("seq") != number - 1:
        raise damaged(f"sequence number {body.get('seq')} where {number - 1} belongs")
    kind, data, time = body.get("kind"), body.get("data"), body.get("time")
    if schema != SCHEMA or kind not in LOGGED or not isinstance(data, dict) or not isinstance(time, str):
        raise damaged(f"not an event of schema {SCHEMA}")
    return Event(kind, data, number - 1, time)


def read_events(path: Path) -> LogContent:
    """Read an event log; a last line without its newline is dropped with a note.

    Raises GauntletError naming the line for any other damage, and when the file cannot be read.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise GauntletError(f"cannot read the event log {path}: {error.strerror}") from None
    good = raw.rfind(b"\n") + 1
    lines = raw[:good].split(b"\n")[:-1]
    events = [_decode(line, number, path) for number, line in enumerate(lines, start=1)]
    note = ""
    if good < len(raw):
        note = f"{path}:{len(lines) + 1}: the last line was cut off while it was written; it is dropped"
    return LogContent(events, good, note)


class EventLog:
    """The open log of one run. One process at a time: a second one opening it gets a GauntletError.

    Use `EventLog.create` for a new run and `EventLog.open` to continue one; both return a context manager.
    """

    def __init__(self, folder: Path, lock: Any, descriptor: int, content: LogContent) -> None:
        self.folder = folder
        self.events: list[Event] = list(content.events)
        self.note = content.note
        self._lock = lock
        self._descriptor = descriptor
        self._end = content.good_bytes

    @property
    def run_id(self) -> str:
        """The run's identifier: the name of its folder."""
        return self.folder.name

    @classmethod
    def create(cls, folder: Path) -> EventLog:
        """Start the log of a new run in `folder`, which must not hold one yet. Raises GauntletError.

        A folder without a log is what a run leaves that was killed before it had one.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(path.name != "lock" for path in folder.iterdir()):
                raise GauntletError(f"run {folder.name} exists already; continue it with --resume {folder.name}")
        except OSError as error:
            raise GauntletError(f"cannot create the run folder {folder}: {error.strerror}") from None
        return cls._locked(folder, os.O_CREAT | os.O_EXCL)

    @classmethod
    def open(cls, folder: Path) -> EventLog:
        """Continue the log in `folder`: a line cut off by a crash is removed from the file. Raises GauntletError."""
        return cls._locked(folder, 0)

    @classmethod
    def _locked(cls, folder: Path, flags: int) -> EventLog:
        import filelock

        path = folder / FILE_NAME
        lock = filelock.FileLock(str(folder / "lock"))
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise GauntletError(f"run {folder.name} is being written by another process; wait until it ends") from None
        except OSError as error:
            raise GauntletError(f"cannot write in the run folder {folder}: {error.strerror}") from None
        try:
            if flags:
                content = LogContent([], 0)
            else:
                content = read_events(path)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | flags, 0o644)
            if content.note:
                os.ftruncate(descriptor, content.good_bytes)
            if flags:
                sync_folder(folder)
        except OSError as error:
            lock.release()
            raise GauntletError(f"cannot write the event log {path}: {error.strerror}") from None
        except BaseException:
            lock.release()
            raise
        return cls(folder, lock, descriptor, content)

    def append(self, kind: str, data: dict[str, Any]) -> Event:
        """Add one event and return it once it is on the disk.

        Raises GauntletError when the disk refuses (full, read-only); what was written before stays readable.
        """
        if kind not in LOGGED:
            raise ValueError(f"not a logged kind of event: {kind}")
        event = Event(kind, data, len(self.events), utc_now())
        line = _encode(event)
        try:
            written = 0
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
            os.fsync(self._descriptor)
        except OSError as error:
            try:
                os.ftruncate(self._descriptor, self._end)
            except OSError:
                pass  # the cut line is dropped by the next reader
            raise GauntletError(
                f"cannot write the event log {self.folder / FILE_NAME}: {error.strerror}. Everything up to here is "
                f"kept; make room and continue with --resume {self.run_id}"
            ) from None
        self._end += len(line)
        # Reread from the line itself: what a live run sees is then exactly what a resumed one will.
        event = Event(kind, json.loads(line)["data"], event.seq, event.time)
        self.events.append(event)
        return event

    def close(self) -> None:
        """Close the file and let other processes open it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._lock.release()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def sync_folder(folder: Path) -> None:
    """fsync a folder, so that the names in it survive a crash. Silent where folders cannot be opened (Windows)."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def runs_folder(root: Path) -> Path:
    """Where the runs of the project at `root` keep their logs."""
    return root / ".harness" / "runs"


def new_run_id(now: datetime | None = None) -> str:
    """A fresh identifier: UTC to the second and four random hex digits, e.g. ``20260115-093012-7fa3``."""
    now = now or datetime.now(timezone.utc)
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def list_runs(root: Path) -> list[str]:
    """Identifiers of the runs of the project at `root`, the most recently written last."""
    folder = runs_folder(root)
    if not folder.is_dir():
        return []
    logs = [path for path in folder.glob(f"*/{FILE_NAME}") if path.is_file()]
    return [path.parent.name for path in sorted(logs, key=lambda path: (path.stat().st_mtime_ns, path.parent.name))]


def find_run(root: Path, run: str) -> Path:
    """The folder of a run by identifier, or of the latest for ``last``. Raises GauntletError with near names."""
    import difflib

    known = list_runs(root)
    if run == "last" and known:
        return runs_folder(root) / known[-1]
    if run in known:
        return runs_folder(root) / run
    if not known:
        raise GauntletError(f"no run '{run}': there is none under {runs_folder(root)} yet; start one with harness run")
    near = difflib.get_close_matches(run, known, n=3, cutoff=0.6) or known[-3:][::-1]
    raise GauntletError(f"no run '{run}' under {runs_folder(root)}. Did you mean {', '.join(near)}, or last?")


