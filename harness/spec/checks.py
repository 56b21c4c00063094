"""What the model alone cannot say about a task: every name declared, every range sensible, every initialiser valid."""

from __future__ import annotations

import math
import itertools
import re
from collections.abc import Iterator
from typing import Any

from harness.spec.document import Location
from harness.spec.errors import SpecError, near
from harness.spec.inputs import INITIALISERS, INTEGER_RANGE, REQUIRED, is_floating, itemsize
from harness.spec.shapes import RESERVED, evaluate, is_name, names, shape
from harness.spec.task import InputSpec, Task

DEVICES = ("cpu", "cuda")
MAX_ELEMENTS = 2**40
Finding = tuple[Location, str]


def check(task: Task) -> list[Finding]:
    """Everything wrong with `task`, each with where it stands in the file (cases under their names)."""
    findings = [*_dimensions(task)]
    if findings:  # names below would only repeat them
        return findings
    for name, spec in task.inputs.items():
        findings += _input(task, name, spec)
    return [
        *findings,
        *_data(task, findings),
        *_unused(task, findings),
        *_ranges(task),
        *_arguments(task),
        *_hardware(task),
        *_selection(task),
        *_cost(task),
    ]


def _dimensions(task: Task) -> Iterator[Finding]:
    if not task.inputs:
        yield ("inputs",), "a task needs at least one input"
    for name in task.inputs:
        if not is_name(name):
            yield ("inputs", name), f"{name!r} cannot name an argument; use a plain identifier"
    for dim in task.cases[0].dims:
        if not is_name(dim) or dim in RESERVED:
            yield ("cases", task.cases[0].name, dim), f"{dim!r} cannot name a dimension; use another identifier"


def _input(task: Task, name: str, spec: InputSpec) -> Iterator[Finding]:
    where: Location = ("inputs", name)
    for at, dims in _workloads(task):
        wrong = _wrong_axis(spec, dims)
        if wrong:
            yield (*where, "shape", wrong[0]), wrong[1]
            break
        size = shape(spec.shape, dims)
        if math.prod(size) > MAX_ELEMENTS:
            yield (*where, "shape"), f"{math.prod(size)} elements{at} are more than 2**40"
            break
    scales = spec.scales
    if not scales or not all(math.isfinite(s) and s > 0 for s in scales) or 1.0 not in scales:
        yield (*where, "scales"), f"{scales} must be positive factors, 1.0 among them"
    yield from _initialiser(task, where, spec)


def _wrong_axis(spec: InputSpec, dims: dict[str, int]) -> tuple[int, str] | None:
    for axis, expression in enumerate(spec.shape):
        try:
            shape([expression], dims)
        except SpecError as error:
            return axis, error.message
    return None


def _initialiser(task: Task, where: Location, spec: InputSpec) -> Iterator[Finding]:
    where = (*where, "init")
    if len(spec.init) != 1:
        yield where, f"needs exactly one initialiser, not {len(spec.init)}: {{normal: {{mean: 0, std: 1}}}}"
        return
    ((kind, given),) = spec.init.items()
    if kind not in INITIALISERS:
        yield (*where, kind), f"unknown initialiser{near(kind, INITIALISERS)}"
        return
    allowed = INITIALISERS[kind]
    unknown = [option for option in given if option not in allowed]
    missing = [option for option, default in allowed.items() if default is REQUIRED and option not in given]
    for option in unknown:
        yield (*where, kind, option), f"unknown option of {kind}{near(option, allowed)}"
    for option in missing:
        yield (*where, kind), f"missing option {option!r}"
    if unknown or missing:
        return
    options = {**allowed, **given}
    wrong = _option_values(kind, options)
    if wrong:
        yield (*where, kind, wrong[0]), wrong[1]
        return
    for dtype in dict.fromkeys([spec.dtype] if spec.dtype else [case.dtype for case in task.cases]):
        wrong_dtype = _fits(kind, options, dtype)
        if wrong_dtype:
            yield (*where, kind), wrong_dtype
    if kind == "permutation" and not spec.shape:
        yield (*where, kind), "needs an input of at least one axis"
    if kind == "integers":
        yield from _integer_bounds(task, (*where, kind), spec, options)


