"""The judge's handles: whatever a contestant says or does ends its attempt, never the judge."""

import ctypes
import os
import select
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
from small_tasks import FRAME, MIB, RIGHT, TIGHT

from harness.containment import landlock
from harness.contestant import wire
from harness.contestant.zygote import FULL, levels
from harness.judge import canary, contestants, freeze, limits
from harness.judge.arena import Arena
from harness.judge.contestants import Lost, MachineFault
from harness.judge.level import Uncontained, describe, is_contained
from harness.judge.visible import visible_paths
from harness.report.words import containment_level
from harness.spec.candidate import Candidate


@pytest.fixture
def spawn(judge):
    outputs = Arena(MIB, contestants_may_write=True)
    started = []

    def one(**options):
        started.append(judge.zygote.spawn(judge.roster.inputs, outputs,
                                          **{"memory": TIGHT.memory, "scratch": TIGHT.scratch, **options}))
        return started[-1]

    yield one
    for contestant in started:
        contestant.close()
    outputs.close()


def load(contestant, source, seconds=30.0):
    return contestant.ask({"op": "load", "language": "python", "entry": "kernel", "args": {}, "hash": "0" * 64,
                           "source": source}, seconds, what="loading")


# Who it is


def test_its_pid_is_the_one_the_judge_sees(spawn):
    """The contestant knows itself by another number; the kernel tells the judge the right one."""
    contestant = spawn()
    tree = freeze.descendants(contestant.init)
    assert tree == {contestant.pid} == {contestant.init}
    status = Path(f"/proc/{contestant.pid}/status").read_text()
    inner = next(line.split() for line in status.splitlines() if line.startswith("NSpid"))
    assert int(inner[1]) == contestant.pid and int(inner[-1]) != contestant.pid


def test_its_init_is_the_zygotes_child(spawn, judge):
    contestant = spawn()
    assert contestant.init in freeze.descendants(judge.zygote.process.pid)
    assert contestant.level["level"] == describe(contestant.level)


def test_reading_its_memory(spawn):
    contestant = spawn()
    load(contestant, "import ctypes\nbuffer = ctypes.create_string_buffer(bytes(range(256)) * 64)\n"
                     "print('AT', ctypes.addressof(buffer), flush=True)\n" + RIGHT)
    contestant.freeze()
    contestant.drain()
    address = int(contestant.tail.decode().split("AT")[1].split()[0])
    assert contestant.read(address, 256 * 64) == bytes(range(256)) * 64
    assert contestant.read(address + 3, 5) == bytes([3, 4, 5, 6, 7]) and contestant.read(address, 0) == b""
    for nowhere in (0, 8, -1, 2**63, 2**64 - 1):
        with pytest.raises(Lost, match="is not in the contestant's memory"):
            contestant.read(nowhere, 16)


def test_a_system_that_forbids_reading_is_found_out_at_the_start(spawn, monkeypatch):
    def refused(*arguments):
        ctypes.set_errno(1)
        return -1

    monkeypatch.setattr(contestants, "_process_vm_readv", refused)
    with pytest.raises(MachineFault, match="ptrace_scope"):
        spawn()
    monkeypatch.undo()
    contestant = spawn()
    monkeypatch.setattr(contestants, "_process_vm_readv", refused)
    with pytest.raises(Lost, match="has closed its process' memory") as raised:  # then it is its own doing
        contestant.read(4096, 1)
    assert raised.value.status == "tampered"


# What it says


SAY = FRAME + "from harness.contestant import wire\nimport time\nsock = frame_with('sock')['sock']\n"


