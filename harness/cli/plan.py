"""What ``harness run --dry-run`` prints."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.agents.load import LoadedAgent
    from harness.runs.plan import RunConfig
    from harness.spec.content import Content


def first_answers(config: RunConfig, agents: Mapping[str, LoadedAgent], content: Content, cache: Path
                  ) -> list[dict[str, int]]:
    """For each cell, in the plan's order, what its agent proposes before anything is judged.

    answers: how many candidates; builds: how many shared objects they take; built: how many of those are in `cache`.
    An agent that raises is said to propose nothing: the run will say why.
    """
    from harness.agents.protocol import History, View
    from harness.devices import cpu
    from harness.judge.build_key import built_path
    from harness.runs.plan import cells

    found = []
    for entry, task in cells(config):
        view = View(task=task, device=cpu.facts(), seed=config.seed, attempts=entry.attempts, content=content.find)
        try:
            answers = list(itertools.islice(agents[entry.name].agent.propose(view, History()), entry.attempts))
        except Exception:
            answers = []
        dtypes = {case.dtype for case in task.timed_cases(config.device)}
        paths = {built_path(cache, one, dtype) for one in answers if one.language == "cpp" for dtype in dtypes}
        found.append({"answers": len(answers), "builds": len(paths), "built": sum(path.exists() for path in paths)})
    return found


def print_plan(config: RunConfig, agents: Mapping[str, LoadedAgent], content: Content, form: str) -> None:
    """Print the plan of `config` as table, json, csv or md; the times are rough and say so."""
    from harness.cli.options import counted
    from harness.report import words
    from harness.cli.tables import print_rows, print_text
    from harness.runs.environment import default_cache
    from harness.runs.plan import make_plan

    plan = make_plan(config)
    first = first_answers(config, agents, content, default_cache())
    low, high = plan.seconds
    if form == "json":
        settings = config.model_dump(mode="json", exclude={"tasks", "agents"})
        cells = [{**row, "first": one} for row, one in zip(plan.rows, first, strict=True)]
        print(json.dumps({**settings, "cells": cells, "seconds": {"low": low, "high": high}}, indent=1))
        return
    rows: list[dict[str, Any]] = [
        {
            "task": row["task"],
            "agent": row["agent"],
            "timed cases": ", ".join(row["cases"]),
            "attempts": row["attempts"],
            "finals": row["finals"],
            "built": f"{one['built']} of {one['builds']}" if one["builds"] else "",
            **({"low_s": row["low_s"], "high_s": row["high_s"]} if form == "csv" else
               {"about": f"{words.duration(row['low_s'])} to {words.duration(row['high_s'])}"}),
        }
        for row, one in zip(plan.rows, first, strict=True)
    ]
    print_rows(rows, form, drop=("built", "timed cases", "finals"))
    if form == "csv":
        return
    seconds = f" and {words.duration(config.seconds)}" if config.seconds else ""
    print()
    print_text(f"{counted(config)} on {config.device}, seed {config.seed}; "
               f"attempts{seconds} are the most an agent may use on a task.")
    print_text(f"Roughly {words.duration(low)} (one attempt each) to {words.duration(high)} (budgets used up). "
               "Nothing was run.")
    print_text("built: of the C++ files that an agent answers with first, how many are compiled already. No agent that ships "
               "calls a service that costs money; what one of your own calls is not known here.")
