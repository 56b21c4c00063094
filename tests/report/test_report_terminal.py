import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_records import case_result, result
from rich.cells import cell_len

from harness.report.board import boards
from harness.report.terminal import finish_text, render_standings, render_verdict
from harness.runs.record import read_results
from harness.score.standings import Finish, standings
from harness.spec.verdict import Status

WIDTHS = [40, 60, 80, 100, 160]
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def smoke(results):
    return next(b for b in boards(read_results(results)) if b.suite == "smoke@1")


def too_wide(text: str, width: int) -> list[str]:
    return [line for line in text.splitlines() if cell_len(ANSI.sub("", line)) > width]


@pytest.mark.parametrize("width", WIDTHS)
def test_standings_fit_and_say_everything_that_matters(smoke, width):
    text = render_standings(smoke.standings(), smoke.finishes, width)
    assert not too_wide(text, width)
    flat = " ".join(text.split())
    for word in ("handwritten", "search", "1–3", "2/3", "2.21× [0.227, 21.4]", "wrong output", "noisy", "infra error"):
        assert word in flat or width < 60, word
    assert "torch-compile is unranked: 1 infrastructure error" in flat


def test_a_wide_terminal_shows_intervals_and_every_column(smoke):
    text = render_standings(smoke.standings(), smoke.finishes, 160)
    assert "6.01× [5.84, 6.19]" in text and "wall time" in text and "37.5 s" in text


def test_the_list_for_narrow_terminals_keeps_intervals(smoke):
    text = render_standings(smoke.standings(), smoke.finishes, 46)
    assert "6.01× [5.84, 6.19]" in text and "  handwritten" in text


def test_colour_adds_nothing_but_colour(smoke):
    plain = render_standings(smoke.standings(), smoke.finishes, 100)
    coloured = render_standings(smoke.standings(), smoke.finishes, 100, color=True)
    assert "\x1b[" in coloured and "\x1b[" not in plain
    strip = [line.rstrip() for line in ANSI.sub("", coloured).splitlines()]
    assert "\n".join(strip).strip() == plain.strip()


def test_nothing_judged():
    assert "nothing has been judged" in render_standings([], [], 60)


NAME = st.text(st.characters(codec=None), min_size=1, max_size=60)


@settings(max_examples=25, deadline=None)
@given(st.lists(NAME, min_size=1, max_size=3, unique=True), st.sampled_from(WIDTHS))
def test_no_name_widens_or_colours_the_terminal(names, width):
    done = [Finish(agent, "softmax", result(speedup=1.5), 3, 10.0) for agent in names]
    text = render_standings(standings(done), done, width)
    assert not too_wide(text, width)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_rich_markup_in_names_is_text():
    done = [Finish("[red]a[/red]:smile:", "softmax", result(), 1, 1.0)]
    assert "[red]a[/red]:smile:" in render_standings(standings(done), done, 100)


def test_finish_text_pools_repeated_runs():
    right, wrong = Finish("a", "t", result(speedup=2.0)), Finish("a", "t", result(status=Status.wrong_output))
    assert finish_text([wrong]) == "wrong output" and finish_text([Finish("a", "t", None)]) == "no answer"
    assert finish_text([right, wrong]) == "1.94× (1 of 2 runs)"
    assert finish_text([wrong, wrong]) == "wrong output (2 runs)"
    assert finish_text([]) == "not run"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("status", list(Status))
def test_every_verdict_fits(status, width):
    text = render_verdict(result(status=status, build_log="x" * 500 + "\n\x1b[31mred", output_tail="y\r" * 40), width)
    assert not too_wide(text, width) and "\x1b" not in text
    assert text.startswith(status.value.replace("_", " "))


@pytest.mark.parametrize("width", [60, 160])
def test_a_wrong_verdict_shows_where_and_what(width):
    flat = " ".join(render_verdict(result(status=Status.wrong_output), width).split())
    assert "right at 4096×4096, wrong at 3×781" in flat
    assert "output 0 at [2, 768]: expected 0.00128, got 0.0 (39 of 2,343 elements wrong)" in flat


@pytest.mark.parametrize("width", [60, 160])
def test_a_right_verdict_shows_times_intervals_and_checks(width):
    launch = case_result("tiny", launch_bound=True)
    flat = " ".join(render_verdict(result(cases=[case_result(), launch]), width).split())
    for words in ("1.84× [1.79, 1.90]", "1.09 ms", "2.00 ms", "torch.compile", "checked 120 of 2,400 calls",
                  "tiny: launch-bound", "2.30 ms", "containment: user+pid+net+ipc+mount namespaces", "9.00e-08"):
        assert words in flat, words


def test_noise_and_machine_failures_are_said():
    noisy = result(status=Status.noisy, cases=[case_result(status=Status.noisy)])
    assert "wide: noisy" in render_verdict(noisy, 100)
    assert "not the candidate" in render_verdict(result(status=Status.infra_error), 100)


def test_a_compilers_complaint_is_said_once():
    log = "k.cpp: In function 'int kernel()':\nk.cpp:3:1: error: 'y' was not declared\n    3 | y\n      | ^"
    text = render_verdict(result(status=Status.compile_error, message=log, build_log=log), 100)
    assert text.splitlines()[2] == "k.cpp:3:1: error: 'y' was not declared"
    assert text.count("In function") == 1


def test_a_cases_note_is_not_said_twice():
    case = case_result(status=Status.noisy).model_copy(update={"message": "half-width 9 %"})
    noisy = result(status=Status.noisy, message="case wide: half-width 9 %", cases=[case])
    assert render_verdict(noisy, 100).count("half-width 9 %") == 1


def test_a_long_log_is_cut_to_its_end():
    log = "\n".join(f"line {i}" for i in range(100))
    text = render_verdict(result(status=Status.compile_error, build_log=log), 100)
    assert "line 99" in text and "line 3\n" not in text and "70 lines before" in text
