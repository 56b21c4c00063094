"""One JudgeResult for a terminal: what `harness judge` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.report import words
from harness.report.canvas import Canvas
from harness.report.names import one_line, visible
from harness.spec.verdict import CaseResult, JudgeResult, Status, Trial

if TYPE_CHECKING:
    from rich.table import Table

NARROW = 100
LOG_LINES = 30


def render_verdict(result: JudgeResult, width: int = 100, color: bool = False) -> str:
    """The verdict as text whose lines are at most `width` columns wide (at least 40); ends with a newline.

    color: adds ANSI colours; every fact is in the words, colour only repeats it.
    """
    canvas = Canvas(width, color)
    style = "bold green" if result.status == Status.ok else "bold yellow" if _unjudged(result) else "bold red"
    canvas.line(words.headline(result), style)
    canvas.line(f"{visible(result.task)} on {visible(result.device)}, {visible(result.depth)} judgement, "
                f"{words.duration(result.wall_s)}", "dim")
    if result.message and result.message == result.build_log:  # it follows below, in full
        canvas.line(visible(next((line for line in result.message.splitlines() if "error" in line), "it did not compile")))
    elif result.message:
        canvas.line(visible(result.message))
    if _unjudged(result):
        canvas.line("The machine failed, not the candidate: nothing is charged to it. Judge it again.")
    _correctness(canvas, result)
    _timing(canvas, result)
    _logs(canvas, result)
    canvas.blank()
    if told := words.classification(result.classification):
        canvas.line(f"who does the work: {told}")
    canvas.line(f"containment: {words.containment_level(result.containment)}")
    return canvas.text()


def _unjudged(result: JudgeResult) -> bool:
    return result.status == Status.infra_error


def _correctness(canvas: Canvas, result: JudgeResult) -> None:
    if not result.trials:
        return
    canvas.heading("Correctness")
    canvas.line(words.right_and_wrong(result.trials))
    if found := words.first_mismatch(result.trials):
        trial, mismatch = found
        canvas.line(f"first wrong element, {words.named_shape(trial.dims)} {trial.dtype}: {words.mismatch(mismatch)}")
    canvas.table(_trial_table(canvas, result.trials))
    for case in result.cases:
        if case.errors.rel_l2 is not None:
            canvas.line(_achieved(case))


def _achieved(case: CaseResult) -> str:
    errors = case.errors
    text = (f"{visible(case.name)}: max abs {words.number(errors.max_abs)}, max rel {words.number(errors.max_rel)}, "
            f"relative L2 {words.number(errors.rel_l2)}")
    if errors.reference_rel_l2 is not None:
        text += f" (torch itself {words.number(errors.reference_rel_l2)})"
    if errors.looks_like:
        text += f"; looks like {visible(errors.looks_like)}"
    return text


def _trial_table(canvas: Canvas, trials: list[Trial]) -> Table:
    """One row per shape and dtype, with the worst of its trials."""
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((words.shape(trial.dims), trial.dtype), []).append(trial)
    wide = canvas.width >= NARROW
    columns = ["shape", "dtype", "verdict", "max abs", "of allowed"] + (["trials", "kinds", "scales"] if wide else [])
    table = canvas.new_table(columns, right={"max abs", "of allowed", "trials"})
    for (shape, dtype), group in groups.items():
        bad = next((t for t in group if t.status != Status.ok), None)
        row = [
            shape,
            visible(dtype),
            words.right_word(bad.status if bad else Status.ok),
            words.number(max((t.max_abs for t in group if t.max_abs is not None), default=None)),
            words.share(max((t.worst_ratio for t in group if t.worst_ratio is not None), default=None)),
        ]
        if wide:
            kinds = dict.fromkeys(visible(t.kind) for t in group)
            scales = sorted({t.scale for t in group}, reverse=True)
            row += [str(len(group)), ", ".join(kinds), ", ".join(f"{s:g}" for s in scales)]
        canvas.row(table, row, bad=bad is not None)
    return table


def _timing(canvas: Canvas, result: JudgeResult) -> None:
    timed = [c for c in result.cases if c.seconds or c.speedup]
    if not timed:
        return
    canvas.heading("Time per call")
    wide = canvas.width >= NARROW
    sides = [s for s in ("candidate", "eager", "compile") if any(s in c.seconds for c in timed)]
    if wide:
        columns = ["case", "shape", "dtype", *[words.SIDES[s] for s in sides], "against eager", "against torch.compile"]
        table = canvas.new_table(columns, right=set(columns[3:]))
        for case in timed:
            times = [words.seconds(case.seconds.get(s)) for s in sides]
            canvas.row(table, [visible(case.name), words.shape(case.dims), visible(case.dtype), *times,
                               words.speedup(case.vs_eager), words.speedup(case.vs_compile)])
        canvas.table(table)
    else:
        for case in timed:
            canvas.line(f"{visible(case.name)} ({words.shape(case.dims)} {visible(case.dtype)})")
            canvas.line("  " + ", ".join(f"{words.SIDES[s]} {words.seconds(case.seconds.get(s))}" for s in sides))
            for name, estimate in (("eager", case.vs_eager), ("torch.compile", case.vs_compile)):
                if estimate is not None:
                    canvas.line(f"  against {name} {words.speedup(estimate)}")
    for case in timed:
        for note in words.case_notes(case):
            if case.message and f"case {case.name}: {case.message}" == result.message and case.message in note:
                continue  # said at the top
            canvas.line(f"{visible(case.name)}: {note}")


def _logs(canvas: Canvas, result: JudgeResult) -> None:
    if result.status == Status.ok:
        return
    for title, text in (("Build log", result.build_log), ("The candidate printed", result.output_tail)):
        lines = visible(text).strip().splitlines()
        if not lines:
            continue
        canvas.heading(title)
        if len(lines) > LOG_LINES:
            canvas.line(f"… {len(lines) - LOG_LINES} lines before")
        for line in lines[-LOG_LINES:]:
            canvas.line(line if len(line) <= 2000 else one_line(line, 2000))
