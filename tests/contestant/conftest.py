"""One zygote for all tests of the untrusted side, and a way to ask what a candidate sees in there."""

import json
import os

import pytest
from inside_out import MIB, SECRET, load

from harness.judge.arena import Arena
from harness.judge.contestants import Zygote


@pytest.fixture(scope="session")
def zygote():
    os.environ["GAUNTLET_TEST_SECRET"] = SECRET
    zygote = Zygote()
    yield zygote
    zygote.close()
    del os.environ["GAUNTLET_TEST_SECRET"]


@pytest.fixture(scope="session")
def spawn(zygote):
    """spawn(memory=, scratch=) → a fresh contestant over small arenas; all of them end with the tests."""
    inputs, outputs = Arena(MIB, contestants_may_write=False), Arena(MIB, contestants_may_write=True)
    started = []

    def one(memory=1024 * MIB, scratch=16 * MIB):
        started.append(zygote.spawn(inputs, outputs, memory=memory, scratch=scratch))
        return started[-1]

    yield one
    for contestant in started:
        contestant.close()
    inputs.close()
    outputs.close()


@pytest.fixture(scope="session")
def inside(spawn):
    """inside(source, …) runs source as a candidate's file; returns what it puts into its global `facts`."""

    def run(source, **options):
        contestant = spawn(**options)
        try:
            load(contestant, source + "\nimport json\nprint('\\nFACTS' + json.dumps(facts), flush=True)\n")
            while contestant.drain() and b"FACTS" not in contestant.tail:
                pass
        finally:
            contestant.close()
        return json.loads(contestant.tail.decode().rpartition("FACTS")[2])

    return run
