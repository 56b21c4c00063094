"""The judge's process from outside: whatever becomes of it, a request has an answer and the next one is judged."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.devices import cpu
from harness.judge import freeze, limits
from harness.runs import executor as executors
from harness.runs.executor import LocalExecutor, default_cache
from harness.runs.executor_protocol import Executor
from harness.spec.candidate import Candidate
from harness.spec.errors import GauntletError
from harness.spec.task import Case, InputSpec, Task
from harness.spec.verdict import JudgeRequest, JudgeResult, Limits, Status

SOURCE = "def double(x):\n    return x * 2\n"
TASK = Task(schema=1, name="double", reference="d.py:double", reference_source=SOURCE, reference_entry="double",
            inputs={"x": InputSpec(shape=["n"], scales=[1.0])}, cases=[Case(name="only", dims={"n": 64})])
RIGHT = SOURCE.replace("double", "kernel")


def request(source=RIGHT, id="1", task=TASK, **options):
    return JudgeRequest(id=id, task=task, candidate=Candidate(source=source), timed=False, opponents=["eager"],
                        limits=Limits(build_s=60, load_s=60, call_s=5, memory=2**30, scratch=2**25), **options)


# What a judge could do, by a stand-in for its process


STUB = """
import json, os, socket, sys, time
sock = socket.socket(fileno=int(sys.argv[1]))
lines = sock.makefile("r")
config = json.loads(lines.readline())
for line in lines:
    asked = json.loads(line)
    result = {"id": asked["id"], "status": "ok", "depth": "screen", "device": "cpu", "task": "t", "task_hash": "h",
              "candidate_hash": "c", "environment": {"pid": os.getpid(), "config": config}}
    reply = json.dumps({"result": result}) + "\\n"
    exec(asked["candidate"]["source"])
    sock.sendall(reply.encode())
