"""Published records: ``results/<suite>@<version>/<device>/<agent>/<UTC>-<hash8>/`` (DESIGN section 8).

``run.json``       what was run, where, with what outcome; sha256 of every other file
``attempts.jsonl`` one line per attempt, finals too, raw block times included
``candidates/``    what was judged, by hash

A record is a function of the run's event log alone: finalising twice gives the same bytes. It is written once; its
name carries the first digits of its hash, and readers check all of them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.runs.canonical import canonical_json, sha256_hex
from harness.runs.events import sync_folder
from harness.spec.candidate import Candidate
from harness.spec.errors import GauntletError
from harness.spec.task import Task
from harness.spec.verdict import Estimate, JudgeResult, Status

SCHEMA = 1
RUN_FILE = "run.json"
ATTEMPTS_FILE = "attempts.jsonl"
EXTENSIONS = {"python": "py", "cpp": "cpp"}


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Outcome(_Model):
    """How an agent ended on a task.

    status: of the attempt that speaks for the agent; None when it proposed nothing.
    stop: why it made no further attempt: done | attempts | seconds | agent_error | infrastructure.
    depth: ``final`` is a score; ``screen`` is not (nothing was right enough for a final, or finals were left out).
    candidate, index: hash and number of the attempt that speaks; speedup: its, only with status ok and a timed device.
    attempts, duplicates, infra_errors: proposals, those judged before, judgements the machine failed for good.
    elapsed_s: wall seconds of the agent on the task without finals and without waiting for the device.
    """

    task: str
    task_hash: str
    status: Status | None
    stop: Literal["done", "attempts", "seconds", "agent_error", "infrastructure"]
    message: str = ""
    depth: Literal["screen", "final"] | None = None
    candidate: str | None = None
    index: int | None = None
    speedup: Estimate | None = None
    attempts: int = 0
    duplicates: int = 0
    infra_errors: int = 0
    elapsed_s: float = 0.0


class CandidateRef(_Model):
    """A candidate without its source, which lies in `file`."""

    hash: str
    file: str
    language: str
    entry: str
    flags: list[str] = Field(default_factory=list)
    parameters: dict[str, Any] = Field(default_factory=dict)
    note: str = ""


class AttemptRow(_Model):
    """One line of attempts.jsonl. A duplicate's result is that of attempt `duplicate_of`, filled in when reading.

    tries: judgements until one that the machine did not fail.
    """

    task: str
    index: int
    depth: Literal["screen", "final"]
    candidate: CandidateRef
    result: JudgeResult | None = None
    duplicate_of: int | None = None
    tries: int = 1
    time: str = ""


class SuiteInfo(_Model):
    """Which list of tasks: adhoc@0 when they were named one by one."""

    name: str
    version: str


class AgentInfo(_Model):
    """Which contestant, as it was asked for and with all its settings."""

    name: str
    spec: str
    config: dict[str, Any] = Field(default_factory=dict)


class DeviceInfo(_Model):
    """Where: kind ("cpu"), folder name, facts as the executor gave them."""

    kind: str
    name: str
    facts: dict[str, Any] = Field(default_factory=dict)


class RunFile(_Model):
    """run.json. `provenance` and `resumed` come from each process that worked on the run."""

    schema_version: Literal[1] = Field(1, alias="schema")
    id: str = ""
    run: str
    suite: SuiteInfo
    agent: AgentInfo
    device: DeviceInfo
    started: str
    finished: str
    configuration: dict[str, Any]
    tasks: list[Task]
    outcomes: list[Outcome]
    containment: list[dict[str, Any]] = Field(default_factory=list)
    provenance: dict[str, Any] = Field(default_factory=dict)
    resumed: list[dict[str, Any]] = Field(default_factory=list)
    files: dict[str, str]

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


@dataclass(frozen=True)
class Record:
    """One published run of one agent: its folder, run.json, and every attempt in order of task, number and depth."""

    path: Path
    run: RunFile
    attempts: list[AttemptRow]

    def outcome(self, task: str) -> Outcome:
        """How the agent ended on `task`; KeyError for a task that was not in the run."""
        for outcome in self.run.outcomes:
            if outcome.task == task:
                return outcome
        raise KeyError(task)

    def result(self, task: str) -> JudgeResult | None:
        """The verdict that speaks for the agent on `task`: that of its outcome's attempt; None where it has none."""
        outcome = self.outcome(task)
        for row in self.attempts:
            if (row.task, row.index, row.depth) == (task, outcome.index, outcome.depth):
                return row.result
        return None

    def source(self, ref: CandidateRef) -> str:
        """The text of a candidate."""
        return (self.path / ref.file).read_bytes().decode("utf-8")


