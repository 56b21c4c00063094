"""``harness report``: the standings of published results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from harness.cli.options import color_on, discover, format_option, plural, root_option, terminal_width


@click.command()
@click.argument("results", required=False, type=click.Path(path_type=Path))
@root_option
@format_option("table", "json", "csv", "md")
def report(results: Path | None, root: Path | None, form: str) -> None:
    """Print the standings of published results.

    One board for every suite and device among the records under RESULTS (default: results/).
    """
    from harness.report.board import boards
    from harness.report.rows import finish_rows, format_rows, standing_rows
    from harness.report.terminal import render_standings
    from harness.runs.record import read_results

    folder = results or discover(root).results
    records = read_results(folder, lambda path, why: print(f"skipped: {why}", file=sys.stderr))
    found = [(board, board.standings()) for board in boards(records)]
    rows = [
        {"suite": board.suite, "device": board.device, **row} for board, table in found for row in standing_rows(table)
    ]
    if form == "json":
        print(json.dumps([
            {
                "suite": board.suite,
                "device": board.device,
                "tasks": list(board.tasks),
                "standings": json.loads(format_rows(standing_rows(table), "json")),
                "outcomes": json.loads(format_rows(finish_rows(board.finishes), "json")),
            }
            for board, table in found
        ], indent=1, ensure_ascii=False))
    elif form != "table":
        print(format_rows(rows, form), end="")
    elif not found:
        print(f"No published records under {folder}; make some with harness run.")
    else:
        for number, (board, table) in enumerate(found):
            print(("\n" if number else "") + f"{board.title} on {board.device}, {plural(len(board.records), 'run')}\n")
            print(render_standings(table, board.finishes, terminal_width(), color_on(sys.stdout)), end="")
