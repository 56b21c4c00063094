"""Conversations with a contestant that says anything at all: right, mutated, cut short, too much, out of order, random.

No process is started: the peer is the other end of the socket, and speaks when it is thawed, as a real one would. Whatever
it says, the judge ends in one of the ways it knows, and nothing that was not computed is ever called right.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct

import numpy as np
import pytest
import torch
from small_tasks import make_task

from harness.contestant import wire
from harness.judge import trials
from harness.judge.arena import Arena
from harness.judge.block import Player, collect, run_block, settle
from harness.judge.contestants import MESSAGE, Contestant, Lost
from harness.judge.layout import Layout
from harness.judge.oracle import Reference
from harness.spec.verdict import Status

TASK = make_task()
STATUSES = {status.value for status in Status} - {"ok", "infra_error", "noisy", "tampered"} | {"tampered", "timeout"}
SECONDS = 0.003  # a peer that falls silent is waited for this long
WORDS = ["done", "ready", "loaded", "warm", "touched", "slots", "exported", "built", "error", "message", "trace", "hello", ""]
VALUES = [None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, float("nan"), float("inf"), 1e308, "",
          "ok", "infra_error", "tampered", "wrong_output", "x" * 9000, "\ud800", "\x00", [], {}, [[[]]], {"done": 3}]


class Peer:
    """Stands for freezer and process: every thaw lets it say the next thing of its script."""

    name = "signals"

    def __init__(self, sock, rng):
        self.sock, self.rng, self.script, self.late = sock, rng, [], b""

    def thaw(self):
        self._say(self.script.pop(0) if self.script else b"")

    def freeze(self):
        self._say(self.late)
        self.late = b""

    def _say(self, data):
        if data is None:
            self.sock.close()
            return
        try:
            self.sock.send(data)
        except OSError:
            return  # closed before, or full: it has said enough


class Zygote:
    """Knows how nothing ended."""

    def how_it_ended(self, init):
        return ""


def contestant(rng):
    """A Contestant whose other end is a Peer; its memory is that of this process."""
    ours, theirs = socket.socketpair()
    read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.close(write)
    it = Contestant.__new__(Contestant)
    it.zygote, it.ended, it.gate, it.watchdog = Zygote(), "", None, None
    it.sock, it.pipe, it.init, it.pid = ours, read, 0, os.getpid()
    it.freezer, it.tail, it.buffer = Peer(theirs, rng), b"", bytearray()
    it.frozen, it.closed, it.level = True, False, {"namespaces": []}
    ours.setblocking(False)
    theirs.setblocking(False)
    return it


def message(value) -> bytes:
    body = json.dumps(value).encode()
    return struct.pack(">I", len(body)) + body


def mutate(rng: random.Random, right: dict) -> bytes | None:
    """Something a contestant might say where `right` is expected; None closes the connection."""
    kind = rng.randrange(16)
    data = message(right)
    if kind < 5:
        return data
    if kind == 5:  # cut short, or with a tail
        return data[: rng.randrange(len(data))] if rng.random() < 0.7 else data + rng.randbytes(rng.randrange(1, 9))
    if kind == 6:  # a length that is not that of the message
        return struct.pack(">I", rng.choice([0, 1, 2**32 - 1, wire.MAX_MESSAGE, wire.MAX_MESSAGE + 1, rng.randrange(64)])) + data[4:]
    if kind == 7:  # bytes changed
        data = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data)
    if kind == 8:  # another value
        return message({key: rng.choice(VALUES) for key in right})
    if kind == 9:  # other words
        return message({rng.choice(WORDS): rng.choice(VALUES) for _ in range(rng.randrange(4))})
    if kind == 10:  # more words
        return message({**right, rng.choice(WORDS): rng.choice(VALUES)})
    if kind == 11:  # no object
        return message(rng.choice(VALUES))
    if kind == 12:  # no JSON
        body = rng.choice([b"", b"{", b"[" * 5000, b"\xff\xfe", b"nul", b'{"a":' * 3000, rng.randbytes(rng.randrange(40))])
        return struct.pack(">I", len(body)) + body
    if kind == 13:  # twice, or something else first
        return rng.choice([data + data, message({rng.choice(WORDS): 1}) + data, data + data[: rng.randrange(len(data))]])
    if kind == 14:
        return rng.randbytes(rng.randrange(64))
    return None if rng.random() < 0.5 else b""


class World:
    """What all conversations share: the task, arenas, and memory that holds no right answer."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.reference = Reference(TASK)
        self.layout = Layout(TASK, TASK.cases[0].dims, "float32", [(torch.float32, (6, 40))])
        self.layout.slots = 8
        self.inputs = Arena(1 << 20, contestants_may_write=False)
        self.outputs = Arena(1 << 20, contestants_may_write=True)
        self.layout.fill(self.inputs, 8)
        self.memory = np.zeros(64 * 240, dtype=np.float32)
        self.ended: dict[str, int] = {}

    def commit(self):
        """Addresses as a contestant may write them into the table."""
        rng = self.rng
        first = self.memory.ctypes.data
        table = np.frombuffer(self.outputs.map, dtype=np.int64, count=8)
        kind = rng.randrange(6)
        apart = [first + 960 * place for place in range(8)]
        table[:] = (apart if kind < 3 else [first] * 8 if kind == 3 else
                    [rng.choice([0, -1, 2**63 - 1, -(2**63), 4096, first, first + 8]) for _ in range(8)] if kind == 4 else
                    [rng.getrandbits(63) for _ in range(8)])

    def converse(self):
        """One conversation; returns how it ended. Anything but a Lost, or an answer called right, is a failure."""
        rng = self.rng
        who = contestant(rng)
        player = Player(who, self.outputs, rng.choice(["python", "python", "cpp"]))
        calls = rng.randrange(1, 9)
        try:
            return self._judge(player, who, calls)
        except Lost as lost:
            assert lost.status in STATUSES, lost.status
            assert isinstance(str(lost), str) and len(str(lost)) <= MESSAGE + 200
            str(lost).encode()
            return lost.status
        finally:
            who.sock.close()
            who.freezer.sock.close()
            os.close(who.pipe)

    def _judge(self, player, who, calls):
        rng, peer = self.rng, who.freezer
        steps = [{"loaded": True}, {"slots": 8}, {"warm": 0.1}, {"touched": 8}, {"ready": True}, {"done": calls}]
        wrong = rng.randrange(len(steps) + 1)  # honest up to here, so that every step is reached
        peer.script = [message(step) if place < wrong else mutate(rng, step) for place, step in enumerate(steps)]
        if rng.random() < 0.1:
            peer.late = message({"done": calls})
        who.ask({"op": "load"}, SECONDS)
        who.freeze()
        player.layout = self.layout
        player.seat(self.layout, SECONDS)
        who.ask({"op": "warm", "n": 2}, SECONDS)
        who.freeze()
        player.touch(8, SECONDS)
        settle(player, SECONDS)
        self.commit()
        run_block(player, calls, SECONDS)
        answers = collect(player, calls, list(range(calls)))
        for index, outputs in answers.items():
            found = trials.judge_call(TASK, self.reference, self.layout.slot(self.inputs, index), outputs, self.layout)
            assert not all(c.ok for c in found), "what nobody has computed was called right"
        return "wrong_output"


def hold(count, seed):
    world = World(seed)
    for number in range(count):
        try:
            ended = world.converse()
        except Exception as error:
            raise AssertionError(f"conversation {number} of seed {seed}: {type(error).__name__}: {error}") from error
        world.ended[ended] = world.ended.get(ended, 0) + 1
    return world.ended


def test_no_conversation_breaks_the_judge_or_passes():
    ended = hold(2000, seed=random.SystemRandom().randrange(2**32))
    # Every kind of end was met: these conversations reach all of the protocol.
    assert {"tampered", "timeout", "runtime_error", "wrong_output"} <= set(ended), ended


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_thousand_conversations(seed):
    ended = hold(20_000, seed)
    assert sum(ended.values()) == 20_000 and len(ended) >= 4


def test_descriptors_are_not_lost_in_conversations():
    world = World(1)
    world.converse()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(300):
        world.converse()
    assert len(os.listdir("/proc/self/fd")) <= before
