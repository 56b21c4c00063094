"""A timed case on a synthetic clock: what is put into the blocks must come out as the estimate."""

import math
import random
import time
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats
from small_tasks import RIGHT, TASK, request

from harness.judge import controls, ratio, timing
from harness.judge.arena import Arena
from harness.judge.compare import Comparison
from harness.judge.contestants import Lost, MachineFault
from harness.judge.controls import await_quiet
from harness.judge.layout import Layout
from harness.judge.oracle import Reference
from harness.judge.timing import CANDIDATE, Clockwork, Match, WrongAnswer, block_length
from harness.spec.task import CostSpec
from harness.spec.verdict import Status

C, CALL = 1e-4, 1e-6  # the null's constant of a block, and its time of a call


class World:
    """Stands for roster and contestants. clocks: side → (calls, instance) → seconds beyond the constant."""

    def __init__(self, monkeypatch, clocks, slots=400):
        self.clocks, self.log, self.started, self.closed, self.renewed = clocks, [], [], [], 0
        self.inputs = Arena(1 << 20, contestants_may_write=False)
        self.controls, self.gates = {}, []
        self.peaks = SimpleNamespace(bandwidth=0.0, flops=0.0, measure=lambda: None)
        self.layout = Layout(TASK, TASK.cases[0].dims, "float32", [(torch.float32, (6, 40))])
        self.layout.slots = slots
        self.layout.fill, self.layout.renew = self.fill, self.renew
        self.instance = -1
        self.compare = lambda: [Comparison(ok=True, worst_ratio=0.5, max_abs=1e-7, rel_l2=1e-7)]
        self.chosen = []
        for module in (timing, controls):
            monkeypatch.setattr(module, "run_block", self.run_block)
            monkeypatch.setattr(module, "settle", self.settle)
            monkeypatch.setattr(module, "await_quiet", lambda *seconds: True)
        monkeypatch.setattr(timing, "collect", self.collect)
        monkeypatch.setattr(timing, "judge_call", lambda *arguments: self.compare())

    def player(self, side, instance):
        return SimpleNamespace(side=side, instance=instance, touch=lambda slots: None,
                               close=lambda: self.closed.append((side, instance)))

    def start(self, candidate, task, dtype, limits, *, shared_object=None, threads=None):
        self.instance += 1
        self.started.append(threads)
        return self.player(CANDIDATE, self.instance)

    def seat(self, player, layout, limits):
        return 1e-3

    def keep_warm(self, *arguments):
        return

    def no_new_processes(self, player):
        self.gates.append((player.instance, [side for side, _ in self.log].count(CANDIDATE)))

    def opponent(self, kind, index, task, layout, limits, threads=None):
        self.threads = threads
        return self.player(kind, index)

    def fill(self, arena, calls):
        self.log.append(("fill", calls))

    def renew(self):
        self.renewed += 1

    def settle(self, player, *seconds):
        self.log.append(("settle", player.side))

    def run_block(self, player, calls, seconds):
        self.log.append((player.side, calls))
        return C + self.clocks[player.side](calls, player.instance)

    def collect(self, player, calls, chosen):
        self.chosen.append((calls, chosen))
        return {index: [] for index in chosen}

    def match(self, **options):
        options = {"timed": True, "depth": "final", "opponents": ["eager", "compile"], **options}
        asked = request(RIGHT, **options)
        return Match(self, TASK, TASK.cases[0], Reference(TASK), self.layout, asked.candidate, asked, Clockwork(),
                     (C, CALL), rng=np.random.default_rng(0))


@pytest.fixture
def world(monkeypatch):
    worlds = []

    def make(slots=400, **clocks):
        worlds.append(World(monkeypatch, clocks, slots))
        return worlds[-1]

    yield make
    for w in worlds:
        w.inputs.close()


def line(b, a=0.0):
    return lambda calls, instance: a + b * calls


