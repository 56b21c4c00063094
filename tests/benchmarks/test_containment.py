"""What the guards cost, against the same protocol without containment, in one run."""

from __future__ import annotations

import statistics

import pytest
from test_speed import seconds

from harness.judge.arena import Arena
from harness.judge.controls import measure_null
from harness.judge.judge import Judge
from harness.spec.candidate import Candidate
from harness.spec.verdict import JudgeRequest


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Two judges that differ in containment alone: ("contained", judge), ("not contained", judge)."""
    judges = {name: Judge(tmp_path_factory.mktemp("cache"), preload=[], containment=level)
              for name, level in (("contained", "auto"), ("not contained", "none"))}
    yield judges
    for judge in judges.values():
        judge.close()


def test_a_start(both, benchmark):
    """The goal is at most 0.15 s more."""
    inputs, outputs = Arena(4096, contestants_may_write=False), Arena(4096, contestants_may_write=True)

    def start(name):
        both[name].zygote.spawn(inputs, outputs, memory=1 << 30, scratch=1 << 26).close()

    start("contained")
    start("not contained")
    benchmark.pedantic(lambda: start("contained"), rounds=20)
    extra = benchmark.stats.stats.median - seconds(lambda: start("not contained"), 20)
    benchmark.extra_info["seconds more"] = round(extra, 4)
    assert extra < 0.15


def test_a_final(both, content, benchmark):
    """The goal is at most 30 % more wall time."""
    task = content.task("bias_gelu_residual")
    kernel = content.find("solutions/bias_gelu_residual/one_pass.cpp")
    request = JudgeRequest(id="bench", task=task, depth="final", opponents=["eager"], instances=(4, 4), vouched=True,
                           candidate=Candidate(source=kernel.read_text(), language="cpp"))
    times = {name: [] for name in both}
    for name, judge in both.items():
        judge.judge(request)  # builds it
    for _ in range(2):
        for name, judge in both.items():
            result = judge.judge(request)
            times[name].append(result.wall_s)
            judge.roster.release()  # its frozen opponents hold memory, and the next ones are started anew by both
    ratio = min(times["contained"]) / min(times["not contained"])
    benchmark.pedantic(lambda: None, rounds=1)
    benchmark.extra_info["contained ÷ not contained"] = round(ratio, 3)
    assert ratio < 1.3


def test_inside_the_timed_interval(both, content, benchmark):
    """A block of the null kernel shows all that the guards add to a block: its constant, and its time per call."""
    task = content.task("softmax")
    measured = {name: [] for name in both}
    for judge in both.values():
        judge.zygote.wait()
    for _ in range(3):
        for name, judge in both.items():
            measured[name].append(measure_null(judge.roster, task))
    benchmark.pedantic(lambda: None, rounds=1)
    for name, found in measured.items():
        constant, call = (1e6 * statistics.median(values) for values in zip(*found, strict=True))
        benchmark.extra_info[f"{name}: µs a block, µs a call"] = [round(constant, 1), round(call, 3)]
    calls = {name: statistics.median(call for _, call in found) for name, found in measured.items()}
    assert calls["contained"] < 1.5 * calls["not contained"]