"""


@pytest.fixture
def stub(monkeypatch, tmp_path):
    """An executor whose judge's process runs STUB; a candidate's source is what happens before its answer is sent."""
    started = []

    def popen(command, **options):
        started.append(subprocess.Popen([sys.executable, "-S", "-c", STUB, str(options["pass_fds"][0])], **options))
        return started[-1]

    class Patched:
        DEVNULL, TimeoutExpired = subprocess.DEVNULL, subprocess.TimeoutExpired
        Popen = staticmethod(popen)

    monkeypatch.setattr(executors, "subprocess", Patched)
    executor = LocalExecutor(cache_dir=tmp_path / "cache", containment="full", pythonpath=[tmp_path / "mine"])
    executor.started = started
    yield executor
    executor.close()
    assert all(process.poll() is not None for process in started)


def test_one_process_answers_all_requests_in_order(stub):
    found = [stub.submit(request("pass", id=str(i))) for i in range(5)]
    assert [r.id for r in found] == ["0", "1", "2", "3", "4"] and len(stub.started) == 1
    assert found[0].environment["config"] == {
        "cache": str(stub.cache), "containment": "full", "pythonpath": [str(stub.pythonpath[0])]}
    assert isinstance(stub, Executor)


@pytest.mark.parametrize("what, code", [
    ("os._exit(3)", "3"),
    ("os.kill(os.getpid(), 9)", "-9"),
    ("sock.sendall(reply[:40].encode()); os._exit(5)", "5"),
    ("sock.shutdown(socket.SHUT_RDWR); os._exit(0)", "0"),
])
def test_a_crash_is_the_machines_and_the_next_request_is_judged(stub, what, code):
    failed = stub.submit(request(what, id="a"))
    assert failed.status == Status.infra_error and failed.id == "a"
    assert failed.message == f"the judge's process ended unexpectedly (exit code {code})"
    assert failed.task_hash == TASK.content_hash and failed.candidate_hash == Candidate(source=what).hash
    assert stub.submit(request("pass", id="b")).id == "b" and len(stub.started) == 2


def test_an_end_between_two_requests_goes_unnoticed(stub):
    stub.submit(request("pass"))
    stub.started[0].kill()
    stub.started[0].wait()
    assert stub.submit(request("pass", id="b")).id == "b" and len(stub.started) == 2


def test_a_mistake_in_the_request_is_an_error_and_a_mistake_of_ours_a_fault(stub):
    with pytest.raises(GauntletError, match="no such case"):
        stub.submit(request('reply = json.dumps({"usage": "no such case"}) + "\\n"'))
    failed = stub.submit(request('reply = json.dumps({"fault": "KeyError: 3", "trace": "in line 7"}) + "\\n"'))
    assert failed.status == Status.infra_error and failed.message == "the judge failed: KeyError: 3"
    assert failed.output_tail == "in line 7"
    assert stub.submit(request("pass")).status == Status.ok and len(stub.started) == 1


def test_an_interrupted_request_does_not_answer_the_next_one(stub, monkeypatch):
    stub.start()

    class Interruption(BaseException):
        """As KeyboardInterrupt, which would end these tests."""

    class Interrupted:
        close = stub._lines.close

        def readline(self):
            raise Interruption

    monkeypatch.setattr(stub, "_lines", Interrupted())
    with pytest.raises(Interruption):
        stub.submit(request("pass", id="old"))
    assert stub.submit(request("pass", id="new")).id == "new"


def test_starting_twice_starts_once_and_closing_twice_closes_once(stub):
    stub.start()
    stub.start()
    assert len(stub.started) == 1
    stub.close()
    stub.close()
    assert stub.started[0].poll() == 0


def test_one_that_does_not_end_is_ended(stub, monkeypatch):
    stub.submit(request("pass"))
    wait = stub._process.wait
    stub._process.send_signal(signal.SIGSTOP)
    stub._process.wait = lambda seconds=None: wait(None if seconds is None else 0.2)
    stub.close()
    assert stub.started[0].poll() == -signal.SIGKILL


# What it is given


def test_the_judge_gets_no_key(stub, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    found = stub.submit(request("result['environment'] = dict(os.environ); "
                                "reply = json.dumps({'result': result}) + '\\n'")).environment
    assert "SOME_API_KEY" not in found and found["CUDA_VISIBLE_DEVICES"] == "3"
    assert found["OPENBLAS_NUM_THREADS"] == "1" and found["PATH"] == os.environ["PATH"]


def test_where_the_cache_is(monkeypatch, tmp_path):
    for name in ("GAUNTLET_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert default_cache() == tmp_path / ".cache" / "kernel-gauntlet"
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert default_cache() == Path("/x/kernel-gauntlet")
    monkeypatch.setenv("GAUNTLET_CACHE", "/y")
    assert default_cache() == Path("/y") == LocalExecutor().cache


def test_what_this_version_cannot_judge_on(monkeypatch):
    with pytest.raises(GauntletError, match="'cuda' cannot be judged on by this version; use --device cpu"):
        LocalExecutor(device="cuda")
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(GauntletError, match="judging needs Linux"):
        LocalExecutor()


def test_facts_are_those_of_the_device():
    assert LocalExecutor().facts() == cpu.facts()


# The real one


MARKED = """
import ctypes, os, time
ctypes.CDLL(None).prctl(15, b"gauntlet-mark")
if os.fork() == 0:
    os.setsid()
    while True:
        time.sleep(1)
