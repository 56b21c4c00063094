"""Recordings: what was measured, whole or not at all, and the same after a file."""

import json
import statistics

import pytest

from harness.search import recording as recordings
from harness.search.expression import condition
from harness.search.recording import dump, from_attempts, load, loads
from harness.search.space import Space
from harness.spec.errors import GauntletError

PARAMETERS = {"A": (1, 2, 4), "MODE": ("static", "dynamic, 16")}
TEXT = "A <= 2 or MODE == static"


def make_space():
    return Space("toy", PARAMETERS, {"A": 2, "MODE": "static"}, [("A <= 2", condition("A <= 2", PARAMETERS))])


def run(factor=1.0, skip=()):
    """(parameters, speedup) of the four configurations: A=1 and A=2 in both modes; the last fails."""
    found = []
    for i, c in enumerate(make_space().configurations()):
        if i not in skip:
            found.append((c, None if i == 3 else factor * (i + 1)))
    return found


def test_times_are_the_inverse_of_speedups():
    found = from_attempts(make_space(), [run()], device="some CPU")
    assert list(found.times.values()) == [1.0, 0.5, pytest.approx(1 / 3), None] and found.device == "some CPU"
    assert found.optimum is None and found.retimed == 0


def test_further_runs_time_the_best_again():
    found = from_attempts(make_space(), [run(), run(0.9), run(0.8)])
    assert found.retimed == 3
    assert found.optimum == pytest.approx(statistics.median([1 / 2.7, 1 / 2.4]))
    assert from_attempts(make_space(), [run(), run(skip=[2])]).optimum is None  # the winner was not timed again


def test_what_is_missing_is_counted_or_left_out():
    with pytest.raises(GauntletError, match="3 of 4 configurations of toy were recorded, 1 are missing.*--partial"):
        from_attempts(make_space(), [run(skip=[0])])
    found = from_attempts(make_space(), [run(skip=[0, 2])], partial=True)
    assert found.space.size == 2 and set(found.times) == {found.space.key(c) for c in found.space.configurations()}
    assert found.space.holds(found.space.default)
    with pytest.raises(GauntletError, match="no configuration of toy was recorded with a time"):
        from_attempts(make_space(), [run(skip=[0, 1, 2])], partial=True)
    with pytest.raises(GauntletError, match="0 of 4"):
        from_attempts(make_space(), [[({"B": 1}, 1.0), ({}, 2.0), ({"A": 99, "MODE": "static"}, 2.0)]])


@pytest.mark.parametrize("partial", [False, True])
def test_the_same_after_a_file(tmp_path, partial):
    found = from_attempts(make_space(), [run(skip=[1] if partial else []), run(1.1)], device="d", partial=partial)
    (tmp_path / "r.json").write_text(dump(found))
    again = load(tmp_path / "r.json")
    assert (again.times, again.again, again.device, again.unit) == (found.times, found.again, "d", found.unit)
    assert list(again.space.configurations()) == list(found.space.configurations())
    assert again.space.default == found.space.default and dump(again) == dump(found)


@pytest.mark.parametrize("change", [
    lambda data: [],
    lambda data: {**data, "times": []},
    lambda data: {**data, "times": [[0, 0, -1.0]]},
    lambda data: {**data, "times": [[0, 0, "NaN"]]},
    lambda data: {**data, "times": [[0, 9, 1.0]]},
    lambda data: {**data, "times": [[0, 1.0]]},
    lambda data: {**data, "parameters": 3},
    lambda data: {key: value for key, value in data.items() if key != "task"},
])
def test_what_is_no_recording(change):
    data = json.loads(dump(from_attempts(make_space(), [run()])))
    with pytest.raises(GauntletError, match="the recording is not a recording of a space.*--save"):
        loads(json.dumps(change(data)))


def test_other_files(tmp_path):
    with pytest.raises(GauntletError, match="cannot read .*No such file"):
        load(tmp_path / "none.json")
    (tmp_path / "x.json").write_bytes(b"\xff\0{")
    with pytest.raises(GauntletError, match="is not a recording"):
        load(tmp_path / "x.json")
    data = json.loads(dump(from_attempts(make_space(), [run()])))
    (tmp_path / "x.json").write_text(json.dumps({**data, "schema": 9}))
    with pytest.raises(GauntletError, match="schema 9 is not 1"):
        load(tmp_path / "x.json")
    assert recordings.RETIMED_LEAST == 50
