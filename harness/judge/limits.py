"""Bounds on a whole contestant: memory and the number of its processes, by cgroups (v1, or v2 with the controllers
enabled). Where there is none for memory, an rlimit on each process' private memory takes its place, and `Watchdog`
counts the whole tree (`names` says which, in every record).
"""

from __future__ import annotations

import time
from pathlib import Path

from harness.judge import freeze

# controller: (file of the limit in v1, in v2)
_LIMITS = {"memory": ("memory.limit_in_bytes", "memory.max"), "pids": ("pids.max", "pids.max")}
_INSTEAD = {"memory": "rlimit of each process, and a watchdog", "pids": "rlimit"}
WATCH_SECONDS, WATCH_REST = 0.1, 10.0  # seconds between two looks: at least, and as a multiple of what the last one took


class Bounds:
    """What binds one contestant. `paths`: the groups of its own that were made, beside its freezer's."""

    def __init__(self, names: dict[str, str], paths: list[Path]):
        self.names, self.paths = names, paths

    def has(self, controller: str) -> bool:
        """Whether a cgroup binds it."""
        return self.names[controller] != _INSTEAD[controller]

    def procs_files(self) -> list[Path]:
        """The files through which a process joins the groups."""
        return [path / "cgroup.procs" for path in self.paths]

    def close(self) -> None:
        """Remove the groups once their processes have ended."""
        for path in self.paths:
            freeze.remove(path)


def parents() -> list[Path]:
    """The folders in which `bind` may make groups."""
    return [path for path in (freeze.mounted("cgroup", name) for name in _LIMITS) if path]


def bind(label: str, freezer, memory: int, processes: int) -> Bounds:
    """Fresh groups bounded to `memory` bytes and `processes` tasks, where they can be had.

    In the unified hierarchy a process is in one group only, so it is the freezer's own group that is bounded there.
    """
    names, paths = {}, []
    for controller, limit in (("memory", memory), ("pids", processes)):
        first, second = _LIMITS[controller]
        parent = freeze.mounted("cgroup", controller)
        if parent is not None and _limited(parent / label, first, limit, new=(parent / label) not in paths):
            names[controller] = f"{controller} cgroup v1"
            if parent / label not in paths:
                paths.append(parent / label)
        elif isinstance(freezer, freeze.CgroupV2) and _limited(freezer.path, second, limit, new=False):
            names[controller] = f"{controller} cgroup v2"
        else:
            names[controller] = _INSTEAD[controller]
    return Bounds(names, paths)


def _limited(path: Path, file: str, limit: int, *, new: bool) -> bool:
    try:
        if new:
            path.mkdir()
        elif not (path / file).exists():
            return False  # the controller is not enabled for this group
        (path / file).write_text(str(limit))
        return True
    except OSError:
        if new:
            freeze.remove(path)
        return False


class Watchdog:
    """Counts the memory of a contestant's whole tree now and then, shared memory included, where no cgroup binds it."""

    def __init__(self, init: int, memory: int, arenas: int):
        self.init, self.limit, self.due = init, memory + arenas, 0.0

    def over(self) -> int:
        """Bytes in use when that is more than allowed, else 0. Looks at most every WATCH_SECONDS."""
        now = time.monotonic()
        if now < self.due:
            return 0
        used = sum(proportional_bytes(pid) for pid in freeze.descendants(self.init))
        # Looking at hundreds of processes takes its time, in which nobody at the gate is answered.
        self.due = time.monotonic() + max(WATCH_SECONDS, WATCH_REST * (time.monotonic() - now))
        return used if used > self.limit else 0


def proportional_bytes(pid: int) -> int:
    """Resident memory of a process, shared pages by their share (what the zygote's imports take is shared by all);
    where that may not be read, its private and shared memory apart from files."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return next((int(line.split()[1]) << 10 for line in file if line.startswith(b"Pss:")), 0)
    except OSError:
        pass
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith((b"RssAnon:", b"RssShmem:")))
    except OSError:
        return 0

