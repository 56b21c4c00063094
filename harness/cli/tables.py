"""Rows printed as --format says; tables that stay readable in a narrow terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from harness.cli.options import color_on, terminal_width

FOLD_FROM = 100


def print_rows(rows: Sequence[Mapping[str, Any]], form: str, drop: Sequence[str] = ()) -> None:
    """Print `rows` (column → value, the same columns in each); form: table, json, csv or md.

    A table that is too wide first loses the columns of `drop`, one by one. What is still too wide is folded where
    there is room to fold it, else printed as one paragraph per row.
    """
    from harness.report.rows import format_rows

    if form != "table":
        print(format_rows(rows, form), end="")
        return
    if not rows:
        return
    from harness.report.canvas import Canvas

    canvas = Canvas(terminal_width(), color_on(sys.stdout))
    columns = list(rows[0])
    for dropped in (None, *drop):
        columns = [name for name in columns if name != dropped]
        numeric = {name for name in columns if all(isinstance(row[name], (int, float, type(None))) for row in rows)}
        table = canvas.new_table(columns, right=numeric, keep={columns[0]})
        for row in rows:
            canvas.row(table, [_text(row[name]) for name in columns])
        if canvas.fits(table):
            break
    if canvas.fits(table) or canvas.width >= FOLD_FROM:
        canvas.table(table)
    else:
        for row in rows:
            canvas.line(_text(row[columns[0]]), "bold")
            for name in rows[0]:
                if name != columns[0] and _text(row[name]):
                    canvas.line(f"  {name}: {_text(row[name])}")
    print(canvas.text(), end="")


def print_text(text: str) -> None:
    """Print one paragraph, folded at the terminal's width."""
    import textwrap

    print(textwrap.fill(text, terminal_width(), break_on_hyphens=False))


def _text(value: Any) -> str:
    from harness.report.names import one_line

    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else one_line(value, 400)
