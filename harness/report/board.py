"""Which published runs stand on which board, and what each contributes: records → finishes → standings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.report.audit import defect
from harness.runs.record import Outcome, Record
from harness.score.standings import Finish, Standing, Standings, standings
from harness.spec.verdict import JudgeResult, Status

ADHOC = "adhoc"


@dataclass(frozen=True)
class Board:
    """Runs that can be compared: one suite and version (or one list of tasks) on one device.

    records: all runs, oldest first. tasks: names, sorted. task_hash: task → hash of the version that counts, the
    newest. finishes: what counts. set_aside: agent → why some of its runs do not count.
    """

    suite: str
    device: str
    tasks: tuple[str, ...]
    records: list[Record]
    task_hash: dict[str, str]
    finishes: list[Finish]
    set_aside: dict[str, list[str]] = field(default_factory=dict)

    @property
    def named_by_tasks(self) -> bool:
        """True for a list of tasks named on the command line: a board of its own for each such list."""
        return self.suite.partition("@")[0] == ADHOC

    @property
    def title(self) -> str:
        """``core@1``, or the tasks of a list that has no name."""
        return ", ".join(self.tasks) if self.named_by_tasks else self.suite

    def standings(self) -> Standings:
        """The standings; an agent none of whose runs count on some task is unranked and says why."""
        board = standings(self.finishes)
        rows = [self._explained(row) for row in board.rows]
        known = {row.agent for row in rows}
        absent = [a for a in self.set_aside if a not in known]
        rows += [Standing(agent=a, tasks=0, solved=0.0, unranked="; ".join(self.set_aside[a])) for a in sorted(absent)]
        return replace(board, rows=rows)

    def _explained(self, row: Standing) -> Standing:
        # A missing task is only half the truth when there was a run of it that does not count.
        if row.unranked and row.agent in self.set_aside:
            return replace(row, unranked="; ".join([row.unranked, *self.set_aside[row.agent]]))
        return row


def boards(records: Sequence[Record], on_skip: Callable[[Path, str], None] | None = None) -> list[Board]:
    """Every board the records make, in the order of suite, device and tasks. The same record twice counts once.

    A record that contradicts itself is left out: `on_skip` gets its folder and the reason, or else a warning is issued.
    The dimensions of the others' verdicts are put into the order of the spec.
    """
    unique: dict[tuple[str, str, str, str], Record] = {}
    for record in records:
        if why := defect(record):
            if on_skip:
                on_skip(record.path, why)
            else:
                warnings.warn(f"skipped: record {record.path}: {why}", stacklevel=2)
            continue
        unique.setdefault(identity(record), record)
    groups: dict[tuple[str, str, tuple[str, ...]], list[Record]] = {}
    for record in unique.values():
        run = record.run
        # A list named on the command line is a board of its own: ranks need agents that were asked the same.
        tasks = tuple(sorted({o.task for o in run.outcomes})) if run.suite.name == ADHOC else ()
        groups.setdefault((f"{run.suite.name}@{run.suite.version}", run.device.name, tasks), []).append(record)
    return [_board(suite, device, groups[suite, device, tasks]) for suite, device, tasks in sorted(groups)]


def identity(record: Record) -> tuple[str, str, str, str]:
    """(suite@version, device, agent, id): what tells a record from every other, wherever its folder lies."""
    run = record.run
    return f"{run.suite.name}@{run.suite.version}", run.device.name, run.agent.name, run.id


def verdict(record: Record, outcome: Outcome) -> JudgeResult | None:
    """The judgement that speaks for the agent on the outcome's task, as a Finish counts it.

    A task on which the machine failed for good counts as an infrastructure error, whatever else was judged: the
    candidate that was lost might have been the best one.
    """
    result = record.result(outcome.task)
    failed = outcome.stop == "infrastructure" or outcome.infra_errors > 0
    if failed and result is not None and result.status != Status.infra_error:
        count = outcome.infra_errors
        why = f"the machine failed {count} judgement{'s' if count != 1 else ''} for good; run this agent again"
        return result.model_copy(update={"status": Status.infra_error, "message": why, "speedup": None})
    return result


def finishes(records: Sequence[Record]) -> list[Finish]:
    """What each record's outcomes contribute to standings; tasks that were only screened contribute nothing."""
    return [_finish(r, o) for r in records for o in r.run.outcomes if not only_screened(o)]


def only_screened(outcome: Outcome) -> bool:
    """True for a right answer without a final judgement: no score, and no failure either."""
    return outcome.depth == "screen" and outcome.status in (Status.ok, Status.noisy)


def _finish(record: Record, outcome: Outcome) -> Finish:
    result = verdict(record, outcome)
    return Finish(record.run.agent.name, outcome.task, result, outcome.attempts, outcome.elapsed_s)


def _board(suite: str, device: str, records: list[Record]) -> Board:
    records = sorted(records, key=lambda r: (r.run.started, identity(r)))
    # Later records overwrite earlier ones: the newest version of a task counts.
    task_hash = {o.task: o.task_hash for record in records for o in record.run.outcomes}
    counted: list[Finish] = []
    aside: dict[str, dict[str, None]] = {}
    for record in records:
        for outcome in record.run.outcomes:
            if outcome.task_hash != task_hash[outcome.task]:
                aside.setdefault(record.run.agent.name, {})[f"answered an older version of {outcome.task}"] = None
            elif only_screened(outcome):
                aside.setdefault(record.run.agent.name, {})[f"only screened on {outcome.task}"] = None
            else:
                counted.append(_finish(record, outcome))
    counted.sort(key=lambda f: (f.agent, f.task))
    return Board(suite, device, tuple(sorted(task_hash)), records, task_hash, counted,
                 {agent: list(reasons) for agent, reasons in aside.items()})
