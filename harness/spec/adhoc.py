"""A task without YAML: from a reference and input shapes on a command line, and back into a file worth keeping."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from harness.spec.checks import check
from harness.spec.document import use_core_schema
from harness.spec.errors import SpecError, near
from harness.spec.inputs import ITEMSIZE, SHORT_DTYPES, is_floating
from harness.spec.reference import read_reference
from harness.spec.shapes import is_name
from harness.spec.task import Case, InputSpec, Scalar, Task

if TYPE_CHECKING:
    from harness.spec.content import Content

Axis = tuple[str, int]  # an input's name and the index of its axis
SMALLEST_DRAWN = 3
_INPUT = re.compile(r"(?P<name>[^=:]+)=(?P<shape>[^:]*)(?::(?P<dtype>[^:]*))?(?::(?P<range>[^:]*))?")


def task_from_parts(
    reference: str,
    inputs: Iterable[str],
    args: Iterable[str] = (),
    *,
    name: str | None = None,
    folder: Path | None = None,
    content: Content | None = None,
    together: Mapping[Axis, Sequence[Axis]] | None = None,
    outputs: int = 1,
) -> Task:
    """A task of one case, for ``harness judge k.py:f --reference ops.py:softmax --input x=4096x4096:f32``.

    reference: ``file.py:name``, relative to `folder` (the current one when None), else as content would find it.
    inputs: ``name=SHAPE[:dtype[:low..high]]``, in the order of the arguments; SHAPE is ``4096x781`` or ``scalar``;
        dtypes f64 f32 f16 bf16 i64 i32 i8 u8 bool or their long names, f32 when left out. Floating inputs are standard
        normal, or uniform in [low, high); booleans fair coins; integers lie in [low, high), and without a range below
        the smallest dimension, so that as indices they stay valid at every shape.
    args: ``name=value`` keyword arguments: integer, number, true/false, else text.

    together: for (input, index of axis) the axes that must be as long, as `harness.judge.axes.tie` finds them: each
        such set becomes a dimension (``d4096``, ``d4096b``), and an axis that is not named one of its own. None: each
        distinct extent above 1 becomes one dimension, shared by every axis of that extent.

    All dimensions are dynamic and drawn from 3 up to the extent; whether the reference itself takes other shapes is for
    the judge to try.
    The case's dtype is that of the first floating input. Raises SpecError.
    """
    folder = Path.cwd() if folder is None else Path(folder)
    source, entry, path = read_reference(reference, [folder], content)
    parsed = [_input(text) for text in inputs]
    if not parsed:
        raise SpecError("a task needs at least one input: --input x=4096x4096:f32")
    doubled = {n for n, *_ in parsed if sum(n == other for other, *_ in parsed) > 1}
    if doubled:
        raise SpecError(f"input {sorted(doubled)[0]!r} is given twice")

    named, dims = _dimensions({n: shape for n, shape, _, _ in parsed}, together)
    dtype = next((d for _, _, d, _ in parsed if is_floating(d)), "float32")
    specs = {
        n: InputSpec(
            shape=[named.get((n, axis), 1) for axis in range(len(shape))],
            dtype=None if given == dtype else given,
            init=_initialiser(n, given, bounds, list(dims)),
        )
        for n, shape, given, bounds in parsed
    }
    task = Task(
        name=name or re.sub(r"[^a-z0-9_.\-]", "-", entry.lower()).lstrip("_.-")[:64] or "task",
        title=f"{path.name}:{entry}",
        reference=f"{path.resolve()}:{entry}",
        inputs=specs,
        outputs=outputs,
        args=_arguments(args),
        cases=[Case(name="given", dims=dims, dtype=dtype)],
        verify={dim: (min(SMALLEST_DRAWN, size), size) for dim, size in dims.items()},
        dynamic=list(dims),
        reference_source=source,
        reference_entry=entry,
    )
    findings = check(task)
    if findings:
        raise SpecError("; ".join(message for _, message in findings))
    return task


def _dimensions(shapes: Mapping[str, Sequence[int]], together: Mapping[Axis, Sequence[Axis]] | None
                ) -> tuple[dict[Axis, str], dict[str, int]]:
    """The dimension of every axis above 1, and every dimension's extent."""
    named: dict[Axis, str] = {}
    dims: dict[str, int] = {}
    for name, shape in shapes.items():
        for index, size in enumerate(shape):
            axis = (name, index)
            if size == 1 or axis in named:
                continue
            if together is None:
                dim = f"d{size}"
            else:
                dim = next(d for d in (f"d{size}{suffix}" for suffix in _suffixes()) if d not in dims)
            dims[dim] = size
            named.update(dict.fromkeys((axis, *(together or {}).get(axis, ())), dim))
    return named, dims


def _suffixes() -> Iterator[str]:
    yield ""
    for length in itertools.count(1):
        yield from map("".join, itertools.product("bcdefghijklmnopqrstuvwxyz", repeat=length))


