"""``harness new``: a task or an agent to start from, written into the project; it works as it is."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.exit_codes import OK
from harness.cli.options import discover, root_option

if TYPE_CHECKING:
    from harness.spec.content import Content

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")

TASK = """\
schema: 1
name: {name}
title: What it is, in three words
level: op                    # or fused, model
description: What makes it interesting.
reference: references/{name}.py:{name}
inputs:                      # in the order of the arguments
  x:     {{shape: [rows, cols], init: {{normal: {{mean: 0, std: 1}}}}}}
  scale: {{shape: [cols], init: {{uniform: {{low: 0.5, high: 1.5}}}}, scales: [1.0]}}
cases:                       # the workloads, each with a size for every dimension
  square: {{rows: 1024, cols: 1024, dtype: float32}}
  odd:    {{rows: 1823, cols: 781, dtype: float32}}
verify: {{rows: [1, 2500], cols: [3, 2500]}}  # sizes are drawn from here too: no kernel may be fitted to the cases
dynamic: [rows, cols]        # sizes that change without a kernel being built anew
hardware:
  cpu: {{cases: [square, odd]}}
tags: [elementwise]
"""
REFERENCE = '''\
"""What kernels are compared with. Plain PyTorch: it is run in float64 to decide what is right."""

import torch


def {name}(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """y = x · sigmoid(x) · scale: x [rows, cols], scale [cols] -> y [rows, cols]."""
    return torch.nn.functional.silu(x) * scale
'''
AGENT = """\
schema: 1
name: {name}
description: What it does, in one line.
strategy: {name}.py:{kind}
parameters: {{most: 3}}        # keyword arguments of the class
attempts: 4                  # on one task, unless the run says otherwise
"""
STRATEGY = '''\
"""{kind}: say here how it finds its kernels."""

from collections.abc import Iterable

from harness.agents.protocol import History, View
from harness.spec.baselines import compiled, eager
from harness.spec.candidate import Candidate


class {kind}:
    """Answers with the task's reference, then with torch.compile of it in several modes, until it has `most` answers.

    It keeps no state: `propose` is called again with a longer history until it yields nothing.
    """

    def __init__(self, most: int = 3) -> None:
        self.most = most

    def propose(self, view: View, history: History) -> Iterable[Candidate]:
        answers = [eager(view.task), compiled(view.task, "default"), compiled(view.task, "max-autotune-no-cudagraphs")]
        if len(history) < min(self.most, len(answers)):
            yield answers[len(history)]
        # What came of earlier answers: history.attempts[i].result has status, message, speedup; history.best() the best.
        # An answer of your own: Candidate(source="def kernel(x, scale): ...", language="python"), or "cpp".
'''


@click.group()
def new() -> None:
    """Write a task or an agent to start from."""


_here_option = click.option("--here", is_flag=True, help="Make the current folder a project, if it is none.")


@new.command()
@click.argument("name")
@click.option("--reference", metavar="FILE.py:NAME", help="An existing function, instead of one to start from.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=SHAPE[:DTYPE]",
              help="With --reference, once per argument in order: x=4096x781:f16.")
@click.option("--arg", "args", multiple=True, metavar="NAME=VALUE", help="With --reference: a keyword argument, eps=1e-6.")
@_here_option
@root_option
def task(name: str, reference: str | None, inputs: tuple[str, ...], args: tuple[str, ...], here: bool, root: Path | None
         ) -> int:
    """Write a task to start from.

    Into the project: tasks/NAME.yaml and, without --reference, suite/references/NAME.py. Both work as they are.
    """
    from harness.spec.errors import GauntletError

    content = _project(root, here)
    _check_name(name, "task", content.tasks())
    file = content.base / "tasks" / f"{name}.yaml"
    if reference is None:
        if inputs or args:
            raise GauntletError(f"--{'input' if inputs else 'arg'} goes with --reference, the function it is of")
        source = content.base / "suite" / "references" / f"{name}.py"
        _write({source: REFERENCE.format(name=name), file: TASK.format(name=name)})
    else:
        _write({file: _described(name, reference, inputs, args, content, file)})
    _next(f"harness validate {name}", f"harness judge kernel.py --task {name}")
    return OK


@new.command()
@click.argument("name")
@_here_option
@root_option
def agent(name: str, here: bool, root: Path | None) -> int:
    """Write an agent to start from.

    Into the project: agents/NAME.yaml and agents/NAME.py. It works as it is.
    """
    content = _project(root, here)
    _check_name(name, "agent", content.agents())
    kind = "".join(part.capitalize() for part in name.split("_"))
    folder = content.base / "agents"
    _write({folder / f"{name}.py": STRATEGY.format(kind=kind), folder / f"{name}.yaml": AGENT.format(name=name, kind=kind)})
    _next(f"harness run --agent {name} --tasks softmax --depth screen")
    return OK


def _project(root: Path | None, here: bool) -> Content:
    """The project to write into. Raises GauntletError when there is none."""
    from harness.spec.content import PROJECT_FILE
    from harness.spec.errors import GauntletError

    if here and root is None and not Path(PROJECT_FILE).exists():
        _write({Path.cwd() / PROJECT_FILE: "schema = 1\n"})
    content = discover(root)
    if content.project is None:
        raise GauntletError("there is no project here to write into; --here makes this folder one "
                            f"(a {PROJECT_FILE} that says schema = 1)")
    return content


def _check_name(name: str, what: str, known: object) -> None:
    from harness.spec.errors import GauntletError

    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise GauntletError(f"{name!r} cannot name {_a(what)}: use small letters, digits and _, a letter first")
    if name in known:  # type: ignore[operator]
        raise GauntletError(f"there is {_a(what)} {name!r} already; choose another name (harness show {name})")


def _a(what: str) -> str:
    return f"an {what}" if what == "agent" else f"a {what}"


def _described(name: str, reference: str, inputs: tuple[str, ...], args: tuple[str, ...], content: Content, file: Path
               ) -> str:
    """The YAML of a task around an existing function."""
    from harness.cli.judge import tied
    from harness.spec.adhoc import dump_task, task_from_parts

    asked = task_from_parts(reference, inputs, args, content=content, together={})
    found = tied(asked, content, inputs, args, ())
    text = dump_task(found.model_copy(update={"name": name}), beside=file.parent)
    path, _, entry = found.reference.rpartition(":")
    if Path(path).is_relative_to(content.base.resolve()):  # where the loader looks for it too, on any machine
        text = text.replace(f"reference: {path}:", f"reference: {Path(path).relative_to(content.base.resolve())}:")
    return text


def _write(files: dict[Path, str]) -> None:
    """All of them or none, and never over one that is there."""
    from harness.spec.errors import GauntletError

    for path in files:
        if path.exists():
            raise GauntletError(f"{path} exists already; nothing was written")
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "x", encoding="utf-8") as stream:
                stream.write(text)
        except OSError as error:
            raise GauntletError(f"cannot write {path}: {error.strerror}") from None
        print(_shown(path))


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _next(*commands: str) -> None:
    print("next:", *(f"  {command}" for command in commands), sep="\n", file=sys.stderr)
