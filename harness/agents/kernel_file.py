"""A user's kernel file as a candidate.

The leading comments may say what the file name cannot: ``// entry: my_softmax``, ``// flags: -funroll-loops`` (``#``
in Python).
"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import ValidationError

from harness.spec.candidate import MAX_SOURCE_BYTES, Candidate
from harness.spec.document import read_text
from harness.spec.errors import SpecError

LANGUAGES = {".py": "python", ".cpp": "cpp"}
_HEADER = re.compile(r"\s*(?://|#(?!include|if|define|pragma|ifdef|ifndef))\s*(entry|flags):\s*(.*?)\s*")
_COMMENT = re.compile(r"\s*(//|#(?!include|if|define|pragma)|$)")


def kernel_files(folder: Path) -> list[Path]:
    """The kernel files (.py, .cpp) right in `folder`, sorted by name; hidden ones and ``_…`` left out."""
    found = [p for p in folder.iterdir() if p.suffix in LANGUAGES and p.is_file() and p.name[0] not in "._"]
    return sorted(found, key=lambda p: p.name)


def read_kernel(path: Path | str, entry: str | None = None) -> Candidate:
    """The candidate in a .py or .cpp file.

    entry: the function or class to call; by default what the header says, else ``ModelNew`` where a Python file
        defines that class and no ``kernel``, else ``kernel``.
    Raises SpecError when the file cannot be read, has another suffix, or names no valid entry.
    """
    path = Path(path)
    if path.suffix not in LANGUAGES:
        raise SpecError(f"is neither Python nor C++; a kernel file ends in {' or '.join(LANGUAGES)}", path)
    source = read_text(path, MAX_SOURCE_BYTES)
    said = header(source)
    if entry is None:
        model = path.suffix == ".py" and re.search(r"^class ModelNew\b", source, re.MULTILINE)
        function = re.search(r"^(def kernel|kernel\s*=)", source, re.MULTILINE)
        entry = said.get("entry", "ModelNew" if model and not function else "kernel")
    try:
        return Candidate(
            source=source,
            language=LANGUAGES[path.suffix],  # type: ignore[arg-type]
            entry=entry,
            flags=said.get("flags", "").split(),
            note=path.name,
        )
    except ValidationError:
        raise SpecError(f"entry {entry!r} must be a plain name of a function or class", path) from None


def header(source: str) -> dict[str, str]:
    """The ``key: value`` lines among the comments at the top of a file."""
    found: dict[str, str] = {}
    for line in source.splitlines():
        if not _COMMENT.match(line):
            break
        match = _HEADER.fullmatch(line)
        if match:
            found.setdefault(match[1], match[2])
    return found
