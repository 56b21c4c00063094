"""A/A: a kernel against itself, 40 times. The interval must cover 1 in at least 36, the median of medians be within 2 %.

Every repetition has opponents of its own: those of a run are kept for all its candidates, whose errors are therefore
not independent of each other.
"""

from __future__ import annotations

import statistics

import pytest

from harness.spec.baselines import eager
from harness.spec.verdict import JudgeRequest

REPETITIONS = 40


@pytest.mark.long
@pytest.mark.parametrize("name", ["softmax"])
def test_a_kernel_against_itself(judge, content, name, benchmark):
    task = content.task(name)
    request = JudgeRequest(id="aa", task=task, candidate=eager(task), depth="final", opponents=["eager"],
                           instances=(6, 6))

    def once():
        judge.roster.release()
        return judge.judge(request).cases[0].speedup

    found = benchmark.pedantic(lambda: [once() for _ in range(REPETITIONS)], rounds=1)
    covered = sum(e.low <= 1 <= e.high for e in found)
    middle = statistics.median(e.value for e in found)
    benchmark.extra_info.update(covered=covered, of=REPETITIONS, median=round(middle, 4),
                                half_width=round(statistics.median((e.high - e.low) / 2 for e in found), 4))
    assert covered >= 36
    assert abs(middle - 1) < 0.02