def _option_values(kind: str, options: dict[str, Any]) -> tuple[str, str] | None:
    """The first option whose value makes no sense, and why."""
    if kind == "integers":
        return None  # expressions, seen to where they are evaluated
    if kind in ("file", "like"):
        wrong = next((option for option, value in options.items() if not isinstance(value, str)), None)
        return (wrong, f"{options[wrong]!r} must be text") if wrong else None
    for option, value in options.items():
        number = isinstance(value, (int, float)) and (not isinstance(value, bool) or kind == "constant")
        if not number or not math.isfinite(value):
            return option, f"{value!r} must be a finite number"
    if kind == "normal" and options["std"] <= 0:
        return "std", f"{options['std']} must be positive (use constant for constant data)"
    if kind == "uniform" and options["low"] >= options["high"]:
        return "high", f"{options['high']} must be above low ({options['low']})"
    if kind == "bernoulli" and not 0 <= options["p"] <= 1:
        return "p", f"{options['p']} must lie in [0, 1]"
    return None


def _fits(kind: str, options: dict[str, Any], dtype: str) -> str | None:
    if kind == "like" and dtype == "bool":
        return "like does not suit dtype bool; use bernoulli"
    if kind in ("normal", "uniform") and not is_floating(dtype):
        return f"{kind} needs a floating dtype, not {dtype}; use integers or bernoulli"
    if kind in ("integers", "permutation") and dtype == "bool":
        return f"{kind} does not suit dtype bool; use bernoulli"
    if kind == "permutation" and dtype not in ("int32", "int64"):
        return f"permutation needs dtype int64 or int32, not {dtype}"
    if kind == "constant" and not is_floating(dtype):
        value = options["value"]
        low, high = INTEGER_RANGE.get(dtype, (0, 2))
        if isinstance(value, float) or not low <= value < high:
            return f"constant {value!r} does not fit dtype {dtype}"
    return None


def _integer_bounds(task: Task, where: Location, spec: InputSpec, options: dict[str, Any]) -> Iterator[Finding]:
    for option in ("low", "high"):
        for _, dims in _workloads(task):
            try:
                evaluate(options[option], dims)
            except SpecError as error:
                yield (*where, option), error.message
                return
    for at, dims in _workloads(task):
        low, high = evaluate(options["low"], dims), evaluate(options["high"], dims)
        if low >= high:
            yield (*where, "high"), f"{high} (exclusive) must be above low ({low}){at}"
            return
        for dtype in [spec.dtype] if spec.dtype else [case.dtype for case in task.cases]:
            least, most = INTEGER_RANGE.get(dtype, (-(2**53), 2**53))
            if low < least or high > most:
                yield (*where, "high"), f"[{low}, {high}){at} does not fit dtype {dtype}"
                return


def _data(task: Task, findings: list[Finding]) -> Iterator[Finding]:
    """What is read from a file is the same in every call, so it has one shape and cannot be all there is."""
    kinds = {name: next(iter(spec.init), "") for name, spec in task.inputs.items()}
    if findings or "file" not in kinds.values():
        return
    for name in (name for name, kind in kinds.items() if kind == "file"):
        sizes = {tuple(shape(task.inputs[name].shape, dims)) for _, dims in _workloads(task)}
        moving = {dim for expression in task.inputs[name].shape for dim in names(expression)} & set(task.dynamic)
        if len(sizes) > 1 or moving:
            yield (("inputs", name, "init", "file"),
                   "data from a file has one shape: the dimensions of this input must be the same in all cases, and "
                   "neither in verify nor dynamic; or draw alike with `like`")
    if set(kinds.values()) <= {"file", "constant"}:
        yield (("inputs", next(iter(kinds)), "init"),
               "nothing changes from call to call, so a kernel could return what it remembers; draw at least one input, "
               "with `like` perhaps")


