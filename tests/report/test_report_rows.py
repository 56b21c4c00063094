import csv
import io
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.board import boards
from harness.report.rows import FormatError, credit_estimate, finish_rows, format_rows, rank_text, standing_rows
from harness.runs.record import read_results
from harness.score.ranking import Rank

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=12)
VALUE = st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
ROWS = st.lists(st.fixed_dictionaries({"agent": TEXT, "value": VALUE, "a,b": VALUE}), min_size=1, max_size=4)


@given(ROWS)
def test_json_round_trip(rows):
    assert json.loads(format_rows(rows, "json")) == rows


@given(ROWS)
def test_csv_round_trip(rows):
    back = list(csv.DictReader(io.StringIO(format_rows(rows, "csv"))))
    assert back == [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows]


def test_json_stays_strict_for_what_json_cannot_say():
    text = format_rows([{"a": math.inf, "b": math.nan, "c": "\ud800"}], "json")
    assert json.loads(text, parse_constant=pytest.fail) == [{"a": "Infinity", "b": "NaN", "c": "?"}]
    text.encode("utf-8")


@given(ROWS)
def test_people_get_one_line_a_row(rows):
    assert len(format_rows(rows, "table").split("\n")) == len(rows) + 3
    assert len(format_rows(rows, "md").split("\n")) == len(rows) + 3


def test_markdown_cells_cannot_open_new_cells():
    lines = format_rows([{"agent": "a|b\\|c\nd"}], "md").splitlines()
    assert lines[2].replace("\\\\", "").replace("\\|", "").count("|") == 2


def test_no_rows():
    assert format_rows([], "json") == "[]\n" and format_rows([], "csv") == format_rows([], "table") == ""


def test_an_unknown_format_names_the_near_one():
    with pytest.raises(FormatError, match="'json'"):
        format_rows([], "jsn")


def test_rows_of_a_board(results):
    board = next(b for b in boards(read_results(results)) if b.suite == "smoke@1")
    rows = {row["agent"]: row for row in standing_rows(board.standings())}
    # credits: handwritten gains on softmax and gelu only, and the one below 1 counts as 1
    assert rows["handwritten"]["credit"] == pytest.approx((1.84 * 0.97 * 6.2 * 0.97) ** (1 / 3))
    assert rows["handwritten"]["fast_1"] == pytest.approx(2 / 3)
    assert rows["torch-compile"]["rank"] is None and "infrastructure" in rows["torch-compile"]["unranked"]
    finished = {(row["agent"], row["task"]): row for row in finish_rows(board.finishes)}
    assert finished["search", "matmul"]["status"] == "wrong_output" and finished["search", "matmul"]["speedup"] is None
    assert finished["search", "softmax"]["speedup"] == pytest.approx(2.1 * 0.97)


def test_rank_text():
    assert (rank_text(None), rank_text(Rank(2, 2)), rank_text(Rank(1, 3))) == ("", "2", "1–3")


def test_one_task_has_a_credit_without_interval(results):
    board = next(b for b in boards(read_results(results)) if b.suite == "core@1")
    assert credit_estimate(board.standings().rows[0]).n == 1
