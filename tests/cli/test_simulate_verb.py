"""``harness simulate``: from published records of an exhaustive search to a comparison of samplers."""

import zlib

import pytest
from run_fakes import verdict

from harness.spec.verdict import Status

SPACE = """\
schema: 1
task: double
template: double.cpp
parameters:
  A: {range: [1, 5, 1], default: 1}
  B: {values: [static, guided], default: static}
constraints: ["A * 2 <= 10"]
"""
TEMPLATE = 'extern "C" void kernel() {}\n'


@pytest.fixture
def recorded(harness, project, script, monkeypatch):
    """A project whose space of 10 configurations was searched exhaustively, once."""
    folder = project / "suite" / "templates"
    folder.mkdir(parents=True)
    (folder / "double.space.yaml").write_text(SPACE)
    (folder / "double.cpp").write_text(TEMPLATE)

    def answer(request):
        parameters = request.candidate.parameters
        if parameters.get("A") == 3:
            return verdict(request, Status.compile_error)
        wobble = zlib.crc32(f"{request.id}{parameters}".encode()) % 100 / 1e4
        return verdict(request, speedup=1 + 0.1 * parameters.get("A", 0) + (parameters.get("B") == "guided") + wobble)

    script.answer = answer

    def record(name="first", attempts=20):
        code, _, err = harness("run", "--agent", "search:sampler=exhaustive", "--tasks", "double", "--depth", "screen",
                               "--budget", f"attempts={attempts}", "--run-id", name)
        assert code == 0, err
        return project / "results"

    return record


def test_a_table(harness, recorded):
    code, out, err = harness("simulate", recorded(), "--replays", "20", "--jobs", "1")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert {"exhaustive", "random", "hill_climb", "tpe"} <= {line[0] for line in lines if line}
    flat = " ".join(out.split())
    assert "double on cpu-Test-CPU: 10 configurations, 8 valid" in flat and "the least recorded" in flat
    assert "replaying hill_climb" in err


def test_json_and_the_optimum_timed_again(as_json, recorded):
    recorded("first")
    results = recorded("second")
    code, found = as_json("simulate", results, "--samplers", "random,hill_climb", "--replays", "10", "--jobs", "1",
                          "--format", "json")
    assert code == 0 and found["optimum_retimed"] and (found["configurations"], found["valid"]) == (10, 8)
    assert [row["sampler"] for row in found["samplers"]] == ["random", "hill_climb"]
    for row in found["samplers"]:
        assert row["low"] <= row["score"] <= row["high"] <= 1
    assert found["near"] == pytest.approx(2 / 10)  # A=5 static is 1.5, guided up to A=5 is 2.5: two within 5 %


def test_saved_and_read_again(harness, as_json, recorded, tmp_path):
    options = ("--samplers", "random", "--replays", "5", "--jobs", "1", "--format", "json")
    first = as_json("simulate", recorded(), "--save", tmp_path / "r.json", *options)
    again = as_json("simulate", tmp_path / "r.json", "--plot", tmp_path / "p.svg", *options)
    assert first == again
    picture = (tmp_path / "p.svg").read_text()
    assert picture.startswith("<?xml") and "random, mean" in picture and "optimum" in picture
    harness("simulate", tmp_path / "r.json", "--plot", tmp_path / "q.svg", *options)
    assert (tmp_path / "q.svg").read_text() == picture


def test_an_unfinished_recording(harness, recorded):
    results = recorded(attempts=4)
    code, _, err = harness("simulate", results)
    assert code == 2 and "4 of 10 configurations of double were recorded, 6 are missing" in err
    code, out, _ = harness("simulate", results, "--partial", "--replays", "3", "--samplers", "random", "--jobs", "1")
    assert code == 0 and "4 configurations" in out


@pytest.mark.parametrize("arguments, words", [
    (["nowhere.json"], "cannot read nowhere.json"),
    (["kernel.py"], "kernel.py is not a recording of a space"),
    (["tasks"], "no search is recorded under tasks"),
    (["kernel.py", "tasks"], "give it alone"),
    ([], "RECORDED"),
])
def test_mistakes(harness, project, arguments, words):
    code, out, err = harness("simulate", *arguments)
    assert (code, out) == (2, "") and words in err


def test_mistakes_about_what_is_recorded(harness, recorded, project):
    results = recorded()
    for arguments, words in ((["--task", "dubble"], "did you mean 'double'"), (["--samplers", "randm"], "did you mean"),
                             (["--space", "none.space.yaml"], "none.space.yaml"),
                             (["--plot", project / "no" / "x.svg", "--replays", "1", "--samplers", "random"], "cannot write")):
        code, _, err = harness("simulate", results, *arguments)
        assert code == 2 and words in err
