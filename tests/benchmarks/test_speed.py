"""What judging costs, as ratios within one run (pytest-benchmark keeps the absolute times)."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from harness.judge.arena import Arena
from harness.spec.candidate import Candidate
from harness.spec.task import Case, InputSpec, Task
from harness.spec.verdict import JudgeRequest

IMPORT = "import torch"
TRIVIAL = Task(schema=1, name="double", reference="double.py:double", reference_entry="double",
               reference_source="def double(x):\n    return x + x\n",
               inputs={"x": InputSpec(shape=["n", "m"])}, cases=[Case(name="only", dims={"n": 256, "m": 256})])
DOUBLE = """
#include <cstdint>
extern "C" void kernel(const float* x, int64_t n, int64_t m, float* out) {
    for (int64_t i = 0; i < n * m; ++i) out[i] = x[i] + x[i];
}
"""


def seconds(function, repetitions: int) -> float:
    """Median wall seconds of a call."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def import_torch() -> None:
    subprocess.run([sys.executable, "-c", IMPORT], check=True)


def test_start_of_a_contained_contestant(judge, benchmark):
    """Against a new Python process that imports torch: the goal is 20 times faster."""
    inputs, outputs = Arena(4096, contestants_may_write=False), Arena(4096, contestants_may_write=True)

    def start() -> None:
        judge.zygote.spawn(inputs, outputs, memory=1 << 30, scratch=1 << 26).close()

    start()
    benchmark.pedantic(start, rounds=20)
    ratio = seconds(import_torch, 5) / benchmark.stats.stats.median
    benchmark.extra_info["times faster than a process that imports torch"] = round(ratio, 1)
    assert ratio > 20


def test_screen_of_a_cached_candidate(executor, benchmark):
    """A screen of a trivial C++ candidate that is built already, against one in a new process that imports torch first:
    the goal is 5 times faster."""
    request = JudgeRequest(id="bench", task=TRIVIAL, depth="screen", opponents=["eager"],
                           candidate=Candidate(source=DOUBLE, language="cpp"))
    for _ in range(2):  # the first also builds it and starts the opponent
        assert executor.submit(request).status == "ok"
    benchmark.pedantic(lambda: executor.submit(request), rounds=20)
    ratio = 1 + seconds(import_torch, 5) / benchmark.stats.stats.median
    benchmark.extra_info["times faster than in a new process"] = round(ratio, 1)
    assert ratio > 4


def test_the_judges_own_share_of_a_final(executor, content, benchmark):
    """The harness' share of the wall time of a final, without building, candidate, baselines and oracle."""
    task = content.task("bias_gelu_residual")
    kernel = content.find("solutions/bias_gelu_residual/one_pass.cpp")
    request = JudgeRequest(id="bench", task=task, depth="final", opponents=["eager"], instances=(4, 4),
                           candidate=Candidate(source=kernel.read_text(), language="cpp"))
    executor.submit(request)
    result = benchmark.pedantic(lambda: executor.submit(request), rounds=1)
    executed = sum(result.phases.get(phase, 0) for phase in ("build", "candidate", "opponents", "oracle"))
    share = 1 - executed / result.wall_s
    benchmark.extra_info["own share of the wall time"] = round(share, 3)
    assert share < 0.3


def test_memory_of_the_judge(tmp_path, content, benchmark):
    """Peak resident memory of the judge's process over a final."""
    from harness.runs.executor import LocalExecutor

    task = content.task("softmax")
    request = JudgeRequest(id="bench", task=task, depth="final", opponents=["eager"], instances=(2, 2),
                           candidate=Candidate(source=task.reference_source, entry=task.reference_entry))

    def peak() -> float:
        with LocalExecutor(cache_dir=tmp_path) as executor:
            executor.submit(request)
            with open(f"/proc/{executor._process.pid}/status") as file:
                line = next(line for line in file if line.startswith("VmHWM"))
        return int(line.split()[1]) / 2**20

    gigabytes = benchmark.pedantic(peak, rounds=1)
    benchmark.extra_info["peak GiB"] = round(gigabytes, 2)
    assert gigabytes < 1.5
