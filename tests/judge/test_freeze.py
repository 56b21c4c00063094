"""A frozen tree does nothing at all: counters in shared memory that its processes increment stand still."""

import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.judge import freeze, limits

KINDS = ["cgroup-v2", "cgroup-v1", "signals"]
SLOTS = 64
# Counts in slots of a shared file: 0 the root, 1 its thread, 2 a child, 3 what the child forks again and again,
# 4 a daemon that has left session and parent, 5 attempts to wake all the others.
TREE = """
import ctypes, mmap, os, signal, sys, threading, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans stay in this tree, as under the init of a pid namespace
shared = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)
counters = memoryview(shared).cast("q")

def count(slot):
    while True:
        counters[slot] += 1
        time.sleep(0)

def fork(function, *arguments):
    pid = os.fork()
    if pid == 0:
        function(*arguments)
        os._exit(0)
    return pid

def forking():
    while True:
        counters[2] += 1
        child = fork(lambda: counters.__setitem__(3, counters[3] + 1))
        os.waitpid(child, 0)

def daemon():
    os.setsid()
    fork(count, 4)

def waking():
    while True:
        counters[5] += 1
        for pid in pids:
            try:
                os.kill(pid, signal.SIGCONT)
            except OSError:
                pass

sys.stdin.readline()  # until it has been moved into its cgroup
pids = [os.getpid()]
pids.append(fork(forking))
os.waitpid(fork(daemon), 0)
fork(waking)
threading.Thread(target=count, args=(1,), daemon=True).start()
count(0)
"""


class Tree:
    def __init__(self, kind, folder):
        parent = {"cgroup-v2": freeze.mounted("cgroup2", ""), "cgroup-v1": freeze.mounted("cgroup", "freezer"),
                  "signals": None}[kind]
        if kind != "signals" and (parent is None or not os.access(parent, os.W_OK)):
            pytest.skip(f"{kind} is not at hand")
        self.file = os.open(folder / "counters", os.O_RDWR | os.O_CREAT)
        os.ftruncate(self.file, 4096)
        self.counters = memoryview(mmap.mmap(self.file, 4096)).cast("q")
        self.process = subprocess.Popen([sys.executable, "-c", TREE, str(folder / "counters")], stdin=subprocess.PIPE)
        self.freezer = freeze.make(kind, parent, f"gauntlet-{os.getpid()}-test-{kind}")
        for path in self.freezer.procs_files():
            path.write_text(str(self.process.pid))
        self.freezer.attach(self.process.pid)
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()
        assert self.all_move(), "the tree does not run"

    def values(self):
        return list(self.counters[:6])

    def all_move(self, seconds=10.0):
        """Whether every counter changes within the time."""
        before, limit = self.values(), time.monotonic() + seconds
        while time.monotonic() < limit:
            if all(a != b for a, b in zip(before, self.values())):
                return True
            time.sleep(0.005)
        return False

    def none_moves(self, seconds=0.06):
        before = self.values()
        time.sleep(seconds)
        return before == self.values()

    def close(self):
        if self.file < 0:
            return
        self.freezer.kill()
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.freezer.close()
        os.close(self.file)
        self.file = -1


@pytest.fixture(params=KINDS)
def tree(request, tmp_path):
    tree = Tree(request.param, tmp_path)
    yield tree
    tree.close()


def test_a_busy_tree_stands_still_and_goes_on(tree):
    for _ in range(5):
        tree.freezer.freeze()
        assert tree.none_moves()
        tree.freezer.thaw()
        assert tree.all_move()


def test_one_that_is_woken_after_it_was_looked_at_is_looked_at_again(monkeypatch):
    """A stops, B wakes it and stops: a scan that sees A before and B after finds both stopped, and A runs."""
    freezer = freeze.Signals()
    freezer.attach(1)
    states = {"A": [False, True, False, True, True, True], "B": [False, True, True, True, True, True]}
    seen = {"A": 0, "B": 0}
    sent = []

    def stopped(pid):
        seen[pid] += 1
        return states[pid][seen[pid] - 1]

    monkeypatch.setattr(freeze, "descendants", lambda init: {"A", "B"})
    monkeypatch.setattr(freeze, "_stopped", stopped)
    monkeypatch.setattr(freeze, "_signal", lambda pid, number: sent.append(pid))
    freezer.freeze()
    # scan 1: both run. 2: both look stopped, but A has been woken since. 3: A runs. 4 and 5: both are stopped.
    assert seen == {"A": 5, "B": 5} and sorted(sent) == ["A", "A", "B"]


