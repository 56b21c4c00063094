"""``harness show NAME``: a task, an agent or a suite in full."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import color_on, discover, format_option, root_option, terminal_width

if TYPE_CHECKING:
    from harness.report.canvas import Canvas
    from harness.spec.content import Content
    from harness.spec.task import Task


@click.command()
@click.argument("name")
@root_option
@format_option("table", "json")
def show(name: str, root: Path | None, form: str) -> None:
    """Show a task, an agent or a suite in full.

    A task with its cases and its reference; NAME may also be a task's YAML file.
    """
    from harness.report.canvas import Canvas
    from harness.spec.errors import GauntletError, near

    content = discover(root)
    canvas = Canvas(terminal_width(), color_on(sys.stdout))
    if name in content.tasks() or name.endswith((".yaml", ".yml")):
        data = _show_task(content.task(name), canvas)
    elif name in content.agents():
        data = _show_agent(name, content, canvas)
    elif name in content.suites():
        data = _show_suite(name, content, canvas)
    else:
        known = [*content.tasks(), *content.agents(), *content.suites()]
        raise GauntletError(f"no task, agent or suite is called '{name}'{near(name, known)}")
    if form == "json":
        print(json.dumps(data, indent=1, ensure_ascii=False))
    else:
        print(canvas.text().lstrip("\n"), end="")


def _show_task(task: Task, canvas: Canvas) -> dict[str, Any]:
    from harness.report import words

    canvas.line(f"{task.name}: {task.title}" if task.title else task.name, "bold")
    canvas.line(f"task, level {task.level}" + (f", {', '.join(task.tags)}" if task.tags else ""))
    if task.description:
        canvas.blank()
        canvas.line(" ".join(task.description.split()))
    canvas.heading("Inputs")
    table = canvas.new_table(["input", "shape", "dtype", "values"])
    for name, spec in task.inputs.items():
        options = ", ".join(f"{key} {value}" for init in spec.init.values() for key, value in init.items())
        canvas.row(table, [name, " × ".join(map(str, spec.shape)) or "scalar", spec.dtype or "the case's",
                           f"{next(iter(spec.init), '')} ({options})" if options else next(iter(spec.init), "")])
    canvas.table(table)
    if task.args:
        canvas.line("fixed arguments: " + ", ".join(f"{name}={value}" for name, value in task.args.items()))
    canvas.heading("Cases")
    devices = list(task.hardware) or ["cpu"]
    table = canvas.new_table(["case", "dimensions", "dtype", "timed on"])
    for case in task.cases:
        timed = [device for device in devices if case in task.timed_cases(device)]
        canvas.row(table, [case.name, words.named_shape(case.dims), case.dtype, ", ".join(timed) or words.DASH])
    canvas.table(table)
    canvas.heading("Judged")
    if task.verify:
        ranges = ", ".join(f"{dim} from {low} to {high}" for dim, (low, high) in task.verify.items())
        canvas.line(f"unseen shapes are drawn with {ranges}")
    canvas.line(f"never outside {task.tolerance.atol:g} + {task.tolerance.rtol:g}·|value|, compared by {task.compare}, "
                f"precision {task.precision}")
    canvas.heading(f"Reference: {task.reference}")
    for line in task.reference_source.strip().splitlines():
        canvas.line(line)
    return task.model_dump(mode="json", by_alias=True)


def _show_agent(name: str, content: Content, canvas: Canvas) -> dict[str, Any]:
    from harness.agents.load import load_agent

    agent = load_agent(name, content)
    canvas.line(f"{name}: an agent", "bold")
    if agent.config.description:
        canvas.line(" ".join(agent.config.description.split()))
    canvas.blank()
    canvas.line(f"strategy: {agent.config.strategy}")
    canvas.line(f"attempts: {agent.attempts or 'as the run allows'}")
    for key, value in agent.config.parameters.items():
        canvas.line(f"{key}: {value}")
    canvas.line(f"defined in {content.agents()[name]}")
    data: dict[str, Any] = agent.config.model_dump(mode="json")
    return data


def _show_suite(name: str, content: Content, canvas: Canvas) -> dict[str, Any]:
    suite = content.suite(name)
    canvas.line(f"{name}@{suite.version}: {suite.title or 'a suite'}", "bold")
    tasks = suite.resolve(content)
    table = canvas.new_table(["task", "title"])
    for task in tasks:
        canvas.row(table, [task.name, task.title])
    canvas.table(table)
    return {**suite.model_dump(mode="json", by_alias=True), "tasks": [task.name for task in tasks]}