def noisy_line(b, seed, block=0.03, process=0.0):
    """Multiplicative noise of each block, and a bias of each instance."""
    rng = random.Random(seed)
    biases = {}

    def clock(calls, instance):
        bias = biases.setdefault(instance, math.exp(rng.gauss(0, process)))
        return b * calls * bias * math.exp(rng.gauss(0, block))

    return clock


MS = 1e-3


# Without noise


@pytest.mark.parametrize("depth", ["final", "screen"])
def test_exact_times_come_out_exactly(world, depth):
    found = world(candidate=line(1 * MS), eager=line(3 * MS), compile=line(2 * MS)).match(depth=depth).play()
    assert found.status == Status.ok and found.name == "only" and found.dims == TASK.cases[0].dims
    assert found.vs_eager.value == pytest.approx(3) and found.vs_compile.value == pytest.approx(2)
    assert found.speedup.value == pytest.approx(2)  # over the faster of the two
    assert (found.speedup.low, found.speedup.high) == pytest.approx((2, 2))
    assert found.seconds == pytest.approx({"candidate": MS, "eager": 3 * MS, "compile": 2 * MS})
    assert found.fit_intercept_s == pytest.approx(0, abs=1e-9) and found.null_s == C
    assert not found.launch_bound
    assert found.vs_eager.n == (8 if depth == "final" else 1)


def test_the_record_holds_every_block_and_gives_the_estimate_again(world):
    w = world(candidate=noisy_line(MS, 1), eager=noisy_line(2 * MS, 2))
    found = w.match(opponents=["eager"], half_width=0.5).play()
    instances = sorted({b.instance for b in found.blocks})
    logs = []
    for instance in instances:
        times = {side: {b.pair: (b.seconds - C) / b.calls for b in found.blocks
                        if b.side == side and b.instance == instance and b.pair >= 0 and b.calls > 1}
                 for side in ("candidate", "eager")}
        pairs = sorted(times["candidate"])
        assert pairs == sorted(times["eager"])
        whole = [0.5 * sum(math.log(times["eager"][p] / times["candidate"][p]) for p in two)
                 for two in zip(pairs[::2], pairs[1::2])]
        logs.append(float(np.median(whole)))
    mean, half = np.mean(logs), stats.t.ppf(0.975, len(logs) - 1) * np.std(logs, ddof=1) / math.sqrt(len(logs))
    assert (math.log(found.speedup.low), math.log(found.speedup.value), math.log(found.speedup.high)) == pytest.approx(
        (mean - half, mean, mean + half), abs=1e-9)
    assert instances == list(range(8))
    assert Counter((b.instance, b.side) for b in found.blocks) == {
        (i, s): timing.PAIRS + timing.SINGLES for i in range(8) for s in ("candidate", "eager")}
    assert found.calls == sum(b.calls for b in found.blocks if b.side == "candidate")