def test_freezing_twice_is_freezing_once(tree):
    tree.freezer.freeze()
    tree.freezer.freeze()
    assert tree.none_moves()
    tree.freezer.thaw()
    tree.freezer.thaw()
    assert tree.all_move()


def test_killing_a_frozen_tree_leaves_nothing(tree):
    pids = freeze.descendants(tree.process.pid)
    assert len(pids) >= 4
    tree.freezer.freeze()
    pids = freeze.descendants(tree.process.pid)
    tree.freezer.kill()
    tree.process.wait(10)
    assert all(ended(pid) for pid in pids)
    assert tree.none_moves()


def test_closing_removes_the_group(tree):
    tree.freezer.freeze()
    folders = [path.parent for path in tree.freezer.procs_files()]
    assert all(folder.exists() for folder in folders)
    tree.close()
    assert not any(folder.exists() for folder in folders)


def test_one_stop_signal_would_not_do(tmp_path):
    """Why the tree is stopped to a fixpoint: what is not stopped wakes what is."""
    tree = Tree("signals", tmp_path)
    try:
        os.kill(tree.process.pid, signal.SIGSTOP)
        assert not tree.none_moves(0.3)
    finally:
        tree.close()


def test_a_tree_that_cannot_be_stopped_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(freeze, "FREEZE_SECONDS", 0.2)
    tree = Tree("signals", tmp_path)
    try:
        monkeypatch.setattr(freeze, "_signal", lambda pid, number: None)
        with pytest.raises(freeze.FreezeError, match="did not stop within 0.2 s"):
            tree.freezer.freeze()
    finally:
        monkeypatch.undo()
        tree.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_that_has_ended_is_frozen_at_once(kind, tmp_path):
    tree = Tree(kind, tmp_path)
    tree.freezer.kill()
    tree.process.wait(10)
    begun = time.monotonic()
    tree.freezer.freeze()
    tree.freezer.thaw()
    assert time.monotonic() - begun < freeze.FREEZE_SECONDS
    tree.close()


# What there is


def test_the_best_freezer_that_works_is_chosen():
    name, parent, reason = freeze.best_available()
    assert name in KINDS and (parent is None) == (name == "signals")
    if parent:
        assert not list(parent.glob(f"gauntlet-probe-{os.getpid()}*"))
    better = KINDS[: KINDS.index(name)]
    assert all(kind in reason for kind in better)


def test_without_rights_the_next_one_is_taken(monkeypatch):
    monkeypatch.setattr(freeze, "mounted", lambda kind, option: Path("/proc/no-cgroups-here"))
    name, parent, reason = freeze.best_available()
    assert (name, parent) == ("signals", None) and "cgroup-v2: No such file" in reason and "cgroup-v1" in reason
    monkeypatch.setattr(freeze, "mounted", lambda kind, option: None)
    assert freeze.best_available() == ("signals", None, "cgroup-v2: not mounted; cgroup-v1: not mounted")


def test_the_own_cgroup_is_found():
    parent = freeze.mounted("cgroup2", "")
    if parent is None:
        pytest.skip("no unified hierarchy here")
    assert str(os.getpid()) in (parent / "cgroup.procs").read_text().split()


def test_descendants_are_all_of_them_and_only_them():
    code = ("import os, sys\nfor _ in range(2):\n    if os.fork() == 0:\n        os.fork()\n        break\n"
            "sys.stdout.write('x'); sys.stdout.flush(); os.read(0, 1)\n")
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    other = subprocess.Popen(["sleep", "20"])
    try:
        assert len(child.stdout.read(5)) == 5
        found = freeze.descendants(child.pid)
        assert len(found) == 5 and child.pid in found and other.pid not in found
        assert found < freeze.descendants(os.getpid()) and other.pid in freeze.descendants(os.getpid())
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait()
        other.kill()
        other.wait()
    assert freeze.descendants(child.pid) == set()


# What judges before have left


