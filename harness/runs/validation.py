"""Tasks through the validity gate, each in a process that may be lost; verdicts are kept by the tasks' content."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path

from pydantic import ValidationError

from harness.runs.canonical import canonical_json
from harness.runs.expendable import call
from harness.runs.lease import DeviceLease
from harness.spec.content import shipped_root
from harness.spec.errors import GauntletError
from harness.spec.task import Task
from harness.spec.validity import GATE_VERSION, Validity

SECONDS = 900.0  # for all probes on one task: the slowest shipped one takes 13
RECORD = "suite/validated.json"  # the shipped tasks that have passed, by content: they are not tried on every machine


class InvalidTask(GauntletError):
    """A task that cannot tell right from wrong; nothing may be scored on it."""


def validate_task(task: Task, cache: Path, *, device: str = "cpu", seeds: int | None = None,
                  pythonpath: Sequence[str | Path] = (), fresh: bool = False) -> Validity:
    """The gate's verdict, from `cache` where it is known.

    cache: folder of the harness' caches. seeds: fewer than all makes it a quick look, which is not kept. fresh: try
    again what is known. Raises GauntletError when the reference cannot be loaded or run, or takes too long.
    """
    kept = _file(cache, task, device)
    known = None if fresh or seeds is not None else _read(kept, task)
    if known is not None:
        return known
    argument = {"task": task.model_dump(mode="json", by_alias=True), "device": device, "seeds": seeds}
    found = Validity.model_validate(call("harness.judge.validity:validate_json", argument, seconds=SECONDS,
                                         what=f"task {task.name}", pythonpath=pythonpath))
    if seeds is None:
        _keep(kept, found)
    return found


def ensure_valid(tasks: Iterable[Task], cache: Path, *, device: str = "cpu", pythonpath: Sequence[str | Path] = (),
                 tell: Callable[[str], None] = lambda text: None, lease: DeviceLease | None = None) -> None:
    """Raises InvalidTask unless every task may be scored, GauntletError when one cannot be tried.

    tell: is told of each that has to be tried first, and of waiting. lease: taken while one is tried, so that it does
    not disturb what is being timed.
    """
    vouched = shipped_verdicts()
    refused = []
    for task in tasks:
        if task.content_hash in vouched:
            continue
        known = _read(_file(cache, task, device), task)
        if known is None:
            tell(f"checking once whether task {task.name} can tell right from wrong")
            with lease.hold(tell) if lease else nullcontext():
                known = validate_task(task, cache, device=device, pythonpath=pythonpath)
        if not known.valid:
            refused.append(known)
    if refused:
        lines = [f"task {one.task} cannot tell right from wrong: {one.refusals[0].message}" for one in refused]
        raise InvalidTask("\n".join([*lines, "all that was found: harness validate "
                                               + " ".join(one.task for one in refused)]))


def shipped_verdicts() -> set[str]:
    """Content hashes of the shipped tasks that have passed this gate."""
    try:
        record = json.loads((shipped_root() / RECORD).read_text())
        return set(record["tasks"].values()) if record["gate"] == GATE_VERSION else set()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()


def record_text(verdicts: Iterable[Validity]) -> str:
    """The text of RECORD, from the verdicts that are valid."""
    passed = {one.task: one.task_hash for one in sorted(verdicts, key=lambda one: one.task) if one.valid}
    return canonical_json({"gate": GATE_VERSION, "tasks": passed}, indent=2) + "\n"


def _file(cache: Path, task: Task, device: str) -> Path:
    return cache / "validity" / f"{task.content_hash[:32]}-{GATE_VERSION}-{_torch()}-{device}.json"


def _torch() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "none"


def _read(path: Path, task: Task) -> Validity | None:
    try:
        known = Validity.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None  # nothing there, or damaged: tried again
    return known.model_copy(update={"task": task.name}) if known.task_hash == task.content_hash else None


def _keep(path: Path, verdict: Validity) -> None:
    """Written beside and renamed: two runs may do it at once. A cache that cannot be written is only slower."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent)
    except OSError:
        return
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(canonical_json(verdict.model_dump(mode="json")))
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