@pytest.mark.parametrize("reply, status, words", [
    ('{"error": "runtime_error", "message": "so it is"}', "runtime_error", "so it is"),
    ('{"error": "compile_error", "message": "line 3"}', "compile_error", "line 3"),
    ('{"error": "unsupported", "message": "no"}', "unsupported", "no"),
    ('{"error": "infra_error", "message": "blame the machine"}', "runtime_error", "blame the machine"),
    ('{"error": "ok", "message": "all is well"}', "runtime_error", "all is well"),
    ('{"error": "noisy"}', "runtime_error", "no message"),
    ('{"error": "tampered", "message": 3}', "runtime_error", "no message"),
    ('{"error": []}', "runtime_error", "no message"),
    ('{"error": {"a": 1}, "message": ["x"], "trace": {}}', "runtime_error", "no message"),
    ('{"error": None, "message": None}', "runtime_error", "no message"),
    ('{"error": "x" * 100000, "message": "y" * 100000, "trace": "z" * 100000}', "runtime_error", "y" * contestants.MESSAGE),
])
def test_a_failure_is_what_it_reports_within_reason(spawn, reply, status, words):
    with pytest.raises(Lost) as raised:
        load(spawn(), SAY + f"wire.send(sock, {reply})\ntime.sleep(60)\n")
    assert (raised.value.status, str(raised.value)) == (status, words)
    assert len(raised.value.trace) <= 8000


def test_half_characters_do_not_get_into_records(spawn):
    """json can escape what no file can hold."""
    body = rb'{"error": "runtime_error", "message": "a\ud800b", "trace": "\udfff"}'
    with pytest.raises(Lost, match=r"a\?b") as raised:
        load(spawn(), SAY + f"body = {body!r}\nsock.sendall(len(body).to_bytes(4, 'big') + body)\ntime.sleep(60)\n")
    assert raised.value.trace.encode() == b"?"


@pytest.mark.parametrize("data, words", [
    (b"\xff\xff\xff\xff", "a message of 4294967295 bytes is announced"),
    (b"\0\x80\0\x01", "is announced"),
    (b"\0\0\0\x04nope", "no JSON"),
    (b"\0\0\0\x02[]", "no JSON object"),
])
def test_broken_messages_are_tampering(spawn, data, words):
    with pytest.raises(Lost, match=words) as raised:
        load(spawn(), SAY + f"sock.sendall({data!r})\ntime.sleep(60)\n")
    assert raised.value.status == "tampered"


def test_an_end_in_the_middle_of_a_message_is_tampering(spawn):
    with pytest.raises(Lost, match="mid-message") as raised:
        load(spawn(), SAY + "sock.sendall(b'\\0\\0\\1\\0{')\nsock.close()\ntime.sleep(60)\n")
    assert raised.value.status == "tampered"


def test_a_flood_of_messages_fills_no_memory(spawn):
    contestant = spawn()
    flood = SAY + ("import threading\ndef flood():\n    while True:\n        wire.send(sock, {'loaded': True})\n"
                   "threading.Thread(target=flood, daemon=True).start()\ntime.sleep(0.2)\n") + RIGHT
    assert load(contestant, flood) == {"loaded": True}
    limit = time.monotonic() + 20  # the thread may have to wait for its turn
    while not contestant.unasked() and time.monotonic() < limit:
        time.sleep(0.01)
    assert contestant.unasked()
    for _ in range(50):
        contestant.receive(time.monotonic() + 10)
    assert len(contestant.buffer) <= (1 << 20) + wire.MAX_MESSAGE
    limit = time.monotonic() + 10
    while not contestant.unasked() and time.monotonic() < limit:  # on a busy machine the flooding thread has to wait
        time.sleep(0.01)
    contestant.freeze()
    assert contestant.unasked()


def test_silence_ends_at_the_deadline(spawn):
    begun = time.monotonic()
    with pytest.raises(Lost, match="no answer to 'loading' in time") as raised:
        load(spawn(), "while True:\n    pass\n", seconds=0.3)
    assert raised.value.status == "timeout" and time.monotonic() - begun < 20


def test_printing_for_ever_does_not_lengthen_the_deadline(spawn):
    contestant = spawn()
    with pytest.raises(Lost) as raised:
        load(contestant, "while True:\n    print('x' * 10000)\n", seconds=0.3)
    assert raised.value.status == "timeout" and len(contestant.tail) <= contestants.OUTPUT_TAIL