@pytest.mark.parametrize("kind", ["cgroup-v2", "cgroup-v1"])
def test_sweeping_ends_what_a_killed_judge_has_left_frozen(kind, tmp_path):
    tree = Tree(kind, tmp_path)
    parent = tree.freezer.path.parent
    ended_judge = subprocess.Popen(["true"])
    ended_judge.wait()
    left = parent / f"gauntlet-{ended_judge.pid}-7"
    group = freeze.make(kind, parent, left.name)
    sleeper = subprocess.Popen(["sleep", "60"])
    group.procs_files()[0].write_text(str(sleeper.pid))
    group.freeze()
    try:
        freeze.sweep(parent)
        assert not left.exists() and sleeper.wait(5) == -signal.SIGKILL
        assert tree.all_move()  # that of a living judge is let be
    finally:
        if left.exists():
            group.thaw()
        sleeper.kill()
        sleeper.wait()
        tree.close()


# Memory


def test_bounds_bind_or_say_that_they_do_not():
    bounds = limits.bind(f"gauntlet-{os.getpid()}-test", freeze.Signals(), 64 * 2**20, 16)
    assert set(bounds.names) == {"memory", "pids"}
    for controller in bounds.names:
        assert bounds.has(controller) == ("cgroup" in bounds.names[controller])
    if bounds.has("memory"):
        code = "import sys; sys.stdin.readline(); x = bytearray(b'x') * (256 << 20)"
        assert bound_child(bounds, code).returncode == -signal.SIGKILL
    if bounds.has("pids"):
        code = ("import os, sys; sys.stdin.readline()\n"
                "try:\n    while True:\n        if os.fork() == 0:\n            __import__('time').sleep(0.5); os._exit(0)\n"
                "except BlockingIOError:\n    sys.exit(7)\n")
        assert bound_child(bounds, code).returncode == 7
    assert all(path.parent in limits.parents() for path in bounds.paths)
    assert all(path.exists() for path in bounds.paths)
    bounds.close()
    assert not any(path.exists() for path in bounds.paths)


def bound_child(bounds, code):
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    for path in bounds.procs_files():
        path.write_text(str(child.pid))
    child.communicate(b"go\n")
    return child


def test_in_the_unified_hierarchy_the_freezers_own_group_is_bounded(tmp_path, monkeypatch):
    """A process is in one group only there: moving it into a second one would take it out of its freezer."""
    monkeypatch.setattr(freeze, "mounted", lambda kind, option: tmp_path if kind == "cgroup2" else None)
    group = freeze.CgroupV2.__new__(freeze.CgroupV2)
    group.path = tmp_path / "mine"
    group.path.mkdir()
    for name in ("memory.max", "pids.max"):
        (group.path / name).write_text("max")
    bounds = limits.bind("other", group, 12345, 67)
    assert (group.path / "memory.max").read_text() == "12345" and (group.path / "pids.max").read_text() == "67"
    assert bounds.paths == [] and bounds.procs_files() == []
    assert bounds.names == {"memory": "memory cgroup v2", "pids": "pids cgroup v2"}
    (group.path / "memory.max").unlink()  # a controller that is not enabled has no file
    assert not limits.bind("other", group, 12345, 67).has("memory")


def test_a_process_outside_its_freezer_is_noticed(tmp_path):
    (tmp_path / "cgroup.procs").write_text("1\n22\n")
    freeze._check_joined(tmp_path, 22)
    with pytest.raises(OSError, match="did not join"):
        freeze._check_joined(tmp_path, 2)


def test_the_watchdog_counts_a_whole_tree_and_its_shared_memory():
    code = ("import mmap, os, sys, time\n"
            "shared = mmap.mmap(-1, 200 << 20)\n"
            "shared.write(b'x' * (200 << 20))\n"
            "if os.fork() == 0:\n    private = b'x' * (150 << 20); print('ready', flush=True); time.sleep(60)\n"
            "os.wait()\n")
    tree = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    tree.stdout.readline()
    try:
        assert 350 << 20 < limits.Watchdog(tree.pid, 300 << 20, 0).over() < 450 << 20
        assert limits.Watchdog(tree.pid, 450 << 20, 0).over() == 0
        patient = limits.Watchdog(tree.pid, 450 << 20, 0)
        patient.over()
        patient.limit = 0
        assert patient.over() == 0  # it has only just looked
    finally:
        for pid in freeze.descendants(tree.pid):
            os.kill(pid, signal.SIGKILL)
        tree.wait()
        tree.stdout.close()


def ended(pid, seconds=5.0):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False
