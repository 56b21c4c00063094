"""The front door: fast, clear about mistakes, and with the right exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import harness as package
from harness.cli import main as module

ROOT = Path(package.__file__).resolve().parent.parent


def python(*arguments: str, **more):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, **more)


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["judge", "--help"], ["--version"], ["list"]])
def test_starting_imports_nothing_heavy(arguments):
    code = (
        "import sys\nfrom harness.cli.main import main\n"
        f"code = main({arguments!r})\n"
        "heavy = {'torch', 'scipy', 'matplotlib', 'numpy', 'jinja2'} & set(sys.modules)\n"
        "assert not heavy, heavy\nassert code == 0, code\n"
    )
    done = python("-c", code, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_help_and_version_as_a_process():
    done = python("-m", "harness", "--help")
    assert done.returncode == 0 and "harness judge kernel.py --task softmax" in done.stdout
    assert all(verb in done.stdout for verb in module.VERBS)
    done = python("-m", "harness", "--version")
    assert done.stdout.split() == ["harness,", "version", package.__version__]


def test_help_says_of_each_verb_what_the_verb_says_itself(harness):
    context = module.click.Context(module.cli)
    for verb, (_, text) in module.VERBS.items():
        command = module.cli.get_command(context, verb)
        assert command.name == verb
        assert command.help.splitlines()[0] == text
        assert harness(verb, "--help")[0] == 0


def test_no_arguments_show_the_help(harness):
    code, out, _ = harness()
    assert code == 2 and "Commands:" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["jugde"], "did you mean judge?"),
        (["zzz"], "there is run, judge"),
        (["run", "--agnet", "x"], "--agent"),
        (["run", "--depth", "fianl"], "did you mean final?"),
        (["run", "--format", "jsno"], "did you mean json?"),
        (["run", "--half-width", "2"], "not a number above 0 and below 1"),
        (["run", "--half-width", "x"], "not a number"),
        (["list", "agnets"], "did you mean agents?"),
        (["run", "--device", "cpx"], "did you mean cpu?"),
    ],
)
def test_mistakes_are_answered_with_what_is_near(harness, project, arguments, said):
    code, out, err = harness(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) <= 3


def test_the_unforeseen_is_one_line_and_a_log(harness, project, monkeypatch):
    monkeypatch.setattr("harness.cli.options.discover", lambda root: 1 / 0)
    monkeypatch.setattr("harness.cli.listing.discover", lambda root: 1 / 0)
    code, _, err = harness("list")
    assert code == 3
    assert "ZeroDivisionError" in err
    log = Path(err.strip().rpartition(" ")[2])
    assert log.parent == project / ".harness" / "logs"
    assert "Traceback" in log.read_text() and "['list']" in log.read_text()


def test_interrupted(harness, monkeypatch, project):
    def interrupt(root):
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.cli.listing.discover", interrupt)
    assert harness("list")[0] == 130


def test_a_reader_who_has_enough_is_no_error():
    done = subprocess.run(
        f"'{sys.executable}' -m harness list --format json | head -c 1; echo ${{PIPESTATUS[0]}}",
        shell=True, executable="/bin/bash", capture_output=True, text=True, cwd=ROOT, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.split() == ["[0"] and "Traceback" not in done.stderr
