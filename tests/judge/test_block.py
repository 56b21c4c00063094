"""The sealed block: what counts is what lies in memory when the clock stops, and nobody can answer in another way."""

import time

import numpy as np
import pytest
import torch
from small_tasks import FRAME, RIGHT, make_task

from harness.judge.block import addresses, collect, poison, run_block, settle
from harness.judge.contestants import Lost

HONEST = "    return x * factor + 1\n"
TAKEOVER = FRAME + """
import ctypes, threading, time
import torch
from harness.contestant import wire
loop, sock = frame_with("loop")["loop"], frame_with("sock")["sock"]
def kernel(x, factor=2.0):
    return x * factor + 1
"""
CPP = """
#include <cstdint>
extern "C" void kernel(const float* x, int64_t rows, int64_t cols, float* out) {
    for (int64_t i = 0; i < rows * cols; ++i) out[i] = x[i] * 2 + 1;
}
"""


def take_over(body):
    """A candidate whose loop's go(n) is `body`."""
    indented = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return TAKEOVER + f"def forged(n):\n{indented}\nloop.go = forged\n"


def fill(judge, player, calls=3):
    player.layout.fill(judge.roster.inputs, calls)
    return [player.layout.slot(judge.roster.inputs, index)[0].clone() for index in range(calls)]


# Honest play


@pytest.mark.parametrize("language", ["python", "cpp"])
def test_answers_are_those_to_the_inputs_of_the_block(judge, seat, language):
    player = seat(RIGHT if language == "python" else CPP, language=language)
    for _ in range(2):
        inputs = fill(judge, player)
        assert run_block(player, 3, 10) > 0
        answers = collect(player, 3, [0, 1, 2])
        for index, x in enumerate(inputs):
            torch.testing.assert_close(answers[index][0], x * 2 + 1)
        settle(player)


def test_only_the_chosen_answers_are_fetched_as_private_copies(judge, seat):
    player = seat(CPP, language="cpp")
    inputs = fill(judge, player)
    run_block(player, 3, 10)
    answers = collect(player, 3, [2])
    poison(player, 3)
    assert list(answers) == [2]
    torch.testing.assert_close(answers[2][0], inputs[2] * 2 + 1)


def test_several_outputs_of_several_dtypes(judge, seat):
    source = "import torch\ndef f(x):\n    return x.sum(-1), x.argmax(-1), x > 0, x[:0]\n"
    task = make_task(source, "f", outputs=4)
    player = seat(source.replace("def f", "def kernel"), task=task)
    inputs = fill(judge, player)
    run_block(player, 3, 10)
    answers = collect(player, 3, [1])[1]
    assert [a.dtype for a in answers] == [torch.float32, torch.int64, torch.bool, torch.float32]
    assert torch.equal(answers[1], inputs[1].argmax(-1)) and torch.equal(answers[2], inputs[1] > 0)
    assert answers[3].shape == (0, 40)


def test_the_clock_sees_all_of_the_work(judge, seat):
    player = seat("import time\ndef kernel(x, factor=2.0):\n    time.sleep(0.03)\n" + HONEST)
    fill(judge, player)
    assert run_block(player, 3, 10) >= 0.09


def test_work_after_the_answer_is_on_the_clock_until_it_is_frozen(judge, seat):
    """The freeze belongs to the block: a slow one is the contestant's loss."""
    player = seat(RIGHT)
    fill(judge, player)
    freeze = player.contestant.freezer.freeze

    def slow():
        time.sleep(0.1)
        freeze()

    player.contestant.freezer.freeze = slow
    assert run_block(player, 3, 10) >= 0.1


def test_it_is_frozen_before_and_after(judge, seat):
    player = seat(take_over("""
loop.keep.append(torch.zeros(6, 40))
for i in range(n):
    loop.commit_table[i] = loop.keep[-1].data_ptr() + 8 * i
return {"done": n}
"""), warm=False)
    assert player.contestant.frozen
    fill(judge, player)
    run_block(player, 1, 10)
    assert player.contestant.frozen


# Late work


def test_what_is_read_does_not_move_although_a_thread_goes_on(judge, seat):
    player = seat(TAKEOVER + """
ticking = torch.zeros(6, 40)
def tick():
    while True:
        ticking.add_(1)
        time.sleep(0)
threading.Thread(target=tick, daemon=True).start()
def forged(n):
    loop.commit_table[0] = ticking.data_ptr()
    return {"done": n}
loop.go = forged
""", warm=False)
    seen = []
    for _ in range(3):
        fill(judge, player, 1)
        run_block(player, 1, 10)
        first = collect(player, 1, [0])[0][0]
        time.sleep(0.05)
        assert torch.equal(first, collect(player, 1, [0])[0][0])
        seen.append(float(first[0, 0]))
        player.contestant.thaw()
        time.sleep(0.1)
        player.contestant.freeze()
    assert seen[0] < seen[1] < seen[2]  # it did go on when it was let


