"""kill -9 at any moment, then the same command again: nothing is lost, nothing is judged twice, and the records are
those of a run that was never disturbed."""

import collections
import json
import os
import random
import signal
import sys
import time
import zlib

import pytest
from run_fakes import verdict

from harness.cli.main import main
from harness.runs.record import read_results
from harness.spec.verdict import Status

KILLS = 40
COMMAND = ["run", "--agent", "count:upto=4,count:as=again,upto=3", "--tasks", "double,twice", "--finals", "2",
           "--run-id", "mine"]
TIMES = ("id", "started", "finished", "resumed", "elapsed_s", "time", "wall_s", "files")


@pytest.fixture
def in_child(project, script, tmp_path, monkeypatch):
    """Runs COMMAND in a forked process: `start()` gives its pid, `judged()` every judgement that was begun, in order."""
    journal = tmp_path / "journal"

    def answer(request):
        descriptor = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{request.id}\n".encode())
        os.close(descriptor)
        time.sleep(0.002)
        number = zlib.crc32(f"{request.id} {request.task.name}".encode()) % 7
        return verdict(request, Status.wrong_output if number == 0 else Status.ok, speedup=1 + number / 10)

    script.answer = answer
    monkeypatch.setattr("harness.cli.run._build_pages", lambda *_: None)  # a second, in which nothing is at stake

    class Child:
        @staticmethod
        def start(*more):
            pid = os.fork()
            if pid:
                return pid
            try:
                said = os.open(tmp_path / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(said, 1)
                os.dup2(said, 2)
                sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
                code = main([*COMMAND, *map(str, more)])
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
            finally:
                os._exit(70)

        @staticmethod
        def said():
            return (tmp_path / "said").read_text()

        @staticmethod
        def judged():
            found = journal.read_text().split() if journal.exists() else []
            journal.unlink(missing_ok=True)
            return found

    return Child


def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def published(results):
    """Every record without its times, by agent."""
    found = {}
    for record in read_results(results):
        run = without_times(json.loads((record.path / "run.json").read_text()))
        rows = [without_times(row.model_dump(mode="json")) for row in record.attempts]
        found[record.run.agent.name] = (run, rows, [record.source(row.candidate) for row in record.attempts])
    return found


def without_times(data):
    if isinstance(data, dict):
        return {key: without_times(value) for key, value in data.items() if key not in TIMES}
    return [without_times(one) for one in data] if isinstance(data, list) else data


def test_killed_at_any_moment_and_continued(project, in_child, tmp_path):
    begun = time.monotonic()
    assert ended(in_child.start("--results", tmp_path / "whole")) == 0
    whole = time.monotonic() - begun
    undisturbed = in_child.judged()
    expected = published(tmp_path / "whole")
    assert len(undisturbed) == len(set(undisturbed)) > 12 and len(expected) == 2
    rng = random.Random(8)
    caught = 0
    for number in range(KILLS):
        (project / ".harness" / "runs" / "mine").rename(tmp_path / f"log-{number}")
        results = tmp_path / f"results-{number}"
        pid = in_child.start("--results", results)
        time.sleep(rng.uniform(0, whole))
        os.kill(pid, signal.SIGKILL)
        caught += ended(pid) == -signal.SIGKILL
        assert ended(in_child.start("--results", results)) == 0, (number, in_child.said())
        times = collections.Counter(in_child.judged())
        again = [one for one, count in times.items() if count > 1]
        assert set(times) == set(undisturbed) and len(again) <= 1 and max(times.values()) <= 2, (number, again)
        assert published(results) == expected, number
    assert caught > KILLS // 2, "most of the runs had ended before they were killed"


def test_killed_again_and_again(project, in_child, tmp_path):
    """Each start gets a little further, whatever is killed."""
    assert ended(in_child.start("--results", tmp_path / "whole")) == 0
    undisturbed = in_child.judged()
    (project / ".harness" / "runs" / "mine").rename(tmp_path / "log")
    kills = 0
    code, patience = None, 0.03
    while code != 0:
        pid = in_child.start("--results", tmp_path / "results")
        time.sleep(patience)
        patience *= 1.1  # the last one has only the pages left to build, which takes longer than all the judging
        os.kill(pid, signal.SIGKILL)
        code = ended(pid)
        kills += code != 0
        assert kills < 100
    times = collections.Counter(in_child.judged())
    assert set(times) == set(undisturbed) and kills > 1
    assert sum(times.values()) <= len(undisturbed) + kills
    assert published(tmp_path / "results") == published(tmp_path / "whole")
