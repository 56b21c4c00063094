"""``harness judge``: what KERNEL means, what is asked of the judge, what is printed."""

from __future__ import annotations

import ast
import json
import time

import pytest
from run_fakes import verdict, wrong

from harness.cli.kernel import load_kernel
from harness.spec.errors import GauntletError
from harness.spec.load import load_task
from harness.spec.verdict import Status


def test_a_right_kernel(harness, project, script):
    code, out, _ = harness("judge", "kernel.py", "--task", "double")
    assert code == 0
    assert "ok, 1.50×" in out
    request = script.requests[0]
    assert (request.depth, request.opponents, request.cases) == ("final", ["eager", "compile"], None)
    assert (request.candidate.entry, request.candidate.language) == ("kernel", "python")
    assert request.candidate.source == (project / "kernel.py").read_text()


def test_options_reach_the_judge(harness, project, script):
    (project / "lib").mkdir()
    code, _, err = harness("judge", "k.py:mine", "--task", "double", "--depth", "screen", "--case", "wide",
                           "--half-width", "0.2", "--no-compile-opponent", "--pythonpath", "lib")
    assert code == 0, err
    request = script.requests[0]
    assert (request.depth, request.cases, request.half_width, request.opponents) == ("screen", ["wide"], 0.2, ["eager"])
    assert script.made[0]["pythonpath"] == ["lib"]
    assert script.made[0]["device"] == "cpu"


def test_a_wrong_kernel_is_shown_where(harness, project, script):
    script.answer = wrong
    code, out, _ = harness("judge", "kernel.py", "--task", "double")
    assert code == 1
    assert "right at 4096×5, wrong at 3×781" in out
    assert "[0, 2]: expected 0.5, got nan" in out


@pytest.mark.parametrize(("status", "code"), [
    (Status.ok, 0), (Status.wrong_output, 1), (Status.compile_error, 1), (Status.tampered, 1), (Status.noisy, 1),
    (Status.infra_error, 3),
])
def test_exit_codes(harness, project, script, status, code):
    script.answer = lambda request: verdict(request, status, message="so it was")
    found, out, _ = harness("judge", "kernel.py", "--task", "double")
    assert found == code
    assert "so it was" in out or status == Status.ok


@pytest.mark.parametrize(("speedup", "bar", "code", "said"), [
    (1.5, 1.2, 0, "passed"),
    (1.5, 1.5, 1, "not surely reached"),  # the interval begins at 1.455
    (1.5, 1.6, 1, "failed"),
    (None, 1.1, 1, "no speed"),
])
def test_a_bar(harness, as_json, project, script, speedup, bar, code, said):
    script.answer = lambda request: verdict(request, speedup=speedup)
    found, out, _ = harness("judge", "kernel.py", "--task", "double", "--speedup", bar)
    assert found == code and said in out
    found, data = as_json("judge", "kernel.py", "--task", "double", "--speedup", bar, "--format", "json")
    assert (found, data["bar"], data["passed"]) == (code, bar, code == 0)


def test_a_restless_machine_reaches_no_bar(harness, project, script):
    script.answer = lambda request: verdict(request, Status.noisy, message="so it was")
    assert "bar" not in harness("judge", "kernel.py", "--task", "double")[1]
    code, out, _ = harness("judge", "kernel.py", "--task", "double", "--speedup", 1.2)
    assert code == 1 and "bar of 1.20×: not surely reached" in out


def test_json(as_json, project, script):
    code, data = as_json("judge", "kernel.py", "--task", "double", "--format", "json")
    assert code == 0
    assert list(data)[:3] == ["status", "speedup", "cases"]
    assert data["speedup"] == {"value": 1.5, "low": pytest.approx(1.455), "high": pytest.approx(1.545)}
    case = data["cases"][0]
    assert (case["name"], case["status"], case["speedup"]["value"]) == ("odd", "ok", 1.5)
    assert "blocks" not in case
    assert data["first_mismatch"] is None


def test_json_of_a_failure_is_strict(as_json, project, script):
    script.answer = wrong
    code, data = as_json("judge", "kernel.py", "--task", "double", "--format", "json")
    assert (code, data["status"], data["speedup"], data["passed"]) == (1, "wrong_output", None, False)
    assert data["first_mismatch"]["index"] == [0, 2]
    assert data["first_mismatch"]["dims"] == {"rows": 3, "cols": 781}
    assert data["trials"][1]["worst_ratio"] == "Infinity"


def test_a_reference_instead_of_a_task(harness, project, script):
    (project / "ops.py").write_text("def double(x, eps=0.0):\n    return x * 2 + eps\n")
    code, _, err = harness("judge", "k.py:mine", "--reference", "ops.py:double", "--input", "x=64x32:f32",
                           "--arg", "eps=1e-6", "--save-task", "saved.yaml")
    assert code == 0, err
    task = script.requests[0].task
    assert task.reference_source == (project / "ops.py").read_text()
    assert task.args == {"eps": 1e-6}
    saved = load_task(project / "saved.yaml")
    assert saved.content_hash == task.content_hash or saved.cases == task.cases
    # The saved task is judged on like any other, and is not overwritten.
    assert harness("judge", "k.py:mine", "--task", "saved.yaml")[0] == 0
    code, _, err = harness("judge", "k.py:mine", "--task", "double", "--save-task", "saved.yaml")
    assert code == 2 and "exists already" in err