def test_answers_made_after_the_commit_are_not_taken(judge, seat, ask):
    """It says done at once and begins to compute then: with whatever it has by the time it is frozen."""
    source = take_over("""
outputs = [torch.zeros(6, 40) for _ in range(n)]
loop.keep.extend(outputs)
for i in range(n):
    loop.commit_table[i] = outputs[i].data_ptr()
def late():
    time.sleep(0.5)
    for i in range(n):
        outputs[i].copy_(loop.calls[i][0] * 2 + 1)
threading.Thread(target=late).start()
return {"done": n}
""")
    assert ask(source).status == "wrong_output"


# Forged answers


FORGED = {
    "a wrong number": 'return {"done": n + 1}',
    "no number": 'return {"done": None}',
    "words beside it": 'return {"done": n, "seconds": 1e-9}',
    "something else": 'return {"ready": True}',
    "nothing": "return {}",
}


@pytest.mark.parametrize("what", sorted(FORGED))
def test_only_done_is_an_answer(judge, seat, what):
    player = seat(take_over(FORGED[what]), warm=False)
    fill(judge, player)
    with pytest.raises(Lost, match="something else than that it is done") as raised:
        run_block(player, 3, 10)
    assert raised.value.status == "tampered"


def test_one_message_too_many(judge, seat):
    player = seat(take_over("""
wire.send(sock, {"done": n})
return {"done": n}
"""), warm=False)
    fill(judge, player)
    with pytest.raises(Lost) as raised:
        for _ in range(2):  # the second may be sent a moment after the first was read: then it is the next block's
            run_block(player, 3, 10)
            settle(player)
    assert raised.value.status == "tampered"


def test_an_answer_before_the_question(judge, seat):
    """It sends the answer to the next block beforehand, with that to the preparation: it has nothing to show then."""
    player = seat(TAKEOVER + """
def prepare(message, fds):
    wire.send(sock, {"ready": True})
    return {"done": 3}
loop.prepare = prepare
""")
    settle(player)
    fill(judge, player)
    with pytest.raises(Lost) as raised:
        for _ in range(2):
            run_block(player, 3, 10)
            settle(player)
    assert raised.value.status == "tampered"


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\0\0\0\x02[]", b"\0\0\0\x04\xff\xfe\xfd\xfc",
                                  b"\0\0\0\x09" + b"[" * 9])
def test_broken_messages(judge, seat, data):
    player = seat(take_over(f"sock.sendall({data!r})\ntime.sleep(60)"), warm=False)
    fill(judge, player)
    with pytest.raises(Lost, match="broken message") as raised:
        run_block(player, 3, 10)
    assert raised.value.status == "tampered"


# Forged addresses


def commit(expression):
    return take_over(f"""
big = torch.zeros(n * 6 * 40 + 64)
loop.keep.append(big)
for i in range(n):
    loop.commit_table[i] = {expression}
return {{"done": n}}
""")


@pytest.mark.parametrize("expression", ["big.data_ptr()", "big.data_ptr() + i * (6 * 40 * 4 - 4)",
                                        "big.data_ptr() + (n - i) % n * 900"])
def test_answers_on_top_of_each_other(judge, seat, expression):
    player = seat(commit(expression), warm=False)
    fill(judge, player)
    run_block(player, 3, 10)
    with pytest.raises(Lost, match="overlap in memory") as raised:
        collect(player, 3, [0])
    assert raised.value.status == "tampered"


def test_answers_side_by_side_are_fine(judge, seat):
    player = seat(commit("big.data_ptr() + i * 6 * 40 * 4"), warm=False)
    fill(judge, player)
    run_block(player, 3, 10)
    assert len(collect(player, 3, [0, 1, 2])) == 3
    assert addresses(player, 3).shape == (3, 1)


@pytest.mark.parametrize("expression", ["4096 * (i + 1)", "-4096 * (i + 1)", "(1 << 62) + 4096 * i", "-1 - 2000 * i",
                                        "big.data_ptr() + (i << 36)", "-2**63 + 4096 * i"])
def test_addresses_outside_of_its_memory(judge, seat, expression):
    player = seat(commit(expression), warm=False)
    fill(judge, player)
    run_block(player, 3, 10)
    with pytest.raises(Lost, match="not in the contestant's memory|overlap") as raised:
        collect(player, 3, [0, 1, 2])
    assert raised.value.status == "tampered"


def test_a_table_it_has_not_filled(judge, seat):
    player = seat(take_over('return {"done": n}'), warm=False)
    fill(judge, player)
    run_block(player, 3, 10)
    with pytest.raises(Lost) as raised:
        collect(player, 3, [0])
    assert raised.value.status == "tampered"


def test_pointing_at_the_inputs_answers_nothing(ask):
    assert ask(take_over("""
for i in range(n):
    loop.commit_table[i] = loop.calls[i][0].data_ptr()
return {"done": n}
""")).status == "wrong_output"


# Ends


