"""Verdicts, end to end: each kind of candidate gets the status it deserves, with a message that helps."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from small_tasks import RIGHT, TASK, TIGHT, make_task

from harness.judge import judge as judging
from harness.judge import timing
from harness.judge.contestants import Lost, MachineFault
from harness.judge.judge import INTERPRETED, Session, _imports
from harness.judge.oracle import Reference
from harness.judge.timing import Match
from harness.spec.errors import SpecError
from harness.spec.task import Case, InputSpec
from harness.spec.verdict import Block, CaseResult, Estimate, JudgeResult, Status

ROOT = Path(__file__).resolve().parents[2]
QUICK = TIGHT.model_copy(update={"build_s": 0.5, "load_s": 1.0, "call_s": 0.3})


# What candidates do wrong


@pytest.mark.parametrize("source, status, words", [
    ("def kernel(x, factor=2.0:\n", "compile_error", "line 1"),
    ("def other(x):\n    return x\n", "compile_error", "the source defines no 'kernel'; it defines other"),
    ("import nowhere_to_be_found\n", "runtime_error", "No module named 'nowhere_to_be_found'"),
    ("raise SystemExit\n", "runtime_error", "SystemExit"),
    ("import os\nif os.fork() == 0:\n    raise SystemExit\nos.wait()\ndef kernel(x, factor=2.0):\n    return 0\n",
     "wrong_output", "output 0 is a int"),  # only the process that was asked answers
    ("def kernel(x, factor=2.0):\n    return None\n", "wrong_output", "output 0 is a NoneType"),
    ("def kernel(x, factor=2.0):\n    return (x * factor + 1).double()\n", "wrong_output",
     "at 6×40 float32: output 0 has dtype float64, expected float32"),
    ("def kernel(x, factor=2.0):\n    return (x * factor + 1)[1:]\n", "wrong_output",
     "output 0 has shape [5, 40], expected [6, 40]"),
    ("def kernel(x, factor=2.0):\n    return x * factor + 1, x\n", "wrong_output", "output 0 is a tuple"),
    ("def kernel(x, factor=2.0):\n    return x * factor + 1.01\n", "wrong_output",
     "output 0 wrong at [0, 0]: expected"),
    ("def kernel(x, factor=2.0):\n    return (x * factor + 1) * float('nan')\n", "wrong_output", "got nan"),
    ("def kernel(x, factor=2.0):\n    raise ValueError('no luck')\n", "runtime_error",
     "at 6×40 float32: ValueError: no luck"),
    ("def kernel(x):\n    return x.add_(1)\n", "runtime_error", "inputs are read-only"),
    ("def kernel(x):\n    return x @ x\n", "runtime_error", "mat1 and mat2 shapes cannot be multiplied"),
    ("raise RuntimeError('half a \\ud800 character')\n", "runtime_error", "half a ? character"),
])
def test_what_is_wrong_is_named(ask, source, status, words):
    result = ask(source)
    assert (result.status.value, words in result.message) == (status, True), (result.status, result.message)
    assert result.speedup is None and result.cases == []
    result.model_dump_json().encode()  # nothing in it that a file could not hold


def test_the_trace_is_shown_with_what_was_printed(ask):
    result = ask("print('before')\ndef kernel(x, factor=2.0):\n    return deeper(x)\n"
                 "def deeper(x):\n    return x.nonsense\n")
    assert result.status == "runtime_error" and "nonsense" in result.message
    assert "before" in result.output_tail and "in deeper" in result.output_tail


@pytest.mark.parametrize("source", ["while True:\n    pass\n",
                                    "def kernel(x, factor=2.0):\n    while True:\n        pass\n"])
def test_what_does_not_end_is_ended(ask, source):
    result = ask(source, limits=QUICK)
    assert result.status == "timeout" and "in time" in result.message and result.wall_s < 30


def test_only_what_may_compile_gets_the_time_of_a_build_for_its_first_call(ask):
    slow = "import time\ndef kernel(x, factor=2.0):\n    time.sleep(1.0)\n    return x * factor + 1\n"
    limits = TIGHT.model_copy(update={"call_s": 0.3})
    assert ask(slow, limits=limits).status == "timeout"
    assert "the warm-up" not in ask("# torch.compile, or so\n" + slow, limits=limits).message


def test_a_right_one_passes(ask):
    result = ask(RIGHT)
    assert result.status == "ok" and result.message == ""
    assert [(t.kind, t.status.value) for t in result.trials] == [("case", "ok")]
    assert result.task == "affine" and result.task_hash == TASK.content_hash
    assert set(result.phases) >= {"oracle", "start", "candidate", "fill"} and result.wall_s > 0
    assert result.containment["freezer"] and result.environment["torch"] == torch.__version__


def test_the_first_wrong_index_is_found(ask):
    result = ask("def kernel(x, factor=2.0):\n    y = x * factor + 1\n    y[4, 31] = 7e4\n    return y\n")
    trial = result.trials[0]
    assert trial.mismatch.index == [4, 31] and trial.mismatch.got == 7e4 and trial.mismatch.wrong_elements == 1
    assert trial.mismatch.elements == 240 and "[4, 31]" in result.message


def test_a_screen_stops_at_the_first_failure_and_a_final_tells_all(ask):
    task = make_task(dynamic=["rows"], inputs={"x": InputSpec(shape=["rows", "cols"])})
    source = "def kernel(x, factor=2.0):\n    return x * factor + (1 if x.shape[0] == 6 else 2)\n"
    screen, final = ask(source, task=task), ask(source, task=task, depth="final")
    assert [t.status.value for t in screen.trials] == ["ok", "wrong_output"]
    assert [(t.kind, t.status.value) for t in final.trials] == [
        ("case", "ok"), ("small", "wrong_output"), ("small", "wrong_output"), ("scaled", "ok")]
    assert all(r.message.startswith("at 3×40 float32: output 0 wrong at [0, 0]") for r in (screen, final))
    assert all("right at the size of the case; rows may have any size here" in r.message for r in (screen, final))


def test_cases_and_entry_points_by_name(ask):
    cases = [Case(name=n, dims={"rows": r, "cols": 8}) for n, r in (("a", 2), ("b", 4), ("c", 5))]
    task = make_task(cases=cases, hardware={"cpu": {"cases": ["a", "c"]}})
    source = RIGHT.replace("def kernel", "def mine")
    assert [t.case for t in ask(source, task=task, entry="mine").trials] == ["a", "c"]
    assert [t.case for t in ask(source, task=task, entry="mine", cases=["b"]).trials] == ["b"]
    with pytest.raises(SpecError, match="has no case 'bb' — did you mean 'b'"):
        ask(source, task=task, cases=["bb"])


# What tasks and machines do wrong


def test_a_reference_that_raises_is_the_tasks_mistake(ask):
    with pytest.raises(SpecError, match=r"the reference affine.py:affine raised on x=\[6, 40\]: RuntimeError"):
        ask(RIGHT, task=make_task("def affine(x, factor=2.0):\n    raise RuntimeError('broken')\n"))
    with pytest.raises(SpecError, match="cannot be loaded"):
        ask(RIGHT, task=make_task("def other(x):\n    return x\n"))
    assert ask(RIGHT).status == "ok"  # the judge goes on


def test_a_fault_of_the_machine_is_never_charged(ask, monkeypatch):
    def fault(self):
        raise MachineFault("the disk is full")

    monkeypatch.setattr(Match, "play", fault)
    result = ask(RIGHT, timed=True)
    assert (result.status, result.message, result.speedup) == (Status.infra_error, "the disk is full", None)
    monkeypatch.undo()
    assert ask(RIGHT).status == "ok"


def test_a_candidate_cannot_blame_the_machine(ask):
    """A word of its own that would be judged again for free."""
    result = ask("import sys\nframe = sys._getframe()\nwhile 'sock' not in frame.f_locals:\n    frame = frame.f_back\n"
                 "from harness.contestant import wire\n"
                 "wire.send(frame.f_locals['sock'], {'error': 'infra_error', 'message': 'the machine'})\n")
    assert result.status == "runtime_error"


def test_a_failure_in_a_timed_case_names_the_case_and_keeps_the_blocks(ask, monkeypatch):
    def lost(self):
        self.blocks.append(Block(instance=0, pair=0, side="candidate", calls=3, seconds=0.5))
        raise Lost("timeout", "no answer in time")

    monkeypatch.setattr(Match, "play", lost)
    result = ask(RIGHT, timed=True)
    assert result.status == "timeout" and result.message == "case only: no answer in time" and result.speedup is None
    assert result.cases[0].status == "timeout" and len(result.cases[0].blocks) == 1


# Triton


TRITON = "import triton\nimport triton.language as tl\n" + RIGHT


def with_triton(judge, monkeypatch, version):
    judge.zygote.wait()
    versions = {**judge.zygote.facts["versions"], "triton": version}
    monkeypatch.setitem(judge.zygote.facts, "versions", versions)


def test_triton_that_is_not_installed_is_not_supported(judge, ask, monkeypatch):
    with_triton(judge, monkeypatch, None)
    result = ask(TRITON, timed=True)
    assert result.status == "unsupported" and "pip install 'kernel-gauntlet[triton]'" in result.message


def test_what_the_interpreter_gets_wrong_is_not_supported(judge, ask, monkeypatch):
    with_triton(judge, monkeypatch, "3.3.0")
    half = make_task(dtype="bfloat16")
    result = ask(TRITON + "# tl.dot(a, b)\n", task=half)
    assert result.status == "unsupported" and "bfloat16 tl.dot is wrong in Triton's interpreter" in result.message


def test_an_interpreted_kernel_gets_no_speed(judge, ask, monkeypatch):
    with_triton(judge, monkeypatch, "3.3.0")
    result = ask("try:\n    import triton\nexcept ImportError:\n    pass\n" + RIGHT, timed=True)
    assert result.status == "ok" and result.message == INTERPRETED and result.speedup is None and result.cases == []


@pytest.mark.parametrize("source, found", [
    ("import triton\n", True), ("import triton.language as tl\n", True), ("from triton import jit\n", True),
    ("def f():\n    from triton.runtime import driver\n", True), ("import tritonclient\n", False),
    ("x = 'import triton'\n", False), ("# import triton\n", False), ("from . import triton\n", False),
    ("def (:\n", False), ("x = " + "(" * 500, False), ("\0", False),
])
def test_imports_are_read_from_the_source(source, found):
    assert _imports(source, "triton") is found


# Time


def test_a_screen_gives_a_ratio(judge, ask):
    result = ask(RIGHT, timed=True)
    case, = result.cases
    assert result.status == "ok" and result.speedup.n == 1
    assert case.seconds["candidate"] > 0 and case.seconds["eager"] > 0 and case.vs_compile is None
    assert case.checked > 0 and case.null_s > 0 and case.calls > 0
    assert JudgeResult.model_validate(json.loads(result.model_dump_json())) == result


def test_a_final_plays_fresh_instances_against_the_opponents(ask, monkeypatch):
    """Four times the work takes longer, however busy the machine is."""
    monkeypatch.setattr(timing, "PAIRS", 6)
    monkeypatch.setitem(timing.BLOCK_SECONDS, "final", 5e-3)
    monkeypatch.setitem(timing.CHECK_SECONDS, "final", 0.2)
    source = "import torch\ndef affine(x):\n    for _ in range(8):\n        x = torch.sin(x)\n    return x\n"
    task = make_task(source, dims={"rows": 32, "cols": 512})
    slow = source.replace("affine", "kernel").replace(
        "    return x\n", "    for _ in range(24):\n        torch.sin(x)\n    return x\n")
    result = ask(slow, task=task, depth="final", timed=True, instances=(3, 3), half_width=5.0)
    case, = result.cases
    assert result.status == "ok", result.message
    assert case.speedup.value < 0.7 and case.vs_eager.n == 3 and result.speedup.value == case.speedup.value
    assert {(b.instance, b.side) for b in case.blocks} == {(i, s) for i in range(3) for s in ("candidate", "eager")}
    assert sum(b.side == "candidate" for b in case.blocks) == 3 * (timing.PAIRS + timing.SINGLES)
    assert case.errors.worst_ratio <= 1 and 0 < case.skip_detectable < 1


def test_a_candidate_that_is_wrong_once_in_a_while_is_caught_in_a_timed_block(ask, monkeypatch):
    """Right in every trial, wrong from the twentieth call on."""
    source = ("calls = []\ndef kernel(x, factor=2.0):\n    calls.append(1)\n"
              "    return x * factor + (1 if len(calls) < 20 else 2)\n")
    result = ask(source, timed=True, opponents=["eager"])
    assert result.status == "wrong_output" and result.message.startswith("case only: in a timed block, call ")
    assert [t.kind for t in result.trials] == ["case", "timed"] and result.trials[-1].mismatch is not None


def test_launch_bound_cases_stay_out_of_the_headline_unless_all_are(judge, ask, monkeypatch):
    cases = [Case(name=n, dims={"rows": 3, "cols": 5}) for n in ("a", "b", "c")]

    def play(self):
        value = {"a": 2.0, "b": 8.0, "c": 100.0}[self.case.name]
        return CaseResult(name=self.case.name, dims={}, dtype="float32", status=Status.ok,
                          launch_bound=self.case.name == "c" or bound,
                          speedup=Estimate(value=value, low=value, high=value, n=8))

    monkeypatch.setattr(Match, "play", play)
    bound = False
    assert ask(RIGHT, task=make_task(cases=cases), timed=True).speedup.value == pytest.approx(4)
    bound = True
    assert ask(RIGHT, task=make_task(cases=cases), timed=True).speedup.value == pytest.approx(1600 ** (1 / 3))


def test_one_noisy_case_leaves_no_figure(judge, ask, monkeypatch):
    monkeypatch.setattr(Match, "play", lambda self: CaseResult(
        name="only", dims={}, dtype="float32", status=Status.noisy, message="the interval stayed wide"))
    result = ask(RIGHT, timed=True)
    assert (result.status, result.speedup, result.message) == ("noisy", None, "case only: the interval stayed wide")


def test_the_null_is_the_smallest_measured(judge, monkeypatch):
    """A candidate can only make it longer, which would be in its favour."""
    clock = iter(range(0, 10_000, 61))
    measured = iter([(3e-4, 1e-6), (5e-4, 2e-6), (2e-4, 3e-6)])
    monkeypatch.setattr(judge, "_null", None)
    monkeypatch.setattr(judging, "measure_null", lambda roster, task: next(measured))
    monkeypatch.setattr(judging.time, "monotonic", lambda: next(clock))
    assert [judge.null(TASK) for _ in range(3)] == [(3e-4, 1e-6), (3e-4, 1e-6), (2e-4, 3e-6)]


def test_layouts_of_timed_cases_are_kept_and_few(judge):
    reference = Reference(TASK)
    first = judge.layout(TASK, reference, {"rows": 2, "cols": 3}, "float32")
    assert judge.layout(TASK, reference, {"rows": 2, "cols": 3}, "float32") is first
    assert judge.layout(TASK, reference, {"rows": 2, "cols": 3}, "float32", 0.01) is not first
    for rows in range(3, 60):
        judge.layout(TASK, reference, {"rows": rows, "cols": 3}, "float32")
    assert len(judge._layouts) <= 17


def test_an_expected_failure_of_a_session_leaves_no_player(judge, ask, monkeypatch):
    """Whatever the verdict, only the opponents' pool lives on."""
    judge.roster.release()
    spawned = []
    spawn = judge.zygote.spawn
    monkeypatch.setattr(judge.zygote, "spawn", lambda *a, **k: spawned.append(spawn(*a, **k)) or spawned[-1])
    for source in (RIGHT, "raise ValueError\n", "def kernel(x, factor=2.0):\n    return None\n"):
        ask(source)
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        monkeypatch.setattr(Session, "_trial", lambda *a: (_ for _ in ()).throw(RuntimeError("a mistake of ours")))
        ask(RIGHT)
    assert len(spawned) == 4 and all(c.closed for c in spawned)


