"""The sealed block (DESIGN section 5): freeze – fill – go – commit – stop.

The judge's clock runs from the thaw, the first moment the contestant could know a bit of the input, until its whole tree
is frozen again with its answers committed. Work done after the commit message and before the freeze is on the clock.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from harness.judge.arena import Arena
from harness.judge.contestants import Contestant, Lost
from harness.judge.layout import Layout


@dataclass
class Player:
    """A contestant with its own output arena, seated at a layout. language decides where its answers are read.

    compiles: whether a first call may take as long as a build.
    """

    contestant: Contestant
    outputs: Arena
    language: str
    compiles: bool = False
    layout: Layout | None = None
    touched: int = 0

    def seat(self, layout: Layout, seconds: float = 60.0) -> None:
        """Tell the contestant the layout, then freeze it."""
        self.contestant.ask(layout.message(), seconds)
        self.layout = layout
        self.touched = 0
        self.contestant.freeze()

    def touch(self, slots: int, seconds: float = 120.0) -> None:
        """Have it touch the memory of a block of `slots` calls, once; frozen afterwards."""
        if self.touched < slots:
            self.contestant.ask({**self.layout.message(), "op": "touch", "slots": slots}, seconds)
            self.contestant.freeze()
            self.touched = slots

    def close(self) -> None:
        """End the contestant and give its arena back."""
        self.contestant.close()
        self.outputs.close()


def run_block(player: Player, calls: int, seconds: float) -> float:
    """Run `calls` calls on slots already filled; returns the judge's seconds. The contestant is frozen before and after.

    Raises Lost when the contestant fails, falls silent or says anything but that it is done.
    """
    contestant = player.contestant
    if contestant.unasked():
        raise Lost("tampered", "the contestant has sent an answer before it was asked")
    contestant.post({"op": "go", "n": calls})  # into the socket of a frozen process: nobody can read it yet
    start = time.perf_counter()
    contestant.thaw()
    reply = contestant.answer(time.monotonic() + seconds, "a block of calls")
    contestant.freeze()
    stop = time.perf_counter()
    if reply != {"done": calls} or contestant.unasked():
        raise Lost("tampered", "the contestant answered a block with something else than that it is done")
    return stop - start


def addresses(player: Player, calls: int) -> np.ndarray:
    """The committed addresses, shape [calls, outputs], copied while the contestant is frozen.

    Answers must lie apart from each other: two calls cannot share memory. Lost("tampered") otherwise.
    """
    layout, width = player.layout, len(player.layout.outputs)
    table = np.frombuffer(player.outputs.map, dtype=np.int64, count=calls * width).reshape(calls, width).copy()
    starts = table.astype(np.uint64).reshape(-1)
    sizes = np.tile(np.array([layout.nbytes(j) for j in range(width)], dtype=np.uint64), calls)
    order = np.argsort(starts, kind="stable")
    ends = starts[order] + sizes[order]
    if np.any((ends[:-1] > starts[order][1:]) & (sizes[order][:-1] > 0) & (sizes[order][1:] > 0)):
        raise Lost("tampered", "two committed answers overlap in memory")
    return table


def collect(player: Player, calls: int, chosen: list[int]) -> dict[int, list[torch.Tensor]]:
    """Private copies of the answers to the chosen calls. The contestant must be frozen since the block's end."""
    layout = player.layout
    if player.language == "cpp":  # the answers were written into slots the judge owns
        return {index: [player.outputs.tensor(dtype, shape,
                                              layout.commit_bytes + index * layout.out_stride + offset).clone()
                        for (dtype, shape), offset in zip(layout.outputs, layout.out_offsets, strict=True)]
                for index in chosen}
    table = addresses(player, calls)
    answers = {}
    for index in chosen:
        tensors = []
        for j, (dtype, shape) in enumerate(layout.outputs):
            data = player.contestant.read(int(table[index, j]), layout.nbytes(j))
            tensors.append(torch.frombuffer(data, dtype=dtype).view(shape) if data else torch.empty(shape, dtype=dtype))
        answers[index] = tensors
    return answers


def settle(player: Player, seconds: float = 60.0) -> None:
    """Let the contestant drop its last answers, off the clock, and freeze it for the next fill."""
    player.contestant.ask({"op": "prepare"}, seconds)
    player.contestant.freeze()


def poison(player: Player, calls: int) -> None:
    """Overwrite C++ output slots with NaN patterns, so that an element never written cannot look right."""
    layout = player.layout
    if player.language == "cpp":
        first = layout.commit_bytes
        region = np.frombuffer(player.outputs.map, dtype=np.uint8)[first: first + calls * layout.out_stride]
        region[:] = 0xFF
