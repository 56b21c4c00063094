"""The documentation keeps its word: examples run, quoted files are the files, options and figures exist in the code."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from harness.cli import exit_codes
from harness.cli.main import VERBS, cli
from harness.judge import build_key, ratio, timing, trials
from harness.spec.verdict import JudgeRequest, Limits, Status

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
BLOCK = re.compile(r"(?:<!-- (?P<mark>[^>]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
SECONDS = 300


@dataclass(frozen=True)
class Block:
    """A fenced block: the comment right before it ("test", "file: PATH", "from: PATH"), its language, its text."""

    mark: str
    language: str
    text: str


def blocks(page: str) -> list[Block]:
    return [Block(m["mark"] or "", m["language"], m["text"]) for m in BLOCK.finditer(TEXTS[page])]


RUN = [page for page in TEXTS if any(block.mark == "test" for block in blocks(page))]


@pytest.fixture
def shell(tmp_path):
    """Runs a block in a folder that holds a copy of examples/, with this very `harness` and `python` on the path."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns(".harness", "results"))
    (tmp_path / "bin").mkdir()
    for name, arguments in (("harness", "-m harness"), ("python", "")):
        command = tmp_path / "bin" / name
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
        command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GAUNTLET_CACHE": str(tmp_path / "cache"),
        "COLUMNS": "100",
    }

    def run(block: Block) -> str:
        shell = ["bash", "-euo", "pipefail"] if block.language == "bash" else [sys.executable]
        done = subprocess.run([*shell, "-c", block.text], cwd=tmp_path, env=environment, text=True, timeout=SECONDS,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, f"{block.text}\nended with {done.returncode}:\n{done.stdout}"
        assert "Traceback" not in done.stdout
        return done.stdout

    return run


@pytest.mark.parametrize("page", RUN)
def test_examples_run(page, shell):
    for block in blocks(page):
        if block.mark == "test":
            assert shell(block).strip(), f"no output:\n{block.text}"


def test_examples_are_there_to_be_run():
    assert {"agents.md", "candidates.md", "runs.md", "tasks.md"} <= set(RUN)
    assert all(block.language in ("bash", "python") for page in RUN for block in blocks(page) if block.mark == "test")


@pytest.mark.parametrize("page", TEXTS)
def test_quoted_files_are_the_files(page):
    for block in blocks(page):
        kind, _, name = block.mark.partition(": ")
        if kind == "file":
            assert (ROOT / name).read_text(encoding="utf-8") == block.text
        elif kind == "from":
            assert block.text in (ROOT / name).read_text(encoding="utf-8")
        else:
            assert block.mark in ("", "test", "demo-output"), f"unknown mark {block.mark!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", TEXTS[page.name]):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def commands(text: str) -> list[list[str]]:
    """Every `harness …` command in code, taken apart; what follows a pipe or a comment is left out."""
    found = []
    code = [m["text"] for m in BLOCK.finditer(text) if m["language"] == "bash"]
    code += re.findall(r"`(harness [^`]+)`", BLOCK.sub("", text))
    for line in "\n".join(code).replace("\\\n", " ").splitlines():
        match = re.match(r"\s*(?:\$ )?harness (.*)", line)
        if match:
            found.append(shlex.split(re.split(r" [|#] ", match[1])[0]))
    return found


def test_commands_are_found():
    assert commands("```bash\nharness list \\\n    tasks | less\n```\nand `harness show x` here") == [
        ["list", "tasks"], ["show", "x"]
    ]


@pytest.mark.parametrize("page", TEXTS)
def test_verbs_and_options_exist(page):
    for words in commands(TEXTS[page]):
        verb, rest = words[0], words[1:]
        if verb.startswith("-"):
            continue
        assert verb in VERBS, f"{page}: harness {verb}"
        command = cli.get_command(click.Context(cli), verb)
        if isinstance(command, click.Group) and rest:
            assert rest[0] in command.commands, f"{page}: harness {verb} {rest[0]}"
            command = command.commands[rest[0]]
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        given = {word.partition("=")[0].strip("[]") for word in rest if word.strip("[").startswith("--")}
        assert given <= known, f"{page}: harness {verb} knows no {', '.join(sorted(given - known))}"


