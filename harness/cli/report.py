"""``harness report``: the standings of published results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from harness.cli.options import color_on, discover, format_option, plural, root_option, terminal_width


@click.command()
@click.argument("results", required=False, type=click.Path(path_type=Path))
@click.option("--run", "going", metavar="RUN", help="Instead: how far a run has come, by its id, or the last one: last.")
@root_option
@format_option("table", "json", "csv", "md")
def report(results: Path | None, going: str | None, root: Path | None, form: str) -> None:
    """Print the standings of published results.

    One board for every suite and device among the records under RESULTS (default: results/). A run that is still going,
    or was interrupted, has no record yet: --run reads its log.
    """
    if going is not None:
        _so_far(going, results, root, form)
        return
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


def _so_far(going: str, results: Path | None, root: Path | None, form: str) -> None:
    """The partial board of a run, from its log, which another process may be writing."""
    from harness.cli.tables import print_rows, print_text
    from harness.report import so_far
    from harness.runs.events import FILE_NAME, find_run, read_events
    from harness.runs.replay import replay
    from harness.spec.errors import GauntletError

    if results is not None:
        raise GauntletError("--run reads the log of a run; leave RESULTS out")
    folder = find_run(discover(root).base, going)
    state = replay(read_events(folder / FILE_NAME).events, folder.name)
    if state is None:
        raise GauntletError(f"run {folder.name} has not begun yet")
    rows = so_far.rows(state)
    if form != "table":
        print_rows(rows, form)
        return
    print_rows(so_far.table(state), form)
    done = sum(row["state"] == "done" for row in rows)
    print()
    print_text(f"run {folder.name}: {done} of {plural(len(rows), 'place')} done"
               + (f", finished {state.finished}" if state.finished else f", started {state.started}")
               + ". Speedups over the faster baseline; what is screened is a first look, no score.")
