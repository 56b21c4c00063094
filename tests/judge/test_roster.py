"""Who plays: started fresh, frozen unless it is their turn, and nothing of one reaches another."""

import time
from pathlib import Path

import pytest
import torch
from small_tasks import FRAME, MIB, RIGHT, TASK, TIGHT, make_task

from harness.judge import roster as rosters
from harness.judge.block import collect, run_block
from harness.judge.contestants import Lost, MachineFault
from harness.judge.oracle import Reference
from harness.judge.trials import make_layout
from harness.spec.baselines import BASELINES
from harness.spec.candidate import Candidate


@pytest.fixture
def roster(judge):
    yield judge.roster
    judge.roster.release()


SPINNING = """
import os, threading

def spin():
    while True:
        pass

if os.getcwd().startswith("/scratch"):  # as a contestant, not where the judge asks the reference
    threading.Thread(target=spin, daemon=True).start()

def affine(x, factor=2.0):
    return x * factor + 1
"""


def layout_of(task):
    return make_layout(task, Reference(task), task.cases[0].dims, task.cases[0].dtype)


# Opponents


def test_opponents_are_started_once_and_frozen_between_their_turns(roster):
    layout = layout_of(TASK)
    first = roster.opponent("eager", 0, TASK, layout, TIGHT)
    second = roster.opponent("eager", 1, TASK, layout, TIGHT)
    assert roster.opponent("eager", 0, TASK, layout, TIGHT) is first and second is not first
    assert first.contestant.frozen and second.contestant.frozen


def test_whoever_is_not_timed_does_not_run(roster):
    """Even an opponent whose reference has a thread that never rests."""
    task = make_task(SPINNING)
    idle, busy = (roster.opponent("eager", i, task, layout_of(task), TIGHT) for i in (0, 1))
    before = cpu_time(idle), cpu_time(busy)
    run_block(busy, 1, 30)
    time.sleep(0.05)
    assert cpu_time(idle) == before[0] and cpu_time(busy) > before[1]


def test_an_opponent_is_the_reference(roster):
    layout = layout_of(TASK)
    player = roster.opponent("eager", 0, TASK, layout, TIGHT)
    layout.fill(roster.inputs, 2)
    run_block(player, 2, 30)
    for index, outputs in collect(player, 2, [0, 1]).items():
        torch.testing.assert_close(outputs[0], layout.slot(roster.inputs, index)[0] * 2 + 1)


def test_another_task_or_a_release_ends_them(roster):
    other = make_task("def affine(x, factor=2.0):\n    return x * factor + 2\n")
    one = roster.opponent("eager", 0, TASK, layout_of(TASK), TIGHT)
    two = roster.opponent("eager", 0, other, layout_of(other), TIGHT)
    assert one.contestant.closed and not two.contestant.closed
    roster.release()
    assert two.contestant.closed
    assert not roster.opponent("eager", 0, other, layout_of(other), TIGHT).contestant.closed


def test_threads_make_another_opponent(roster):
    layout = layout_of(TASK)
    one = roster.opponent("eager", 0, TASK, layout, TIGHT, threads=1)
    assert roster.opponent("eager", 0, TASK, layout, TIGHT) is not one


def test_an_opponent_that_fails_is_the_machines_fault(roster):
    task = make_task("def affine(x, factor=2.0):\n    raise OSError('disk full')\n")
    with pytest.raises(MachineFault, match="the eager baseline of task affine failed: OSError: disk full"):
        roster.opponent("eager", 0, task, layout_of(TASK), TIGHT)


def test_the_baselines_are_made_of_the_reference():
    eager, compiled = BASELINES["eager"](TASK), BASELINES["compile"](TASK)
    assert (eager.source, eager.entry) == (TASK.reference_source, "affine")
    calls = []
    module = {}
    compile_, torch.compile = torch.compile, lambda f, **options: calls.append((f, options)) or f
    try:
        exec(compiled.source, module)
    finally:
        torch.compile = compile_
    assert [f for f, _ in calls] == [module["affine"]] and module[compiled.entry] is module["affine"]


# Starting and seating


def test_a_player_is_frozen_once_loaded_and_seated(judge, seat):
    player = seat(RIGHT)
    assert player.contestant.frozen and player.layout.slots > 0 and player.touched == 0


