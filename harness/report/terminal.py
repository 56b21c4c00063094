"""The standings in a terminal, at any width from 40 columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from harness.report import words
from harness.report.canvas import Canvas
from harness.report.names import one_line
from harness.report.rows import (
    credit_estimate,
    finish_rows,
    format_rows,
    rank_text,
    solved_text,
    standing_list,
    standing_rows,
)
from harness.report.verdict import render_verdict
from harness.score.standings import Finish, Standing, Standings

__all__ = ["finish_rows", "finish_text", "format_rows", "render_standings", "render_verdict", "standing_rows"]

NAME_LIMIT = 40
# What goes first when the terminal is narrow.
_DROP = ("unclamped", "wall time", "attempts", "fast_1")


def render_standings(
    standings: Standings | Iterable[Standing],
    finishes: Sequence[Finish],
    console_width: int = 100,
    color: bool = False,
) -> str:
    """The board as text, no line wider than `console_width` (at least 40): standings, then every agent on every task.

    Columns are dropped and the second table is turned into a list as far as the width demands. Ends with a newline.
    """
    rows = standing_list(standings)
    canvas = Canvas(console_width, color)
    if not rows:
        canvas.line("No standings: nothing has been judged yet.")
        return canvas.text()
    canvas.heading("Standings")
    _standings_table(canvas, rows)
    for row in rows:
        if row.unranked:
            canvas.line(f"{_name(row.agent)} is unranked: {one_line(row.unranked, 300)}")
    canvas.heading("Speedup over the faster of eager and torch.compile, by task")
    _task_table(canvas, [row.agent for row in rows], finishes)
    canvas.blank()
    canvas.line(
        "Intervals are 95 %; credit is the geometric mean of speedups surely above 1, and 1 elsewhere; "
        "fast_1 is the share of tasks surely faster than PyTorch.",
        "dim",
    )
    return canvas.text()


def finish_text(runs: Sequence[Finish], with_interval: bool = True) -> str:
    """One agent on one task in a few words: ``1.84× [1.79, 1.90]`` or the status; repeated runs are pooled.

    The speedup of several runs is the geometric mean of those that have one, and says of how many.
    """
    if not runs:
        return "not run"
    if len(runs) == 1:
        result = runs[0].result
        if result is None:
            return "no answer"
        if result.speedup is not None:
            return words.speedup(result.speedup) if with_interval else words.ratio(result.speedup.value)
        return words.status_word(result.status) if result.status != "ok" else "right, not timed"
    scores = [f.result.speedup.value for f in runs if f.result and f.result.speedup and f.result.speedup.value > 0]
    if scores:
        mean = math.exp(math.fsum(map(math.log, scores)) / len(scores))
        return f"{words.ratio(mean)} ({len(scores)} of {len(runs)} runs)"
    said = dict.fromkeys(finish_text([f]) for f in runs)
    return f"{', '.join(said)} ({len(runs)} runs)"


def _name(agent: str) -> str:
    return one_line(agent, NAME_LIMIT)


def _standings_table(canvas: Canvas, rows: list[Standing]) -> None:
    cells = [
        {
            "rank": rank_text(row.rank) or words.DASH,
            "agent": _name(row.agent),
            "solved": solved_text(row),
            "credit": words.speedup(credit_estimate(row)),
            "unclamped": words.ratio(row.unclamped),
            "fast_1": words.percent(row.fast.get(1.0)) if row.fast else words.DASH,
            "attempts": f"{row.attempts:,}",
            "wall time": words.duration(row.wall_s),
        }
        for row in rows
    ]
    columns = list(cells[0])
    for drop in (None, *_DROP):
        columns = [c for c in columns if c != drop]
        table = canvas.new_table(columns, right=set(columns) - {"agent"}, keep=set(columns) - {"agent"})
        for row, values in zip(rows, cells):
            canvas.row(table, [values[c] for c in columns], bad=bool(row.unranked))
        if canvas.fits(table):
            break
    canvas.table(table)


def _task_table(canvas: Canvas, agents: list[str], finishes: Sequence[Finish]) -> None:
    tasks = sorted({f.task for f in finishes})
    runs = {(a, t): [f for f in finishes if f.agent == a and f.task == t] for a in agents for t in tasks}
    for with_interval in (True, False):
        table = canvas.new_table(["agent", *[_name(t) for t in tasks]], right={_name(t) for t in tasks})
        for agent in agents:
            canvas.row(table, [_name(agent), *[finish_text(runs[agent, t], with_interval) for t in tasks]])
        if canvas.fits(table):
            canvas.table(table)
            return
    for task in tasks:
        canvas.line(_name(task), "bold")
        table = canvas.new_table(["agent", "speedup"])
        table.show_header = False
        for agent in agents:
            canvas.row(table, [f"  {_name(agent)}", finish_text(runs[agent, task])])
        canvas.table(table)
