"""Eager: the task's own reference as a candidate, the control that must come out at a speedup of 1."""

from collections.abc import Iterable

from harness.agents.protocol import History, View
from harness.spec.baselines import eager
from harness.spec.candidate import Candidate


class Eager:
    """Answers with the reference, once."""

    def propose(self, view: View, history: History) -> Iterable[Candidate]:
        if not len(history):
            yield eager(view.task)