def test_inputs_are_shared_and_outputs_are_not(judge, seat):
    one, two = seat(RIGHT), seat(RIGHT)
    layout = one.layout
    layout.fill(judge.roster.inputs, 1)
    for player in (one, two):
        player.layout = layout
        run_block(player, 1, 10)
    x, = layout.slot(judge.roster.inputs, 0)
    assert all(torch.equal(collect(p, 1, [0])[0][0], x * 2 + 1) for p in (one, two))
    assert one.outputs is not two.outputs


@pytest.mark.parametrize("answer", ['{"warm": "soon"}', '{"warm": True}', '{"ready": True}', '{"warm": -1}',
                                    '{"warm": float("nan")}', '{"warm": 10 ** 400}', '{"warm": []}'])
def test_a_warm_up_that_is_answered_with_something_else(judge, seat, answer):
    source = FRAME + f"frame_with('loop')['loop'].warm = lambda message, fds: {answer}\n" + RIGHT
    with pytest.raises(Lost, match="answered with something else") as raised:
        seat(source)
    assert raised.value.status == "tampered"


def test_a_player_that_does_not_load_is_not_left_behind(judge, monkeypatch):
    started = []
    spawn = judge.zygote.spawn
    monkeypatch.setattr(judge.zygote, "spawn", lambda *a, **k: started.append(spawn(*a, **k)) or started[-1])
    with pytest.raises(Lost, match="no luck"):
        judge.roster.start(Candidate(source="raise ValueError('no luck')"), TASK, "float32", TIGHT)
    assert [c.closed for c in started] == [True]


def test_the_memory_of_a_player_is_bounded_and_the_next_one_is_unharmed(judge, ask):
    greedy = ("hold = []\ndef kernel(x, factor=2.0):\n    while True:\n"
              "        hold.append(bytearray(b'x') * (32 << 20))\n")
    tight = TIGHT.model_copy(update={"memory": 500 * MIB})
    result = ask(greedy, limits=tight)
    assert result.status == "out_of_memory", result.message
    assert ask(RIGHT, limits=tight).status == "ok"


def test_shared_memory_counts_as_well(judge, ask):
    """The scratch of a contestant is memory too: a file in it of more than the bound does not get through."""
    source = ("import mmap\nboth = [mmap.mmap(-1, 400 << 20) for _ in range(2)]\nfor one in both:\n"
              "    for page in range(0, 400 << 20, 4096):\n        one[page] = 1\n") + RIGHT
    result = ask(source, limits=TIGHT.model_copy(update={"memory": 500 * MIB}))
    if "cgroup" not in result.containment["memory_limit"]:
        pytest.skip("an rlimit of each process does not count what is shared")
    assert result.status == "out_of_memory", result.message


# The null


def test_the_null_answers_at_once_without_inputs(judge):
    player, layout = judge.roster.null(TASK)
    try:
        assert layout.inputs == [] and layout.slots <= 64 and player.contestant.frozen
        assert run_block(player, layout.slots, 10) > 0
        assert collect(player, layout.slots, [0, 5])[5][0].tolist() == [0.0]
    finally:
        player.close()
    import harness.contestant

    source = (Path(harness.contestant.__file__).parent / "null.py").read_text()
    assert "torch.zeros" in source and "range(64)" in source  # an answer of its own for each of the slots


# Warm caches


def test_compile_caches_reach_the_next_instance_of_the_same_candidate_only(ask, monkeypatch):
    """A candidate whose warm-up is long has compiled something: what it left in its cache folder travels."""
    monkeypatch.setattr(rosters, "COMPILES_S", 0.15)
    source = """
import os, time
path = os.path.join(os.environ["TORCHINDUCTOR_CACHE_DIR"], "compiled")
print("WARM", os.path.exists(path), flush=True)
if not os.path.exists(path):
    open(path, "wb").write(bytes(100_000))
    slow = [0.1] * 2
else:
    slow = []
def kernel(x, factor=2.0):
    if slow:
        time.sleep(slow.pop())
    return x * factor + 1
"""
    assert "WARM False" in ask(source).output_tail
    assert "WARM True" in ask(source).output_tail
    assert "WARM False" in ask(source + "#").output_tail


def cpu_time(player):
    """Nanoseconds that all threads of a player have run."""
    tasks = Path(f"/proc/{player.contestant.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
