"""Standings and finishes as plain rows, and rows as table, JSON, CSV or Markdown."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from harness.report.names import one_line
from harness.score.ranking import Rank
from harness.score.standings import Finish, Standing, Standings
from harness.spec.errors import GauntletError, near
from harness.spec.verdict import Estimate

FORMATS = ("table", "json", "csv", "md")


class FormatError(GauntletError):
    """An output format that does not exist."""


def format_rows(rows: Sequence[Mapping[str, Any]], fmt: str = "table") -> str:
    """`rows` (column → value) as text that ends with a newline; no rows are "", or ``[]`` as JSON.

    fmt: ``table`` and ``md`` for people (hidden characters spelled out, one line a cell), ``json`` and ``csv`` for
    programs (values as they are; None is null or empty; JSON writes non-finite numbers as "Infinity", "NaN", like the
    records). CSV is RFC 4180 with ``\\n`` line ends.
    Raises FormatError for another fmt.
    """
    if fmt not in FORMATS:
        raise FormatError(f"no output format {fmt!r}{near(fmt, FORMATS)}")
    if fmt == "json":
        plain = [_json_value(row) for row in rows]
        return json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    if not rows:
        return ""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if fmt == "csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _csv_value(v) for k, v in row.items()} for row in rows)
        return out.getvalue()
    from tabulate import tabulate

    cells = [[_cell(row.get(name), fmt) for name in columns] for row in rows]
    numeric = [all(_is_number(row.get(name)) for row in rows) for name in columns]
    text = tabulate(
        cells,
        headers=[_cell(name, fmt) for name in columns],
        tablefmt="pipe" if fmt == "md" else "simple",
        disable_numparse=True,
        colalign=["right" if n else "left" for n in numeric],
    )
    return text + "\n"


def standing_rows(standings: Standings | Iterable[Standing]) -> list[dict[str, Any]]:
    """One row per agent, best first, for `format_rows`. Times in seconds, shares between 0 and 1."""
    return [
        {
            "rank": row.rank.low if row.rank else None,
            "rank_high": row.rank.high if row.rank else None,
            "agent": row.agent,
            "solved": row.solved,
            "tasks": row.tasks,
            "credit": row.credit,
            "credit_low": row.credit_low,
            "credit_high": row.credit_high,
            "unclamped": row.unclamped,
            "fast_1": row.fast.get(1.0) if row.fast else None,
            "attempts": row.attempts,
            "wall_s": row.wall_s,
            "runs": row.runs,
            "unranked": row.unranked,
        }
        for row in standing_list(standings)
    ]


def finish_rows(finishes: Iterable[Finish]) -> list[dict[str, Any]]:
    """One row per agent, task and run, for `format_rows`. speedup is over the faster of eager and torch.compile."""
    rows = []
    for finish in finishes:
        score = finish.result.speedup if finish.result else None
        rows.append(
            {
                "agent": finish.agent,
                "task": finish.task,
                "status": finish.result.status.value if finish.result else "no_answer",
                "depth": finish.result.depth if finish.result else None,
                "speedup": score.value if score else None,
                "low": score.low if score else None,
                "high": score.high if score else None,
                "instances": score.n if score else None,
                "attempts": finish.attempts,
                "wall_s": finish.wall_s,
                "candidate": finish.result.candidate_hash if finish.result else None,
            }
        )
    return rows


def standing_list(standings: Standings | Iterable[Standing]) -> list[Standing]:
    """The rows of a board, whether given whole or as rows."""
    return list(standings.rows if isinstance(standings, Standings) else standings)


def rank_text(rank: Rank | None) -> str:
    """``2`` or ``2–4``; "" for an unranked agent."""
    if rank is None:
        return ""
    return str(rank.low) if rank.low == rank.high else f"{rank.low}–{rank.high}"


def solved_text(row: Standing) -> str:
    """``3/4``; a mean over repeated runs keeps two decimals."""
    solved = f"{row.solved:.0f}" if abs(row.solved - round(row.solved)) < 1e-9 else f"{row.solved:.2f}"
    return f"{solved}/{row.tasks}"


def credit_estimate(row: Standing) -> Estimate | None:
    """The credit with its interval over tasks as an Estimate (n: tasks, 1 when there is no interval)."""
    if row.credit is None:
        return None
    if row.credit_low is None or row.credit_high is None:
        return Estimate(value=row.credit, low=row.credit, high=row.credit, n=1)
    return Estimate(value=row.credit, low=row.credit_low, high=row.credit_high, n=max(2, row.tasks))


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(k): _json_value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(v) for v in value]
    if isinstance(value, str) and not isinstance(value, Enum):
        return value.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate cannot be written as UTF-8
    return value


def _csv_value(value: Any) -> Any:
    value = _json_value(value)
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return value.value if isinstance(value, Enum) else value


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _cell(value: Any, fmt: str) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = one_line(value.value if isinstance(value, Enum) else value, 400)
    return text.replace("\\", "\\\\").replace("|", "\\|") if fmt == "md" else text
