"""The Agent protocol: `propose(view, history)` (DESIGN section 7).

A strategy keeps no state of its own: what it does next follows from `view` and `history`, so resume, replay and
parallel evaluation come for free.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from harness.spec.candidate import Candidate
from harness.spec.task import Task
from harness.spec.verdict import JudgeResult


@dataclass(frozen=True)
class Attempt:
    """One judged candidate. index counts proposals of this agent on this task, from 0."""

    index: int
    candidate: Candidate
    result: JudgeResult


@dataclass
class History:
    """Every attempt of this agent on this task so far, in the order of proposal."""

    attempts: list[Attempt] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.attempts)

    def best(self) -> Attempt | None:
        """The attempt with status ok and the highest screened speedup; None when nothing is correct yet."""
        scored = [a for a in self.attempts if a.result.status == "ok" and a.result.speedup]
        return max(scored, key=lambda a: a.result.speedup.value, default=None)


@dataclass(frozen=True)
class View:
    """What an agent may see of a task: never verification shapes, never inputs.

    seed: of the run; `rng(index)` derives the randomness of one proposal from (seed, task, index).
    content: finds shipped and project files (templates, solutions) by relative path, e.g. "templates/softmax.cpp";
        raises FileNotFoundError with what exists instead.
    device: facts (name, cores, vector extensions …).
    attempts: budget of attempts on this task.
    """

    task: Task
    device: dict[str, Any]
    seed: int
    attempts: int
    content: Callable[[str], Path]

    def rng(self, index: int) -> random.Random:
        """Seeded randomness of proposal number `index`."""
        return random.Random(f"{self.seed}/{self.task.name}/{index}")


@runtime_checkable
class Agent(Protocol):
    """A contestant. Nothing yielded ends the task; the harness may stop consuming at any time (budgets)."""

    def propose(self, view: View, history: History) -> Iterable[Candidate]:
        """Yield the next candidates; called again with a longer history until it yields nothing."""
        ...
