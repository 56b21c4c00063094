"""Loading tasks: YAML text to `Task`, every problem reported with file and line. Nothing of a task is executed here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import ValidationError

from harness.spec.adhoc import dump_task, task_from_parts
from harness.spec.checks import check, check_source
from harness.spec.data import describe, resolved
from harness.spec.document import Document, parse_yaml, read_text
from harness.spec.errors import SpecError, near
from harness.spec.explain import checked_top, explain
from harness.spec.inputs import DESCRIBED
from harness.spec.reference import read_reference
from harness.spec.shapes import shape
from harness.spec.task import DType, InputSpec, Task

if TYPE_CHECKING:
    from harness.spec.content import Content

__all__ = ["dump_task", "load_task", "parse_task", "task_from_parts"]

LOADER_FIELDS = ("reference_source", "reference_entry", "source_file")
_CASE_NAME = re.compile(r"[a-z0-9][a-z0-9_.\-]{0,63}")


def load_task(path: Path | str, content: Content | None = None) -> Task:
    """The task in a YAML file. Raises SpecError listing everything that is wrong with it."""
    path = Path(path)
    return parse_task(read_text(path), path, content)


def parse_task(text: str, file: Path | str, content: Content | None = None) -> Task:
    """The task in `text`; `file` is where it lies: errors name it, and the reference is looked up beside it first.

    A relative reference is searched in the file's folder, then, where that folder is called tasks/, in suite/ beside
    it and in the folder around it, then through `content`.
    Raises SpecError listing everything that is wrong.
    """
    file = Path(file)
    document = parse_yaml(text, str(file))
    data, problems = checked_top(Task, document, hidden=LOADER_FIELDS)
    if "cases" in data:
        data["cases"], wrong = _cases(document)
        problems += wrong
    try:
        task = Task.model_validate(data)
    except ValidationError as error:
        problems += explain(error, Task, document)
    if problems:
        raise SpecError.of(problems)

    problems = [document.error(where, message) for where, message in check(task)]
    source, entry = "", ""
    try:
        source, entry, _ = read_reference(task.reference, _folders(file), content)
    except SpecError as error:
        problems.append(error if error.file else document.error(("reference",), error.message))
    if problems:
        raise SpecError.of(problems)
    task = task.model_copy(update={"inputs": _with_data(task, document, _folders(file))})
    filled = {"reference_source": source, "reference_entry": entry, "source_file": str(file)}
    task = task.model_copy(update=filled)
    problems = [document.error(where, message) for where, message in check_source(task)]
    if problems:
        raise SpecError.of(problems)
    return task


def _with_data(task: Task, document: Document, folders: list[Path]) -> dict[str, InputSpec]:
    """The inputs, those from files with what is in them. Raises SpecError listing what is wrong with the files."""
    inputs, problems = dict(task.inputs), []
    for name, spec in task.inputs.items():
        ((kind, options),) = spec.init.items()
        if kind not in DESCRIBED:
            continue
        where = ("inputs", name, "init", kind, "path")
        try:
            path = resolved(options["path"], folders)
            known = {"path": str(path), "tensor": options.get("tensor", ""),
                     **describe(path, options.get("tensor", ""), kind)}
            size = list(shape(spec.shape, task.cases[0].dims))
            if kind == "file" and known["shape"] != size:
                raise SpecError(f"{path.name} has shape {known['shape']}, the task says {size}")
        except SpecError as error:
            problems.append(document.error(where, f"{error.file}: {error.message}" if error.file else error.message))
            continue
        inputs[name] = spec.model_copy(update={"init": {kind: known}})
    if problems:
        raise SpecError.of(problems)
    return inputs


def _folders(file: Path) -> list[Path]:
    parent = file.absolute().parent
    return [parent, parent.parent / "suite", parent.parent] if parent.name == "tasks" else [parent]


def _cases(document: Document) -> tuple[list[dict[str, Any]], list[SpecError]]:
    """``name -> {dim: value, dtype: …}`` as the model's list, dimensions of all in the order of the first case."""
    written = document.data["cases"]
    if not isinstance(written, dict) or not written:
        return [], [document.error(("cases",), "must be a mapping of at least one case: name: {dim: size, dtype: …}")]
    cases: list[dict[str, Any]] = []
    problems: list[SpecError] = []
    order: list[str] | None = None
    first = next(iter(written))
    for name, values in written.items():
        where = ("cases", name)
        if not _CASE_NAME.fullmatch(name):
            problems.append(document.error(where, f"case name {name!r} must match {_CASE_NAME.pattern}"))
        if not isinstance(values, dict):
            problems.append(document.error(where, "must be a mapping: {dim: size, dtype: …}"))
            continue
        dims = {key: value for key, value in values.items() if key != "dtype"}
        dtype = values.get("dtype", "float32")
        wrong = []
        known = get_args(DType)
        if dtype not in known:
            wrong.append(document.error((*where, "dtype"), f"unknown dtype {dtype!r}{near(str(dtype), known)}"))
        for dim, size in dims.items():
            if type(size) is not int or not 1 <= size < 2**31:
                wrong.append(document.error((*where, dim), f"{size!r} must be an integer from 1 to 2**31 - 1"))
        if order is None:
            order = list(dims)
        wrong += [
            document.error((*where, dim), f"unknown dimension {dim!r}, case {first!r} has none{near(dim, order)}")
            for dim in dims
            if dim not in order
        ]
        wrong += [
            document.error(where, f"missing dimension {dim!r}, which case {first!r} has")
            for dim in order
            if dim not in dims
        ]
        if not wrong:
            cases.append({"name": name, "dims": {dim: dims[dim] for dim in order}, "dtype": dtype})
        problems += wrong
    return cases, problems
