"""`harness doctor`, on this system and on ones that contain less."""

import json

import pytest

from harness.cli.main import main
from harness.contestant.zygote import levels
from harness.judge import doctor
from harness.judge.contestants import MachineFault, Zygote


def run(capsys, *arguments):
    code = main(["doctor", *arguments])
    return code, capsys.readouterr()


def test_it_says_what_this_system_gives(capsys):
    code, printed = run(capsys, "--format", "json")
    found = json.loads(printed.out)
    layers = {layer["layer"]: layer for layer in found["layers"]}
    assert found["contained"] == (code == 0)
    for name in ("user", "pid", "mount", "net"):
        assert layers[f"{name} namespace"]["there"] == (name in found["level"]["namespaces"])
    assert layers["Landlock"]["there"] == found["level"]["landlock"].startswith("yes")
    assert layers["can write its scratch"]["there"]
    if found["contained"]:
        assert all(layer["there"] for name, layer in layers.items() if name.startswith("cannot "))


@pytest.mark.parametrize("number", [len(levels("auto")) - 1, len(levels("auto")) - 2])
def test_where_little_is_given_it_says_so_and_why(capsys, monkeypatch, number):
    monkeypatch.setattr(doctor, "Zygote", lambda: Zygote(f"rung {number}"))
    rung = levels("auto")[number]
    code, printed = run(capsys)
    if "others than root may not enter" in printed.err:
        pytest.skip(printed.err)
    lines = printed.out.splitlines()
    assert any(line.startswith("no   private root") for line in lines) and code == (0 if rung.namespaces else 3)
    assert any(line.startswith("yes  cannot read a file of the user") for line in lines)  # Landlock alone sees to it
    assert lines[-1].startswith("Candidates of strangers " + ("can" if rung.namespaces else "should not"))


def test_where_nothing_is_given_every_attempt_works(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "Zygote", lambda: Zygote("none"))
    code, printed = run(capsys, "--format", "csv")
    rows = {line.split(",")[0]: line.split(",")[1] for line in printed.out.splitlines()}
    assert code == 3
    for what in ("read a file of the user who judges", "write outside its scratch folder", "signal the judge"):
        assert rows[f"cannot {what}"].lower() == "false", rows


def test_a_system_where_nothing_starts_is_one_message(capsys, monkeypatch):
    def fail():
        raise MachineFault("no contestant could be started: clone: not permitted")

    monkeypatch.setattr(doctor, "examine", fail)
    code, printed = run(capsys)
    assert code == 3 and printed.err == "harness: no contestant could be started: clone: not permitted\n"


@pytest.mark.parametrize("width", [60, 120])
def test_it_fits_its_terminal(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    _code, printed = run(capsys)
    assert max(map(len, printed.out.splitlines())) <= max(width, 80)
