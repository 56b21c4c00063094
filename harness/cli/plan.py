"""What ``harness run --dry-run`` prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.runs.plan import RunConfig


def print_plan(config: RunConfig, form: str) -> None:
    """Print the plan of `config` as table, json, csv or md; the times are rough and say so."""
    from harness.cli.options import counted
    from harness.report import words
    from harness.cli.tables import print_rows, print_text
    from harness.runs.plan import make_plan

    plan = make_plan(config)
    low, high = plan.seconds
    if form == "json":
        settings = config.model_dump(mode="json", exclude={"tasks", "agents"})
        print(json.dumps({**settings, "cells": plan.rows, "seconds": {"low": low, "high": high}}, indent=1))
        return
    rows: list[dict[str, Any]] = [
        {
            "task": row["task"],
            "agent": row["agent"],
            "timed cases": ", ".join(row["cases"]),
            "attempts": row["attempts"],
            "finals": row["finals"],
            **({"low_s": row["low_s"], "high_s": row["high_s"]} if form == "csv" else
               {"about": f"{words.duration(row['low_s'])} to {words.duration(row['high_s'])}"}),
        }
        for row in plan.rows
    ]
    print_rows(rows, form, drop=("timed cases", "finals"))
    if form == "csv":
        return
    seconds = f" and {words.duration(config.seconds)}" if config.seconds else ""
    print()
    print_text(f"{counted(config)} on {config.device}, seed {config.seed}; "
               f"attempts{seconds} are the most an agent may use on a task.")
    print_text(f"Roughly {words.duration(low)} (one attempt each) to {words.duration(high)} (budgets used up). "
               "Nothing was run.")
