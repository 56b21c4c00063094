"""Options that several verbs share, and values checked with near names."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from harness.runs.executor_protocol import Executor
    from harness.runs.plan import RunConfig
    from harness.spec.content import Content

Function = TypeVar("Function", bound=Callable[..., Any])

DEVICES = ("cpu",)


class Near(click.ParamType):
    """One of a few words; anything else is refused with the nearest of them."""

    name = "choice"

    def __init__(self, choices: Sequence[str]) -> None:
        self.choices = tuple(choices)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "[" + "|".join(self.choices) + "]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self.choices:
            return str(value)
        near = difflib.get_close_matches(str(value), self.choices, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(self.choices)}"
        self.fail(f"{value!r} is none; {hint}", param, ctx)


class Above(click.ParamType):
    """A number above a bound (and below another, if there is one)."""

    name = "number"

    def __init__(self, low: float, below: float = float("inf")) -> None:
        self.low, self.below = low, below

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not self.low < number < self.below:
            limit = f" and below {self.below:g}" if self.below < float("inf") else ""
            self.fail(f"{value!r} is not a number above {self.low:g}{limit}", param, ctx)
        return number


class Span(click.ParamType):
    """``FIRST:MOST`` as two whole numbers, `low` ≤ FIRST ≤ MOST; a single number is both."""

    name = "span"

    def __init__(self, low: int) -> None:
        self.low = low

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        first, _, most = str(value).partition(":")
        try:
            span = int(first), int(most or first)
        except ValueError:
            span = (0, 0)
        if not self.low <= span[0] <= span[1]:
            self.fail(f"{value!r} is no pair FIRST:MOST of whole numbers with {self.low} ≤ FIRST ≤ MOST", param, ctx)
        return span


def root_option(function: Function) -> Function:
    """``--root``: the project."""
    return click.option(
        "--root",
        type=click.Path(path_type=Path),
        help="Project to work in: a folder with a gauntlet.toml. Default: the one around the current folder, if any.",
    )(function)


def results_option(function: Function) -> Function:
    """``--results``: where published records are."""
    return click.option(
        "--results", type=click.Path(path_type=Path), help="Folder of published records. Default: results/."
    )(function)


def device_option(function: Function) -> Function:
    """``--device``."""
    option = click.option("--device", type=Near(DEVICES), default="cpu", show_default=True, help="Where to judge.")
    return option(function)


def format_option(*formats: str) -> Callable[[Function], Function]:
    """``--format``, the first of `formats` being the default."""
    return click.option(
        "--format", "form", type=Near(formats), default=formats[0], show_default=True, help="How to print the outcome."
    )


def discover(root: Path | None) -> Content:
    """The content of `root`, or around the current folder. Raises GauntletError."""
    from harness.spec.content import Content

    return Content.discover(root)


def make_executor(device: str, pythonpath: Sequence[Path] = ()) -> Any:
    """The executor for `device`: a context manager. pythonpath: folders that references may import from."""
    from harness.runs.executor import LocalExecutor

    more: dict[str, Any] = {"pythonpath": [str(path) for path in pythonpath]} if pythonpath else {}
    executor: Executor = LocalExecutor(device=device, **more)
    return executor


def terminal_width(default: int = 100) -> int:
    """Columns of the terminal: COLUMNS where it is set, else what the terminal says."""
    import shutil

    return max(40, shutil.get_terminal_size((default, 24)).columns)


def color_on(stream: Any) -> bool:
    """Whether to colour what goes to `stream`: a terminal, unless NO_COLOR is set or TERM is dumb."""
    import os

    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def split_names(values: Sequence[str]) -> list[str]:
    """``("a,b", "c")`` as ``["a", "b", "c"]``."""
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


def plural(count: int, word: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def counted(config: RunConfig) -> str:
    """``2 agents × 1 task``."""
    return f"{plural(len(config.agents), 'agent')} × {plural(len(config.tasks), 'task')}"
