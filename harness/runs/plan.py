"""What a run will do: its configuration, and the plan that --dry-run prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.spec.errors import GauntletError
from harness.spec.task import Task

# Seconds, (low, high), of one judgement per timed case on two shared cores: what a plan is estimated with.
# A final at ±3 %; its length goes with the inverse square of the half-width asked for (MEASURING section 3).
SCREEN_S = (1.0, 4.0)
FINAL_S = (8.0, 20.0)
FINAL_HALF_WIDTH = 0.03
# What correctness trials, building and warm-up take whatever the half-width.
FINAL_FIXED_S = 3.0


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AgentEntry(_Model):
    """One contestant of a run: its name on the board, what was asked for, its settings, its budget of attempts."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}$")]
    spec: str
    config: dict[str, Any] = Field(default_factory=dict)
    attempts: Annotated[int, Field(ge=1)]


class RunConfig(_Model):
    """All that decides what a run does; kept in its log, so that a resumed run does the same.

    seconds: budget of one agent on one task, its own thinking included, waiting for the device and finals excluded.
    finals: how many of an agent's candidates on a task get a final judgement.
    depth: ``screen`` leaves the finals out: quick, and no score.
    unsafe: candidates of agents that are not trusted run even where the system contains nothing.
    """

    suite: str = "adhoc"
    suite_version: str = "0"
    tasks: list[Task]
    agents: list[AgentEntry]
    device: str = "cpu"
    seed: int = 0
    seconds: Annotated[float, Field(gt=0)] | None = None
    finals: Annotated[int, Field(ge=1)] = 1
    half_width: Annotated[float, Field(gt=0, lt=1)] = 0.03
    instances: tuple[Annotated[int, Field(ge=2)], int] = (8, 24)
    depth: Literal["screen", "final"] = "final"
    opponents: list[Literal["eager", "compile"]] = Field(default_factory=lambda: ["eager", "compile"])
    unsafe: bool = False

    def task(self, name: str) -> Task:
        """The task called `name`; KeyError if there is none."""
        for task in self.tasks:
            if task.name == name:
                return task
        raise KeyError(name)

    def checked(self) -> RunConfig:
        """Itself, if every agent and task has a name of its own and there is one of each. Raises GauntletError."""
        for what, names in (("agent", [a.name for a in self.agents]), ("task", [t.name for t in self.tasks])):
            if not names:
                raise GauntletError(f"a run needs at least one {what}; name it with --{what}{'s' * (what == 'task')}")
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                hint = f"; tell them apart with as=, e.g. {twice[0]}:as={twice[0]}-2" if what == "agent" else ""
                raise GauntletError(f"{what} {', '.join(twice)} is named twice in this run{hint}")
        return self


def parse_budget(text: str | None) -> dict[str, float]:
    """``attempts=8,seconds=60`` as numbers. Raises GauntletError with the nearest known name, and for bad values."""
    import difflib

    known = ("attempts", "seconds")
    budget: dict[str, float] = {}
    for part in filter(None, (piece.strip() for piece in (text or "").split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise GauntletError(f"--budget: no budget called '{name}'; {hint}")
        if name in budget:
            raise GauntletError(f"--budget: {name} is given twice")
        try:
            number = float(value) if name == "seconds" else int(value)
        except ValueError:
            number = 0
        if not equals or not 0 < number < float("inf"):
            kind = "a number of seconds above 0" if name == "seconds" else "a whole number above 0"
            raise GauntletError(f"--budget: {name} needs {kind}, e.g. {name}=8, not '{value}'")
        budget[name] = number
    return budget


@dataclass(frozen=True)
class Plan:
    """A run before it is run: judgements counted, time estimated as (low, high) seconds.

    rows: one dict per agent × task in the order of running: task, agent, cases, attempts (the most), finals (the
        most), low_s, high_s.
    """

    config: RunConfig
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def seconds(self) -> tuple[float, float]:
        """Low and high estimate of the whole run."""
        return sum(row["low_s"] for row in self.rows), sum(row["high_s"] for row in self.rows)


def cells(config: RunConfig) -> list[tuple[AgentEntry, Task]]:
    """Agent × task in the order of running, task by task: a run cut short has compared its agents on the same tasks."""
    return [(agent, task) for task in config.tasks for agent in config.agents]


def make_plan(config: RunConfig) -> Plan:
    """What a run of `config` would judge, and roughly how long that takes; agents may well use less."""
    rows = []
    against = max(1, len(config.opponents))
    for agent, task in cells(config):
        cases = [case.name for case in task.timed_cases(config.device)]
        finals = min(config.finals, agent.attempts) if config.depth == "final" else 0
        scale = (FINAL_HALF_WIDTH / config.half_width) ** 2
        row: dict[str, Any] = {
            "task": task.name, "agent": agent.name, "cases": cases, "attempts": agent.attempts, "finals": finals,
        }
        for key, at in (("low_s", 0), ("high_s", 1)):
            # The low estimate is of an agent that gives one answer.
            attempts = (1, agent.attempts)[at]
            screening = attempts * len(cases) * SCREEN_S[at]
            if config.seconds is not None:
                screening = min(screening, config.seconds)
            final = len(cases) * (FINAL_FIXED_S + FINAL_S[at] * scale * against)
            judging = final * (min(finals, 1), finals)[at]
            row[key] = round(screening + judging, 1)
        rows.append(row)
    return Plan(config, rows)
