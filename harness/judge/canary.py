"""After a fault: is it the machine, or the candidate? A known kernel in a contestant of its own decides.

A candidate that causes faults gets no other try by them, and a machine that fails is never a candidate's score.
"""

from __future__ import annotations

import torch

from harness.judge import block
from harness.judge.contestants import Lost, MachineFault
from harness.judge.layout import Layout
from harness.judge.roster import Roster
from harness.spec.candidate import Candidate
from harness.spec.task import Case, InputSpec, Task
from harness.spec.verdict import Limits

_TASK = Task(schema=1, name="canary", reference="canary.py:canary", reference_entry="canary",
             reference_source="def canary(x):\n    return x + x\n", inputs={"x": InputSpec(shape=["n"])},
             cases=[Case(name="only", dims={"n": 4096})])
_KERNEL = Candidate(source="def kernel(x):\n    return x + x\n", entry="kernel")
_LIMITS = Limits(load_s=30.0, call_s=5.0)
CALLS = 4


def sings(roster: Roster) -> str:
    """Empty when a known kernel runs and answers rightly; else what became of it."""
    layout = Layout(_TASK, _TASK.cases[0].dims, "float32", [(torch.float32, (4096,))])
    layout.slots = CALLS
    try:
        player = roster.start(_KERNEL, _TASK, "float32", _LIMITS)
        try:
            roster.seat(player, layout, _LIMITS)
            layout.fill(roster.inputs, CALLS)
            block.run_block(player, CALLS, 10.0)
            answers = block.collect(player, CALLS, list(range(CALLS)))
            for index, (answer,) in answers.items():
                (x,) = layout.slot(roster.inputs, index)
                if not torch.equal(answer, x + x):
                    return "its answer is wrong"
            return ""
        finally:
            player.close()
    except (Lost, MachineFault) as error:
        return str(error) or type(error).__name__
