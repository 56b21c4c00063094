import re

import pytest
from report_records import write_run

from harness.report.audit import defect
from harness.report.board import boards, finishes
from harness.runs.record import Record, read_results
from harness.spec.verdict import Estimate, Status


def only_board(results):
    (board,) = boards(read_results(results))
    return board


def test_runs_meet_on_a_board_of_their_suite_and_device(results):
    assert [(b.suite, b.device, b.tasks) for b in boards(read_results(results))] == [
        ("core@1", "cpu-other", ("matmul",)),
        ("smoke@1", "cpu-example", ("gelu", "matmul", "softmax")),
    ]


def test_lists_named_on_the_command_line_are_boards_of_their_own(tmp_path):
    for agent, tasks in {"a": ["x", "y"], "b": ["y", "x"], "c": ["x"]}.items():
        write_run(tmp_path, agent, dict.fromkeys(tasks, 1.5), suite="adhoc", version="0")
    found = {b.title: {f.agent for f in b.finishes} for b in boards(read_results(tmp_path))}
    assert found == {"x": {"c"}, "x, y": {"a", "b"}}


def test_the_same_record_in_two_places_counts_once(tmp_path):
    write_run(tmp_path / "one", "a", {"x": 1.5})
    write_run(tmp_path / "two", "a", {"x": 1.5})
    assert len(only_board(tmp_path).records) == 1


def test_repeated_runs_all_count(tmp_path):
    write_run(tmp_path, "a", {"x": 1.5})
    write_run(tmp_path, "a", {"x": Status.wrong_output}, started="2025-02-01T00:00:00.000Z")
    (row,) = only_board(tmp_path).standings().rows
    assert (row.runs, row.solved, row.attempts) == (2, 0.5, 2)


@pytest.mark.parametrize("change", [{"stop": "infrastructure"}, {"infra_errors": 1}])
def test_a_machine_failure_unranks_a_right_answer(tmp_path, change):
    write_run(tmp_path, "a", {"x": 1.5})
    (record,) = read_results(tmp_path)
    outcome = record.run.outcomes[0].model_copy(update=change)
    changed = Record(record.path, record.run.model_copy(update={"outcomes": [outcome]}), record.attempts)
    (finish,) = finishes([changed])
    assert finish.result.status == Status.infra_error and finish.result.speedup is None
    (row,) = boards([changed])[0].standings().rows
    assert row.rank is None and "infrastructure" in row.unranked


def test_a_screen_is_no_score(tmp_path):
    write_run(tmp_path, "a", {"x": 1.5})
    write_run(tmp_path, "b", {"x": 9.0})
    records = read_results(tmp_path)
    b = next(r for r in records if r.run.agent.name == "b")
    b.run.outcomes[0].depth = "screen"
    board = boards(records)[0]
    assert [f.agent for f in board.finishes] == ["a"]
    rows = {row.agent: row for row in board.standings().rows}
    assert rows["a"].rank and not rows["b"].rank and rows["b"].unranked == "only screened on x"


def test_answers_to_an_older_version_of_a_task_do_not_count(tmp_path):
    write_run(tmp_path, "new", {"x": 1.5}, started="2025-02-01T00:00:00.000Z")
    write_run(tmp_path, "old", {"x": 9.0})
    records = read_results(tmp_path)
    old = next(r for r in records if r.run.agent.name == "old")
    old.run.outcomes[0].task_hash = "0" * 64
    rows = {row.agent: row for row in boards(records)[0].standings().rows}
    assert rows["new"].rank and rows["old"].unranked == "answered an older version of x"


def test_sound_records_have_no_defect(results):
    assert [defect(r) for r in read_results(results)] == [""] * 5


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda r: r.run.outcomes.append(r.run.outcomes[0]), "two outcomes"),
        (lambda r: r.attempts.append(r.attempts[0]), "two lines"),
        (lambda r: r.run.outcomes.clear(), "without an outcome"),
        (lambda r: setattr(r.run.outcomes[0], "index", 7), "names attempt 7"),
        (lambda r: setattr(r.run.outcomes[0], "depth", None), "half an attempt"),
        (lambda r: setattr(r.attempts[0], "index", -1), "start at 0"),
        (lambda r: setattr(r.attempts[0], "duplicate_of", 5), "repeats attempt 5"),
        (lambda r: setattr(r.attempts[0], "result", None), "no verdict"),
        (lambda r: setattr(r.attempts[0], "depth", "final"), "verdict|two lines"),
        (lambda r: setattr(r.attempts[1].result, "speedup", Estimate(value=0, low=0, high=1, n=8)), "no interval"),
        (lambda r: setattr(r.attempts[1].result, "speedup", Estimate(value=9, low=1, high=2, n=8)), "no interval"),
        (lambda r: setattr(r.attempts[1].result.cases[0], "vs_eager", Estimate(value=float("nan"), low=1, high=2, n=8)),
         "no interval"),
    ],
)
def test_defects_are_named(tmp_path, spoil, said):
    write_run(tmp_path, "a", {"x": 1.5})
    (record,) = read_results(tmp_path)
    spoil(record)
    assert re.search(said, defect(record))
    skipped = []
    assert boards([record], lambda path, why: skipped.append((path, why))) == []
    assert skipped == [(record.path, defect(record))]
    with pytest.warns(UserWarning, match=said):
        boards([record])


def test_dimensions_come_in_the_order_of_the_spec(results):
    record = read_results(results)[-1]
    orders = {tuple(c.dims) for row in record.attempts for c in [*row.result.cases, *row.result.trials]}
    assert orders == {("rows", "cols")}