def options(command: click.Command) -> set[str]:
    found = {option for parameter in command.params for option in parameter.opts}
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        found |= options(inner)
    return found


@pytest.mark.parametrize("page", TEXTS)
def test_options_named_alone_exist(page):
    known = set().union(*(options(cli.get_command(click.Context(cli), verb)) for verb in VERBS))
    alone = re.findall(r"`(--[a-z-]+)[^`]*`", BLOCK.sub("", TEXTS[page]))
    assert set(alone) <= known, f"{page}: no verb knows {', '.join(sorted(set(alone) - known))}"


def test_exit_codes():
    codes = {str(value) for name, value in vars(exit_codes).items() if name.isupper()}
    for page in ("README.md", "runs.md"):
        table = re.search(r"^\| exit code .*?(?=\n\n|\Z)", TEXTS[page], re.M | re.S)
        assert table and set(re.findall(r"^\| (\d+) ", table[0], re.M)) == codes, page


def test_statuses():
    rows = re.findall(r"^\| `([a-z_]+)` \|", TEXTS["correctness.md"].partition("## Verdicts")[2], re.M)
    assert rows == [status.value for status in Status]


def plain(page: str) -> str:
    return " ".join(TEXTS[page].split())


def test_figures():
    limits, request = Limits(), JudgeRequest.model_fields
    first, most = request["instances"].default
    expected = {
        "measuring.md": [
            f"plays {first} to {most} **instances**",
            f"plays {timing.PAIRS} rotations",
            f"plays {['no', 'one', 'two', 'three', 'four'][timing.SINGLES]} rotations of a single call",
            f"{timing.SCREEN_PAIRS} rotations: for search",
            f"at least {1e3 * timing.BLOCK_SECONDS['final']:g} ms in a final",
            f"({1e3 * timing.BLOCK_SECONDS['screen']:g} ms in a screen)",
            f"±{100 * request['half_width'].default:g} % by default",
            f"above {100 * ratio.NOISY_HALF_WIDTH:g} %",
            f"more than {100 * ratio.AA_TOLERANCE:g} % away from 1",
            f"less than {ratio.LAUNCH_BOUND_NULLS:g} null calls, or {1e6 * ratio.LAUNCH_BOUND_S:g} µs",
        ],
        "correctness.md": [
            f"{trials.SMALL[0]} and {trials.SMALL[1]} along all",
            f"about {timing.CHECKS['final']} calls",
            {3: "three"}[trials.DRAWN] + " shapes per dtype",
        ],
        "candidates.md": [
            " ".join([build_key.COMPILER, *build_key.FLAGS]),
            f"may use {limits.memory >> 30} GiB of memory and {limits.scratch >> 30} GiB of scratch",
            f"take {limits.load_s:g} s, a build {limits.build_s:g} s, a call {limits.call_s:g} s",
        ],
    }
    for page, phrases in expected.items():
        for phrase in phrases:
            assert phrase in plain(page), f"{page} does not say: {phrase}"


def test_the_demo_is_as_precise_as_it_says():
    share = re.search(r"--half-width (0\.\d+)", (ROOT / "Makefile").read_text())[1]
    assert f"intervals of ±{100 * float(share):g} %" in plain("README.md")


def test_what_comments_cite_can_be_found():
    known = set(re.findall(r"^\| ((?:DESIGN|MEASURING) section \d|CPU\.md) \|", TEXTS["ARCHITECTURE.md"], re.M))
    cited = set()
    for path in sorted((ROOT / "harness").rglob("*.py")):
        cited |= set(re.findall(r"(?:DESIGN|MEASURING) section \d|CPU\.md", path.read_text(encoding="utf-8")))
    assert cited <= known
