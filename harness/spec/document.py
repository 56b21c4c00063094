"""YAML that remembers its lines: the one reader of every YAML file of the project.

The subset is YAML 1.2's core schema: ``1e-3`` is a number, ``no`` and ``on`` are text, keys are always text. Duplicate
keys, tags that name types, merge keys and documents that expand without bound are refused.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.spec.errors import SpecError

MAX_BYTES = 1_000_000
MAX_NODES = 50_000
MAX_DEPTH = 32

Location = tuple[str | int, ...]
_PREFIX = "tag:yaml.org,2002:"

CORE_RESOLVERS: dict[str, tuple[str, list[str]]] = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
}


def use_core_schema(cls: type) -> type:
    """Replace the implicit types of a PyYAML loader or dumper class (YAML 1.1) with those of YAML 1.2's core schema."""
    cls.yaml_implicit_resolvers = {}  # type: ignore[attr-defined]
    for tag, (pattern, first) in CORE_RESOLVERS.items():
        cls.add_implicit_resolver(_PREFIX + tag, re.compile(rf"^(?:{pattern})$"), first)  # type: ignore[attr-defined]
    return cls


@use_core_schema
class _Loader(yaml.SafeLoader):
    pass


@dataclass
class Document:
    """A parsed file: plain dicts, lists and scalars, and the line (from 1) of every key and list item."""

    data: Any
    lines: dict[Location, int] = field(default_factory=dict)
    file: str = ""

    def line(self, where: Location) -> int:
        """The line of `where`, or of the nearest thing around it that was written."""
        for length in range(len(where), -1, -1):
            if where[:length] in self.lines:
                return self.lines[where[:length]]
        return 1

    def error(self, where: Location, message: str) -> SpecError:
        """``file:line: where: message``, to be raised or collected."""
        return SpecError(f"{dotted(where)}: {message}" if where else message, self.file, self.line(where))


def dotted(where: Location) -> str:
    """``("inputs", "x", "shape", 0)`` as ``inputs.x.shape[0]``."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_regular(path: Path, limit: int) -> bytes:
    """The first `limit` bytes of a file. Raises OSError, also for a pipe or a device, which might never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        kind = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "Is a directory" if stat.S_ISDIR(kind) else "not a regular file")
        return stream.read(limit)


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """The text of a UTF-8 file. Raises SpecError when it cannot be read, is larger than `limit` bytes or not UTF-8."""
    try:
        raw = read_regular(path, limit + 1)
    except OSError as error:
        raise SpecError(f"cannot be read: {error.strerror or error}", path) from None
    if len(raw) > limit:
        raise SpecError(f"is larger than {limit} bytes", path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SpecError(f"is not UTF-8 text (byte {error.start})", path, line) from None


def parse_yaml(text: str, file: str = "<text>") -> Document:
    """Parse one YAML document whose top is a mapping. Raises SpecError with the exact line."""
    if len(text.encode()) > MAX_BYTES:
        raise SpecError(f"is larger than {MAX_BYTES} bytes", file)
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = "; ".join(part for part in (error.context, error.problem) if part)
        raise SpecError(f"not valid YAML: {what}", file, mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        position = getattr(error, "position", 0)
        raise SpecError(
            f"not valid YAML: {getattr(error, 'reason', error)}", file, text.count("\n", 0, position) + 1
        ) from None
    except RecursionError:
        raise SpecError(f"nested deeper than {MAX_DEPTH} levels", file) from None
    finally:
        if loader is not None:
            loader.dispose()
    if not isinstance(node, yaml.MappingNode):
        raise SpecError("must hold a mapping of keys at its top", file, 1)
    document = Document(None, file=file)
    document.data = _Builder(document).build(node, ())
    return document


class _Builder:
    """Turns nodes into values. Counts every node as often as aliases repeat it, so no alias bomb can go off."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.count = 0

    def build(self, node: yaml.Node, where: Location) -> Any:
        self.document.lines.setdefault(where, node.start_mark.line + 1)
        self.count += 1
        if self.count > MAX_NODES:
            raise self.error(node, f"more than {MAX_NODES} values, aliases expanded")
        if len(where) > MAX_DEPTH:
            raise self.error(node, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, where)
        if isinstance(node, yaml.SequenceNode):
            self.plain_tag(node, "seq")
            return [self.build(item, (*where, i)) for i, item in enumerate(node.value)]
        return self.scalar(node)

    def mapping(self, node: yaml.MappingNode, where: Location) -> dict[str, Any]:
        self.plain_tag(node, "map")
        result: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self.error(key_node, "a key must be plain text")
            key, line = key_node.value, key_node.start_mark.line + 1
            if key in first:
                raise self.error(key_node, f"duplicate key {key!r} (first on line {first[key]})")
            first[key] = line
            self.document.lines.setdefault((*where, key), line)
            result[key] = self.build(value_node, (*where, key))
        return result

    def scalar(self, node: yaml.Node) -> Any:
        text = node.value
        kind = node.tag.removeprefix(_PREFIX)
        try:
            if kind == "str":
                return text
            if kind == "null":
                return None
            if kind == "bool":
                return {"true": True, "false": False}[text.lower()]
            if kind == "int":
                digits = text.lower()
                return int(digits, 0) if digits.startswith(("0o", "0x")) else int(digits)
            if kind == "float":
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        except (ValueError, KeyError):
            raise self.error(node, f"{text[:40]!r} is no {kind}") from None
        raise self.error(node, f"tag {node.tag!r} is not allowed; write plain values")

    def plain_tag(self, node: yaml.Node, kind: str) -> None:
        if node.tag != _PREFIX + kind:
            raise self.error(node, f"tag {node.tag!r} is not allowed; write plain values")

    def error(self, node: yaml.Node, message: str) -> SpecError:
        return SpecError(message, self.document.file, node.start_mark.line + 1)
