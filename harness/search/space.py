"""A declared parameter space: which configurations a kernel template may be filled with.

Beside ``templates/NAME.cpp`` lies ``templates/NAME.space.yaml``:

    schema: 1
    task: softmax
    template: softmax.cpp
    parameters:
      VEC: {powers_of_two: [4, 16], default: 8}     # or {range: [low, high, step]}, or {values: [a, b, …]}
    constraints: ["VEC * UNROLL <= 32"]
    flags: ["-mprefer-vector-width={WIDTH}"]        # compiler flags, with parameters filled in

A configuration becomes ``#define NAME value`` lines before a C++ source. In a Python template, of ``language: python``, it
replaces the values of the assignments ``NAME = value`` at the top level. Either way a template is itself a valid file.
"""

from __future__ import annotations

import ast
import itertools
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from harness.search.expression import Condition, condition
from harness.spec.candidate import Candidate
from harness.spec.document import Document, parse_yaml, read_text
from harness.spec.errors import SpecError, near
from harness.spec.explain import validate
from harness.spec.task import Model

Value = int | str
Configuration = dict[str, Value]
Key = tuple[tuple[str, Value], ...]

MAX_COMBINATIONS = 1_000_000
_PARAMETER = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_TEXT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ ,.+\-]{0,99}")
_KINDS = ("values", "range", "powers_of_two")


class _Parameter(Model):
    values: list[int | str] | None = None
    range: list[int] | None = None
    powers_of_two: list[int] | None = None
    default: int | str


class _SpaceFile(Model):
    task: str
    template: str
    language: Literal["cpp", "python"] = "cpp"
    entry: str = "kernel"
    parameters: dict[str, _Parameter]
    constraints: list[str] = Field(default_factory=list)
    flags: list[str] = Field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Space:
    """Parameters with their ordered values, and the conditions a configuration must meet.

    parameters: name → its values in order. default: a valid configuration.
    constraints: the text and the function of each condition.
    source: the template's text. file: its name, for messages of the compiler. place: the YAML, for our own messages.
    """

    task: str
    parameters: Mapping[str, tuple[Value, ...]]
    default: Configuration
    constraints: Sequence[tuple[str, Condition]] = ()
    flags: Sequence[str] = ()
    entry: str = "kernel"
    source: str = ""
    file: str = "template.cpp"
    place: str = ""
    language: Literal["cpp", "python"] = "cpp"

    @property
    def size(self) -> int:
        """The number of valid configurations."""
        return len(self._valid)

    def configurations(self) -> Iterator[Configuration]:
        """Every valid configuration, in canonical order: the last parameter varies fastest, values as declared."""
        for values in self._valid:
            yield dict(zip(self.parameters, values))

    def validate(self, configuration: Mapping[str, Any]) -> Configuration:
        """`configuration` with its parameters in declared order.

        Raises SpecError for an unknown, missing or out-of-range parameter, naming what is valid, and for a violated
        constraint, naming it.
        """
        for name in configuration:
            if name not in self.parameters:
                raise self._error(f"unknown parameter {name!r}{near(str(name), self.parameters)}")
        result: Configuration = {}
        for name, values in self.parameters.items():
            if name not in configuration:
                raise self._error(f"parameter {name!r} is missing; it may be {_listed(values)}")
            if configuration[name] not in values:
                raise self._error(f"{name}={configuration[name]!r} is not allowed; it may be {_listed(values)}")
            result[name] = values[values.index(configuration[name])]
        for text, holds in self.constraints:
            if not holds(result):
                at = ", ".join(f"{k}={v}" for k, v in result.items())
                raise self._error(f"constraint {text!r} does not hold at {at}")
        return result

    def holds(self, configuration: Mapping[str, Any]) -> bool:
        """Whether `configuration` is one of this space's valid ones."""
        try:
            self.validate(configuration)
        except SpecError:
            return False
        return True

    def neighbours(self, configuration: Mapping[str, Any]) -> list[Configuration]:
        """The valid configurations that differ in one parameter, by one step in the order of its values."""
        start = self.validate(configuration)
        found = []
        for name, values in self.parameters.items():
            at = values.index(start[name])
            for step in (at - 1, at + 1):
                if 0 <= step < len(values):
                    candidate = {**start, name: values[step]}
                    if all(holds(candidate) for _, holds in self.constraints):
                        found.append(candidate)
        return found

    def random(self, rng: random.Random) -> Configuration:
        """One valid configuration, each as likely."""
        return dict(zip(self.parameters, rng.choice(self._valid)))

    def key(self, configuration: Mapping[str, Any]) -> Key:
        """A hashable name of a configuration, the same whatever the order of its parameters."""
        return tuple((name, configuration[name]) for name in self.parameters)

    def only(self, keys: Iterable[Key]) -> Space:
        """The space of these configurations alone; its default is this one's where it is among them, else the first."""
        kept = set(keys)
        first = next(c for c in self.configurations() if self.key(c) in kept)
        return replace(self, default=dict(self.default) if self.key(self.default) in kept else first,
                       constraints=[("is among those kept", lambda configuration: self.key(configuration) in kept)])

    def render(self, configuration: Mapping[str, Any]) -> str:
        """The template filled in; the compiler's messages keep the template's own line numbers."""
        if self.language == "python":
            return _assigned(self.source, self.validate(configuration))
        lines = [f"#define {name} {value}" for name, value in self.validate(configuration).items()]
        return "\n".join([*lines, f'#line 1 "{self.file}"', self.source])

    def candidate(self, configuration: Mapping[str, Any]) -> Candidate:
        """The candidate of a configuration, with the configuration as its parameters."""
        configuration = self.validate(configuration)
        return Candidate(
            source=self.render(configuration),
            language=self.language,
            entry=self.entry,
            flags=[_filled(flag, configuration) for flag in self.flags],
            parameters=configuration,
            note=", ".join(f"{name}={value}" for name, value in configuration.items()),
        )

    @cached_property
    def _valid(self) -> list[tuple[Value, ...]]:
        conditions = [holds for _, holds in self.constraints]
        names = list(self.parameters)
        found = []
        for values in itertools.product(*self.parameters.values()):
            configuration = dict(zip(names, values))
            if all(holds(configuration) for holds in conditions):
                found.append(values)
        return found

    def _error(self, message: str) -> SpecError:
        return SpecError(message, self.place or None)


