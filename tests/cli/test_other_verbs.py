"""``list``, ``show``, ``report``, ``leaderboard build``."""

from __future__ import annotations

import json
import shutil

import pytest


@pytest.mark.parametrize(
    ("what", "names"), [("tasks", ["double", "twice"]), ("agents", ["count"]), ("suites", ["pair"])]
)
def test_listing(harness, project, what, names):
    code, out, _ = harness("list", what)
    assert code == 0 and all(name in out for name in names)
    code, out, _ = harness("list", what, "--format", "json")
    assert set(names) <= {row[what[:-1]] for row in json.loads(out)}


@pytest.mark.parametrize("columns", [40, 60, 100, 160])
@pytest.mark.parametrize("arguments", ["list", "list agents", "show double", "show count", "show pair",
                                       "run --agent count --tasks double --dry-run"])
def test_no_line_is_wider_than_the_terminal(harness, project, monkeypatch, columns, arguments):
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, _ = harness(*arguments.split())
    assert code == 0 and out
    # A path is not cut: it shall be clickable.
    assert [line for line in out.splitlines() if len(line) > columns and " " in line.strip()] == []


def test_listing_tasks_is_the_default(harness, project):
    assert harness("list")[1] == harness("list", "tasks")[1]


def test_showing(harness, project):
    code, out, _ = harness("show", "double")
    assert code == 0
    for part in ("Doubling", "rows=64 cols=8", "references/double.py:double", "return x * 2", "float32"):
        assert part in out
    assert "count.py:Count" in harness("show", "count")[1]
    assert "pair@4" in harness("show", "pair")[1]
    assert json.loads(harness("show", "double", "--format", "json")[1])["name"] == "double"
    code, _, err = harness("show", "dubble")
    assert code == 2 and "did you mean 'double'" in err


def test_report_and_leaderboard(harness, project):
    code, out, _ = harness("report")
    assert code == 2  # no results folder yet
    assert harness("run", "--agent", "count", "--suite", "pair")[0] == 0
    assert harness("run", "--agent", "count:as=other", "--suite", "pair")[0] == 0
    code, out, _ = harness("report")
    assert code == 0 and "pair@4 on cpu-Test-CPU" in out and "other" in out
    data = json.loads(harness("report", "--format", "json")[1])
    assert [row["agent"] for row in data[0]["standings"]] == ["count", "other"]
    assert harness("report", "--format", "csv")[1].count("\n") == 3
    code, out, _ = harness("leaderboard", "build", "--out", "pages")
    assert code == 0 and (project / "pages" / "index.html").is_file() and "index.html" in out


def test_a_damaged_record_is_named_and_the_rest_reported(harness, project):
    assert harness("run", "--agent", "count", "--suite", "pair")[0] == 0
    good = next((project / "results").rglob("run.json")).parent
    shutil.copytree(good, good.parent / "copy")
    (good.parent / "copy" / "attempts.jsonl").write_text("")
    code, out, err = harness("report")
    assert code == 0 and "count" in out
    assert "skipped" in err and "attempts.jsonl was changed" in err


def test_an_empty_results_folder(harness, project):
    (project / "results").mkdir()
    code, out, _ = harness("report")
    assert code == 0 and "No published records" in out