@pytest.mark.parametrize("body, status, words", [
    ("os._exit(7)", "runtime_error", "ended with exit code 7"),
    ("os.abort()", "runtime_error", r"aborted \(SIGABRT\)"),
    ("ctypes.string_at(0)", "runtime_error", "SIGSEGV; inputs are read-only"),
    ("fd = os.memfd_create('m'); os.ftruncate(fd, 4096); m = mmap.mmap(fd, 4096); os.ftruncate(fd, 0); m[0]",
     "runtime_error", "SIGBUS; inputs are read-only"),
    # pid 1 of a namespace takes no signal from inside it that it does not handle: it goes on to what follows.
    ("os.kill(os.getpid(), signal.SIGKILL); os._exit(9)", "runtime_error", "ended with exit code 9"),
])
def test_an_end_is_told_with_its_reason(spawn, body, status, words):
    with pytest.raises(Lost, match=words) as raised:
        load(spawn(), f"import ctypes, mmap, os, signal\n{body}\n")
    assert raised.value.status == status and "during 'loading'" in str(raised.value)


def test_a_message_to_one_that_has_ended(spawn):
    contestant = spawn()
    os.kill(contestant.pid, signal.SIGKILL)
    time.sleep(0.1)
    with pytest.raises(Lost, match="ended.*killed by SIGKILL") as raised:
        load(contestant, RIGHT)
    assert raised.value.status == "out_of_memory"  # nobody else kills what runs in there


# Freezing and ending


def test_freezing_stops_it_in_the_middle_and_thawing_lets_it_go_on(spawn):
    contestant = spawn()
    contestant.post({"op": "load", "language": "python", "entry": "kernel", "args": {}, "hash": "0" * 64,
                     "source": "import time\nlimit = time.monotonic() + 0.3\nwhile time.monotonic() < limit:\n"
                               "    print('.', flush=True)\n    time.sleep(0.001)\n" + RIGHT})
    while b"." not in contestant.tail:
        contestant.drain()
    contestant.freeze()
    contestant.freeze()
    empty(contestant)
    time.sleep(0.05)
    assert not has_more(contestant)
    contestant.thaw()
    assert contestant.answer(time.monotonic() + 30, "loading") == {"loaded": True}


def has_more(contestant):
    return bool(select.select([contestant.pipe], [], [], 0)[0])


def empty(contestant):
    while has_more(contestant):
        contestant.drain()


def test_one_that_does_not_come_to_rest_is_tampering(spawn, monkeypatch):
    contestant = spawn()

    def never():
        raise freeze.FreezeError("did not stop")

    monkeypatch.setattr(contestant.freezer, "freeze", never)
    with pytest.raises(Lost, match="did not stop") as raised:
        contestant.freeze()
    assert raised.value.status == "tampered" and not contestant.frozen


def test_closing_ends_all_of_it_once(spawn):
    contestant = spawn()
    load(contestant, "import os, time\nfor _ in range(2):\n    if os.fork() == 0:\n        time.sleep(60)\n" + RIGHT)
    tree = freeze.descendants(contestant.init)
    files = [*contestant.freezer.procs_files(), *contestant.bound.procs_files()]
    assert len(tree) == 3
    contestant.close()
    contestant.close()
    limit = time.monotonic() + 5
    while any(alive(pid) for pid in tree) and time.monotonic() < limit:
        time.sleep(0.01)
    assert not any(alive(pid) for pid in tree)
    assert not any(file.parent.exists() for file in files)


def test_no_group_of_this_judge_is_left_after_a_verdict(judge, ask):
    judge.roster.release()
    assert ask(RIGHT).status == "ok"
    for parent in {judge.zygote.parent, *limits.parents()} - {None}:
        assert list(parent.glob(f"gauntlet-{os.getpid()}-*")) == []


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# The zygote


def test_a_contestant_starts_with_one_thread_and_torch(judge):
    assert judge.zygote.facts["threads"] == 1
    assert judge.zygote.facts["versions"]["torch"] == torch.__version__


def test_a_zygote_that_is_killed_costs_one_judgement(judge, ask):
    before = judge.zygote.process.pid
    judge.zygote.process.kill()
    judge.zygote.process.wait()
    failed = ask(RIGHT)
    assert failed.status == "infra_error" and "zygote" in failed.message
    assert ask(RIGHT).status == "ok"
    assert judge.zygote.process.pid != before


