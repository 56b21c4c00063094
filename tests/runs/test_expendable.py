"""A process that may be lost: every way it can end is one message, and nothing of it stays."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.runs.expendable import call
from harness.spec.errors import GauntletError

FUNCTIONS = """
import ctypes, os, signal, sys, threading, time

from harness.spec.errors import SpecError


def echo(**given):
    print("noise", "x" * 100_000)
    return given


def ends(how, mark=""):
    if mark:
        open(mark, "w").write(str(os.getpid()))
    exec(how)


def environment():
    return dict(os.environ)
"""


@pytest.fixture
def made(tmp_path):
    (tmp_path / "expendable_functions.py").write_text(FUNCTIONS)

    def made(name, seconds=60.0, **argument):
        return call(f"expendable_functions:{name}", argument, seconds=seconds, what="task t", pythonpath=[tmp_path])

    return made


def test_values_go_there_and_come_back(made):
    given = {"a": [1, 2.5, None, True], "text": "ä\n\0", "deep": {"k": [{}]}, "long": "y" * 3_000_000}
    assert made("echo", **given) == given


@pytest.mark.parametrize("how, words", [
    ("raise SpecError('no such thing')", "^no such thing$"),
    ("raise ValueError('x')", "expendable_functions.ends failed: ValueError: x"),
    ("raise SystemExit(0)", "failed: SystemExit: 0"),
    ("os._exit(0)", r"^task t: its reference ended the process that ran it \(exit code 0\)"),
    ("os._exit(7)", r"exit code 7"),
    ("ctypes.string_at(0)", "killed by SIGSEGV"),
    ("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL"),
    ("os.close(2); os.close(1); os.abort()", "killed by SIGABRT"),
])
def test_every_end_is_one_message(made, how, words):
    with pytest.raises(GauntletError, match=words):
        made("ends", how=how)


def test_what_hangs_is_ended_with_all_it_has_started(made, tmp_path):
    mark = tmp_path / "child"
    how = "os.fork() == 0 and open(mark + '2', 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(GauntletError, match="task t: checking it took longer than 2 s"):
        made("ends", seconds=2.0, how=how, mark=str(mark))
    for file in (mark, Path(f"{mark}2")):
        assert gone(int(file.read_text()))


def test_threads_of_the_function_do_not_keep_it(made):
    assert made("ends", how="threading.Thread(target=time.sleep, args=(600,)).start()", seconds=30) is None


def test_it_gets_no_key(made, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    found = made("environment")
    assert "SOME_API_KEY" not in found and found["PATH"] == os.environ["PATH"]


def test_it_ends_with_whoever_asked(tmp_path):
    (tmp_path / "expendable_functions.py").write_text(FUNCTIONS)
    mark = tmp_path / "mark"
    code = ("from harness.runs.expendable import call; call('expendable_functions:ends', "
            f"{{'how': 'time.sleep(600)', 'mark': {str(mark)!r}}}, seconds=600, what='t', pythonpath=[{str(tmp_path)!r}])")
    asker = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    limit = time.monotonic() + 30
    while not (mark.exists() and mark.read_text()) and time.monotonic() < limit:
        time.sleep(0.02)
    os.kill(asker.pid, signal.SIGKILL)
    asker.wait()
    assert gone(int(mark.read_text()))


def gone(pid, seconds=10.0):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False
