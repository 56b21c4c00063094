"""KERNEL on the command line: ``file.py``, ``file.py:name``, ``file.cpp``, ``file.cpp:name``. Nothing is imported."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from harness.agents.kernel_file import header
from harness.spec.candidate import MAX_SOURCE_BYTES, Candidate
from harness.spec.document import read_regular
from harness.spec.errors import GauntletError, near

LANGUAGES = {".py": "python", ".cpp": "cpp", ".cc": "cpp", ".cxx": "cpp"}
DEFAULT_ENTRIES = ("kernel", "ModelNew")


def split_kernel(text: str) -> tuple[Path, str | None]:
    """File and entry point (None when it is not named) of a KERNEL argument."""
    path, colon, name = text.rpartition(":")
    if colon and path and not Path(text).exists():
        return Path(path), name
    return Path(text), None


def load_kernel(text: str) -> Candidate:
    """The candidate a KERNEL argument names; its language goes by the suffix of the file.

    The entry point is the one named, else that of the file's ``// entry:`` header, else ``kernel``, else ``ModelNew``
    where the file defines that; ``// flags:`` are the compiler's.
    Raises GauntletError for a file that is not there, is none of ours, or does not define the entry point.
    """
    path, name = split_kernel(text)
    language = LANGUAGES.get(path.suffix.lower())
    if language is None:
        raise GauntletError(
            f"{path}: a kernel is a .py or .cpp file, not '{path.suffix or path.name}'; give file.py or file.py:name"
        )
    source = _read(path)
    said = header(source)
    name = name or said.get("entry")
    if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", name):
        raise GauntletError(f"{path}: {name!r} cannot name a function; give {path.name}:name")
    entry = name or "kernel"
    if language == "python":
        entry = _python_entry(path, source, name)
    return Candidate(source=source, language=language, entry=entry, flags=said.get("flags", "").split(), note=path.name)


def _read(path: Path) -> str:
    try:
        data = read_regular(path, MAX_SOURCE_BYTES + 1)
    except FileNotFoundError:
        folder = path.parent
        others = [p.name for p in folder.iterdir() if p.suffix in LANGUAGES] if folder.is_dir() else []
        raise GauntletError(f"no file {path}{near(path.name, others) if others else ''}") from None
    except OSError as error:
        raise GauntletError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_SOURCE_BYTES:
        raise GauntletError(f"{path} is larger than a candidate may be: {MAX_SOURCE_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise GauntletError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def _python_entry(path: Path, source: str, name: str | None) -> str:
    try:
        defined, open_ended = _defined(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError):
        return name or "kernel"  # the judge's verdict on this file is compile_error, with the place
    callables = sorted(one for one, callable_ in defined.items() if callable_)
    if name is not None:
        if name not in defined and not open_ended:
            raise GauntletError(f"{path} defines no '{name}'{near(name, callables or defined)}")
        return name
    for entry in DEFAULT_ENTRIES:
        if entry in defined:
            return entry
    if open_ended:
        return "kernel"
    public = [one for one in callables if not one.startswith("_")]
    hint = f"name what it defines, e.g. {path}:{public[0]}" if public else "it defines no function at all"
    raise GauntletError(f"{path} defines neither kernel nor ModelNew; {hint}")


def _defined(tree: ast.Module) -> tuple[dict[str, bool], bool]:
    """Names bound at the top level → whether as a function or class; and whether more may be bound unseen."""
    names: dict[str, bool] = {}
    open_ended = False
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names[node.name] = True
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                open_ended |= alias.name == "*"
                names.setdefault(alias.asname or alias.name.split(".")[0], False)
            continue
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                pending.append(child)
            elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
                pending.extend(child.body)
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                names.setdefault(child.id, False)
            open_ended |= isinstance(child, ast.Name) and child.id in ("globals", "exec", "vars", "setattr")
    return names, open_ended
