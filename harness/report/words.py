"""How numbers and verdicts are worded, the same in the terminal and on the site."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from harness.report.names import one_line, visible
from harness.spec.verdict import CaseResult, Classification, Estimate, JudgeResult, Mismatch, Status, Trial

DASH = "–"
SIDES = {"candidate": "candidate", "eager": "eager", "compile": "torch.compile", "null": "null kernel"}


def number(value: float | int | None, digits: int = 3) -> str:
    """`value` with `digits` significant digits, plain between 1e-3 and 1e5 and in powers of ten outside."""
    if value is None:
        return DASH
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value == 0:
        return "0"
    size = math.floor(math.log10(float(f"{abs(value):.{digits - 1}e}")))
    if -3 <= size < 5:
        return f"{value:,.{max(0, digits - 1 - size)}f}"
    return f"{value:.{digits - 1}e}"


def share(worst_ratio: float | None) -> str:
    """An error as a multiple of what is allowed; "beyond" where no bound would have allowed it."""
    return "beyond" if worst_ratio is not None and worst_ratio >= 1e30 else number(worst_ratio)


def ratio(value: float | None) -> str:
    """A ratio of times: ``1.84×``."""
    return DASH if value is None else f"{number(value)}×"


def interval(low: float | None, high: float | None) -> str:
    """``[1.79, 1.90]``."""
    return "" if low is None or high is None else f"[{number(low)}, {number(high)}]"


def speedup(estimate: Estimate | None) -> str:
    """``1.84× [1.79, 1.90]``; ``derived`` is said where the ratio follows through another pair."""
    if estimate is None:
        return DASH
    text = ratio(estimate.value)
    # One instance has no interval: a screen's ratio is shown bare rather than with a width of zero.
    if estimate.n > 1 and math.isfinite(estimate.low) and math.isfinite(estimate.high):
        text += " " + interval(estimate.low, estimate.high)
    return text + (" derived" if estimate.derived else "")


def seconds(value: float | None) -> str:
    """A short time in the unit that suits it: ``12.3 µs``."""
    if value is None:
        return DASH
    if not math.isfinite(value):
        return number(value)
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(value) >= 0.9995 * scale:
            return f"{number(value / scale)} {unit}"
    return f"{number(value / 1e-9)} ns"


def duration(value: float | None) -> str:
    """A wall time: ``850 ms``, ``12.3 s``, ``4 min 05 s``, ``2 h 03 min``."""
    if value is None or not math.isfinite(value):
        return DASH
    if value < 59.95:
        return seconds(value)
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def percent(share: float | None) -> str:
    """``2.5 %``."""
    return DASH if share is None else f"{number(100 * share, 2)} %"


def status_word(status: Status | str) -> str:
    """The verdict in words a table can hold: ``wrong output``."""
    return visible(status.value if isinstance(status, Status) else status).replace("_", " ")


def right_word(status: Status) -> str:
    """A trial's verdict: ``right``, ``wrong``, or the status in words."""
    return {Status.ok: "right", Status.wrong_output: "wrong"}.get(status) or status_word(status)


def shape(dims: dict[str, int]) -> str:
    """``4096×781``: the dimensions' values in the spec's order."""
    return "×".join(str(v) for v in dims.values()) or "scalar"


def named_shape(dims: dict[str, int]) -> str:
    """``rows=4096 cols=781``."""
    return " ".join(f"{visible(k)}={v}" for k, v in dims.items()) or "scalar"


def plain(value: Any) -> str:
    """An element of a tensor as text, at full precision; strings of the candidate's making are made visible."""
    return one_line(repr(value) if isinstance(value, float) else value, 60)


def mismatch(found: Mismatch) -> str:
    """``output 0 at [3, 17]: expected 0.25, got 0.0 (5 of 2,343 elements wrong)``."""
    where = f"output {found.output} at [{', '.join(map(str, found.index))}]"
    text = f"{where}: expected {plain(found.expected)}, got {plain(found.got)}"
    if found.elements:
        text += f" ({found.wrong_elements:,} of {found.elements:,} elements wrong)"
    return text


def first_mismatch(trials: Iterable[Trial]) -> tuple[Trial, Mismatch] | None:
    """The first trial that shows a wrong element, in the order in which the judge ran them."""
    for trial in trials:
        if trial.mismatch is not None:
            return trial, trial.mismatch
    return None


def checked(case: CaseResult) -> str:
    """How many timed calls were compared, and what skipping would have escaped that; "" when nothing was timed."""
    if not case.calls:
        return ""
    text = f"checked {case.checked:,} of {case.calls:,} calls"
    if case.skip_detectable is not None:
        text += f": skipping {percent(case.skip_detectable)} would have been found with 95 % probability"
    return text


def case_notes(case: CaseResult) -> list[str]:
    """What qualifies a case's numbers: launch-bound, noisy, calls checked, a fixed cost per block."""
    notes = []
    if case.status != Status.ok:
        text = status_word(case.status)
        notes.append(f"{text}: {one_line(case.message)}" if case.message else text)
    if case.launch_bound:
        single = f"; one call alone takes {seconds(case.single_call_s)}" if case.single_call_s is not None else ""
        notes.append(f"launch-bound: shown, not in the headline{single}")
    if text := checked(case):
        notes.append(text)
    return notes


def right_and_wrong(trials: Iterable[Trial]) -> str:
    """``right at 4096×4096, wrong at 3×781``: every shape tried, once; a shape wrong in any trial is wrong."""
    verdicts: dict[str, str] = {}
    for trial in trials:
        key = shape(trial.dims)
        said = right_word(trial.status)
        if verdicts.get(key, "right") == "right":
            verdicts[key] = said
    groups: dict[str, list[str]] = {}
    for key, said in verdicts.items():
        groups.setdefault(said, []).append(key)
    order = sorted(groups, key=lambda said: (said != "right", said))
    return ", ".join(f"{said} at {', '.join(groups[said])}" for said in order)


def containment_level(containment: dict[str, Any]) -> str:
    """One phrase for how the contestant was contained; "not recorded" when the record says nothing."""
    level = containment.get("level")
    if level is not None:
        return ("UNSAFE, run without containment on request: " if containment.get("unsafe") else "") + one_line(level)
    on = [one_line(k, 40) for k, v in containment.items() if v is True]
    return ", ".join(on) or "not recorded"


def classification(found: Classification | None) -> str:
    """Who does the work, in a sentence; empty where nobody has looked."""
    if found is None:
        return ""
    share = "" if found.library_share is None else f", {100 * found.library_share:.0f} % of its time in PyTorch's operations"
    why = f" ({one_line(found.why, 300)})" if found.why else ""
    return f"{found.kind}{share}{why}; by its {'profile' if found.by == 'profile' else 'source alone'}, a heuristic"


def headline(result: JudgeResult) -> str:
    """The verdict in one sentence, without its message."""
    text = status_word(result.status)
    if result.speedup is not None:
        compiled = any(case.vs_compile is not None for case in result.cases)
        over = "the faster of eager and torch.compile" if compiled or not result.cases else "eager"
        text += f", {speedup(result.speedup)} over {over}"
        if result.depth == "final":
            text += f", {result.speedup.n} instance{'s' if result.speedup.n != 1 else ''} of each side"
        else:
            text += " (screened: not a score)"
    elif result.status == Status.ok:
        text += ", not timed"
    return text