def portable_name(text: str) -> str:
    """`text` as a file name every file system takes: letters, digits and ``. _ - @``, at most 80, never reserved."""
    name = re.sub(r"[^A-Za-z0-9._@-]+", "-", text).strip("-.")[:80].strip("-.") or "unnamed"
    if re.fullmatch(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", name, re.IGNORECASE):
        name = f"_{name}"
    return name


def device_folder(kind: str, facts: dict[str, Any]) -> str:
    """Folder name of a device: its kind and the name among its facts, e.g. ``cpu-AMD-EPYC-9354``."""
    name = re.sub(r"\((r|tm)\)", "", str(facts.get("name") or ""), flags=re.IGNORECASE)
    name = re.sub(r"^(cpu|cuda)[ :-]*", "", name, flags=re.IGNORECASE) if name.lower() != kind else ""
    return portable_name(f"{kind}-{name}" if name.strip() else kind)


def candidate_file(candidate: Candidate) -> str:
    """Where a record keeps a candidate: ``candidates/<hash>.<extension>``."""
    return f"candidates/{candidate.hash}.{EXTENSIONS[candidate.language]}"


def write_record(
    results: Path, run: RunFile, rows: list[AttemptRow], candidates: dict[str, Candidate]
) -> Path:
    """Publish one record under `results` and return its folder.

    run: without `id` and `files`, which are computed here. candidates: hash → candidate, every one the rows name.
    Built in a hidden folder beside its place, fsynced, renamed. A record that is already there with these very bytes
    is left alone; one with others is never overwritten. Raises GauntletError for that, and when the disk refuses.
    """
    contents: dict[str, bytes] = {
        ATTEMPTS_FILE: "".join(canonical_json(_plain(row)) + "\n" for row in rows).encode(),
        **{candidate_file(one): one.source.encode("utf-8") for one in candidates.values()},
    }
    files = {name: sha256_hex(data) for name, data in contents.items()}
    run = run.model_copy(update={"files": files, "id": ""})
    stamp = re.sub(r"[^0-9TZ]", "", run.started.split(".")[0]).rstrip("Z") + "Z"
    run = run.model_copy(update={"id": f"{stamp}-{_run_hash(run)[:8]}"})
    contents[RUN_FILE] = (canonical_json(_plain(run), indent=1) + "\n").encode()

    parent = results / portable_name(f"{run.suite.name}@{run.suite.version}")
    parent = parent / run.device.name / portable_name(run.agent.name)
    target = parent / run.id
    if target.exists():
        if all(_same(target / name, data) for name, data in contents.items()):
            return target
        raise GauntletError(f"{target} exists with other content; records are written once. Move it away first")
    building = parent / f".{run.id}.tmp-{os.getpid()}"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(building, ignore_errors=True)
        (building / "candidates").mkdir(parents=True)
        for name, data in contents.items():
            with open(building / name, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        sync_folder(building / "candidates")
        sync_folder(building)
        os.rename(building, target)
        sync_folder(parent)
    except OSError as error:
        shutil.rmtree(building, ignore_errors=True)
        raise GauntletError(
            f"cannot publish the record {target}: {error.strerror}. The run's log is intact; "
            f"publish it again with: harness run --resume {run.run}"
        ) from None
    return target


def _same(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False


def _plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True)


def _run_hash(run: RunFile) -> str:
    """sha256 of run.json as it is without its own name."""
    return sha256_hex(canonical_json({**_plain(run), "id": ""}).encode())


def _first_error(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


def read_record(path: Path) -> Record:
    """Read and verify one record: schema, its own hash, sha256 of every file.

    Raises GauntletError naming the record and what is wrong with it.
    """

    def damaged(why: str) -> GauntletError:
        return GauntletError(f"record {path}: {why}; restore it from a copy, or delete the folder and run again")

    def read(name: str) -> bytes:
        try:
            return (path / name).read_bytes()
        except OSError as error:
            raise damaged(f"cannot read {name} ({error.strerror})") from None

    try:
        data = json.loads(read(RUN_FILE).decode("utf-8"))
    except (ValueError, RecursionError):
        raise damaged(f"{RUN_FILE} is not JSON") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if type(schema) is int and schema > SCHEMA:
        raise GauntletError(
            f"record {path}: written by a newer version (schema {schema}, this one reads up to {SCHEMA}); "
            "update kernel-gauntlet to read it"
        )
    try:
        run = RunFile.model_validate(data)
    except ValidationError as error:
        raise damaged(f"{RUN_FILE} does not follow schema {SCHEMA} ({_first_error(error)})") from None
    # The hash is over what was written, not over what this version's models make of it.
    if run.id.rpartition("-")[2] != sha256_hex(canonical_json({**data, "id": ""}).encode())[:8] or "-" not in run.id:
        raise damaged(f"{RUN_FILE} was changed after it was written (it does not match its name {run.id})")
    for name, expected in sorted(run.files.items()):
        if not re.fullmatch(r"attempts\.jsonl|candidates/[0-9a-f]{64}\.[a-z]+", name):
            raise damaged(f"{RUN_FILE} lists a file that no record has: {name!r}")
        if sha256_hex(read(name)) != expected:
            raise damaged(f"{name} was changed after it was written (its sha256 is not the one in {RUN_FILE})")
    if ATTEMPTS_FILE not in run.files:
        raise damaged(f"{RUN_FILE} does not list {ATTEMPTS_FILE}")
    rows: list[AttemptRow] = []
    for number, line in enumerate(read(ATTEMPTS_FILE).splitlines(), start=1):
        try:
            row = AttemptRow.model_validate_json(line)
        except ValidationError as error:
            raise damaged(f"{ATTEMPTS_FILE}:{number} does not follow schema {SCHEMA} ({_first_error(error)})") from None
        if row.candidate.file not in run.files:
            raise damaged(f"{ATTEMPTS_FILE}:{number} names {row.candidate.file}, which {RUN_FILE} does not list")
        rows.append(row)
    results = {(row.task, row.index): row.result for row in rows if row.depth == "screen" and row.result}
    for row in rows:
        if row.duplicate_of is not None:
            row.result = results.get((row.task, row.duplicate_of))
    return Record(path, run, rows)


def read_results(folder: Path, on_skip: Callable[[Path, str], None] | None = None) -> list[Record]:
    """Every record under `folder` (any depth; a record's own folder too), in the order of their paths.

    A damaged record is left out: `on_skip` gets its folder and the reason, or else a warning is issued.
    Raises GauntletError when `folder` does not exist.
    """
    if not folder.is_dir():
        raise GauntletError(f"no results folder {folder}; publish a run there with harness run, or name another")
    found = {file.parent for name in (RUN_FILE, ATTEMPTS_FILE) for file in folder.rglob(name)}
    records = []
    for path in sorted(found):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue  # still being built, or left by a run that was killed while it published
        try:
            records.append(read_record(path))
        except GauntletError as error:
            if on_skip:
                on_skip(path, str(error))
            else:
                warnings.warn(f"skipped: {error}", stacklevel=2)
    return records
