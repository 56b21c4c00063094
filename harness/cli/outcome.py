"""What ``harness run`` prints at its end: standings, and where the records are."""

from __future__ import annotations

import json
import os
from pathlib import Path

from harness.cli.tables import print_rows
from harness.report.board import boards, verdict
from harness.report.rows import finish_rows, format_rows, standing_rows
from harness.report.terminal import render_standings
from harness.runs.record import Record, read_record
from harness.score.standings import Finish
from harness.spec.verdict import Status


def print_outcome(run_id: str, published: list[Path], form: str, width: int, color: bool) -> int:
    """Print the outcome of a run from its published records; returns in how many places the machine failed.

    form: ``table``; ``json``: one object with run, records, standings, outcomes; ``csv``: one row per agent and task;
    ``md``: both tables.
    """
    records = [read_record(path) for path in published]
    outcomes = finish_rows(_every_finish(records))
    board = boards(records)[0]
    standings = board.standings()
    if form == "json":
        print(
            json.dumps(
                {
                    "run": run_id,
                    "records": [str(path) for path in published],
                    "standings": json.loads(format_rows(standing_rows(standings), "json")),
                    "outcomes": json.loads(format_rows(outcomes, "json")),
                },
                indent=1,
                ensure_ascii=False,
            )
        )
    elif form == "csv":
        print(format_rows(outcomes, "csv"), end="")
    elif form == "md":
        print(format_rows(standing_rows(standings), "md"))
        print(format_rows(outcomes, "md"), end="")
    else:
        if board.finishes:
            print("\n" + render_standings(standings, board.finishes, width, color), end="")
        screened = [r for r in outcomes if r["depth"] == "screen" and r["status"] in ("ok", "noisy")]
        if screened:
            print("\nScreened only: a first look, no score")
            columns = ("agent", "task", "status", "speedup", "attempts")
            print_rows([{name: row[name] for name in columns} for row in screened], "table")
        print("\nRecords")
        for path in published:
            print(f"  {shown(path)}")
    return sum(
        outcome.status == Status.infra_error or outcome.stop == "infrastructure"
        for record in records
        for outcome in record.run.outcomes
    )


def _every_finish(records: list[Record]) -> list[Finish]:
    """Every outcome, those that were only screened (and so count for nothing) too."""
    return [
        Finish(record.run.agent.name, outcome.task, verdict(record, outcome), outcome.attempts, outcome.elapsed_s)
        for record in records
        for outcome in record.run.outcomes
    ]


def shown(path: Path) -> str:
    """Relative to the current folder where the path lies below it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
