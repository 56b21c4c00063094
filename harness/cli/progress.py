"""How a run shows itself while it goes: a live line and a line per verdict on a terminal, plain lines elsewhere.

Progress goes to stderr; stdout is for the outcome alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from harness.report import words
from harness.report.names import one_line, visible
from harness.runs import events as ev
from harness.runs.events import Event, Observer
from harness.spec.verdict import Estimate

if TYPE_CHECKING:
    from harness.runs.plan import RunConfig

STOPS = {
    "agent_error": "the agent's own code failed",
    "infrastructure": "given up: the machine failed again and again",
    "seconds": "its time is up",
}
GOOD, BAD, UNSURE = "green", "red", "yellow"


class Lines:
    """Turns events into lines of aligned columns."""

    def __init__(self, config: RunConfig) -> None:
        self.task_width = min(24, max(len(task.name) for task in config.tasks))
        self.agent_width = min(24, max(len(agent.name) for agent in config.agents))
        self.number_width = max(2, *(len(str(agent.attempts)) for agent in config.agents))
        self.attempts = {agent.name: agent.attempts for agent in config.agents}
        self.tasks = len(config.tasks)
        self.cells = len(config.tasks) * len(config.agents)

    def __call__(self, event: Event) -> tuple[str, str] | None:
        """Text and colour of the line for `event`; None where it needs none."""
        data = event.data
        if event.kind == ev.ATTEMPT:
            return self._attempt(data)
        if event.kind == ev.TASK_DONE:
            outcome = data["outcome"]
            why = STOPS.get(outcome["stop"]) or ("it proposed nothing" if outcome["status"] is None else None)
            if why is None:
                return None
            message = outcome["message"] if outcome["stop"] == "agent_error" else ""
            return f"{self._who(data)}  {why}{': ' if message else ''}{one_line(message)}", UNSURE
        if event.kind in (ev.WAITING, ev.NOTE):
            return one_line(data["message"], 400), UNSURE
        if event.kind == ev.JUDGING and data["tries"] > 1:
            return f"{self._who(data)}  the machine failed; judging again ({data['tries']})", UNSURE
        return None

    def _who(self, data: dict[str, Any]) -> str:
        return f"{data['task']:<{self.task_width}}  {data['agent']:<{self.agent_width}}"

    def _attempt(self, data: dict[str, Any]) -> tuple[str, str]:
        start = f"{self._who(data)}  {data['index'] + 1:>{self.number_width}}  {data['depth']:<6}"
        result = data["result"]
        if result is None:
            return f"{start}  the same as number {data['duplicate_of'] + 1}", UNSURE
        status = result["status"]
        if status == "ok":
            speed = result["speedup"]
            return f"{start}  {words.speedup(Estimate.model_validate(speed)) if speed else 'right, not timed'}", GOOD
        message = f": {one_line(result['message'])}" if result["message"] else ""
        return f"{start}  {words.status_word(status)}{message}", UNSURE if status in ("noisy", "infra_error") else BAD

    def live(self, event: Event) -> str | None:
        """What is going on right now, for the live line; None where nothing new is."""
        if event.kind == ev.JUDGING:
            data = event.data
            number = f"attempt {data['index'] + 1}/{self.attempts[data['agent']]}"
            doing = "final" if data["depth"] == "final" else number
            return f"{visible(data['task'])} · {visible(data['agent'])} · {doing}"
        if event.kind == ev.WAITING:
            return one_line(event.data["message"])
        if event.kind == ev.PROPOSAL or event.kind == ev.ATTEMPT:
            return f"{visible(event.data['task'])} · {visible(event.data['agent'])} · thinking"
        return None


class PlainProgress:
    """One line per event that matters, for logs and pipes."""

    def __init__(self, config: RunConfig, stream: IO[str]) -> None:
        self.lines = Lines(config)
        self.stream = stream

    def on_event(self, event: Event) -> None:
        line = self.lines(event)
        if line:
            print(line[0], file=self.stream, flush=True)


class LiveProgress:
    """The same lines in colour, above a live one: what is judged, how much of the run is done, since when."""

    def __init__(self, config: RunConfig, console: Any, bar: Any, task: Any) -> None:
        self.lines = Lines(config)
        self.console = console
        self.bar = bar
        self.task = task

    def on_event(self, event: Event) -> None:
        from rich.text import Text

        line = self.lines(event)
        if line:
            self.console.print(Text(line[0], style=line[1], overflow="ellipsis", no_wrap=True))
        live = self.lines.live(event)
        if live:
            self.bar.update(self.task, description=live)
        if event.kind == ev.TASK_DONE:
            self.bar.advance(self.task)


@contextmanager
def progress(config: RunConfig, done: int = 0, stream: IO[str] | None = None) -> Iterator[Observer]:
    """An observer suited to `stream` (default stderr). done: cells already finished in an earlier sitting."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield PlainProgress(config, stream)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    console = Console(file=stream, highlight=False)
    doing = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
    columns: list[Any] = [SpinnerColumn(), doing]
    if console.width >= 80:
        columns.append(BarColumn(bar_width=20))
    columns += [MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*columns, console=console, transient=True) as bar:
        observer = LiveProgress(config, console, bar, None)
        observer.task = bar.add_task("starting", total=observer.lines.cells, completed=done)
        yield observer


@contextmanager
def working(text: str, stream: IO[str] | None = None) -> Iterator[None]:
    """A live line that says `text` while something is done; nothing where `stream` (default stderr) is no terminal."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(file=stream, highlight=False).status(Text(text)):
        yield
