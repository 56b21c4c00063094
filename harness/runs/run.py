"""A run: agents × tasks, each a loop of propose → judge, then a final judgement of the best few.

The order is task by task, so that a run cut short has compared its agents on the same tasks. Everything is logged
before anything depends on it. A resumed run walks the very same path: strategies are asked again, with the same
histories, and what the log already holds is taken from there instead of being judged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from harness.agents.protocol import Agent, Attempt, History, View
from harness.runs import events as ev
from harness.runs.events import Event, EventLog, Observer
from harness.runs.executor_protocol import Executor
from harness.runs.finalists import best_attempt, choose_finalists
from harness.runs.lease import DeviceLease
from harness.runs.plan import AgentEntry, RunConfig, cells
from harness.runs.record import Outcome
from harness.runs.replay import Cell, Recorded, apply, replay
from harness.spec.candidate import Candidate
from harness.spec.errors import GauntletError
from harness.spec.task import Task
from harness.spec.verdict import JudgeRequest, JudgeResult, Status

INFRA_RETRIES = 2
# So many proposals in a row that the machine failed for good end the task: the machine is broken, not unlucky.
INFRA_LIMIT = 3


class Strayed(Exception):
    """A strategy, asked again, answered otherwise than the log says it did."""


class AgentFailed(Exception):
    """The agent's own code raised; the message says what."""