@pytest.mark.parametrize("body, status, words", [
    ("os._exit(3)", "runtime_error", "exit code 3"),
    ("sys.exit(4)", "runtime_error", "SystemExit: 4"),
    ("raise KeyboardInterrupt", "runtime_error", "KeyboardInterrupt"),
    ("os.abort()", "runtime_error", "SIGABRT"),
    ("ctypes.string_at(0)", "runtime_error", "SIGSEGV"),
    ("x.add_(1)", "runtime_error", "inputs are read-only: a kernel must not write into them"),
    ("raise ValueError('no such luck')", "runtime_error", "ValueError: no such luck"),
    ("raise MemoryError", "out_of_memory", "MemoryError"),
    ("frame_with('sock')['sock'].close(); time.sleep(60)", "runtime_error", "ended"),
])
def test_an_end_within_a_block(judge, seat, body, status, words):
    source = FRAME + f"import ctypes, os, time\ncalls = []\ndef kernel(x, factor=2.0):\n    calls.append(1)\n" \
                     f"    if len(calls) > 3:\n        {body}\n" + HONEST
    player = seat(source)
    fill(judge, player)
    with pytest.raises(Lost, match=words) as raised:
        run_block(player, 3, 10)
    assert raised.value.status == status


def test_its_init_is_out_of_its_reach(judge, seat):
    """pid 1 of a namespace takes no signal from inside it: it is there to end everything else."""
    player = seat("import os\ndef kernel(x, factor=2.0):\n    os.kill(1, 9)\n    os.kill(1, 19)\n" + HONEST)
    if "pid" not in player.contestant.level["namespaces"]:
        pytest.skip("no pid namespaces on this system")
    x, *_ = fill(judge, player)
    run_block(player, 1, 10)
    torch.testing.assert_close(collect(player, 1, [0])[0][0], x * 2 + 1)


def test_a_cpp_kernel_that_writes_into_its_input(judge, seat):
    source = CPP.replace("out[i] =", "((float*)x)[i] =")
    with pytest.raises(Lost, match="SIGSEGV; inputs are read-only"):
        seat(source, language="cpp")


def test_an_endless_call_is_ended_by_the_clock(judge, seat):
    player = seat("calls = []\ndef kernel(x, factor=2.0):\n    calls.append(1)\n    while len(calls) > 3:\n"
                  "        pass\n" + HONEST)
    fill(judge, player)
    begun = time.monotonic()
    with pytest.raises(Lost, match="no answer to 'a block of calls' in time") as raised:
        run_block(player, 3, 0.3)
    assert raised.value.status == "timeout" and 0.3 <= time.monotonic() - begun < 20
    player.close()


def test_printing_megabytes_blocks_nothing(judge, seat):
    source = ("import os, sys\ndef kernel(x, factor=2.0):\n    print('y' * 3_000_000)\n"
              "    os.write(2, b'z' * 3_000_000)\n    print('the last words', flush=True)\n" + HONEST)
    player = seat(source)
    fill(judge, player)
    run_block(player, 3, 30)
    player.contestant.drain()
    assert len(player.contestant.tail) <= 16_384 and b"the last words" in player.contestant.tail


# Output slots


def test_an_element_that_is_never_written_is_no_number(judge, seat):
    """The slots of C++ outputs are overwritten before: what was right in the block before is not right again."""
    player = seat(CPP.replace("i < rows * cols", "i < rows * cols - 1"), language="cpp")
    fill(judge, player)
    poison(player, 3)
    run_block(player, 3, 10)
    answer = collect(player, 3, [1])[1][0]
    assert torch.isnan(answer).nonzero().tolist() == [[5, 39]]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_poison_is_no_number_in_every_floating_type(dtype):
    assert torch.isnan(torch.frombuffer(bytearray(b"\xff" * 8), dtype=getattr(torch, dtype))).all()


def test_touching_is_asked_for_once(judge, seat, monkeypatch):
    player = seat(RIGHT)
    asked = []
    ask = player.contestant.ask
    monkeypatch.setattr(player.contestant, "ask", lambda message, *rest, **more: asked.append(message["op"]) or ask(
        message, *rest, **more))
    for slots in (5, 5, 3, 9):
        player.touch(slots)
        assert player.contestant.frozen
    assert asked == ["touch", "touch"]
    player.seat(player.layout)
    player.touch(3)
    assert asked == ["touch", "touch", "layout", "touch"]


def test_overlap_is_judged_on_unsigned_addresses(judge, seat):
    """Checked against the plain definition, on random tables."""
    player = seat(RIGHT)
    rng = np.random.default_rng(0)
    size = player.layout.nbytes(0)
    table = np.frombuffer(player.outputs.map, dtype=np.int64, count=4)
    outcomes = set()
    for _ in range(200):
        starts = rng.integers(0, 6 * size, 4).astype(np.int64)
        table[:] = starts
        overlap = any(abs(int(a) - int(b)) < size for i, a in enumerate(starts) for b in starts[:i])
        outcomes.add(overlap)
        if overlap:
            with pytest.raises(Lost):
                addresses(player, 4)
        else:
            assert addresses(player, 4)[:, 0].tolist() == starts.tolist()
    assert outcomes == {True, False}
    del table
