"""A run that is still going, or was interrupted, as rows: what each agent has on each task by now."""

from __future__ import annotations

from typing import Any

from harness.report import words
from harness.runs.replay import Cell, Recorded
from harness.spec.verdict import JudgeResult, Status


def rows(recorded: Recorded) -> list[dict[str, Any]]:
    """One row per task and agent in the order of running: task, agent, attempts, most, state, best.

    state: "not begun", "at work", "done". best: speedup (value) of the best final there is, else of the best screen, with
    depth saying which; else None with the last verdict in `verdict`.
    """
    found = []
    for task in recorded.config.tasks:
        for agent in recorded.config.agents:
            cell = recorded.cells.get((agent.name, task.name), Cell())
            best = _best(cell)
            last = _last(cell)
            found.append({
                "task": task.name,
                "agent": agent.name,
                "attempts": sum(depth == "screen" for _, depth in cell.attempts),
                "most": agent.attempts,
                "state": "done" if cell.outcome else "at work" if cell.proposals else "not begun",
                "speedup": best.speedup.value if best and best.speedup else None,
                "depth": best.depth if best else None,
                "verdict": None if best or last is None else last.status.value,
            })
    return found


def text(row: dict[str, Any]) -> str:
    """A row's result in a few words: ``1.52×``, ``1.5× screened, 3 of 12``, ``wrong output, 1 of 8``, ``not begun``."""
    if row["state"] == "not begun":
        return "not begun"
    where = "" if row["state"] == "done" else f", {row['attempts']} of {row['most']}"
    if row["speedup"] is not None:
        return words.ratio(row["speedup"]) + ("" if row["depth"] == "final" else " screened") + where
    if row["verdict"]:
        return words.status_word(Status(row["verdict"])) + where
    return ("no answer" if row["state"] == "done" else "thinking") + where


def table(recorded: Recorded) -> list[dict[str, str]]:
    """One row per agent, one column per task."""
    found: dict[str, dict[str, str]] = {agent.name: {"agent": agent.name} for agent in recorded.config.agents}
    for row in rows(recorded):
        found[row["agent"]][row["task"]] = text(row)
    return list(found.values())


def _verdicts(cell: Cell) -> list[JudgeResult]:
    return [one.result for one in cell.attempts.values() if one.result is not None]


def _best(cell: Cell) -> JudgeResult | None:
    """The fastest correct final, else the fastest correct screen."""
    right = [one for one in _verdicts(cell) if one.status == Status.ok and one.speedup]
    finals = [one for one in right if one.depth == "final"]
    return max(finals or right, key=lambda one: one.speedup.value, default=None)  # type: ignore[union-attr]


def _last(cell: Cell) -> JudgeResult | None:
    return next(reversed(_verdicts(cell)), None)
