"""The device lease: exclusive, fair, announced, and freed by the death of its holder."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from harness.runs import lease as module
from harness.runs.lease import DeviceLease, runtime_folder
from harness.spec.errors import GauntletError


def test_one_holder_at_a_time_and_waiting_is_announced(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ANNOUNCE_AFTER_S", 0.02)
    first, second = DeviceLease("cpu", "run a", tmp_path), DeviceLease("cpu", "run b", tmp_path)
    said: list[str] = []
    got = threading.Event()

    def wait() -> None:
        with second.hold(said.append):
            got.set()

    with first.hold():
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.2)
        assert not got.is_set()
        assert said == [f"waiting for cpu: in use by run a (pid {os.getpid()})"]
    assert got.wait(timeout=10)
    thread.join()
    assert second.waited_s >= 0.15
    assert first.waited_s < second.waited_s


def test_two_devices_do_not_wait_for_each_other(tmp_path):
    told: list[str] = []
    with DeviceLease("cpu", folder=tmp_path).hold(told.append), DeviceLease("cuda:0", folder=tmp_path).hold(told.append):
        assert told == []


def test_a_greedy_run_does_not_starve_another(tmp_path):
    """One takes the device back the moment it gave it up; the other still gets its turns in between."""
    order: list[str] = []
    stop = threading.Event()

    def greedy() -> None:
        lease = DeviceLease("cpu", "greedy", tmp_path)
        while not stop.is_set():
            with lease.hold():
                order.append("greedy")
                time.sleep(0.005)

    thread = threading.Thread(target=greedy)
    thread.start()
    modest = DeviceLease("cpu", "modest", tmp_path)
    try:
        while "greedy" not in order:
            time.sleep(0.001)
        for _ in range(5):
            before = len(order)
            with modest.hold():
                turns = len(order) - before
            assert turns <= 30
    finally:
        stop.set()
        thread.join()


def test_an_error_inside_gives_the_device_back(tmp_path):
    lease = DeviceLease("cpu", folder=tmp_path)
    with pytest.raises(ZeroDivisionError):
        with lease.hold():
            1 / 0
    with DeviceLease("cpu", folder=tmp_path).hold(lambda text: pytest.fail(text)):
        pass


def test_a_killed_holder_leaves_nothing_behind(tmp_path):
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom harness.runs.lease import DeviceLease\n"
        "with DeviceLease('cpu', 'x', Path(sys.argv[1])).hold():\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    lease = DeviceLease("cpu", folder=tmp_path)
    with lease.hold():
        assert lease.waited_s < 5


def test_the_folder_is_private_and_refused_when_it_is_not_ours(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(module.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = runtime_folder()
    assert folder.parent == tmp_path and folder.stat().st_mode & 0o077 == 0
    folder.rmdir()
    folder.symlink_to(tmp_path)  # somebody else was there first
    with pytest.raises(GauntletError, match="not a folder of yours"):
        runtime_folder()
