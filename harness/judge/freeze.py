"""Stopping everything a contestant has started, and knowing that it has stopped.

Three ways, best first: the cgroup v2 freezer, the cgroup v1 freezer, and SIGSTOP repeated to a fixpoint over the whole
tree (one SIGSTOP is not enough: children run on, and wake what was stopped). See kernel docs, cgroup-v2 "cgroup.freeze".
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

FREEZE_SECONDS = 5.0


class FreezeError(Exception):
    """The tree did not come to rest in time: something in it is out of reach."""


class CgroupV2:
    """A cgroup of the unified hierarchy with `cgroup.freeze` and `cgroup.kill`."""

    name = "cgroup-v2"

    def __init__(self, path: Path):
        self.path = path
        path.mkdir()
        self._freeze = os.open(path / "cgroup.freeze", os.O_WRONLY | os.O_CLOEXEC)
        self._events = os.open(path / "cgroup.events", os.O_RDONLY | os.O_CLOEXEC)

    def procs_files(self) -> list[Path]:
        return [self.path / "cgroup.procs"]

    def attach(self, init: int) -> None:
        """The process has joined through the procs file before it left its namespaces; OSError when it is elsewhere."""
        _check_joined(self.path, init)

    def freeze(self) -> None:
        os.pwrite(self._freeze, b"1", 0)
        limit = time.monotonic() + FREEZE_SECONDS
        while b"frozen 1" not in os.pread(self._events, 256, 0):
            if time.monotonic() > limit:
                raise FreezeError(f"the contestant's processes did not freeze within {FREEZE_SECONDS} s")

    def thaw(self) -> None:
        os.pwrite(self._freeze, b"0", 0)

    def kill(self) -> None:
        (self.path / "cgroup.kill").write_text("1")

    def close(self) -> None:
        os.close(self._freeze)
        os.close(self._events)
        remove(self.path)


class CgroupV1:
    """A cgroup of the v1 freezer hierarchy."""

    name = "cgroup-v1"

    def __init__(self, path: Path):
        self.path = path
        path.mkdir()
        self._state = os.open(path / "freezer.state", os.O_RDWR | os.O_CLOEXEC)

    def procs_files(self) -> list[Path]:
        return [self.path / "cgroup.procs"]

    def attach(self, init: int) -> None:
        _check_joined(self.path, init)

    def freeze(self) -> None:
        os.pwrite(self._state, b"FROZEN", 0)
        limit = time.monotonic() + FREEZE_SECONDS
        while os.pread(self._state, 64, 0).strip() != b"FROZEN":
            if time.monotonic() > limit:
                raise FreezeError(f"the contestant's processes did not freeze within {FREEZE_SECONDS} s")
            os.pwrite(self._state, b"FROZEN", 0)

    def thaw(self) -> None:
        os.pwrite(self._state, b"THAWED", 0)

    def kill(self) -> None:
        for pid in _pids(self.path / "cgroup.procs"):
            _signal(pid, signal.SIGKILL)
        self.thaw()

    def close(self) -> None:
        os.close(self._state)
        remove(self.path)


class Signals:
    """SIGSTOP to a fixpoint over the descendants of the contestant's init: two scans in a row with all of them stopped.

    In a pid namespace nothing can leave that tree: orphans become children of its init. Nothing that is stopped can
    wake another, so once all are stopped all stay so.
    """

    name = "signals"

    def __init__(self) -> None:
        self.init = 0

    def procs_files(self) -> list[Path]:
        return []

    def attach(self, init: int) -> None:
        self.init = init

    def freeze(self) -> None:
        limit = time.monotonic() + FREEZE_SECONDS
        # Two clean scans in a row: within a single one, a process may be woken after it was looked at, by one that stops before
        # it is looked at.
        before: set[int] | None = None
        while True:
            pids = descendants(self.init)
            running = [pid for pid in pids if not _stopped(pid)]
            if not running and pids == before:
                return
            for pid in running:
                _signal(pid, signal.SIGSTOP)
            before = None if running else pids
            if time.monotonic() > limit:
                raise FreezeError(f"the contestant's processes did not stop within {FREEZE_SECONDS} s")

    def thaw(self) -> None:
        for pid in sorted(descendants(self.init)):
            _signal(pid, signal.SIGCONT)

    def kill(self) -> None:
        for pid in descendants(self.init):
            _signal(pid, signal.SIGKILL)

    def close(self) -> None:
        return


def descendants(root: int) -> set[int]:
    """`root` and every process below it (one pass over /proc/PID/task/*/children)."""
    found, todo = set(), [root]
    while todo:
        pid = todo.pop()
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.add(pid)
        for task in tasks:
            try:
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    todo += [int(child) for child in file.read().split()]
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def best_available() -> tuple[str, Path | None, str]:
    """(name, parent folder, reason) of the best freezer this process may use."""
    reasons = []
    for name, parent in (("cgroup-v2", mounted("cgroup2", "")), ("cgroup-v1", mounted("cgroup", "freezer"))):
        if parent is None:
            reasons.append(f"{name}: not mounted")
            continue
        probe = parent / f"gauntlet-probe-{os.getpid()}"
        try:
            group = (CgroupV2 if name == "cgroup-v2" else CgroupV1)(probe)
            _try_moving(group)
            group.close()
            return name, parent, "; ".join(reasons)
        except OSError as error:
            remove(probe)
            reasons.append(f"{name}: {error.strerror}")
    return "signals", None, "; ".join(reasons)


def _try_moving(group) -> None:
    """Move a process in, freeze and thaw it: rights to the folder are not yet rights to move processes."""
    child = subprocess.Popen(["sleep", "30"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        for path in group.procs_files():
            path.write_text(str(child.pid))
        group.freeze()
        group.thaw()
    except FreezeError as error:
        raise OSError(0, str(error)) from None
    finally:
        child.kill()
        child.wait()


def make(kind: str, parent: Path | None, label: str):
    """A fresh freezer for one contestant."""
    if kind == "signals":
        return Signals()
    return (CgroupV2 if kind == "cgroup-v2" else CgroupV1)(parent / label)


def sweep(parent: Path) -> None:
    """Remove what judges that are no more have left: cgroups named gauntlet-<pid>-… of ended processes."""
    for folder in parent.glob("gauntlet-*-*"):
        owner = folder.name.split("-")[1]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            for pid in _pids(folder / "cgroup.procs"):
                _signal(pid, signal.SIGKILL)
            if (folder / "freezer.state").exists():  # in the v1 hierarchy what is frozen does not even die
                (folder / "freezer.state").write_text("THAWED")
            remove(folder)


def mounted(kind: str, option: str) -> Path | None:
    """Where this process' own cgroup of a hierarchy is: mount point plus the path of /proc/self/cgroup."""
    with open("/proc/self/mountinfo") as file:
        for line in file:
            left, _, right = line.partition(" - ")
            fields, tail = left.split(), right.split()
            if tail[0] == kind and (not option or option in tail[2].split(",")):
                return Path(fields[4]) / _own(kind, option).lstrip("/")
    return None


def _own(kind: str, option: str) -> str:
    with open("/proc/self/cgroup") as file:
        for line in file:
            _number, controllers, path = line.rstrip("\n").split(":", 2)
            if (kind == "cgroup2" and controllers == "") or (option and option in controllers.split(",")):
                return path
    return "/"


def _check_joined(path: Path, init: int) -> None:
    if init not in _pids(path / "cgroup.procs"):
        raise OSError(0, f"process {init} did not join {path}")


def _pids(path: Path) -> list[int]:
    try:
        return [int(line) for line in path.read_text().split()]
    except OSError:
        return []


def _stopped(pid: int) -> bool:
    """True when every thread of `pid` is stopped, or it is dead."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] not in "TtZX":
                    return False
    except (FileNotFoundError, ProcessLookupError):
        return True
    return True


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def remove(path: Path) -> None:
    for _ in range(1000):
        try:
            path.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.001)