def test_an_opponent_that_is_killed_costs_one_judgement(judge, ask):
    assert ask(RIGHT, timed=True).status == "ok"
    victim = next(iter(judge.roster._pool.values()))[0]
    os.kill(victim.contestant.pid, signal.SIGKILL)
    again = ask(RIGHT, timed=True)
    assert again.status == "ok" and again.environment["canary"] == "well"  # judged once more, with a fresh opponent


def killing_opponents(judge, monkeypatch, times):
    """From now on the first `times` opponents are killed as soon as they are started."""
    real, left = judge.roster.opponent, [times]

    def opponent(*arguments, **options):
        player = real(*arguments, **options)
        if left[0] > 0:
            left[0] -= 1
            os.kill(player.contestant.pid, signal.SIGKILL)
        return player

    judge.roster.release()
    monkeypatch.setattr(judge.roster, "opponent", opponent)


def test_a_candidate_beside_which_opponents_die_is_charged_when_a_known_kernel_lives(judge, ask, monkeypatch):
    killing_opponents(judge, monkeypatch, 100)
    result = ask(RIGHT, timed=True)
    assert result.status == "runtime_error" and result.speedup is None
    assert "eager baseline failed" in result.message and "twice, and only beside this candidate" in result.message
    monkeypatch.undo()
    assert ask(RIGHT, timed=True).status == "ok"


@pytest.mark.parametrize("source", ["import os\ndef kernel(x, factor=2.0):\n    os._exit(3)\n", RIGHT])
def test_where_a_known_kernel_fails_too_it_is_the_machine(judge, ask, monkeypatch, source):
    killing_opponents(judge, monkeypatch, 100)
    monkeypatch.setattr(canary, "sings", lambda roster: "no answer in time")
    result = ask(source, timed=True)
    assert result.status == "infra_error" and result.speedup is None
    assert result.environment["canary"] == "no answer in time"


def test_a_failure_of_its_own_is_the_candidates(judge, ask):
    result = ask("import os\ndef kernel(x, factor=2.0):\n    os._exit(3)\n")
    assert result.status == "runtime_error" and result.environment["canary"] == "well"
    assert "canary" not in ask("def kernel(x, factor=2.0):\n    raise ValueError\n").environment


def test_the_canary_sings_and_hears_a_wrong_note(judge, monkeypatch):
    judge.zygote.wait()
    assert canary.sings(judge.roster) == ""
    monkeypatch.setattr(canary, "_KERNEL", Candidate(source="def kernel(x):\n    return x\n"))
    assert canary.sings(judge.roster) == "its answer is wrong"
    monkeypatch.setattr(canary, "_KERNEL", Candidate(source="def kernel(x):\n    1 / 0\n"))
    assert "division by zero" in canary.sings(judge.roster)