time.sleep(60)
"""


def test_a_judge_that_is_killed_takes_its_contestants_along(tmp_path):
    """kill -9 in the middle of a request: nothing of it is left, and the next request is judged."""
    with LocalExecutor(cache_dir=tmp_path) as executor:
        assert executor.submit(request()).status == Status.ok
        judge = executor._process.pid
        answers = []
        thread = threading.Thread(target=lambda: answers.append(executor.submit(request(MARKED, id="killed"))))
        thread.start()
        assert wait_for(lambda: len(marked()) == 2), "the candidate did not start"
        tree = freeze.descendants(judge)
        assert len(tree) >= 4  # judge, zygote, init, candidate
        os.kill(judge, signal.SIGKILL)
        thread.join(60)
        failed, = answers
        assert (failed.status, failed.id) == (Status.infra_error, "killed")
        assert "ended unexpectedly (exit code -9)" in failed.message
        assert wait_for(lambda: not marked()) and wait_for(lambda: not any(map(alive, tree)))

        again = executor.submit(request(id="after"))
        assert (again.status, again.id) == (Status.ok, "after") and executor._process.pid != judge
        assert groups_of(judge) == []  # the next judge clears away what the killed one could not
        last = executor._process.pid
        tree = freeze.descendants(last)

        with pytest.raises(GauntletError, match="has no case 'another'"):
            executor.submit(request(cases=["another"]))
        broken = TASK.model_copy(update={"reference_source": "def double(x):\n    raise OSError('broken')\n"})
        with pytest.raises(GauntletError, match="the reference d.py:double raised"):
            executor.submit(request(task=broken))
        found = executor.submit(request(RIGHT.replace("2", "3")))
        assert found.status == Status.wrong_output
        assert JudgeResult.model_validate(json.loads(found.model_dump_json())) == found
    assert wait_for(lambda: not any(map(alive, tree))) and groups_of(last) == []


@pytest.mark.parametrize("body, words", [
    ("import time; time.sleep(60)", "did not return within 0.5 s"),
    ("import os; os._exit(0)", r"ended the judge's process \(exit code 0\)"),
    ("import ctypes; ctypes.string_at(0)", r"ended the judge's process \(killed by SIGSEGV\)"),
])
def test_what_a_reference_does_to_the_judge_is_said_of_the_task(tmp_path, body, words):
    """Not of the machine, which would be tried again, nor of the candidate."""
    wrong = TASK.model_copy(update={"reference_source": f"def double(x):\n    {body}\n"})
    with LocalExecutor(cache_dir=tmp_path, reference_s=0.5) as executor:
        executor.start()
        judge = executor._process.pid
        with pytest.raises(GauntletError, match=f"task double: the reference d.py:double {words}"):
            executor.submit(request(task=wrong))
        tree = freeze.descendants(judge)
    assert wait_for(lambda: not any(map(alive, [judge, *tree])))


def test_a_judge_whose_executor_is_killed_ends_in_the_middle_of_a_judgement(tmp_path):
    """kill -9 of the command: the judge notices at once, not when it has judged on."""
    ours, theirs = socket.socketpair()
    code = f"from harness.judge.server import main; main({theirs.fileno()})"
    judge = subprocess.Popen([sys.executable, "-c", code], pass_fds=[theirs.fileno()],
                             env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    theirs.close()
    config = {"cache": str(tmp_path), "containment": "full", "pythonpath": []}
    slow = request(MARKED, id="slow").model_copy(update={"limits": Limits(load_s=300)})
    ours.sendall((json.dumps(config) + "\n" + slow.model_dump_json() + "\n").encode())
    assert wait_for(lambda: len(marked()) == 2), "the candidate did not start"
    tree = freeze.descendants(judge.pid)
    ours.close()
    try:
        assert judge.wait(20) == 0
    finally:
        judge.kill()
        judge.wait()
    assert wait_for(lambda: not any(map(alive, tree))) and groups_of(judge.pid) == []


def marked():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path(f"/proc/{pid}/comm").read_text().strip() == "gauntlet-mark" and alive(int(pid)):
                found.append(int(pid))
        except OSError:
            continue
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def groups_of(pid):
    parents = {freeze.mounted("cgroup", "freezer"), *limits.parents()} - {None}
    return [group for parent in parents for group in parent.glob(f"gauntlet-{pid}-*")]


def wait_for(condition, seconds=60.0):
    limit = time.monotonic() + seconds
    while not condition() and time.monotonic() < limit:
        time.sleep(0.02)
    return condition()
