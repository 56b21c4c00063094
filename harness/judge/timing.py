"""A timed case: candidate and opponents in sealed blocks, several fresh instances of each (MEASURING section 3).

Within one rotation all sides get the same fresh inputs, which none of them can write to, and whoever is not timed is
frozen. Which answers are read is decided in secret, after the fact.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from harness.judge import ratio
from harness.judge.block import Player, collect, run_block, settle
from harness.judge.compare import Comparison, merge
from harness.judge.contestants import Lost, OpponentLost
from harness.judge.controls import QUIET_SECONDS, against_itself, alone, await_quiet
from harness.judge.floor import floor_seconds
from harness.judge.layout import Layout
from harness.judge.oracle import Reference
from harness.judge.roster import WARM_CALLS, Roster
from harness.judge.trials import judge_call
from harness.spec.candidate import Candidate
from harness.spec.task import Case, Task
from harness.spec.verdict import Block, CaseResult, Estimate, JudgeRequest, Mismatch, Status

CANDIDATE = "candidate"
PAIRS = 12  # rotations an instance plays in a final; even, for AB and BA
SINGLES = 4  # rotations of a single call that an instance plays in a final
SCREEN_PAIRS = 6
SETTLE_SECONDS = 5.0
PATIENCE_SECONDS = {"final": 2.0, "screen": 0.1}
CHECKS = {"final": 300, "screen": 60}  # skipping 1 % of the calls is found with 95 % probability; 5 % in a screen
CHECK_SECONDS = {"final": 2.0, "screen": 0.25}
# Longer than MEASURING's 8 ms: a thaw costs 0 to 3 ms of waking threads on shared cores, once a block. Measured on two of
# them, eager softmax against itself: the spread of a pair's log ratio is 0.31 at 10 ms, 0.18 at 20 ms a block.
BLOCK_SECONDS = {"final": 20e-3, "screen": 8e-3}
CALIBRATION_CALLS = 4
FAST_SIDE_NULLS = 20  # the faster side's block is made at least this long against the null's constant …
SLOWEST_BLOCK_SECONDS = 1.0  # of a candidate far slower than the baselines
SLOW_SIDE_SECONDS = 0.1  # … while the slower side's stays below this
SLOWED = 1.05  # an opponent surely this much slower beside the candidate than alone is counted at its time alone
FIRST_LOOK, SECOND_LOOK = (4, 2), (24, 4)  # (instances, rotations) of opponents alone; the second where the first shows it
FLOOR_CALLS, FLOOR_BLOCKS = 64, 3
RESIDUE = 0.02  # of a block: what the machine is surely busy with after a candidate's block, and not after an opponent's


class WrongAnswer(Exception):
    """A call of a timed block was answered wrongly."""

    def __init__(self, message: str, mismatch: Mismatch | None):
        super().__init__(message)
        self.mismatch = mismatch


@dataclass
class Clockwork:
    """What the judge spends its wall time on, in seconds by phase."""

    phases: dict[str, float] = field(default_factory=dict)

    def add(self, phase: str, since: float) -> float:
        """Charge the time since `since` (time.perf_counter) to a phase; returns now."""
        now = time.perf_counter()
        self.phases[phase] = self.phases.get(phase, 0.0) + now - since
        return now


@dataclass
class Match:
    """One candidate against the opponents on one case."""

    roster: Roster
    task: Task
    case: Case
    reference: Reference
    layout: Layout
    candidate: Candidate
    request: JudgeRequest
    clockwork: Clockwork
    null: tuple[float, float]  # seconds of a block, and of a further call in it
    shared_object: Path | None = None
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng())
    threads: int | None = None
    comparisons: list[Comparison] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    calls: int = 0
    checked: int = 0
    check_s: float = 0.0
    below_floor: str = ""
    waits: list[tuple[float, float]] = field(default_factory=list)  # after the candidate's block, after the others'
    patience: float = field(init=False)  # seconds that may still be lost to waiting in vain for a quiet machine

    def __post_init__(self) -> None:
        self.patience = PATIENCE_SECONDS[self.request.depth]

    # ------------------------------------------------------------------ the whole match

    def play(self) -> CaseResult:
        """Play it; raises Lost, WrongAnswer or MachineFault."""
        final = self.request.depth == "final"
        lengths = random.SystemRandom()
        base = 0
        first, most = self.request.instances if final else (1, 1)
        logs: dict[str, list[float]] = {kind: [] for kind in self.request.opponents}
        instance = 0
        while instance < first or (instance < most and not self._precise(logs)):
            candidate = self._start_candidate()
            try:
                players = {CANDIDATE: candidate, **self._opponents(instance)}
                if instance == 0:
                    base, restart = self._calibrate(players)
                    if restart:
                        candidate.close()
                        self.threads = 1
                        candidate = players[CANDIDATE] = self._start_candidate()
                        players.update(self._opponents(instance))
                        base, _ = self._calibrate(players)
                # Every page of slots and heap that a block may use is touched before, by every side: else the first
                # blocks of an instance time page faults. One more unscored rotation settles caches and threads.
                longest = min(base + base // 2 + 1, self.layout.slots)
                for side, player in players.items():
                    begun = time.perf_counter()
                    self._own(side, player.touch, longest)
                    self.clockwork.add(side if side == CANDIDATE else "opponents", begun)
                self._rotation(players, longest, instance, -2)
                for _ in range(SINGLES if final else 0):
                    self._rotation(players, 1, instance, -1)
                pairs = PAIRS if final else SCREEN_PAIRS
                calls = 0
                for pair in range(pairs):
                    calls = block_length(min(base, self.layout.slots), pair, calls, lengths)
                    self._rotation(players, min(calls, self.layout.slots), instance, pair)
                for kind in logs:
                    logs[kind].append(ratio.instance_log_ratio(ratio.balanced(self.paired(kind, instance))))
            finally:
                begun = time.perf_counter()
                candidate.close()
                begun = self.clockwork.add("end", begun)
            instance += 1
            self.layout.renew()  # what one instance may have learnt of the banks is worth nothing to the next
            self.clockwork.add("fill", begun)
        if final:
            self._look_below_floor(base)
        slowed = self._slowed(instance, base) if final and logs and instance > 1 else {}
        return self._result(logs, slowed)

    def _look_below_floor(self, base: int) -> None:
        """Where the candidate was faster than anything can be, have it answer once more, and look at every answer."""
        mine = self._median(CANDIDATE)
        self.roster.peaks.measure()
        floor = floor_seconds(self.task, self.layout, self.roster.peaks)
        if mine >= floor:
            return
        self.below_floor = (f"{1e6 * mine:.3g} µs a call is below the floor of {1e6 * floor:.3g} µs on this machine; "
                            "judged again, every answer was right")
        candidate = self._start_candidate()
        try:
            calls = max(1, min(base, self.layout.slots, FLOOR_CALLS))
            self._own(CANDIDATE, candidate.touch, calls)
            for _ in range(FLOOR_BLOCKS):
                self._rotation({CANDIDATE: candidate}, calls, 0, -2, every=True)
        except WrongAnswer as wrong:
            raise Lost("tampered", f"{1e6 * mine:.3g} µs a call is below the floor of {1e6 * floor:.3g} µs on this "
                                   f"machine, and when every answer was looked at: {wrong}") from None
        finally:
            candidate.close()

    def _median(self, side: str) -> float:
        long = [b for b in self.blocks if b.calls > 1] or self.blocks
        return statistics.median(ratio.per_call(b.seconds, b.calls, self.null[0]) for b in long if b.side == side)

    def _slowed(self, instances: int, base: int) -> dict[str, float]:
        """Opponent → how many times slower it ran beside the candidate than alone; only where that is sure.

        Whatever a candidate does to its opponents shows here, by whichever way it does it.
        """
        begun = time.perf_counter()
        kinds, found = list(self.request.opponents), {}
        for most, rotations in (FIRST_LOOK, SECOND_LOOK):
            logs: dict[str, list[float]] = {kind: [] for kind in kinds}
            for instance in range(min(most, instances)):
                solo = alone(self.roster, self.task, self.layout, self.request.limits, self.null[0], kinds, instance,
                             instances, base, rotations, self.threads)
                for kind in kinds:
                    beside = statistics.median(opponent for opponent, _ in self.paired(kind, instance))
                    logs[kind].append(math.log(beside / solo[kind]))
            found = {kind: math.exp(statistics.fmean(values)) for kind, values in logs.items()
                     if (statistics.fmean(values) if (most, rotations) == FIRST_LOOK else ratio.t_interval(values)[1])
                     > math.log(SLOWED)}
            if not found:
                break
        self.clockwork.add("alone", begun)
        return found

    def _precise(self, logs: dict[str, list[float]]) -> bool:
        """Whether every interval is as narrow as asked for, or as a twentieth of the effect it shows."""
        found = [ratio.estimate(values) for values in logs.values()]
        return all(ratio.half_width(e) <= max(self.request.half_width, 0.05 * abs(math.log(e.value))) for e in found)

    def _start_candidate(self) -> Player:
        begun = time.perf_counter()
        player = self.roster.start(self.candidate, self.task, self.layout.dtype, self.request.limits,
                                   shared_object=self.shared_object, threads=self.threads)
        begun = self.clockwork.add("start", begun)
        try:
            seconds = self.roster.seat(player, self.layout, self.request.limits)
            self.roster.keep_warm(player, self.candidate, self.layout.dtype, WARM_CALLS * seconds)
            self.roster.no_new_processes(player)
        except BaseException:
            player.close()
            raise
        self.clockwork.add("candidate", begun)
        return player

    def _opponents(self, instance: int) -> dict[str, Player]:
        begun = time.perf_counter()
        players = {kind: self.roster.opponent(kind, instance, self.task, self.layout, self.request.limits, self.threads)
                   for kind in self.request.opponents}
        self.clockwork.add("opponents", begun)
        return players

    # ------------------------------------------------------------------ block lengths

    def _calibrate(self, players: dict[str, Player]) -> tuple[int, bool]:
        """(calls per block, whether to start again with one thread because the operation is launch-bound)."""
        calls = min(CALIBRATION_CALLS, self.layout.slots)
        rounds = [self._rotation(players, calls, 0, -2) for _ in range(2)][-1]
        times = {side: ratio.per_call(seconds, calls, self.null[0]) for side, seconds in rounds.items()}
        bound = any(ratio.is_launch_bound(t, self.null[1]) for t in times.values())
        if bound and self.threads is None:
            return 0, True
        # The baselines' times choose the length, so that no candidate can; a slow one only bounds it.
        mine = times.pop(CANDIDATE)
        baselines = list(times.values()) or [mine]
        slow, fast = max(baselines), min([mine, *baselines])
        base = ratio.calls_per_block(slow, self.null[0], min_seconds=BLOCK_SECONDS[self.request.depth],
                                     high=self.layout.slots)
        wanted = math.ceil(FAST_SIDE_NULLS * self.null[0] / max(fast, 1e-9))
        base = max(base, min(wanted, int(SLOW_SIDE_SECONDS / max(slow, 1e-9))))
        base = min(base, max(CALIBRATION_CALLS, int(SLOWEST_BLOCK_SECONDS / max(mine, 1e-9))))
        return max(1, min(base, self.layout.slots)), False

    # ------------------------------------------------------------------ one rotation

    def _rotation(self, players: dict[str, Player], calls: int, instance: int, pair: int,
                  every: bool = False) -> dict[str, float]:
        """One block of every side on the same fresh inputs; the order alternates. pair < 0: not for the ratio.

        every: look at every answer instead of some.
        """
        begun = time.perf_counter()
        # All let go of their last answers before the inputs exist: between the blocks of a rotation nobody runs.
        for side, player in players.items():
            self._own(side, settle, player, SETTLE_SECONDS)
        begun = self.clockwork.add("protocol", begun)
        self.layout.fill(self.roster.inputs, calls)
        begun = self.clockwork.add("fill", begun)
        times, waits = {}, {}
        self._await_quiet()
        for side in list(players) if pair % 2 == 0 else list(players)[::-1]:
            begun = self.clockwork.add("protocol", begun)
            times[side] = self._block(players[side], side, calls)
            begun = self.clockwork.add(side if side == CANDIDATE else "opponents", begun)
            waits[side] = self._await_quiet()
            if pair > -2:
                self.blocks.append(Block(instance=instance, pair=pair, side=side, calls=calls, seconds=times[side]))
        chosen = self._choose(calls)
        if every:
            chosen = list(range(calls))
        elif pair == -2:
            chosen = self.rng.permutation(chosen)[:1].tolist()
        answers = collect(players[CANDIDATE], calls, chosen)
        self.clockwork.add("protocol", begun)
        if pair > -2:
            self.calls += calls
            if len(waits) > 1:
                self.waits.append((waits.pop(CANDIDATE), max(waits.values())))
        self._check(answers)
        return times

    def _await_quiet(self) -> float:
        """Seconds waited for a machine at rest, as long as this match still has patience: where other work goes on all the time,
        waiting for its end would only take for ever."""
        begun = time.perf_counter()
        if self.patience > 0:
            await_quiet(min(QUIET_SECONDS, self.patience))
        waited = time.perf_counter() - begun
        if waited > QUIET_SECONDS / 2:
            self.patience -= waited
        return waited

    def _block(self, player: Player, side: str, calls: int) -> float:
        return self._own(side, run_block, player, calls, min(calls * self.request.limits.call_s, 300.0))

    @staticmethod
    def _own(side: str, function, *arguments):
        """Call `function`; when a baseline is lost in it, that is the machine's fault and never the candidate's."""
        try:
            return function(*arguments)
        except Lost as lost:
            if side == CANDIDATE:
                raise
            raise OpponentLost(f"the {side} baseline failed in a timed case: {lost}") from None

    def _choose(self, calls: int) -> list[int]:
        """Which answers of this block are read: drawn after the clock has stopped, unknown to the contestant."""
        blocks = (self.request.instances[0] * (PAIRS + 1)) if self.request.depth == "final" else SCREEN_PAIRS
        wanted = math.ceil(CHECKS[self.request.depth] / blocks)
        if self.checked:
            affordable = CHECK_SECONDS[self.request.depth] / (self.check_s / self.checked) / blocks
            wanted = min(wanted, max(1, math.floor(affordable + self.rng.random())))
        else:
            wanted = 1
        return sorted(int(i) for i in self.rng.choice(calls, size=min(wanted, calls), replace=False))

    def _check(self, answers: dict) -> None:
        begun = time.perf_counter()
        for index, outputs in answers.items():
            inputs = self.layout.slot(self.roster.inputs, index)
            found = judge_call(self.task, self.reference, inputs, outputs, self.layout)
            self.comparisons += found
            self.checked += 1
            wrong = next((c for c in found if not c.ok), None)
            if wrong:
                raise WrongAnswer(f"in a timed block, call {index}: {wrong.message}", wrong.mismatch)
        self.check_s += time.perf_counter() - begun
        self.clockwork.add("oracle", begun)

    # ------------------------------------------------------------------ figures

    def paired(self, kind: str, instance: int) -> list[tuple[float, float]]:
        """(opponent, candidate) seconds per call of every rotation of one instance that counts for the ratio, in order."""
        counts = [b for b in self.blocks if b.instance == instance and b.pair >= 0]
        long = [b for b in counts if b.calls > 1] or counts  # where one slot is all that fits, every block is one call
        times: dict[int, dict[str, float]] = {}
        for b in long:
            times.setdefault(b.pair, {})[b.side] = ratio.per_call(b.seconds, b.calls, self.null[0])
        return [(times[pair][kind], times[pair][CANDIDATE]) for pair in sorted(times)]

    def _estimate(self, kind: str, logs: list[float]) -> Estimate:
        if self.request.depth == "screen":
            return ratio.screen_estimate(self.paired(kind, 0))
        return ratio.estimate(logs)

    def _result(self, logs: dict[str, list[float]], slowed: dict[str, float]) -> CaseResult:
        half = (len(next(iter(logs.values()), [])) + 1) // 2
        reported = {k: v[half:] if self.request.split and len(v) > 2 else v for k, v in logs.items()}
        against = {k: self._estimate(k, v) for k, v in reported.items()}
        chosen = {k: self._estimate(k, v[:half]) for k, v in logs.items()}
        charge, why = self._charge()
        left, what = self._residue()
        why = "; ".join(filter(None, [why, what, self.below_floor, *(
            f"{kind} ran {factor:.2f}× slower beside this candidate than alone; its time alone counts"
            for kind, factor in slowed.items())]))
        against = {k: ratio.scaled(e, charge * left / slowed.get(k, 1.0)) for k, e in against.items()}
        chosen = {k: ratio.scaled(e, charge * left / slowed.get(k, 1.0)) for k, e in chosen.items()}
        speedup = ratio.faster_of(against.get("eager"), against.get("compile"))
        mine = [b for b in self.blocks if b.side == CANDIDATE]
        seconds = {side: self._median(side) for side in (CANDIDATE, *logs)}
        single = [b.seconds - self.null[0] for b in mine if b.calls == 1]
        intercept, _slope = ratio.fit_line([b.calls for b in mine], [b.seconds for b in mine])
        noisy = False
        if speedup is not None and self.request.depth == "final":
            noisy = ratio.is_noisy(speedup, self.control(), self.request.half_width)
        message = why if not noisy else noise_message(speedup, self.control(), self.request.half_width)
        return CaseResult(
            name=self.case.name, dims=self.case.dims, dtype=self.case.dtype,
            status=Status.noisy if noisy else Status.ok, message=message, errors=merge(self.comparisons),
            seconds=seconds, vs_eager=against.get("eager"), vs_compile=against.get("compile"), speedup=speedup,
            selected=ratio.faster_of(chosen.get("eager"), chosen.get("compile")),
            single_call_s=statistics.median(single) if single else None,
            launch_bound=self.threads == 1 or ratio.is_launch_bound(seconds[CANDIDATE], self.null[1]),
            fit_intercept_s=intercept - self.null[0], null_s=self.null[0], calls=self.calls, checked=self.checked,
            skip_detectable=ratio.skip_detectable(self.checked, self.calls), blocks=self.blocks)

    def _charge(self) -> tuple[float, str]:
        """(factor on the speedup, why): 1, unless single calls show that calls in a row share work.

        A single call of anyone costs more than one of many: threads have to wake. What the candidate's single calls
        cost beyond that of the opponents in the same rotation is its own; where it is surely more than a whole call,
        the candidate's time is that of its single calls.
        """
        excess = []
        for instance in sorted({b.instance for b in self.blocks}):
            per_call = {side: statistics.median(times) for side, times in self._times(instance, single=False).items()}
            single = self._times(instance, single=True)
            if len(single) < 2 or self.layout.slots == 1 or set(per_call) != set(single):
                continue
            beyond = {side: [t - per_call[side] for t in times] for side, times in single.items()}
            mine = beyond.pop(CANDIDATE)
            excess.append(statistics.median(m - max(o) for m, *o in zip(mine, *beyond.values(), strict=True)))
        if len(excess) < 2:
            return 1.0, ""
        mine = statistics.median(ratio.per_call(b.seconds, b.calls, self.null[0]) for b in self.blocks
                                 if b.side == CANDIDATE and b.calls > 1)
        mean, low, _high = ratio.t_interval(excess)
        if low <= mine:
            return 1.0, ""
        return mine / (mine + mean), (f"calls in a row share work: a single call takes {1e3 * (mine + mean):.3g} ms, "
                                      f"one of many {1e3 * mine:.3g} ms; the single call's time is scored")

    def _residue(self) -> tuple[float, str]:
        """(factor on the speedup, why): 1, unless the machine stays busy after the candidate's blocks alone.

        Everything of the candidate's is frozen then: it has left work to somebody else, the kernel's own threads most
        likely, and pays for the wait.
        """
        if len(self.waits) < SCREEN_PAIRS:
            return 1.0, ""
        left = [mine - others for mine, others in self.waits]
        _mean, low, _high = ratio.t_interval(left)
        block = statistics.median(b.seconds for b in self.blocks if b.side == CANDIDATE)
        rest = statistics.fmean(left)
        if low <= RESIDUE * block or statistics.median(left) <= RESIDUE * block:
            return 1.0, ""
        return block / (block + rest), (f"the machine is busy for another {1e3 * rest:.3g} ms after each of its blocks of "
                                        f"{1e3 * block:.3g} ms: that counts as its own")

    def _times(self, instance: int, *, single: bool) -> dict[str, list[float]]:
        """Side → seconds per call of its blocks of one call, or of many, in one instance."""
        found: dict[str, list[float]] = {}
        for b in self.blocks:
            if b.instance == instance and (b.calls == 1) == single:
                found.setdefault(b.side, []).append(ratio.per_call(b.seconds, b.calls, self.null[0]))
        return found

    def control(self) -> float:
        """The session's A/A control on this case, measured once: the end of its interval nearest to 1, or 1.0."""
        key = (self.task.content_hash, self.case.name, self.threads)
        if key not in self.roster.controls:
            begun = time.perf_counter()
            self.roster.controls[key] = against_itself(self.roster, self.task, self.layout, self.request.limits,
                                                       self.null[0], self.request.instances[0], self.threads)
            self.clockwork.add("opponents", begun)
        found = self.roster.controls[key]
        if found is None or found.low <= 1 <= found.high:
            return 1.0
        return found.low if found.low > 1 else found.high


def block_length(base: int, pair: int, last: int, rng: random.Random) -> int:
    """Calls of the blocks of `pair`, at random around `base`; `last` is that of the pair before.

    Single calls do not count for the ratio: both pairs of an AB and its BA are single, or neither is, for what is left
    is averaged two by two (ratio.balanced).
    """
    if pair % 2 == 1 and last == 1:
        return 1
    calls = ratio.vary(base, rng)
    while pair % 2 == 1 and calls == 1 < base:
        calls = ratio.vary(base, rng)
    return calls


def noise_message(speedup: Estimate, control: float, asked: float) -> str:
    """Why a figure is called noisy, and what to do."""
    if abs(control - 1) > ratio.AA_TOLERANCE:
        return (f"the machine is not quiet: eager against itself came out at {control:.3f}; "
                "stop other work on it and judge again")
    return (f"the interval stayed at ±{100 * ratio.half_width(speedup):.1f} % after {speedup.n} instances (asked: "
            f"±{100 * asked:g} %); stop other work on the machine, or allow more instances")