def test_a_saved_task_says_what_it_needs_to_be_judged_with(harness, project, script):
    (project / "my lib").mkdir()
    arguments = ["judge", "k.py:mine", "--task", "double", "--save-task"]
    assert harness(*arguments, "plain.yaml")[0] == 0
    assert harness(*arguments, "saved.yaml", "--pythonpath", "my lib")[0] == 0
    first = [(project / name).read_text().splitlines()[1] for name in ("plain.yaml", "saved.yaml")]
    assert first[0].endswith("--task THIS_FILE.yaml")
    assert first[1].endswith("--task THIS_FILE.yaml --pythonpath 'my lib'")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["kernl.py", "--task", "double"], "did you mean 'kernel.py'"),
        (["kernel.py", "--task", "dubble"], "did you mean 'double'"),
        (["kernel.py", "--task", "double", "--case", "wied"], "did you mean 'wide'"),
        (["k.py:mien", "--task", "double"], "did you mean 'mine'"),
        (["k.py", "--task", "double"], "e.g. k.py:mine"),
        (["kernel.txt", "--task", "double"], ".py or .cpp"),
        (["kernel.py"], "--task NAME or --reference"),
        (["kernel.py", "--task", "double", "--reference", "x.py:y"], "exclude each other"),
        (["kernel.py", "--task", "double", "--input", "x=3"], "goes with --reference"),
        (["kernel.py", "--reference", "missing.py:f", "--input", "x=3"], "missing.py"),
        (["kernel.py", "--task", "double", "--speedup", "0"], "not a number above 0"),
        (["kernel.py:2x", "--task", "double"], "cannot name a function"),
    ],
)
def test_mistakes(harness, project, script, arguments, said):
    code, out, err = harness("judge", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert script.made == []


def test_watching_judges_again_when_the_content_changes(harness, project, script, monkeypatch):
    kernel = project / "kernel.py"
    text = "def kernel(x):\n    return {}\n"
    texts = iter([text.format("x + x"), None, "def other(x):\n    return x\n", text.format("2 * x")])

    def sleep(seconds: float) -> None:
        try:
            text = next(texts)
        except StopIteration:
            raise KeyboardInterrupt from None
        if text is None:
            kernel.touch()  # saved without a change
        else:
            kernel.write_text(text)

    monkeypatch.setattr(time, "sleep", sleep)
    code, out, err = harness("judge", "kernel.py", "--task", "double", "--watch", "--format", "json")
    assert code == 0
    bodies = [request.candidate.source.split("return ")[1].strip() for request in script.requests]
    assert bodies == ["x * 2", "x + x", "2 * x"]
    assert [json.loads(line)["status"] for line in out.splitlines()] == ["ok"] * 3
    assert "defines neither kernel nor ModelNew" in err  # the third text: said, and watching goes on
    assert len(script.made) == 1  # one judge for all of it


# -- KERNEL --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "argument", "entry"), [
    ("def kernel(x): ...", "f.py", "kernel"),
    ("class ModelNew: ...\nkernel = 3", "f.py", "kernel"),
    ("class ModelNew: ...", "f.py", "ModelNew"),
    ("if True:\n    def kernel(x): ...\nelse:\n    kernel = None", "f.py", "kernel"),
    ("try:\n    import triton\nexcept ImportError:\n    def kernel(x): ...", "f.py", "kernel"),
    ("from other import kernel", "f.py", "kernel"),
    ("from other import *", "f.py", "kernel"),
    ("import torch as kernel", "f.py", "kernel"),
    ("globals()['kernel'] = print", "f.py", "kernel"),
    ("def softmax(x): ...", "f.py:softmax", "softmax"),
    ("f = g = lambda x: x", "f.py:g", "g"),
    ("def broken(:", "f.py", "kernel"),  # the judge's verdict, not a usage error
    ("def broken(:", "f.py:softmax", "softmax"),
])
def test_entry_points(tmp_path, monkeypatch, source, argument, entry):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.py").write_text(source)
    assert load_kernel(argument).entry == entry


def test_nothing_of_the_file_is_executed(tmp_path):
    file = tmp_path / "f.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef kernel(x): ...\n")
    assert load_kernel(str(file)).entry == "kernel"
    assert not (tmp_path / "ran").exists()
    ast.parse(file.read_text())


def test_cpp(tmp_path):
    (tmp_path / "f.cpp").write_text('extern "C" void mine(float*) {}')
    assert (load_kernel(f"{tmp_path}/f.cpp").language, load_kernel(f"{tmp_path}/f.cpp").entry) == ("cpp", "kernel")
    assert load_kernel(f"{tmp_path}/f.cpp:mine").entry == "mine"


def test_headers_name_entry_and_flags(tmp_path):
    (tmp_path / "f.cpp").write_text('// entry: mine\n// flags: -funroll-loops -DN=3\nextern "C" void mine(float*) {}')
    found = load_kernel(f"{tmp_path}/f.cpp")
    assert (found.entry, found.flags) == ("mine", ["-funroll-loops", "-DN=3"])
    assert load_kernel(f"{tmp_path}/f.cpp:other").entry == "other"


def test_files_that_are_no_text(tmp_path):
    (tmp_path / "f.py").write_bytes(b"\xff\xfe")
    with pytest.raises(GauntletError, match="not UTF-8"):
        load_kernel(str(tmp_path / "f.py"))
    (tmp_path / "d.py").mkdir()
    with pytest.raises(GauntletError, match="cannot read"):
        load_kernel(str(tmp_path / "d.py"))
