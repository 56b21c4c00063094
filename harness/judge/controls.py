"""The judge's own controls: the null kernel's constant, a baseline against itself, and a machine at rest."""

from __future__ import annotations

import os
import statistics
import time

from harness.judge import ratio
from harness.judge.block import run_block, settle
from harness.judge.contestants import Lost, MachineFault
from harness.judge.layout import Layout
from harness.judge.roster import Roster
from harness.spec.task import Task
from harness.spec.verdict import Estimate, Limits

CONTROL_PAIRS = 6
CONTROL_CALLS = 8
QUIET_SECONDS = 0.25


def measure_null(roster: Roster, task: Task, blocks: int = 24) -> tuple[float, float]:
    """(c, b): seconds of a block of the null kernel without calls, and per call, from blocks of 1 and of 64 calls."""
    player, layout = roster.null(task)
    try:
        short, long = [], []
        for _ in range(blocks):
            for calls, times in ((1, short), (layout.slots, long)):
                times.append(run_block(player, calls, 30))
                settle(player)
        one, many = statistics.median(short), statistics.median(long)
        per_call = max(0.0, (many - one) / (layout.slots - 1))
        return max(one - per_call, 0.0), per_call
    except Lost as lost:
        raise MachineFault(f"the null kernel failed: {lost}") from None
    finally:
        player.close()


def against_itself(roster: Roster, task: Task, layout: Layout, limits: Limits, c: float, instances: int,
                   threads: int | None) -> Estimate | None:
    """The A/A control: eager against eager, from neighbouring instances of the pool; None with fewer than two."""
    logs = []
    for first in range(0, instances - 1, 2):
        try:
            pair = [roster.opponent("eager", i, task, layout, limits, threads) for i in (first, first + 1)]
            logs.append(ratio.instance_log_ratio(ratio.balanced(_pairs(roster, layout, pair, c))))
        except Lost as lost:
            raise MachineFault(f"the eager baseline failed against itself: {lost}") from None
    return ratio.estimate(logs) if logs else None


def alone(roster: Roster, task: Task, layout: Layout, limits: Limits, c: float, kinds: list[str], instance: int,
          instances: int, calls: int, rotations: int, threads: int | None) -> dict[str, float]:
    """Median seconds per call of each opponent of one instance, in the protocol of a match without the candidate.

    Another instance of eager takes the candidate's place: what a block finds in the caches is what another one left.
    """
    try:
        players = [roster.opponent("eager", (instance + 1) % instances, task, layout, limits, threads)]
        players += [roster.opponent(kind, instance, task, layout, limits, threads) for kind in kinds]
        times: dict[str, list[float]] = {kind: [] for kind in kinds}
        for turn in range(rotations):
            for player in players:
                settle(player)
            layout.fill(roster.inputs, calls)
            order = list(zip(["", *kinds], players, strict=True))
            for kind, player in order if turn % 2 == 0 else order[::-1]:
                await_quiet()
                seconds = ratio.per_call(run_block(player, calls, 300.0), calls, c)
                if kind:
                    times[kind].append(seconds)
        return {kind: statistics.median(found) for kind, found in times.items()}
    except Lost as lost:
        raise MachineFault(f"a baseline failed without any candidate: {lost}") from None


def _pairs(roster: Roster, layout: Layout, pair: list, c: float) -> list[tuple[float, float]]:
    calls = max(1, min(CONTROL_CALLS, layout.slots))
    found = []
    for turn in range(CONTROL_PAIRS):
        for player in pair:
            settle(player)
        layout.fill(roster.inputs, calls)
        times = {}
        for index in (0, 1) if turn % 2 == 0 else (1, 0):
            await_quiet()
            times[index] = ratio.per_call(run_block(pair[index], calls, 300.0), calls, c)
        found.append((times[0], times[1]))
    return found


def await_quiet(seconds: float = QUIET_SECONDS) -> bool:
    """Wait until nothing but the judge is ready to run on any core, for `seconds` at most; whether it came to that.

    A frozen contestant can have left work to the kernel's own threads, which no freezer stops.
    """
    limit = time.monotonic() + seconds
    descriptor = os.open("/proc/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        while running(os.pread(descriptor, 1 << 16, 0)) > 1:
            if time.monotonic() > limit:
                return False
            time.sleep(0.0005)
        return True
    finally:
        os.close(descriptor)


def running(stat: bytes) -> int:
    """Number of threads ready to run, of the text of /proc/stat."""
    line = next((line for line in stat.splitlines() if line.startswith(b"procs_running ")), b"procs_running 1")
    return int(line.split()[1])