def test_the_ladder_of_containment(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    as_root = levels("auto")
    assert as_root[0] == (FULL, True, True, True) and as_root[-1] == ([], False, False, True)
    assert levels("full") == [(FULL, True, True, True)] and levels("none") == [([], False, False, False)]
    strength = [(rung.own_root, len(rung.namespaces), rung.fresh_proc) for rung in as_root]
    assert strength == sorted(strength, reverse=True)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert all("user" in rung.namespaces or not rung.namespaces for rung in levels("auto"))  # who is not root needs its own


def has_landlock():
    try:
        return landlock.version() >= 1
    except OSError:
        return False


@pytest.mark.parametrize("number", range(len(levels("auto"))))
def test_judging_works_at_every_level(judge, ask, monkeypatch, number):
    """A contestant gets one rung of the ladder and nothing better; the weakest still has Landlock and a gate."""
    rung = levels("auto")[number]
    zygote = judge.zygote
    zygote.wait()
    monkeypatch.setattr(zygote, "containment", f"rung {number}")
    before = set(Path("/tmp").glob("gauntlet-scratch-*"))
    result = ask("import os\nopen('x', 'w').write('y')\n" + RIGHT, vouched=True)
    if "others than root may not enter" in result.message:
        pytest.skip(result.message)
    assert result.status == "ok", result.message
    assert result.containment["namespaces"] == rung.namespaces and result.containment["private_root"] == rung.own_root
    assert is_contained(result.containment) == bool(rung.namespaces) == ("unsafe" not in result.containment)
    words, found = result.containment["level"], result.containment
    whole = number == 0 and all(found[layer].startswith("yes") for layer in ("landlock", "seccomp", "gate"))
    assert words.startswith("full" if whole else "reduced" if rung.namespaces or has_landlock() else "none"), words
    assert found["landlock"].startswith("yes") == has_landlock()
    assert set(Path("/tmp").glob("gauntlet-scratch-*")) == before


def test_judging_works_without_any_containment(judge, ask, monkeypatch):
    judge.zygote.wait()
    monkeypatch.setattr(judge.zygote, "containment", "none")
    with pytest.raises(Uncontained, match="cannot be contained on this system .none.*harness doctor.*--unsafe"):
        ask(RIGHT)
    result = ask(RIGHT, vouched=True)
    assert result.status == "ok", result.message
    assert containment_level(result.containment).startswith("UNSAFE") and result.containment["unsafe"]
    assert result.containment["level"].startswith("none") and not is_contained(result.containment)


def test_a_level_in_words():
    full = {"namespaces": FULL, "private_root": True, "fresh_proc": True, "freezer": "cgroup-v2", "seccomp": "yes",
            "memory_limit": "memory cgroup v1", "landlock": "yes, version 7", "gate": "yes"}
    assert describe(full).startswith("full: namespaces, private root")
    less = dict(full, namespaces=["user", "pid", "net", "ipc"], private_root=False, fresh_proc=False)
    assert describe(less).startswith("reduced: no mount namespace, the machine's own files, the machine's own /proc")
    assert "no seccomp" in describe(dict(full, seccomp="no: not built in"))
    assert "no Landlock" in describe(dict(full, landlock="no: not built in"))
    assert "new processes while timed" in describe(dict(full, gate="no: not built in"))
    assert describe(dict(full, namespaces=[], landlock="no")).startswith("none")
    assert is_contained(full) and is_contained(less) and not is_contained(dict(less, landlock="no: not built in"))
    assert not is_contained(dict(full, seccomp="no")) and not is_contained(dict(full, namespaces=["user", "pid"]))


# What is visible


def test_nothing_of_the_project_is_bound_but_the_contestants_room(tmp_path):
    package = tmp_path / "checkout" / "harness"
    (package / "contestant").mkdir(parents=True)
    binds, masks = visible_paths(package, [str(tmp_path / "checkout"), *sys.path], [])
    inside = [b for b in binds if b.startswith(str(tmp_path))]
    assert inside == [str(package / "contestant")] and masks == []
    assert not any(os.path.samefile(b, Path.home()) or b == "/etc" or b == "/" for b in binds if os.path.exists(b))
    assert any(Path(b) in Path(sys.prefix).resolve().parents or Path(b) == Path(sys.prefix) for b in binds)


def test_an_installed_project_is_masked(tmp_path):
    package = tmp_path / "site-packages" / "harness"
    (package / "contestant").mkdir(parents=True)
    binds, masks = visible_paths(package, [str(tmp_path / "site-packages")], [])
    assert str(tmp_path / "site-packages") in binds and masks == [str(package)]


def test_a_folder_below_another_is_bound_once(tmp_path):
    for name in ("site-packages", "site-packages/deep/site-packages"):
        (tmp_path / name).mkdir(parents=True)
    paths = [str(tmp_path / "site-packages"), str(tmp_path / "site-packages/deep/site-packages")]
    binds, _ = visible_paths(tmp_path / "harness", paths, [])
    assert [b for b in binds if b.startswith(str(tmp_path))] == [paths[0]]


def test_a_users_import_folder_is_visible_when_asked_for(tmp_path):
    binds, _ = visible_paths(tmp_path / "harness", [], [str(tmp_path)])
    assert str(tmp_path) in binds
