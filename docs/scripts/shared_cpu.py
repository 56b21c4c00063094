"""Identical processes doing identical work, timed: why the judge sets what it sets, and times fresh processes.

    python docs/scripts/shared_cpu.py

prints, for PyTorch's gelu on 1024 × 1024 float32, the median time of a call in each of four processes that take turns, with
the environment as it is and with the judge's settings; then what starting a contestant costs by import and by fork.
About two minutes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

PROCESSES, ROUNDS, CALLS = 4, 12, 20
SETTINGS = {"MALLOC_MMAP_THRESHOLD_": "268435456", "MALLOC_TRIM_THRESHOLD_": "268435456", "GOMP_SPINCOUNT": "0"}
WORKER = """
import sys, time
import torch

x = torch.randn(1024, 1024)
out = torch.empty_like(x)
kept = sys.argv[1] == "kept"
call = (lambda: torch.nn.functional.gelu(x)) if not kept else (lambda: torch._C._nn.gelu(x, out=out))
for _ in range(10):
    call()
print("ready", flush=True)
for line in sys.stdin:
    begun = time.perf_counter()
    for _ in range(int(line)):
        call()
    print((time.perf_counter() - begun) / int(line), flush=True)
"""
FORK = """
import os, time
import torch

taken = []
for _ in range(20):
    begun = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    taken.append(time.perf_counter() - begun)
print(sorted(taken)[10])
"""


def medians(settings: dict[str, str], mode: str) -> list[float]:
    """Seconds per call, the median of each process."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **settings}
    team = [subprocess.Popen([sys.executable, "-c", WORKER, mode], env=environment, text=True, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE) for _ in range(PROCESSES)]
    for one in team:
        one.stdout.readline()
    times: list[list[float]] = [[] for _ in team]
    for _ in range(ROUNDS):
        for number, one in enumerate(team):
            one.stdin.write(f"{CALLS}\n")
            one.stdin.flush()
            times[number].append(float(one.stdout.readline()))
    for one in team:
        one.stdin.close()
        one.wait()
    return [statistics.median(one) for one in times]


def main() -> None:
    """Measure and print."""
    print(f"{'set-up':38} ms per call in {PROCESSES} identical processes     largest ratio")
    for title, settings, mode in (("as it is", {}, "new"), ("as it is, into one output", {}, "kept"),
                                  ("with the judge's settings", SETTINGS, "new"),
                                  ("with them, into one output", SETTINGS, "kept")):
        found = medians(settings, mode)
        print(f"{title:38} {'  '.join(f'{1e3 * t:6.3f}' for t in found)}       {max(found) / min(found):.2f}")
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    print(f"\na process that imports torch: {time.perf_counter() - begun:.1f} s")
    forked = float(subprocess.run([sys.executable, "-c", FORK], check=True, capture_output=True, text=True).stdout)
    print(f"one forked from a process that has: {1e3 * forked:.1f} ms, before any namespace is made")


if __name__ == "__main__":
    main()