def load_space(path: Path | str) -> Space:
    """The space in a ``*.space.yaml`` file, with the template beside it. Raises SpecError with file and line."""
    path = Path(path)
    document = parse_yaml(read_text(path), str(path))
    spec = validate(_SpaceFile, document)
    problems: list[SpecError] = []
    parameters: dict[str, tuple[Value, ...]] = {}
    for name, parameter in spec.parameters.items():
        try:
            parameters[name] = _values(name, parameter, document)
        except SpecError as error:
            problems.append(error)
    if not spec.parameters:
        problems.append(document.error(("parameters",), "there are none; a space needs at least one"))
    if "/" in spec.template or "\\" in spec.template:
        problems.append(document.error(("template",), f"{spec.template!r} must be the name of a file beside this one"))
    if problems:
        raise SpecError.of(problems)
    combinations = 1
    for values in parameters.values():
        combinations *= len(values)
    if combinations > MAX_COMBINATIONS:
        raise document.error(("parameters",), f"{combinations:,} combinations; at most {MAX_COMBINATIONS:,}")

    default: Configuration = {name: spec.parameters[name].default for name in parameters}
    constraints = [_constraint(i, text, parameters, default, document) for i, text in enumerate(spec.constraints)]
    for i, flag in enumerate(spec.flags):
        for name in re.findall(r"\{(.*?)\}", flag):
            if name not in parameters:
                raise document.error(("flags", i), f"unknown parameter {name!r}{near(name, parameters)}")
    template = path.parent / spec.template
    if not template.is_file():
        beside = [p.name for p in path.parent.iterdir() if p.is_file() and not p.name.endswith(".yaml")]
        raise document.error(("template",), f"there is no {spec.template!r} beside it{near(spec.template, beside)}")
    source = read_text(template)
    if spec.language == "python":
        _check_assignments(source, parameters, template, document)
        if spec.flags:
            raise document.error(("flags",), "a Python template has no compiler flags")
    return Space(
        task=spec.task,
        parameters=parameters,
        default=default,
        constraints=constraints,
        flags=tuple(spec.flags),
        entry=spec.entry,
        source=source,
        file=template.name,
        place=str(path),
        language=spec.language,
    )


