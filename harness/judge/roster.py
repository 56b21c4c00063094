"""Who plays: fresh contestants of the candidate, the opponents' pool, the null kernel. All frozen unless it is their turn."""

from __future__ import annotations

import os
import re
from pathlib import Path

import harness.contestant
from harness.judge.arena import Arena, sealed_copy
from harness.judge.block import Player
from harness.judge.builds import Builds
from harness.judge.contestants import Lost, MachineFault, Zygote
from harness.judge.floor import Peaks
from harness.judge.layout import ARENA_BYTES, Layout
from harness.spec.baselines import BASELINES
from harness.spec.candidate import Candidate
from harness.spec.task import Task
from harness.spec.verdict import Estimate, Limits

WARM_CALLS = 2
COMPILES_S = 1.0  # a warm-up that takes longer has compiled something


def may_compile(candidate: Candidate) -> bool:
    """Whether its first call may compile, told by its words: it gets the time of a build then, others hang sooner."""
    return candidate.language == "python" and bool(re.search(r"compil|triton|inline|extension|jit|tune", candidate.source,
                                                             re.IGNORECASE))


class Roster:
    """Starts players over one shared input arena. Nothing a candidate left behind reaches another contestant."""

    def __init__(self, zygote: Zygote, builds: Builds):
        self.zygote, self.builds = zygote, builds
        self.inputs = Arena(ARENA_BYTES, contestants_may_write=False, name="gauntlet-inputs")
        self.level: dict = {}
        self._pool: dict[tuple, dict[int, Player]] = {}
        self.controls: dict[tuple, Estimate | None] = {}
        self.peaks = Peaks()
        self.profiles: dict[tuple, dict | None] = {}  # of eager, by task and case

    # ------------------------------------------------------------------ starting

    def start(self, candidate: Candidate, task: Task, dtype: str, limits: Limits, *, shared_object: Path | None = None,
              threads: int | None = None) -> Player:
        """A fresh contestant with the candidate loaded, frozen. Raises Lost with the verdict when it does not load."""
        outputs = Arena(ARENA_BYTES, contestants_may_write=True, name="gauntlet-outputs")
        try:
            contestant = self.zygote.spawn(self.inputs, outputs, memory=limits.memory, scratch=limits.scratch)
        except MachineFault:
            outputs.close()
            raise
        self.level = contestant.level
        player = Player(contestant, outputs, candidate.language, compiles=may_compile(candidate))
        message = {"op": "load", "language": candidate.language, "entry": candidate.entry, "args": task.args,
                   "hash": candidate.hash, "threads": threads}
        fds: list[int] = []
        try:
            if candidate.language == "cpp":
                fds = [sealed_copy(shared_object)]
            else:
                message["source"] = candidate.source
                warm = self.builds.warm_path(candidate, dtype, self.zygote.facts["versions"])
                if warm.exists():
                    fds = [os.open(warm, os.O_RDONLY | os.O_CLOEXEC)]
            contestant.ask(message, limits.load_s, fds, what="loading the candidate")
            contestant.freeze()
        except BaseException:
            player.close()
            raise
        finally:
            for fd in fds:
                os.close(fd)
        return player

    def seat(self, player: Player, layout: Layout, limits: Limits, calls: int = WARM_CALLS) -> float:
        """Seat a player and warm it up on inputs that are never used again; returns its own figure of seconds per call
        (a diagnostic: used to choose block lengths, never to score)."""
        layout.fill(self.inputs, min(calls, layout.slots))
        player.seat(layout)
        reply = player.contestant.ask({"op": "warm", "n": min(calls, layout.slots)},
                                      limits.build_s * player.compiles + calls * limits.call_s, what="the warm-up")
        player.contestant.freeze()
        seconds = reply.get("warm")
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds < 1e9:
            raise Lost("tampered", "the warm-up was answered with something else")
        return float(seconds) / max(1, min(calls, layout.slots))

    def no_new_processes(self, player: Player) -> None:
        """Said before a player's first timed block: what it needs is running by now."""
        player.contestant.no_new_processes()

    def keep_warm(self, player: Player, candidate: Candidate, dtype: str, seconds: float) -> None:
        """Keep the compile caches that a Python candidate has made, so that its next instances start warm.

        seconds: what its last warm-up took; a short one has compiled nothing that is not kept already.
        """
        path = self.builds.warm_path(candidate, dtype, self.zygote.facts["versions"])
        if candidate.language != "python" or seconds < COMPILES_S:
            return
        reply = player.contestant.ask({"op": "export"}, 60)
        player.contestant.freeze()
        size = reply.get("exported")
        if isinstance(size, int) and 32_768 < size <= player.outputs.size:
            self.builds.keep_warm(path, bytes(player.outputs.view[:size]))

    # ------------------------------------------------------------------ opponents and the null

    def opponent(self, kind: str, index: int, task: Task, layout: Layout, limits: Limits,
                 threads: int | None = None) -> Player:
        """Instance `index` of an opponent ("eager" or "compile") of one case, started once and frozen between its turns.

        Raises MachineFault when torch itself fails on its own operation: that is never the candidate's failure.
        """
        key = (kind, task.content_hash, layout.dtype, tuple(layout.dims.items()), threads)
        if key not in self._pool:
            self._release_other_tasks(task.content_hash)
        players = self._pool.setdefault(key, {})
        if index not in players:
            self._make_room(layout, index)
            candidate = BASELINES[kind](task)
            try:
                players[index] = player = self.start(candidate, task, layout.dtype, limits, threads=threads)
                seconds = self.seat(player, layout, limits)
                self.keep_warm(player, candidate, layout.dtype, WARM_CALLS * seconds)
                self.no_new_processes(player)
            except Lost as lost:
                raise MachineFault(f"the {kind} baseline of task {task.name} failed: {lost}") from None
        player = players[index]
        player.layout = layout
        return player

    def null(self, task: Task) -> tuple[Player, Layout]:
        """The null kernel, seated and frozen; its layout has the task's inputs removed."""
        import torch

        source = (Path(harness.contestant.__file__).parent / "null.py").read_text()
        nothing = task.model_copy(update={"inputs": {}, "args": {}})
        layout = Layout(nothing, {}, "float32", [(torch.float32, (1,))])
        layout.slots = min(layout.slots, 64)
        player = self.start(Candidate(source=source, entry="kernel"), nothing, "float32", Limits())
        self.seat(player, layout, Limits())
        self.no_new_processes(player)
        return player, layout

    def _make_room(self, layout: Layout, index: int) -> None:
        """End pooled opponents, oldest first, until one more fits into a quarter of the machine's memory.

        Those of instance `index` and its neighbours stay: they may be in the match that is being played.
        """
        room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
        for players in list(self._pool.values()):
            for other in sorted(players):
                held = sum(footprint(p.layout or layout, p.touched) for all_ in self._pool.values() for p in all_.values())
                if held + footprint(layout, 0) <= room:
                    return
                if abs(other - index) > 1:
                    players.pop(other).close()

    def _release_other_tasks(self, task_hash: str) -> None:
        for key in [k for k in self._pool if k[1] != task_hash]:
            for player in self._pool.pop(key).values():
                player.close()

    def release(self) -> None:
        """End every opponent; the next match starts fresh ones."""
        for players in self._pool.values():
            for player in players.values():
                player.close()
        self._pool.clear()
        self.controls.clear()

    def close(self) -> None:
        """End every opponent and give the input arena back."""
        self.release()
        self.inputs.close()


def footprint(layout: Layout, touched: int) -> int:
    """About what a seated contestant holds, in bytes: its process, its answers, and a heap of twice their size."""
    return 150 * 2**20 + 3 * max(touched, min(layout.slots, 8)) * layout.out_stride
