"""Finding and reading a task's reference. It is read and parsed here, never imported or executed."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from harness.spec.document import read_text
from harness.spec.errors import ContentNotFound, SpecError, near

if TYPE_CHECKING:
    from harness.spec.content import Content

MAX_REFERENCE_BYTES = 500_000
_ENTRY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def read_reference(reference: str, folders: list[Path], content: Content | None) -> tuple[str, str, Path]:
    """The source text, the entry and the file of ``path.py:entry``.

    A relative path is looked up in `folders`, in their order, then through `content`; it may not contain ``..``. The
    entry must be a function or a class at the top level of the file. Raises SpecError.
    """
    path, _, entry = reference.rpartition(":")
    if not path or not _ENTRY.fullmatch(entry):
        raise SpecError(f"{reference!r} must be file.py:name, e.g. references/softmax.py:softmax")
    found = _find(path, folders, content)
    source = read_text(found, MAX_REFERENCE_BYTES)
    known = entries(source, found)
    if entry not in known:
        raise SpecError(f"{found} defines no function or class {entry!r} at its top level{near(entry, known)}")
    return source, entry, found


def entries(source: str, file: Path) -> list[str]:
    """The functions and classes at the top level of `source`. Raises SpecError with the line of a syntax error."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise SpecError(f"is not valid Python: {error.msg}", file, error.lineno) from None
    except (ValueError, MemoryError, RecursionError) as error:
        raise SpecError(f"is not valid Python: {error}", file) from None
    return [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


def _find(path: str, folders: list[Path], content: Content | None) -> Path:
    given = Path(path)
    if given.is_absolute():
        if not given.is_file():
            raise SpecError(f"no reference file {given}")
        return given
    if ".." in given.parts:
        raise SpecError(f"{path!r} may not contain '..'; give an absolute path or a file below the task's folder")
    for folder in folders:
        if (folder / given).is_file():
            return folder / given
    hint = ""
    if content is not None:
        try:
            return content.find(path if "/" in path else f"references/{path}")
        except ContentNotFound as error:
            hint = f"; {error.message}"
    raise SpecError(f"no reference file {path!r} in {', '.join(map(str, folders)) or 'any folder'}{hint}")
