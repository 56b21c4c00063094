"""``harness list``: what there is to name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import Near, discover, format_option, root_option

if TYPE_CHECKING:
    from harness.spec.content import Content

KINDS = ("tasks", "agents", "suites")


@click.command("list")
@click.argument("what", type=Near(KINDS), default="tasks", required=False)
@root_option
@format_option("table", "json", "csv", "md")
def list_(what: str, root: Path | None, form: str) -> None:
    """List tasks, agents or suites.

    Without an argument: tasks.
    """
    from harness.cli.tables import print_rows

    rows = {"tasks": _tasks, "agents": _agents, "suites": _suites}[what](discover(root))
    if rows or form != "table":
        print_rows(rows, form)
    else:
        print(f"There are no {what}.")


def _tasks(content: Content) -> list[dict[str, Any]]:
    rows = []
    for name in content.tasks():
        task = content.task(name)
        rows.append({
            "task": name,
            "title": task.title,
            "level": task.level,
            "cases": ", ".join(case.name for case in task.cases),
            "timed on cpu": ", ".join(case.name for case in task.timed_cases("cpu")),
            "tags": ", ".join(task.tags),
        })
    return rows


def _agents(content: Content) -> list[dict[str, Any]]:
    from harness.agents.config import read_config

    rows = []
    for name, path in content.agents().items():
        config = read_config(path)
        rows.append({
            "agent": name,
            "strategy": config.strategy,
            "attempts": config.attempts,
            "description": " ".join(config.description.split()),
        })
    return rows


def _suites(content: Content) -> list[dict[str, Any]]:
    rows = []
    for name in content.suites():
        suite = content.suite(name)
        tasks = ", ".join(task.name for task in suite.resolve(content))
        rows.append({"suite": name, "version": suite.version, "title": suite.title, "tasks": tasks})
    return rows
