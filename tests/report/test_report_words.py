import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_records import case_result, result

from harness.report import words
from harness.spec.verdict import Estimate, Mismatch, Status, Trial


def test_speedup_is_worded_with_its_interval():
    assert words.speedup(Estimate(value=1.842, low=1.788, high=1.897, n=8)) == "1.84× [1.79, 1.90]"
    assert words.speedup(Estimate(value=1.842, low=1.788, high=1.897, n=8, derived=True)).endswith("derived")
    assert words.speedup(None) == words.DASH


def test_a_single_instance_shows_no_interval():
    assert words.speedup(Estimate(value=1.5, low=1.5, high=1.5, n=1)) == "1.50×"


@given(st.floats(1e-12, 1e12))
def test_numbers_keep_three_significant_digits(value):
    assert float(words.number(value).replace(",", "")) == pytest.approx(value, rel=5.1e-3)


@given(st.floats(1e-9, 1e4))
def test_seconds_keep_their_size(value):
    text, unit = words.seconds(value).split()
    scale = {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
    assert float(text.replace(",", "")) * scale == pytest.approx(value, rel=5.1e-3)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (None, "–"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (0.9999, "1.00"),
        (99999, "1.00e+05"),
        (54321, "54,321"),
        (1e-4, "1.00e-04"),
    ],
)
def test_numbers_at_the_edges(value, text):
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.85, "850 ms"), (245, "4 min 05 s"), (7380, "2 h 03 min"), (59.96, "1 min 00 s")]
)
def test_durations(value, text):
    assert words.duration(value) == text


def test_an_error_beyond_any_bound_is_no_number():
    assert (words.share(None), words.share(0.25), words.share(math.inf)) == (words.DASH, "0.250", "beyond")
    assert words.share(1e300) == "beyond"


def test_the_headline_names_what_was_beaten():
    assert words.headline(result()).count("over the faster of eager and torch.compile") == 1
    alone = result(cases=[case_result().model_copy(update={"vs_compile": None})])
    assert " over eager," in words.headline(alone)


def test_shapes_are_sorted_into_right_and_wrong():
    def trial(rows, status=Status.ok):
        return Trial(kind="case", case="c", dims={"rows": rows, "cols": 781}, dtype="float32", status=status)

    trials = [trial(4096), trial(3, Status.wrong_output), trial(3), trial(17, Status.runtime_error), trial(4096)]
    assert words.right_and_wrong(trials) == "right at 4096×781, runtime error at 17×781, wrong at 3×781"


def test_mismatch_names_index_expected_and_got():
    found = Mismatch(index=[3, 17], expected=0.25, got="nan", wrong_elements=5, elements=2343)
    assert words.mismatch(found) == "output 0 at [3, 17]: expected 0.25, got nan (5 of 2,343 elements wrong)"


def test_checked_calls_are_worded_with_what_would_escape():
    assert words.checked(case_result()) == (
        "checked 120 of 2,400 calls: skipping 2.5 % would have been found with 95 % probability"
    )


def test_a_screen_is_never_called_a_score():
    assert "not a score" in words.headline(result(depth="screen"))
    assert "not a score" not in words.headline(result(depth="final"))
    assert "8 instances" in words.headline(result(depth="final"))
