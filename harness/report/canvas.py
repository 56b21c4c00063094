"""A width-limited sheet of terminal text, on rich: everything written is plain data, never markup."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

MIN_WIDTH = 40


class Canvas:
    """Collects lines and tables; `text()` is the result, no line wider than `width` columns (at least 40).

    color: emit ANSI colours. Emphasis never carries meaning alone.
    """

    def __init__(self, width: int, color: bool = False) -> None:
        from rich.console import Console

        self.width = max(MIN_WIDTH, width)
        self._buffer = io.StringIO()
        self._console = Console(
            file=self._buffer,
            width=self.width,
            force_terminal=color,
            no_color=not color,
            color_system="standard" if color else None,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
        )

    def line(self, text: str, style: str = "") -> None:
        """Print `text`, folded at the width, continuation lines indented like the first."""
        from rich.padding import Padding
        from rich.text import Text

        indent = len(text) - len(text.lstrip(" "))
        body = Text(text.strip(" "), style=style, overflow="fold")
        self._console.print(Padding(body, (0, 0, 0, min(indent, self.width // 2))))

    def blank(self) -> None:
        """Print an empty line."""
        self._console.print()

    def heading(self, text: str) -> None:
        """An empty line, then `text` in bold."""
        self.blank()
        self.line(text, "bold")

    def new_table(self, columns: Iterable[str], right: set[str] = frozenset(), keep: set[str] = frozenset()) -> Table:
        """An empty table. right: columns aligned right; keep: columns that must not be folded."""
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False, header_style="bold")
        for name in columns:
            table.add_column(
                name, justify="right" if name in right else "left", overflow="fold", no_wrap=name in keep or None
            )
        return table

    def row(self, table: Table, cells: Iterable[str], bad: bool = False) -> None:
        """Add a row of plain text; `bad` dims nothing and hides nothing, it only adds colour where there is any."""
        from rich.text import Text

        table.add_row(*[Text(cell, overflow="fold") for cell in cells], style="red" if bad else "")

    def table(self, table: Table) -> None:
        """Print a table that has rows; one without is not printed."""
        if table.row_count:
            self._console.print(table)

    def fits(self, table: Table) -> bool:
        """True when no cell of `table` has to be folded at this width."""
        from rich.measure import Measurement

        options = self._console.options.update(width=10_000, max_width=10_000)
        return Measurement.get(self._console, options, table).maximum <= self.width

    def text(self) -> str:
        """All that was printed, trailing blanks of every line removed."""
        lines = [line.rstrip() for line in self._buffer.getvalue().splitlines()]
        return "\n".join(lines).strip("\n") + "\n"
