"""Eager: the task's own reference as a candidate, the control that must come out at a speedup of 1."""

from collections.abc import Iterable

from harness.agents.protocol import History, View
from harness.spec.candidate import Candidate


class Eager:
    """Answers with the reference, once."""

    def propose(self, view: View, history: History) -> Iterable[Candidate]:
        if not len(history):
            task = view.task
            yield Candidate(source=task.reference_source, entry=task.reference_entry, note="the reference itself")