# An ordinary user


def interpreter_for_all():
    """A Python of this version that every user may run, with the folders of our packages; None if there is none."""
    import pydantic

    packages = {str(Path(m.__file__).parents[1]) for m in (torch, pydantic, pytest)}
    for python in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")):
        if not python:
            continue
        code = f"import pydantic, numpy, sys; print(sys.version_info[:2] == {tuple(sys.version_info[:2])})"
        try:
            done = subprocess.run([python, "-c", code], capture_output=True, text=True, user=65534, group=65534,
                                  extra_groups=[], env={"PYTHONPATH": ":".join(packages), "HOME": "/nonexistent"})
        except OSError:
            continue
        if done.stdout.strip() == "True":
            return python, sorted(packages)
    return None


ORDINARY = """
import os, sys, tempfile
from pathlib import Path
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from small_tasks import RIGHT, TASK, request
from harness.judge import freeze
from harness.judge.judge import Judge
judge = Judge(Path(sys.argv[3]) / "cache", preload=[])
look = ("import os\\nprint('IN', os.getuid(), sorted(p for p in os.listdir('/proc') if p.isdigit()),"
        " os.path.exists('/etc/passwd'), os.path.exists(%r))\\n" % sys.argv[2])
results = [judge.judge(request(look + RIGHT, timed=True)),
           judge.judge(request(RIGHT.replace("+ 1", "+ 2"))),
           judge.judge(request('#include <cstdint>\\nextern "C" void kernel(const float* x, int64_t r, int64_t c, '
                               'float* out) { for (int64_t i = 0; i < r * c; ++i) out[i] = x[i] * 2 + 1; }',
                               language="cpp")),
           judge.judge(request("import ctypes\\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\\n" + RIGHT)),
           judge.judge(request("import os, time\\nfor _ in range(2):\\n    if os.fork() == 0:\\n        os.setsid()\\n"
                               "        while True:\\n            pass\\n" + RIGHT))]
judge.close()
import json
print(json.dumps({"uid": os.getuid(), "results": [json.loads(r.model_dump_json()) for r in results],
                  "freezer": freeze.best_available()[0]}))
"""