def _assignments(source: str) -> dict[str, list[ast.Assign]]:
    """The assignments ``NAME = value`` of one name at the top level of a Python source, by name."""
    found: dict[str, list[ast.Assign]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node)
    return found


def _check_assignments(source: str, parameters: Mapping[str, Any], template: Path, document: Document) -> None:
    try:
        found = _assignments(source)
    except SyntaxError as error:
        raise SpecError(f"is not valid Python: {error.msg}", template, error.lineno) from None
    for name in parameters:
        places = found.get(name, [])
        if len(places) != 1:
            raise document.error(("parameters", name), f"{template.name} must assign {name} once at its top level, as in "
                                                       f"{name} = 64; it does so {len(places)} times")
        if not isinstance(places[0].value, ast.Constant) or places[0].lineno != places[0].end_lineno:
            raise SpecError(f"{name} must be a plain number or text on one line, to be replaced", template, places[0].lineno)


def _assigned(source: str, configuration: Configuration) -> str:
    """`source` with the values of a configuration's assignments replaced; nothing else changes, lines stay lines."""
    lines = source.splitlines(keepends=True)
    for name, (node, *_) in _assignments(source).items():
        if name in configuration:
            line = lines[node.lineno - 1].encode()  # the offsets count bytes
            value = repr(configuration[name]).encode()
            lines[node.lineno - 1] = (line[: node.value.col_offset] + value + line[node.value.end_col_offset:]).decode()
    return "".join(lines)


def _values(name: str, parameter: _Parameter, document: Document) -> tuple[Value, ...]:
    where = ("parameters", name)
    if not _PARAMETER.fullmatch(name):
        raise document.error(where, f"a parameter becomes a macro: write it in capitals ({_PARAMETER.pattern})")
    given = [kind for kind in _KINDS if getattr(parameter, kind) is not None]
    if len(given) != 1:
        raise document.error(where, f"needs exactly one of {', '.join(_KINDS)} beside its default")
    kind = given[0]
    numbers: Any = getattr(parameter, kind)
    if kind == "range":
        if len(numbers) != 3 or numbers[2] < 1 or numbers[1] < numbers[0]:
            raise document.error((*where, kind), "must be [low, high, step] with low <= high and step >= 1")
        if (numbers[1] - numbers[0]) // numbers[2] >= MAX_COMBINATIONS:
            raise document.error((*where, kind), f"more than {MAX_COMBINATIONS:,} values")
        values: tuple[Value, ...] = tuple(range(numbers[0], numbers[1] + 1, numbers[2]))
    elif kind == "powers_of_two":
        if len(numbers) != 2 or numbers[1] < numbers[0] or not all(n > 0 and n & (n - 1) == 0 for n in numbers):
            raise document.error((*where, kind), "must be [low, high], both powers of two, low <= high")
        values = tuple(1 << e for e in range(numbers[0].bit_length() - 1, numbers[1].bit_length()))
    else:
        values = tuple(numbers)
        if not values:
            raise document.error((*where, kind), "must list at least one value")
        if len(set(values)) != len(values):
            raise document.error((*where, kind), "lists a value twice")
        for value in values:
            if isinstance(value, str) and not _TEXT.fullmatch(value):
                raise document.error((*where, kind), f"{value!r} may hold only letters, digits, blanks and _ , . + -")
    if parameter.default not in values:
        raise document.error((*where, "default"), f"{parameter.default!r} is not allowed; it may be {_listed(values)}")
    return values


def _constraint(
    index: int, text: str, parameters: Mapping[str, Any], default: Configuration, document: Document
) -> tuple[str, Condition]:
    where = ("constraints", index)

    def located(holds: Condition) -> Condition:
        def check(configuration: Mapping[str, Value]) -> bool:
            try:
                return holds(configuration)
            except SpecError as error:
                raise document.error(where, error.message) from None

        return check

    try:
        holds = located(condition(text, parameters))
    except SpecError as error:
        raise document.error(where, error.message) from None
    if not holds(default):
        raise document.error(where, f"the defaults do not meet {text!r}")
    return text, holds


def _filled(flag: str, configuration: Configuration) -> str:
    return re.sub(r"\{(.*?)\}", lambda match: str(configuration[match[1]]), flag)


def _listed(values: Sequence[Value]) -> str:
    shown = ", ".join(str(v) for v in values[:20])
    return shown if len(values) <= 20 else f"{shown} … {values[-1]} ({len(values)} values)"