def _workloads(task: Task) -> list[tuple[str, dict[str, int]]]:
    """Every case, and both ends of the verify range, each with how to name it in a message."""
    loads = [(f" in case {case.name}", case.dims) for case in task.cases]
    first = task.cases[0].dims
    if task.verify and set(task.verify) <= set(first) and all(len(r) == 2 for r in task.verify.values()):
        for end, word in ((0, "low"), (1, "high")):
            drawn = {dim: task.verify[dim][end] if dim in task.verify else size for dim, size in first.items()}
            loads.append((f" at the {word} end of verify", drawn))
    return loads


def _unused(task: Task, findings: list[Finding]) -> Iterator[Finding]:
    used: set[str] = set()
    try:
        for spec in task.inputs.values():
            for expression in [*spec.shape, *spec.init.get("integers", {}).values()]:
                used |= names(expression)
    except SpecError:
        return  # reported where it stands
    if findings:
        return
    for dim in task.cases[0].dims:
        if dim not in used:
            yield ("cases", task.cases[0].name, dim), f"dimension {dim!r} is used by no input; remove it"


def _ranges(task: Task) -> Iterator[Finding]:
    dims = task.cases[0].dims
    for dim, (low, high) in task.verify.items():
        if dim not in dims:
            yield ("verify", dim), f"unknown dimension{near(dim, dims)}"
        elif low < 1:
            yield ("verify", dim), f"low {low} must be at least 1"
        elif low > high:
            yield ("verify", dim), f"low {low} is above high {high}"
    for index, dim in enumerate(task.dynamic):
        if dim not in dims:
            yield ("dynamic", index), f"unknown dimension {dim!r}{near(dim, dims)}"
        elif dim in task.dynamic[:index]:
            yield ("dynamic", index), f"{dim!r} is listed twice"


def _arguments(task: Task) -> Iterator[Finding]:
    for name, value in task.args.items():
        if not is_name(name):
            yield ("args", name), f"{name!r} cannot name an argument; use a plain identifier"
        elif name in task.inputs:
            yield ("args", name), f"{name!r} is an input already"
        if isinstance(value, float) and not math.isfinite(value):
            yield ("args", name), f"{value} must be finite"
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            yield ("args", name), f"{value} does not fit 64 bits"


def _hardware(task: Task) -> Iterator[Finding]:
    known = [case.name for case in task.cases]
    for device, entry in task.hardware.items():
        if device not in DEVICES:
            yield ("hardware", device), f"unknown kind of device{near(device, DEVICES)}"
        for index, name in enumerate(entry.cases):
            if name not in known:
                yield ("hardware", device, "cases", index), f"unknown case {name!r}{near(name, known)}"
            elif name in entry.cases[:index]:
                yield ("hardware", device, "cases", index), f"{name!r} is listed twice"
        if entry.min_capability is not None and not re.fullmatch(r"\d+\.\d+", entry.min_capability):
            yield ("hardware", device, "min_capability"), f"{entry.min_capability!r} must look like \"7.0\""


def _selection(task: Task) -> Iterator[Finding]:
    if task.compare == "selection" and task.outputs > 2:
        yield ("outputs",), f"{task.outputs}: a selection returns indices, or values and indices"


def check_source(task: Task) -> Iterator[Finding]:
    """What is wrong with a task's reference, as far as its text tells; it is not executed here."""
    defined = re.search(r"^(def scores\b|scores\s*=)", task.reference_source, re.MULTILINE)
    if task.compare == "selection" and not defined:
        yield ("compare",), ("selection needs a function `scores` in the reference's file, with the reference's arguments, "
                             "that returns what is selected from: indices are judged by the scores they pick")


def _cost(task: Task) -> Iterator[Finding]:
    for key, field in itertools.product(("cost", "floor"), ("flops", "bytes")):
        expression = getattr(getattr(task, key), field, None)
        if expression is None:
            continue
        for case in task.cases:
            try:
                value = evaluate(expression, case.dims, {"itemsize": itemsize(case.dtype)})
            except SpecError as error:
                yield (key, field), error.message
                break
            if value <= 0:
                yield (key, field), f"{value} in case {case.name} must be positive"
                break
