"""``harness run`` from its options to the published record."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_fakes import FakeExecutor, verdict

import harness as package
from harness.runs.record import read_results
from harness.spec.verdict import Status

ROOT = Path(package.__file__).resolve().parent.parent


def test_a_run_from_beginning_to_end(harness, project, script):
    script.answer = FakeExecutor.by_number
    code, out, err = harness("run", "--agent", "count,count:upto=2,as=brief", "--tasks", "double,twice")
    assert code == 0
    assert out.index("Standings") < out.index("Records")
    records = read_results(project / "results")
    assert [record.run.agent.name for record in records] == ["brief", "count"]
    for record in records:
        assert str(record.path.relative_to(project)) in out
    assert records[0].path.parts[-4] == "adhoc@0"
    assert [outcome.speedup.value for outcome in records[1].run.outcomes] == pytest.approx([1.2 * 0.98] * 2)
    assert (project / ".harness" / "leaderboard" / "index.html").is_file() and "index.html" in err
    # A line for every verdict, on stderr alone, without a terminal's codes.
    assert err.count(" screen ") == 10 and err.count(" final ") == 4
    assert "\x1b" not in out + err


def test_the_configuration_comes_from_the_options(harness, project, script):
    code, _, err = harness(
        "run", "--agent", "count", "--suite", "pair", "--seed", 7, "--budget", "attempts=2,seconds=50", "--finals", 2,
        "--half-width", 0.1, "--no-compile-opponent", "--results", "elsewhere", "--leaderboard", "board",
    )
    assert code == 0, err
    run = read_results(project / "elsewhere")[0].run
    assert (run.suite.name, run.suite.version) == ("pair", "4")
    assert run.configuration["seed"] == 7
    assert (run.configuration["attempts"], run.configuration["seconds"], run.configuration["finals"]) == (2, 50.0, 2)
    assert [r.opponents for r in script.requests] == [["eager"]] * len(script.requests)
    assert {r.half_width for r in script.requests} == {0.1}
    assert [r.id for r in script.requests if r.depth == "final"] == [
        f"count/{task}/{index}/final" for task in ("double", "twice") for index in (0, 1)
    ]
    assert (project / "board" / "index.html").is_file()


@pytest.mark.parametrize(("spec", "budget", "expected"), [
    ("count:upto=99", [], 5),  # the agent's YAML
    ("count:upto=99", ["--budget", "attempts=3"], 3),
    ("count:upto=99,attempts=2", ["--budget", "attempts=3"], 2),
])
def test_which_budget_counts(harness, project, spec, budget, expected):
    assert harness("run", "--agent", spec, "--tasks", "double", *budget)[0] == 0
    assert read_results(project / "results")[0].run.outcomes[0].attempts == expected


def test_json(as_json, project):
    code, data = as_json("run", "--agent", "count", "--tasks", "double", "--format", "json")
    assert code == 0
    assert set(data) == {"run", "records", "standings", "outcomes"}
    assert data["standings"][0]["agent"] == "count"
    assert (data["outcomes"][0]["task"], data["outcomes"][0]["speedup"]) == ("double", 1.5)
    assert all((Path(path) / "run.json").is_file() for path in data["records"])


def test_csv_and_markdown(harness, project):
    _, out, _ = harness("run", "--agent", "count", "--tasks", "double,twice", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["agent"], row["task"], row["status"]) for row in rows] == [
        ("count", "double", "ok"), ("count", "twice", "ok"),
    ]
    _, out, _ = harness("run", "--agent", "count", "--tasks", "double", "--format", "md")
    assert out.count("|:--") >= 2 and "| count" in out


def test_screened_only_is_no_score(harness, as_json, project):
    code, out, _ = harness("run", "--agent", "count", "--tasks", "double", "--depth", "screen")
    assert code == 0 and "no score" in out and "Standings" not in out
    _, data = as_json("run", "--agent", "count", "--tasks", "double", "--depth", "screen", "--format", "json")
    assert data["outcomes"][0]["depth"] == "screen"
    assert data["standings"][0]["credit"] is None


def test_failures_of_the_machine_end_in_3_and_are_said(harness, project, script):
    script.answer = lambda request: verdict(request, Status.infra_error, message="the GPU fell off")
    code, _, err = harness("run", "--agent", "count", "--tasks", "double")
    assert code == 3
    assert "the GPU fell off" in err and "The machine failed in 1 place" in err


def test_wrong_kernels_are_an_outcome_not_an_error(harness, project, script):
    script.answer = lambda request: verdict(request, Status.wrong_output, message="all of it")
    code, out, err = harness("run", "--agent", "count", "--tasks", "double")
    assert code == 0 and "wrong output" in out and "wrong output: all of it" in err


def test_dry_run_runs_nothing(harness, as_json, project, script):
    code, out, _ = harness("run", "--agent", "count", "--tasks", "double,twice", "--dry-run")
    assert code == 0 and "Nothing was run" in out and "odd, wide" in out
    code, data = as_json("run", "--agent", "count", "--tasks", "double", "--dry-run", "--format", "json")
    cell = data["cells"][0]
    assert (len(data["cells"]), cell["agent"], cell["attempts"], cell["cases"]) == (1, "count", 5, ["odd", "wide"])
    assert 0 < data["seconds"]["low"] <= data["seconds"]["high"]
    assert cell["first"] == {"answers": 1, "builds": 0, "built": 0}
    assert script.made == [] and not (project / ".harness").exists() and not (project / "results").exists()


def test_dry_run_knows_what_is_compiled(harness, as_json, project, script):
    """And an agent that fails is left for the run to speak of."""
    from harness.agents.kernel_file import read_kernel
    from harness.judge.build_key import built_path
    from harness.runs.environment import default_cache

    folder = project / "suite" / "solutions" / "double"
    folder.mkdir(parents=True)
    for name in ("one", "two"):
        (folder / f"{name}.cpp").write_text(f'// {name}\nextern "C" void kernel() {{}}\n')
    (project / "agents" / "broken.py").write_text("class B:\n    def propose(self, view, history):\n        raise OSError\n")
    (project / "agents" / "broken.yaml").write_text("schema: 1\nname: broken\nstrategy: broken.py:B\n")
    arguments = ("run", "--agent", "handwritten,broken", "--tasks", "double", "--dry-run")
    first = [cell["first"] for cell in as_json(*arguments, "--format", "json")[1]["cells"]]
    assert first == [{"answers": 2, "builds": 2, "built": 0}, {"answers": 0, "builds": 0, "built": 0}]
    path = built_path(default_cache(), read_kernel(folder / "two.cpp"), "float32")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    _, out, _ = harness(*arguments)
    assert "1 of 2" in out and "costs money" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--agent", "cuont", "--tasks", "double"], "did you mean 'count'"),
        (["--agent", "count", "--tasks", "dubble"], "did you mean 'double'"),
        (["--agent", "count:uptoo=3", "--tasks", "double"], "did you mean 'upto'"),
        (["--agent", "count", "--suite", "piar"], "did you mean 'pair'"),
        (["--agent", "count", "--tasks", "double", "--budget", "atempts=3"], "did you mean attempts"),
        (["--tasks", "double"], "--agent"),
        (["--agent", "count"], "--tasks"),
        (["--agent", "count", "--tasks", "double", "--suite", "pair"], "exclude each other"),
        (["--agent", "count,count", "--tasks", "double"], "as="),
        (["--agent", "count", "--tasks", "double", "--run-id", "a:b"], "cannot name a folder"),
        (["--agent", "count", "--tasks", "double", "--root", "nowhere"], "gauntlet.toml"),
        (["--resume", "last"], "no run 'last'"),
    ],
)
def test_mistakes(harness, project, script, arguments, said):
    code, out, err = harness("run", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert script.requests == [] and not (project / "results").exists()


# -- interrupted and continued -------------------------------------------------------------------------------------


def interrupt_at(script, identifier: str) -> None:
    usual = script.answer

    def answer(request):
        if request.id == identifier:
            script.answer = usual
            raise KeyboardInterrupt
        return usual(request)

    script.answer = answer


def test_interrupted_then_resumed(harness, project, script):
    interrupt_at(script, "count/double/1/screen")
    code, _, err = harness("run", "--agent", "count", "--tasks", "double", "--run-id", "mine")
    assert code == 130
    assert "harness run --resume mine" in err
    assert not (project / "results").exists()
    code, out, _ = harness("report", "--run", "mine")
    assert code == 0 and "1.50× screened, 1 of 5" in out and "0 of 1 place done" in out
    code, out, _ = harness("run", "--resume", "mine")
    assert code == 0 and "Standings" in out
    assert [r.id for r in script.requests] == [f"count/double/{n}" for n in (
        "0/screen", "1/screen", "1/screen", "2/screen", "0/final",
    )]
    code, far, _ = harness("report", "--run", "last")
    assert code == 0 and "1 of 1 place done, finished" in far and "screened" not in far.splitlines()[2]
    assert harness("report", "--run", "other")[0] == 2 and harness("report", "results", "--run", "last")[0] == 2
    # Once more: nothing is judged, and no judge is started.
    made = len(script.made)
    code, again, _ = harness("run", "--resume", "last")
    assert (code, len(script.requests), len(script.made)) == (0, 5, made)
    assert again == out


def test_the_same_run_id_continues(harness, project, script):
    interrupt_at(script, "count/double/0/final")
    arguments = ["run", "--agent", "count", "--tasks", "double", "--run-id", "mine"]
    assert harness(*arguments)[0] == 130
    code, _, err = harness(*arguments, "--seed", 3)
    assert code == 2 and "seed was 0, now 3" in err
    assert harness(*arguments)[0] == 0
    assert len(script.requests) == 5


def test_resume_takes_nothing_else(harness, project):
    assert harness("run", "--agent", "count", "--tasks", "double", "--run-id", "mine")[0] == 0
    code, _, err = harness("run", "--resume", "mine", "--seed", "3", "--tasks", "twice")
    assert code == 2 and "--tasks, --seed cannot go with --resume" in err


def test_resume_of_a_changed_agent_is_refused(harness, project, script):
    interrupt_at(script, "count/double/1/screen")
    assert harness("run", "--agent", "count", "--tasks", "double", "--run-id", "mine")[0] == 130
    file = project / "agents" / "count.py"
    file.write_text(file.read_text() + "# another one\n")
    code, _, err = harness("run", "--resume", "mine")
    assert code == 2 and "agent count has changed" in err


def test_resume_does_not_need_the_task_any_more(harness, project, script):
    """The log holds what was asked: a task edited meanwhile does not change a run under way."""
    interrupt_at(script, "count/double/1/screen")
    assert harness("run", "--agent", "count", "--tasks", "double", "--run-id", "mine")[0] == 130
    (project / "suite/references/double.py").write_text("def double(x):\n    return x * 3\n")
    assert harness("run", "--resume", "mine")[0] == 0
    assert len({request.task.content_hash for request in script.requests}) == 1


def test_a_damaged_log_names_its_line(harness, project, script):
    assert harness("run", "--agent", "count", "--tasks", "double", "--run-id", "mine")[0] == 0
    log = project / ".harness/runs/mine/events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"index":1', b'"index":7', 1))
    code, _, err = harness("run", "--resume", "mine")
    assert code == 2 and "events.jsonl:4: this event log is damaged" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ended_in_a_real_process(project, number):
    """Ctrl-C, a scheduler's or a closing terminal's signal while the judge is at work: 130, the log whole, the hint
    true."""
    program = project / "slow.py"
    program.write_text(
        "import sys, time, types\n"
        f"sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'tests/runs')!r}]\n"
        "from run_fakes import FakeExecutor\n"
        "class Slow(FakeExecutor):\n"
        "    def __init__(self, **options):\n        super().__init__()\n"
        "    def submit(self, request):\n"
        "        if '--resume' not in sys.argv and request.id.endswith('1/screen'):\n"
        "            print('now', file=sys.stderr, flush=True)\n            time.sleep(30)\n"
        "        return super().submit(request)\n"
        "module = types.ModuleType('harness.runs.executor')\nmodule.LocalExecutor = Slow\n"
        "sys.modules['harness.runs.executor'] = module\n"
        "from harness.cli.main import main\nsys.exit(main())\n"
    )
    command = [sys.executable, str(program), "run", "--agent", "count", "--tasks", "double", "--run-id", "mine"]
    # these tests may run in the background or under nohup, whose children inherit that the signal is ignored
    process = subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    try:
        while (line := process.stderr.readline()) != "now\n":
            assert line, "it ended before it was interrupted"
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "harness run --resume mine" in err and "Traceback" not in err
    done = subprocess.run([sys.executable, str(program), "run", "--resume", "mine", "--format", "json"], cwd=project,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcomes"][0]["attempts"] == 3


def test_a_folder_that_cannot_be_written(harness, project, script):
    (project / ".harness").write_text("a file, not a folder")
    code, _, err = harness("run", "--agent", "count", "--tasks", "double")
    assert code == 2 and "cannot create the run folder" in err
    assert script.requests == []


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_on_a_terminal_there_is_a_live_line(project, script, monkeypatch):
    from harness.cli.main import main

    usual = script.answer

    def slowly(request):
        time.sleep(0.3)  # the live line is drawn ten times a second
        return usual(request)

    script.answer = slowly
    main_end, far_end = os.openpty()
    with open(far_end, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        code = main(["run", "--agent", "count", "--tasks", "double"])
        terminal.flush()
        seen = os.read(main_end, 65536).decode()
    os.close(main_end)
    assert code == 0
    assert "double · count · attempt 1/5" in seen and "\x1b[" in seen
    assert "1.50×" in seen