def test_sides_take_turns_on_the_same_inputs(world):
    w = world(candidate=line(MS), eager=line(2 * MS), compile=line(2 * MS))
    w.match(depth="screen").play()
    rotations = [w.log[i: i + 7] for i in range(0, len(w.log), 7)]
    forward = ("candidate", "eager", "compile")
    for settled, filled, blocks in ((r[:3], r[3], r[4:]) for r in rotations):
        assert settled == [("settle", side) for side in forward]  # nobody runs between the fill and its own block
        assert filled[0] == "fill" and {calls for _, calls in blocks} == {filled[1]}
    orders = [tuple(side for side, _ in r[4:]) for r in rotations[-timing.SCREEN_PAIRS:]]
    assert orders == [forward, forward[::-1]] * (timing.SCREEN_PAIRS // 2)


def test_who_goes_first_gains_nothing(world):
    """The first block of a rotation takes half as long again: the position cancels out of the ratio."""
    w = world(candidate=line(MS), eager=line(2 * MS))
    clocks = dict(w.clocks)
    for side in clocks:
        def clock(calls, instance, side=side):
            return clocks[side](calls, instance) * (1.5 if w.log[-2][0] == "fill" else 1.0)
        w.clocks[side] = clock
    assert w.match(opponents=["eager"]).play().speedup.value == pytest.approx(2)


def test_a_candidates_gate_is_closed_before_its_first_block(world):
    w = world(candidate=line(1e-3), eager=line(2e-3), compile=line(2e-3))
    w.match(instances=(3, 3)).play()
    blocks = [blocks for _instance, blocks in w.gates]
    assert [instance for instance, _ in w.gates] == [0, 1, 2]
    assert blocks[0] == 0 < blocks[1] < blocks[2]


def test_every_candidate_instance_is_a_fresh_one_and_ends(world):
    w = world(candidate=line(MS), eager=line(2 * MS))
    w.match(opponents=["eager"]).play()
    assert w.instance == 7 and w.closed == [("candidate", i) for i in range(8)] and w.renewed == 8


def test_without_opponents_there_is_a_time_and_no_ratio(world):
    found = world(candidate=line(MS)).match(opponents=[]).play()
    assert found.speedup is None and found.vs_eager is None and found.seconds == pytest.approx({"candidate": MS})
    assert found.status == Status.ok


def test_a_constant_that_the_null_does_not_have_is_charged(world):
    """All of the work once per block, T(N) = 20 ms whatever N: what a user gets of it is a call of 20 ms."""
    w = world(candidate=lambda calls, instance: 20 * MS, eager=line(5 * MS))
    found = w.match(opponents=["eager"], half_width=5.0).play()
    assert found.fit_intercept_s == pytest.approx(20 * MS, rel=1e-6)
    assert found.single_call_s == pytest.approx(20 * MS)
    assert found.seconds["candidate"] < 5 * MS  # by blocks alone it would have won
    assert found.speedup.value == pytest.approx(5 / 20, rel=0.15)
    assert "calls in a row share work: a single call takes" in found.message


def test_a_latency_that_is_less_than_a_call_is_shown_and_not_charged(world):
    found = world(candidate=line(MS, 0.5 * MS), eager=line(MS)).match(opponents=["eager"], half_width=5.0).play()
    assert found.single_call_s == pytest.approx(1.5 * MS) and found.fit_intercept_s == pytest.approx(0.5 * MS)
    assert found.message == "" and 0.9 < found.speedup.value < 1


def test_a_latency_that_the_opponent_has_too_is_nobodys(world):
    """Threads have to wake for the first call of anyone."""
    found = world(candidate=line(MS, 3 * MS), eager=line(2 * MS, 3 * MS)).match(opponents=["eager"],
                                                                                half_width=5.0).play()
    assert found.message == "" and 1.5 < found.speedup.value < 2


def test_an_opponent_that_is_slowed_by_the_candidate_counts_at_its_time_alone(world):
    """Sabotage, by whatever means: eager takes 3 ms, but 3.9 ms as long as a process of the candidate's lives."""
    w = world(candidate=line(MS), compile=line(4 * MS), eager=lambda calls, instance: calls * 3 * MS * (
        1.3 if sum(side == CANDIDATE for side, _ in w.closed) < len(w.started) else 1.0))
    found = w.match().play()
    assert found.speedup.value == pytest.approx(3) and found.vs_compile.value == pytest.approx(4)
    assert "eager ran 1.30× slower beside this candidate than alone" in found.message
    assert "compile ran" not in found.message


def test_opponents_are_looked_at_alone_only_briefly_where_nothing_shows(world):
    w = world(candidate=noisy_line(MS, 1), eager=noisy_line(2 * MS, 2, block=0.05))
    found = w.match(opponents=["eager"]).play()
    last = max(place for place, (side, _) in enumerate(w.log) if side == CANDIDATE)
    alone = [side for side, _ in w.log[last:] if side == "eager"]
    assert "slower beside" not in found.message
    assert len(alone) < timing.PAIRS * 8 + 2 * timing.FIRST_LOOK[0] * timing.FIRST_LOOK[1]


@pytest.mark.parametrize("right", [True, False])
def test_who_is_below_the_floor_has_every_answer_looked_at(world, right):
    """2·10⁶ operations in 1 ms, on a machine that does 5·10⁸ a second and may do twice that."""
    w = world(candidate=line(MS), eager=line(3 * MS))
    w.peaks.flops = 5e8
    match = w.match(opponents=["eager"])
    match.task = TASK.model_copy(update={"floor": CostSpec(flops="rows*cols*9000")})
    w.compare = lambda: [Comparison(ok=right or not any(len(chosen) == calls > 5 for calls, chosen in w.chosen),
                                    message="off by a lot")]
    if right:
        found = match.play()
        assert "below the floor of 2.16e+03 µs" in found.message and found.speedup.value == pytest.approx(3)
        assert [chosen for calls, chosen in w.chosen if len(chosen) == calls > 5]
    else:
        with pytest.raises(Lost, match="below the floor.*every answer was looked at.*off by a lot") as raised:
            match.play()
        assert raised.value.status == "tampered"


def test_nobody_is_accused_at_the_floor(world):
    w = world(candidate=line(MS), eager=line(3 * MS))
    w.peaks.flops = 5e8
    match = w.match(opponents=["eager"])
    match.task = TASK.model_copy(update={"floor": CostSpec(flops="rows*cols*4000")})
    assert match.play().message == ""


@pytest.mark.parametrize(("whose", "charged"), [(CANDIDATE, True), ("eager", False)])
def test_what_the_machine_is_busy_with_after_a_candidates_blocks_is_its_own(world, monkeypatch, whose, charged):
    w = world(candidate=lambda calls, instance: 20 * MS, eager=lambda calls, instance: 40 * MS)
    monkeypatch.setattr(timing, "await_quiet", lambda *s: time.sleep(4 * MS * (bool(w.log) and w.log[-1][0] == whose)))
    found = w.match(opponents=["eager"], depth="screen").play()
    assert found.speedup.value == pytest.approx(2 / (1.2 if charged else 1), rel=0.05)
    assert ("the machine is busy for another" in found.message) == charged


@pytest.mark.parametrize("slots", [1, 2])
def test_where_few_calls_fit_all_blocks_may_be_single(world, monkeypatch, slots):
    monkeypatch.setattr(ratio, "vary", lambda n, rng: 1)
    found = world(slots, candidate=line(MS), eager=line(2 * MS)).match(opponents=["eager"], depth="screen").play()
    assert found.speedup.value == pytest.approx(2)
    assert found.seconds == pytest.approx({"candidate": MS, "eager": 2 * MS})


# Block lengths


def test_blocks_are_as_long_as_the_slower_side_needs(world):
    w = world(candidate=line(0.5 * MS), eager=line(MS))
    w.match(opponents=["eager"]).play()
    lengths = [calls for side, calls in w.log if side == "eager" and calls not in (1, 4, 8)]
    assert 9 <= min(lengths) and max(lengths) <= 31 and len(set(lengths)) > 5  # around 20 ms of 1 ms calls


def test_a_much_faster_side_is_measured_long_enough_too(world):
    """At least 20 constants of the null, as long as the slower side's block stays below 0.1 s."""
    w = world(candidate=line(40e-6), eager=line(MS))
    w.match(opponents=["eager"]).play()
    lengths = [calls for side, calls in w.log if side == "candidate" and calls not in (1, 4)]
    assert np.median(lengths) == pytest.approx(20 * C / 40e-6, rel=0.25)


def test_no_block_is_longer_than_there_are_slots(world):
    w = world(8, candidate=line(30e-6), eager=line(40e-6))
    w.match(opponents=["eager"], depth="screen").play()
    assert max(calls for side, calls in w.log if side != "settle") <= 8


def test_a_candidate_cannot_choose_how_long_blocks_are(world):
    """Whatever it takes for the first calls, the baselines' times decide; a far slower one only bounds the wait."""
    def lengths(seconds):
        w = world(candidate=line(seconds), eager=line(MS))
        w.match(opponents=["eager"], half_width=9.0).play()
        return [calls for side, calls in w.log if side == "candidate" and calls not in (1, 4)]

    assert np.median(lengths(0.9 * MS)) == pytest.approx(np.median(lengths(3 * MS)), rel=0.3)
    assert max(lengths(200 * MS)) <= 8


def test_singles_come_in_couples():
    """So that neighbours which are averaged are an AB with a BA."""
    rng = random.Random(5)
    singles = 0
    for _ in range(300):
        last = 0
        lengths = [last := block_length(20, pair, last, rng) for pair in range(12)]
        singles += lengths.count(1)
        assert all((a == 1) == (b == 1) for a, b in zip(lengths[::2], lengths[1::2]))
        assert all(n == 1 or 10 <= n <= 30 for n in lengths)
    assert singles / 3600 == pytest.approx(1 / 16, abs=0.02)
    assert [block_length(1, pair, 1, rng) for pair in range(4)] == [1, 1, 1, 1]


# With noise


def test_noise_comes_out_as_an_interval_around_the_truth(world):
    w = world(candidate=noisy_line(MS, 1, 0.05, 0.02), eager=noisy_line(1.7 * MS, 2, 0.05, 0.02),
              compile=noisy_line(2.5 * MS, 3, 0.05, 0.02))
    found = w.match(half_width=0.03).play()
    assert found.status == Status.ok
    assert found.vs_eager.value == pytest.approx(1.7, rel=0.05)
    assert found.vs_compile.value == pytest.approx(2.5, rel=0.05)
    # an instance's number has a standard deviation of about √2·√(0.02² + (1.25²)·0.05²/12)
    deviation = math.sqrt(2 * (0.02**2 + 1.25**2 * 0.05**2 / 12))
    n = found.vs_eager.n
    expected = stats.t.ppf(0.975, n - 1) * deviation / math.sqrt(n)
    assert 0.4 * expected < ratio.half_width(found.vs_eager) < 1.9 * expected


def test_instances_are_added_until_it_is_as_narrow_as_asked(world):
    def play(half_width):
        w = world(candidate=noisy_line(MS, 1, 0.01, 0.03), eager=noisy_line(1.5 * MS, 2, 0.01, 0.03))
        found = w.match(opponents=["eager"], half_width=half_width, instances=(4, 16)).play()
        return found.speedup

    rough, fine = play(0.5), play(1e-6)
    assert rough.n == 4 and 4 <= fine.n <= 16
    middle = play(0.025)
    assert middle.n == 16 or ratio.half_width(middle) <= max(0.025, 0.05 * math.log(middle.value))


def test_a_large_effect_needs_no_narrow_interval(world):
    w = world(candidate=noisy_line(MS, 1, 0.01, 0.05), eager=noisy_line(50 * MS, 2, 0.01, 0.05))
    assert w.match(opponents=["eager"], half_width=1e-6, instances=(6, 24)).play().speedup.n == 6


def test_what_stays_wide_is_noisy(world):
    w = world(candidate=noisy_line(MS, 1, 0.01, 0.5), eager=noisy_line(MS, 2, 0.01, 0.001))
    found = w.match(opponents=["eager"], instances=(4, 6)).play()
    assert found.status == Status.noisy and found.speedup.n == 6
    assert "after 6 instances" in found.message and "stop other work" in found.message


def test_a_screen_is_never_called_noisy(world):
    w = world(candidate=noisy_line(MS, 1, 0.8), eager=noisy_line(MS, 2, 0.8))
    assert w.match(opponents=["eager"], depth="screen").play().status == Status.ok


def test_the_control_shows_a_machine_that_is_not_quiet(world):
    """Eager against itself differs by 10 %: whatever the candidate's interval says, no figure."""
    w = world(candidate=line(MS), eager=lambda calls, instance: MS * calls * (1.1 if instance % 2 else 1.0))
    match = w.match(opponents=["eager"], half_width=0.03)
    found = match.play()
    assert found.status == Status.noisy and "eager against itself came out at 0.9" in found.message
    assert match.control() == pytest.approx(1 / 1.1)


def test_the_control_is_measured_once_and_covers_one_when_all_is_well(world):
    w = world(candidate=noisy_line(MS, 1), eager=noisy_line(2 * MS, 2))
    match = w.match(opponents=["eager"])
    match.play()
    blocks = len(w.log)
    assert match.control() == 1.0 and len(w.log) == blocks
    turns = [side for side, calls in w.log[-controls.CONTROL_PAIRS * 5:]]
    assert turns == ["settle", "settle", "fill", "eager", "eager"] * controls.CONTROL_PAIRS


def test_a_control_that_fails_is_the_machines_fault(world):
    def clock(calls, instance):
        if calls == controls.CONTROL_CALLS:
            raise Lost("runtime_error", "gone")
        return MS * calls

    match = world(eager=clock).match(opponents=["eager"])
    with pytest.raises(MachineFault, match="against itself: gone"):
        match.control()
    match.request = match.request.model_copy(update={"instances": (1, 1)})
    assert match.control() == 1.0  # nothing to compare


# Halves


def test_finalists_are_chosen_on_one_half_and_reported_on_the_other(world):
    """Three times as fast in the first four instances, twice in the rest."""
    clocks = {"candidate": lambda calls, instance: MS * calls * (2 if instance < 4 else 3), "eager": line(6 * MS)}
    found = world(**clocks).match(opponents=["eager"], split=True, half_width=9.0).play()
    assert found.selected.value == pytest.approx(3) and found.speedup.value == pytest.approx(2)
    assert (found.selected.n, found.speedup.n) == (4, 4)
    whole = world(**clocks).match(opponents=["eager"], half_width=9.0).play()
    assert whole.speedup.value == pytest.approx(math.sqrt(6)) and whole.speedup.n == 8
    assert whole.selected.value == pytest.approx(3)


# Launch-bound


def test_a_tiny_operation_is_timed_with_one_thread(world):
    w = world(candidate=line(5e-6), eager=line(15e-6))
    found = w.match(opponents=["eager"]).play()
    assert w.started == [None] + [1] * 8 and w.threads == 1
    assert found.launch_bound and found.speedup.value == pytest.approx(3)
    assert w.closed.count(("candidate", 0)) >= 1  # the first one ended


def test_a_large_one_keeps_its_threads(world):
    w = world(candidate=line(MS), eager=line(MS))
    found = w.match(opponents=["eager"]).play()
    assert set(w.started) == {None} and not found.launch_bound


def test_a_candidate_that_does_not_start_again_is_its_own_failure(world):
    w = world(candidate=line(5e-6), eager=line(15e-6))
    start = w.start

    def once(*arguments, threads=None, **options):
        if threads == 1:
            raise Lost("runtime_error", "not twice")
        return start(*arguments, threads=threads, **options)

    w.start = once
    with pytest.raises(Lost, match="not twice"):
        w.match(opponents=["eager"]).play()


# Checks


def test_checked_calls_are_drawn_uniformly_and_enough_of_them(world):
    w = world(candidate=line(MS), eager=line(MS))
    match = w.match(opponents=["eager"])
    found = match.play()
    places = [(index + 0.5) / calls for calls, chosen in w.chosen for index in chosen if calls > 8]
    assert stats.kstest(places, "uniform").pvalue > 1e-6
    assert found.checked == sum(len(chosen) for _, chosen in w.chosen) >= 0.8 * timing.CHECKS["final"]
    assert all(len(set(chosen)) == len(chosen) and max(chosen) < calls for calls, chosen in w.chosen)
    assert found.skip_detectable == pytest.approx(1 - 0.05 ** (1 / found.checked))
    assert found.errors.max_abs == 1e-7 and found.errors.worst_ratio == 0.5


def test_which_calls_are_checked_differs_each_time(world):
    matches = [world(candidate=line(MS)).match() for _ in range(2)]
    for match, seed in zip(matches, (1, 2)):
        match.rng, match.checked, match.check_s = np.random.default_rng(seed), 1, 1e-9
    assert matches[0]._choose(400) != matches[1]._choose(400)
    fresh = Match.__dataclass_fields__["rng"].default_factory
    assert (fresh().random(4) != fresh().random(4)).all()


@pytest.mark.parametrize("depth, seconds, expected", [
    ("final", 1e-9, {3}), ("final", 10.0, {1}), ("screen", 1e-9, {10}), ("screen", 10.0, {1}), ("final", 0.0, {1}),
])
def test_checks_keep_to_their_budget(world, depth, seconds, expected):
    """What is affordable follows from what a check has taken so far; never none."""
    match = world(candidate=line(MS)).match(depth=depth)
    if seconds:
        match.checked, match.check_s = 10, 10 * seconds
    assert {len(match._choose(400)) for _ in range(20)} == expected
    assert len(match._choose(1)) == 1


def test_one_wrong_answer_ends_it(world):
    w = world(candidate=line(MS), eager=line(MS))
    answers = iter([True] * 40 + [False] * 1000)
    w.compare = lambda: [Comparison(ok=next(answers), message="output 0 wrong at [1]")]
    match = w.match(opponents=["eager"])
    with pytest.raises(WrongAnswer, match=r"in a timed block, call \d+: output 0 wrong at \[1\]"):
        match.play()
    assert match.checked == 41 and match.blocks and ("candidate", w.instance) in w.closed


# Faults


def test_a_lost_opponent_is_the_machines_fault_and_a_lost_candidate_its_own(world):
    def lost(calls, instance):
        raise Lost("runtime_error", "gone")

    with pytest.raises(MachineFault, match="the eager baseline failed in a timed case: gone"):
        world(candidate=line(MS), eager=lost).match(opponents=["eager"]).play()
    w = world(candidate=lost, eager=line(MS))
    with pytest.raises(Lost, match="gone"):
        w.match(opponents=["eager"]).play()
    assert w.closed == [("candidate", 0)]


# The null


def test_the_nulls_constant_and_call(monkeypatch):
    rng = random.Random(1)
    closed = []
    player = SimpleNamespace(close=lambda: closed.append(True))
    roster = SimpleNamespace(null=lambda task: (player, SimpleNamespace(slots=64)))

    def run_block(player, calls, seconds):
        return C + CALL * calls * math.exp(rng.gauss(0, 0.02))

    monkeypatch.setattr(controls, "run_block", run_block)
    monkeypatch.setattr(controls, "settle", lambda player: None)
    c, b = controls.measure_null(roster, TASK)
    assert c == pytest.approx(C, rel=0.02) and b == pytest.approx(CALL, rel=0.02) and closed == [True]
    monkeypatch.setattr(controls, "run_block", lambda player, calls, seconds: C - CALL * (calls > 1))  # by noise
    assert controls.measure_null(roster, TASK) == (C, 0.0)

    def lost(player, calls, seconds):
        raise Lost("timeout", "silence")

    monkeypatch.setattr(controls, "run_block", lost)
    with pytest.raises(MachineFault, match="the null kernel failed: silence"):
        controls.measure_null(roster, TASK)
    assert len(closed) == 3


def test_clockwork_adds_up_by_phase():
    clock = Clockwork()
    now = clock.add("fill", 0.0)
    again = clock.add("fill", now)
    clock.add("oracle", again)
    assert clock.phases["fill"] == pytest.approx(again) and set(clock.phases) == {"fill", "oracle"}


def test_how_many_threads_run_is_read_from_the_kernels_text():
    assert controls.running(b"cpu  1 2 3\nctxt 5\nprocs_running 7\nprocs_blocked 0\n") == 7
    assert controls.running(b"") == 1


def test_waiting_for_quiet_ends_when_it_is_quiet_or_at_the_limit(monkeypatch):
    counts = iter([4, 3, 1])
    monkeypatch.setattr(controls, "running", lambda text: next(counts))
    assert await_quiet(60) and next(counts, None) is None
    monkeypatch.setattr(controls, "running", lambda text: 2)
    assert not await_quiet(0.01)
