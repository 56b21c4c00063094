"""What a log says has happened: the state from which a run continues and a record is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from harness.runs import events as ev
from harness.runs.events import Event
from harness.runs.plan import RunConfig
from harness.runs.record import Outcome
from harness.spec.candidate import Candidate
from harness.spec.errors import GauntletError
from harness.spec.verdict import JudgeResult


@dataclass(frozen=True)
class Judged:
    """One attempt as logged. result is None for a duplicate: its verdict is that of attempt `duplicate_of`."""

    index: int
    depth: str
    result: JudgeResult | None
    duplicate_of: int | None
    tries: int
    elapsed_s: float
    time: str


@dataclass
class Cell:
    """One agent on one task: proposals by number, attempts by (number, depth), the outcome once it is done."""

    proposals: dict[int, Candidate] = field(default_factory=dict)
    attempts: dict[tuple[int, str], Judged] = field(default_factory=dict)
    outcome: Outcome | None = None
    done_at: str = ""

    def verdict(self, index: int) -> JudgeResult | None:
        """The screened verdict on proposal `index`, followed through `duplicate_of`; None before there is one."""
        judged = self.attempts.get((index, "screen"))
        if judged is None:
            return None
        return judged.result if judged.duplicate_of is None else self.verdict(judged.duplicate_of)


@dataclass
class Recorded:
    """A run as far as it got."""

    config: RunConfig
    device: dict[str, Any]
    provenance: dict[str, Any]
    started: str
    resumed: list[dict[str, Any]] = field(default_factory=list)
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    finished: str = ""

    def cell(self, agent: str, task: str) -> Cell:
        """The cell of `agent` on `task`, empty if nothing has happened there."""
        return self.cells.setdefault((agent, task), Cell())


def replay(events: Iterable[Event], run_id: str) -> Recorded | None:
    """The state that `events` lead to; None of no events. Raises GauntletError for events that cannot follow."""
    state: Recorded | None = None
    try:
        for event in events:
            state = apply(state, event)
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        what = f"{error.error_count()} invalid fields" if isinstance(error, ValidationError) else repr(error)
        raise GauntletError(
            f"run {run_id}: event {event.seq} ({event.kind}) makes no sense to this version ({what}); "
            "it was written by another one. Start the run anew"
        ) from None
    return state


def apply(state: Recorded | None, event: Event) -> Recorded:
    """The state after one more event. Raises KeyError, TypeError or ValueError for one that cannot follow."""
    data = event.data
    if event.kind == ev.RUN_STARTED:
        if state is not None:
            raise ValueError("started twice")
        config = RunConfig.model_validate(data["config"])
        return Recorded(config, data["device"], data["provenance"], event.time)
    if state is None:
        raise ValueError("not started")
    if event.kind == ev.RUN_RESUMED:
        state.resumed.append({"time": event.time, "provenance": data["provenance"]})
    elif event.kind == ev.RUN_FINISHED:
        state.finished = event.time
    else:
        cell = state.cell(data["agent"], data["task"])
        if event.kind == ev.PROPOSAL:
            cell.proposals[data["index"]] = Candidate.model_validate(data["candidate"])
        elif event.kind == ev.ATTEMPT:
            result = data["result"]
            cell.attempts[data["index"], data["depth"]] = Judged(
                index=data["index"],
                depth=data["depth"],
                result=None if result is None else JudgeResult.model_validate(result),
                duplicate_of=data["duplicate_of"],
                tries=data["tries"],
                elapsed_s=data["elapsed_s"],
                time=event.time,
            )
        elif event.kind == ev.TASK_DONE:
            cell.outcome = Outcome.model_validate(data["outcome"])
            cell.done_at = event.time
    return state