def _input(text: str) -> tuple[str, list[int], str, str | None]:
    """Name, extents, dtype and range of one ``--input``."""
    match = _INPUT.fullmatch(text.strip())
    if not match:
        raise SpecError(f"input {text!r} must look like x=4096x4096:f32")
    name, written = match["name"].strip(), match["shape"].strip().lower()
    if not is_name(name):
        raise SpecError(f"input {text!r}: {name!r} cannot name an argument; use a plain identifier")
    if written in ("scalar", "[]"):
        sizes = []
    elif re.fullmatch(r"[0-9]+(x[0-9]+)*", written):
        sizes = [int(size) for size in written.split("x")]
    else:
        raise SpecError(f"input {text!r}: shape {written!r} must be sizes joined by 'x', e.g. 4096x781, or 'scalar'")
    if any(not 1 <= size < 2**31 for size in sizes):
        raise SpecError(f"input {text!r}: every size must be from 1 to 2**31 - 1")
    short = (match["dtype"] or "f32").strip().lower()
    dtype = SHORT_DTYPES.get(short, short)
    if dtype not in ITEMSIZE:
        raise SpecError(f"input {text!r}: unknown dtype {short!r}{near(short, [*SHORT_DTYPES, *ITEMSIZE])}")
    return name, sizes, dtype, match["range"]


def _initialiser(name: str, dtype: str, bounds: str | None, dims: list[str]) -> dict[str, dict[str, Any]]:
    if dtype == "bool":
        if bounds is not None:
            raise SpecError(f"input {name!r}: a bool takes no range")
        return {"bernoulli": {"p": 0.5}}
    low, high = _range(name, bounds) if bounds is not None else (None, None)
    if is_floating(dtype):
        return {"normal": {"mean": 0.0, "std": 1.0}} if low is None else {"uniform": {"low": low, "high": high}}
    if low is None:
        smallest = f"min({', '.join(dims)})" if len(dims) > 1 else dims[0] if dims else 8
        # An 8-bit input cannot index far; its own range comes first.
        limit = {"int8": 128, "uint8": 256}.get(dtype)
        return {"integers": {"low": 0, "high": f"min({smallest}, {limit})" if limit and dims else smallest}}
    if low != int(low) or high != int(high):  # type: ignore[arg-type]
        raise SpecError(f"input {name!r}: the range {bounds} of an integer must be integers")
    return {"integers": {"low": int(low), "high": int(high)}}  # type: ignore[arg-type]


def _range(name: str, bounds: str) -> tuple[float, float]:
    low, separator, high = bounds.partition("..")
    try:
        if not separator:
            raise ValueError
        return float(low), float(high)
    except ValueError:
        raise SpecError(f"input {name!r}: range {bounds!r} must look like 0..1 (the end excluded)") from None


def _arguments(args: Iterable[str]) -> dict[str, Scalar]:
    result: dict[str, Scalar] = {}
    for text in args:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not is_name(name):
            raise SpecError(f"argument {text!r} must look like eps=1e-6")
        if name in result:
            raise SpecError(f"argument {name!r} is given twice")
        result[name] = _scalar(value.strip())
    return result


def _scalar(text: str) -> Scalar:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


class _Flow(dict):
    """A mapping written on one line."""


@use_core_schema
class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    _Flow, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=True)
)


def dump_task(task: Task, beside: Path | None = None, pythonpath: Iterable[str] = ()) -> str:
    """`task` as YAML that `parse_task` reads back to the same task; keys at their defaults are left out.

    beside: the folder the text will be saved in; a reference in or below it is then written relative to it. pythonpath:
    what the reference needs to be imported with, which no task says: the comment on how to use it does.
    """
    data = task.model_dump(mode="python", by_alias=True, exclude_defaults=True)
    data.pop("schema", None)
    for loader_field in ("reference_source", "reference_entry", "source_file"):
        data.pop(loader_field, None)
    data["reference"] = _relative(task.reference, beside)
    data["inputs"] = {name: _nested(spec.model_dump(exclude_none=True)) for name, spec in task.inputs.items()}
    data["cases"] = {case.name: _Flow({**case.dims, "dtype": case.dtype}) for case in task.cases}
    for key in ("verify", "tolerance", "cost", "floor"):
        if key in data:
            data[key] = _nested(data[key])
    if "hardware" in data:
        data["hardware"] = {device: _nested(entry) for device, entry in data["hardware"].items()}
    ordered = {"schema": 1, **{key: data[key] for key in _written_order() if key in data}}
    folders = "".join(f" --pythonpath {shlex.quote(path)}" for path in pythonpath)
    body = yaml.dump(ordered, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)
    return (
        "# yaml: a task of Kernel Gauntlet. Judge a kernel on it with\n"
        f"#   harness judge KERNEL.py:NAME --task THIS_FILE.yaml{folders}\n"
        "# or put it into tasks/ of a folder that holds a gauntlet.toml, and name it by its name.\n" + body
    )


def _written_order() -> list[str]:
    names = [field.alias or name for name, field in Task.model_fields.items() if name != "schema_version"]
    first = ["name", "title", "level", "description", "reference", "inputs", "outputs", "args", "cases"]
    return first + [name for name in names if name not in first]


def _nested(data: Any) -> Any:
    if isinstance(data, dict):
        return _Flow({key: _nested(value) for key, value in data.items()})
    return [_nested(value) for value in data] if isinstance(data, (list, tuple)) else data


def _relative(reference: str, beside: Path | None) -> str:
    path, _, entry = reference.rpartition(":")
    if beside is None or not Path(path).is_absolute():
        return reference
    try:
        return f"{Path(path).relative_to(Path(beside).resolve()).as_posix()}:{entry}"
    except ValueError:
        return reference
