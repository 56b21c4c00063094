"""pydantic's findings as messages with file, line, place and the nearest valid name."""

from __future__ import annotations

import types
from collections.abc import Collection
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from harness.spec.document import Document, Location
from harness.spec.errors import SpecError, near

M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], document: Document, schema: int = 1) -> M:
    """`document.data` as a `model`. Raises one SpecError that lists every problem; wants ``schema: 1`` at the top."""
    data, problems = checked_top(model, document, schema)
    try:
        result = model.model_validate(data)
    except ValidationError as error:
        problems += explain(error, model, document)
    if problems:
        raise SpecError.of(problems)
    return result


def checked_top(
    model: type[BaseModel], document: Document, schema: int = 1, hidden: Collection[str] = ()
) -> tuple[dict[str, Any], list[SpecError]]:
    """The data without unknown top-level keys and ``schema``, and a problem for each of them and for a wrong schema.

    hidden: fields of `model` that no file may set.
    """
    data, problems = dict(document.data), []
    allowed = set(field_names(model)) - set(hidden) | {"schema"}
    for key in [k for k in data if k not in allowed]:
        problems.append(document.error((key,), f"unknown key{near(key, allowed)}"))
        del data[key]
    version = data.pop("schema", None)
    if version is None:
        problems.append(document.error((), f"missing key 'schema' — add 'schema: {schema}' at the top"))
    elif type(version) is int and version > schema:
        problems.append(
            document.error(("schema",), f"version {version} is newer than this program knows ({schema}); upgrade it")
        )
    elif type(version) is not int or version != schema:
        problems.append(document.error(("schema",), f"must be {schema}, not {version!r}"))
    return data, problems


def explain(error: ValidationError, model: type[BaseModel], document: Document) -> list[SpecError]:
    """One problem per thing that is wrong; the branches of a union count as one."""
    problems: dict[tuple[Location, str], SpecError] = {}
    for item in error.errors(include_url=False):
        where: Location = item["loc"]
        kind = item["type"]
        union = _union_at(model, where[:-1])
        if union:
            where, message = where[:-1], f"must be {' or '.join(union)}, not {_shown(item['input'])}"
        elif kind == "extra_forbidden":
            known = field_names(_annotation(model, where[:-1]))
            message = f"unknown key{near(str(where[-1]), known)}"
        elif kind == "missing":
            where, message = where[:-1], f"missing key {str(where[-1])!r}"
        elif kind == "literal_error":
            options = [str(v) for v in get_args(_annotation(model, where))]
            message = f"{_shown(item['input'])} is not allowed{near(str(item['input']), options)}"
        elif kind == "string_pattern_mismatch":
            message = f"{_shown(item['input'])} must match {item['ctx']['pattern']}"
        else:
            what = item["msg"][0].lower() + item["msg"][1:]
            message = f"{what} (got {_shown(item['input'])})"
        problems.setdefault((where, message), document.error(where, message))
    return list(problems.values())


def field_names(annotation: Any) -> list[str]:
    """The keys a model takes, as they are written in a file."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [field.alias or name for name, field in annotation.model_fields.items()]
    return []


def _annotation(model: Any, where: Location) -> Any:
    """What may stand at `where` inside `model`; None where that cannot be told."""
    current = _plain(model)
    for part in where:
        if isinstance(current, type) and issubclass(current, BaseModel):
            fields = {field.alias or name: field for name, field in current.model_fields.items()}
            current = fields[part].annotation if part in fields else None
        elif get_origin(current) is dict:
            current = get_args(current)[1]
        elif get_origin(current) is list:
            current = get_args(current)[0]
        else:
            return None
        current = _plain(current)
    return current


def _plain(annotation: Any) -> Any:
    """Without Annotated and without None."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, types.UnionType):
            members = [a for a in get_args(annotation) if a is not type(None)]
            if len(members) != 1:
                return annotation
            annotation = members[0]
        else:
            return annotation


def _union_at(model: Any, where: Location) -> list[str]:
    """The names of the members when a real union of plain types stands at `where`, else nothing."""
    annotation = _annotation(model, where)
    if get_origin(annotation) not in (Union, types.UnionType):
        return []
    words = {int: "an integer", float: "a number", bool: "true/false", str: "text"}
    return [words.get(a, str(a)) for a in get_args(annotation) if a is not type(None)]


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