class Run:
    """One run in progress over an open log.

    agents: name → strategy, one for every entry of the configuration. content: finds content files for strategies.
    lease: taken for each judgement; None judges without one. clock: seconds, monotonic.
    """

    def __init__(
        self,
        log: EventLog,
        config: RunConfig,
        agents: Mapping[str, Agent],
        executor: Executor,
        content: Callable[[str], Path],
        provenance: Mapping[str, Any],
        observer: Observer | None = None,
        lease: DeviceLease | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.log = log
        self.config = config.checked()
        self.agents = agents
        self.executor = executor
        self.content = content
        self.provenance = dict(provenance)
        self.observer = observer
        self.lease = lease
        self.clock = clock
        self.recorded: Recorded | None = None

    def execute(self) -> Recorded:
        """Do what the log does not say is done yet, and return the whole.

        Raises GauntletError (disk, mismatch with the log) and KeyboardInterrupt; the log is intact after both.
        """
        if self.log.note:
            self.tell(ev.NOTE, message=self.log.note)
        self.recorded = self._begin()
        for entry, task in cells(self.config):
            if self.recorded.cell(entry.name, task.name).outcome is None:
                CellRun(self, entry, task).execute()
        if not self.recorded.finished:
            self.append(ev.RUN_FINISHED)
        return self.recorded

    def _begin(self) -> Recorded:
        facts = self.executor.facts()
        known = replay(self.log.events, self.log.run_id)
        if known is None:
            self._log(
                ev.RUN_STARTED,
                config=self.config.model_dump(mode="json", by_alias=True),
                provenance=self.provenance,
                device=facts,
            )
            return self._state()
        if known.config != self.config:
            raise GauntletError(differences(known.config, self.config, self.log.run_id))
        if known.device.get("name") != facts.get("name"):
            raise GauntletError(
                f"run {self.log.run_id} was started on {known.device.get('name')}, this is {facts.get('name')}; "
                "times of two devices cannot be in one run. Resume it there, or start a new run here"
            )
        if known.finished:
            return known
        self._log(ev.RUN_RESUMED, provenance=self.provenance)
        return self._state()

    def _state(self) -> Recorded:
        state = replay(self.log.events, self.log.run_id)
        assert state is not None
        return state

    def append(self, kind: str, **data: Any) -> None:
        """Log one event and bring `recorded` up to date."""
        self._log(kind, **data)
        self.recorded = apply(self.recorded, self.log.events[-1])

    def _log(self, kind: str, **data: Any) -> None:
        event = self.log.append(kind, data)
        if self.observer:
            self.observer.on_event(event)

    def tell(self, kind: str, **data: Any) -> None:
        """Tell the observer something that is not logged."""
        if self.observer:
            self.observer.on_event(Event(kind, data))

    def judge(self, request: JudgeRequest, **about: Any) -> tuple[JudgeResult, int]:
        """Submit `request`, again up to `INFRA_RETRIES` times while the machine fails. Returns verdict and tries."""
        for attempt in range(1, INFRA_RETRIES + 2):
            turn = self.lease.hold(lambda text: self.tell(ev.WAITING, message=text)) if self.lease else nullcontext()
            with turn:
                self.tell(ev.JUDGING, depth=request.depth, tries=attempt, **about)
                result = self.executor.submit(request)
            if result.status != Status.infra_error:
                break
        return result, attempt


class CellRun:
    """One agent on one task."""

    def __init__(self, run: Run, entry: AgentEntry, task: Task) -> None:
        assert run.recorded is not None
        self.run = run
        self.entry = entry
        self.task = task
        self.agent = run.agents[entry.name]
        self.view = View(
            task=task,
            device=dict(run.recorded.device),
            seed=run.config.seed,
            attempts=entry.attempts,
            content=run.content,
        )
        self.attempts: list[Attempt] = []
        self.proposed: dict[int, Candidate] = dict(self.cell.proposals)
        self.base_s = 0.0
        self.begun = run.clock()
        self.waited = self._waited()

    @property
    def cell(self) -> Cell:
        """What the log holds of this agent on this task."""
        assert self.run.recorded is not None
        return self.run.recorded.cell(self.entry.name, self.task.name)

    def _waited(self) -> float:
        return self.run.lease.waited_s if self.run.lease else 0.0

    def elapsed(self) -> float:
        """Seconds so far, those of earlier sittings included, waiting for the device excluded."""
        return self.base_s + (self.run.clock() - self.begun) - (self._waited() - self.waited)

    def execute(self) -> None:
        """From the first proposal to the outcome in the log."""
        message = ""
        try:
            stop = self._propose_all()
        except AgentFailed as error:
            stop, message = "agent_error", str(error)
        elapsed = self.elapsed()
        finals = self._finals() if self.run.config.depth == "final" else []
        outcome = self._outcome(stop, message, finals, elapsed)
        self.run.append(
            ev.TASK_DONE, agent=self.entry.name, task=self.task.name, outcome=outcome.model_dump(mode="json")
        )

    def _propose_all(self) -> str:
        """Ask the strategy until it yields nothing or a budget is out; returns why it stopped."""
        try:
            return self._rounds()
        except (Strayed, AgentFailed):
            if len(self.attempts) == len(self.proposed):
                raise
            self.run.tell(
                ev.NOTE,
                message=f"{self.entry.name} on {self.task.name}: asked again, it answers otherwise than before; "
                "it continues from its recorded attempts",
            )
            for index in range(len(self.attempts), len(self.proposed)):
                self._judge(index, self.proposed[index])
            return self._rounds()

    def _rounds(self) -> str:
        while True:
            if stop := self._budget():
                return stop
            before = len(self.attempts)
            proposals = self._proposals()
            try:
                for candidate in proposals:
                    index = len(self.attempts)
                    known = self.proposed.get(index)
                    if known is None:
                        self.proposed[index] = candidate
                        self.run.append(
                            ev.PROPOSAL,
                            agent=self.entry.name,
                            task=self.task.name,
                            index=index,
                            candidate=candidate.model_dump(mode="json"),
                        )
                    elif known.hash != candidate.hash:
                        raise Strayed
                    self._judge(index, self.proposed[index])
                    if stop := self._budget():
                        return stop
            finally:
                proposals.close()
            if len(self.attempts) == before:
                if len(self.proposed) > before:
                    raise Strayed
                return "done"

    def _proposals(self) -> Generator[Candidate, None, None]:
        """One call of `propose`, whatever goes wrong in there raised as AgentFailed."""
        iterator: Iterator[Candidate] | None = None
        try:
            iterator = iter(self.agent.propose(self.view, History(list(self.attempts))))
            while True:
                try:
                    candidate = next(iterator)
                except StopIteration:
                    return
                if not isinstance(candidate, Candidate):
                    raise AgentFailed(f"proposed a {type(candidate).__name__} where a Candidate belongs")
                yield candidate
        except (AgentFailed, GeneratorExit):
            raise
        except Exception as error:  # the agent's code is not ours: its fault is its own and ends only its own task
            raise AgentFailed(f"{type(error).__name__}: {error}") from error
        finally:
            close = getattr(iterator, "close", None)
            if close:
                try:
                    close()
                except Exception as error:
                    self.run.tell(ev.NOTE, message=f"{self.entry.name}: {type(error).__name__} while it was stopped")

    def _budget(self) -> str | None:
        """Why no further attempt may be made; None if one may. What the log holds was allowed then and is now."""
        if len(self.attempts) < len(self.proposed):
            return None
        recent = self.attempts[-INFRA_LIMIT:]
        if len(recent) == INFRA_LIMIT and all(a.result.status == Status.infra_error for a in recent):
            return "infrastructure"
        charged = sum(attempt.result.status != Status.infra_error for attempt in self.attempts)
        if charged >= self.entry.attempts:
            return "attempts"
        seconds = self.run.config.seconds
        return "seconds" if seconds is not None and self.elapsed() >= seconds else None

    def _judge(self, index: int, candidate: Candidate) -> None:
        """Screen proposal `index`, or take its verdict from the log or from the same candidate before it."""
        cell = self.cell
        recorded = cell.attempts.get((index, "screen"))
        if recorded is None:
            earlier = self._same_before(candidate)
            if earlier is None:
                result, tries = self._submit(index, candidate, "screen")
            else:
                result, tries = None, 0
            self._log_attempt(index, "screen", result, tries, None if earlier is None else earlier.index)
        else:
            # Time goes on from where the log says it stood.
            self.base_s, self.begun, self.waited = recorded.elapsed_s, self.run.clock(), self._waited()
        verdict = self.cell.verdict(index)
        assert verdict is not None
        self.attempts.append(Attempt(index, candidate, verdict))

    def _same_before(self, candidate: Candidate) -> Attempt | None:
        for attempt in self.attempts:
            if attempt.candidate.hash == candidate.hash and attempt.result.status != Status.infra_error:
                first = self.cell.attempts[attempt.index, "screen"].duplicate_of
                return attempt if first is None else self.attempts[first]
        return None

    def _submit(self, index: int, candidate: Candidate, depth: str) -> tuple[JudgeResult, int]:
        config = self.run.config
        request = JudgeRequest(
            id=f"{self.entry.name}/{self.task.name}/{index}/{depth}",
            task=self.task,
            candidate=candidate,
            depth=depth,
            device=config.device,
            opponents=config.opponents,
            half_width=config.half_width,
            instances=config.instances,
            split=config.finals > 1,
            vouched=config.unsafe or bool(self.entry.config.get("trusted")),
        )
        return self.run.judge(request, agent=self.entry.name, task=self.task.name, index=index)

    def _log_attempt(
        self, index: int, depth: str, result: JudgeResult | None, tries: int, duplicate_of: int | None = None
    ) -> None:
        self.run.append(
            ev.ATTEMPT,
            agent=self.entry.name,
            task=self.task.name,
            index=index,
            depth=depth,
            tries=tries,
            elapsed_s=round(self.elapsed(), 3),
            duplicate_of=duplicate_of,
            result=None if result is None else result.model_dump(mode="json"),
        )

    def _finals(self) -> list[Attempt]:
        """The final judgements of the best few, from the log where they are in it."""
        finals = []
        for attempt in choose_finalists(self.attempts, self.run.config.finals):
            if (attempt.index, "final") not in self.cell.attempts:
                result, tries = self._submit(attempt.index, attempt.candidate, "final")
                self._log_attempt(attempt.index, "final", result, tries)
            verdict = self.cell.attempts[attempt.index, "final"].result
            assert verdict is not None
            finals.append(Attempt(attempt.index, attempt.candidate, verdict))
        return finals

    def _outcome(self, stop: str, message: str, finals: list[Attempt], elapsed: float) -> Outcome:
        best = best_attempt(finals) or best_attempt(self.attempts)
        cell = self.cell
        result = best.result if best else None
        return Outcome(
            task=self.task.name,
            task_hash=self.task.content_hash,
            status=result.status if result else None,
            stop=stop,
            message=message or (result.message if result else ""),
            depth=None if best is None else "final" if finals else "screen",
            candidate=best.candidate.hash if best else None,
            index=best.index if best else None,
            speedup=result.speedup if result and result.status == Status.ok else None,
            attempts=len(self.attempts),
            duplicates=sum(judged.duplicate_of is not None for judged in cell.attempts.values()),
            infra_errors=sum(
                judged.result is not None and judged.result.status == Status.infra_error
                for judged in cell.attempts.values()
            ),
            elapsed_s=round(elapsed, 3),
        )


def differences(old: RunConfig, new: RunConfig, run_id: str) -> str:
    """What to tell a user who continues run `run_id` with other options than it was started with."""
    parts = []
    for name in RunConfig.model_fields:
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        if name in ("tasks", "agents"):
            names = [[one.name for one in side] for side in (before, after)]
            if names[0] == names[1]:
                changed = [a.name for a, b in zip(before, after, strict=True) if a != b]
                parts.append(f"{name[:-1]} {', '.join(changed)} has changed since")
                continue
            before, after = (", ".join(side) for side in names)
        parts.append(f"{name} was {before}, now {after}")
    return (
        f"run {run_id} was started otherwise: {'; '.join(parts)}. Continue it unchanged with --resume {run_id}, "
        "or start a new run under another name"
    )