def test_an_ordinary_user_can_judge_and_the_record_says_with_what():
    """No root, no cgroup of one's own: namespaces through the user's own, freezing by signals."""
    if os.geteuid() != 0:
        pytest.skip("all of these tests run as an ordinary user already")
    found = interpreter_for_all()
    if found is None:
        pytest.skip("no interpreter here that another user may run")
    python, packages = found
    home = Path(tempfile.mkdtemp(prefix="gauntlet-ordinary-", dir="/tmp"))  # pytest's own are closed to others
    os.chown(home, 65534, 65534)
    for name in ("harness", "tests/judge/small_tasks.py"):  # a copy: the checkout may be ours alone
        source, target = ROOT / name, home / name
        target.parent.mkdir(parents=True, exist_ok=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, target, ignore=ignored) if source.is_dir() else shutil.copy(source, target)
    try:
        done = subprocess.run(
            [python, "-c", ORDINARY, str(home), str(home / "tests" / "judge"), str(home)],
            capture_output=True, text=True, user=65534, group=65534, extra_groups=[], cwd=home, timeout=120,
            env={"PYTHONPATH": ":".join(packages), "HOME": str(home), "TMPDIR": str(home), "PATH": os.environ["PATH"],
                 "PYTHONDONTWRITEBYTECODE": "1"})
    finally:
        shutil.rmtree(home)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["uid"] == 65534
    right, wrong, cpp, hidden, forking = said["results"]
    if right["status"] == "infra_error":
        pytest.skip(f"this system does not let ordinary users contain a process: {right['message']}")
    assert [r["status"] for r in said["results"]] == ["ok", "wrong_output", "ok", "tampered", "ok"], [
        r["message"] for r in said["results"]]
    level = right["containment"]
    assert level["freezer"] == said["freezer"] and said["freezer"] != "cgroup-v1"
    # What the record claims is what the candidate saw.
    uid, *pids, passwd, checkout = right["output_tail"].split("IN ")[1].splitlines()[0].split()
    assert ("pid" in level["namespaces"]) == (pids == ["['1']"])
    assert level["private_root"] == (passwd == "False" and checkout == "False")
    assert (level["uid"] == "mapped") == (uid == "1000")
    assert right["speedup"] is not None and "closed its process' memory" in hidden["message"]
