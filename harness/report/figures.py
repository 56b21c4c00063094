"""Figures as SVG: the interval drawn beside a number, and the block times of a final judgement.

The same input gives the same bytes: no dates, no random ids, no settings of the user's.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.report.names import one_line
from harness.report.words import SIDES, shape
from harness.spec.verdict import Block, CaseResult, Estimate, JudgeResult

if TYPE_CHECKING:
    from markupsafe import Markup

BAR_WIDTH, BAR_HEIGHT = 120, 16

# Matplotlib writes colours into style attributes; these placeholders are then given the reader's light or dark ink.
_INK, _FAINT = "#1f1f2e", "#d3d3dd"
_THEME = f"""<style>
[style*="fill: {_INK}"] {{ fill: #24292f !important }} [style*="stroke: {_INK}"] {{ stroke: #24292f !important }}
[style*="stroke: {_FAINT}"] {{ stroke: #d8dee4 !important }}
@media (prefers-color-scheme: dark) {{
[style*="fill: {_INK}"] {{ fill: #c9d1d9 !important }} [style*="stroke: {_INK}"] {{ stroke: #c9d1d9 !important }}
[style*="stroke: {_FAINT}"] {{ stroke: #343b44 !important }}
}}
</style>"""
_LOOK = {"candidate": ("o", "#2f81c7"), "eager": ("s", "#d08a1d"), "compile": ("^", "#3a9a74")}


class Scale:
    """A logarithmic axis shared by the interval bars of one table; 1 is always on it.

    estimates: everything to be drawn; ratios that are not finite and positive are ignored.
    """

    def __init__(self, estimates: list[Estimate]) -> None:
        values = [v for e in estimates for v in (e.low, e.value, e.high) if math.isfinite(v) and v > 0]
        # Capped at 1000 on either side: one absurd ratio must not flatten all the others.
        # A little room at both ends keeps the outermost dot from looking cut off.
        self.low = max(1e-3, min([*values, 0.8])) / 1.05
        self.high = min(1e3, max([*values, 1.25])) * 1.05

    def x(self, value: float) -> float:
        """Position of `value` in the bar, between 4 and BAR_WIDTH - 4."""
        if math.isnan(value) or value <= self.low:
            return 4.0
        share = (math.log(min(value, self.high)) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return round(4 + share * (BAR_WIDTH - 8), 1)

    def bar(self, estimate: Estimate | None) -> Markup:
        """The interval as a line, the value as a dot, a tick where the ratio is 1; "" for None. No style attribute.

        For the eye only (``aria-hidden``): the numbers stand beside it.
        """
        from markupsafe import Markup

        if estimate is None:
            return Markup("")
        low, mid, high = (self.x(v) for v in (estimate.low, estimate.value, estimate.high))
        middle, one = BAR_HEIGHT / 2, self.x(1.0)
        kind = "above" if estimate.low > 1 else "below" if estimate.high < 1 else "even"
        return Markup(
            f'<svg class="bar {kind}" width="{BAR_WIDTH}" height="{BAR_HEIGHT}" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" '
            f'aria-hidden="true"><line class="axis" x1="4" y1="{middle}" x2="{BAR_WIDTH - 4}" y2="{middle}"/>'
            f'<line class="one" x1="{one}" y1="1" x2="{one}" y2="{BAR_HEIGHT - 1}"/>'
            f'<line class="range" x1="{low}" y1="{middle}" x2="{high}" y2="{middle}"/>'
            f'<circle class="dot" cx="{mid}" cy="{middle}" r="3"/></svg>'
        )


def block_times(result: JudgeResult) -> bytes | None:
    """Every timed block of every case: seconds per call, null constant removed, by instance and side, as an SVG file.

    A row per case; instances along x; sides differ by marker as well as by colour. None when no case has blocks.
    """
    cases = [c for c in result.cases if drawn_blocks(c)]
    if not cases:
        return None

    def draw(figure: Any) -> None:
        for row, case in enumerate(cases):
            _plot(figure.add_subplot(len(cases), 1, row + 1), case, last=row == len(cases) - 1)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False, handletextpad=0.2)

    return svg(7.2, 0.7 + 2.0 * len(cases), draw)


def svg(width: float, height: float, draw: Callable[[Any], None]) -> bytes:
    """What `draw` makes of a matplotlib Figure of width × height inches, as an SVG file for light and dark pages."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_settings())
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = re.sub(r"(<svg [^>]*>)", lambda m: m.group(1) + "\n" + _THEME, buffer.getvalue(), count=1)
    return text.encode("utf-8")


def _settings() -> dict[str, Any]:
    settings = {"svg.hashsalt": "kernel-gauntlet", "svg.fonttype": "none", "font.size": 9, "text.parse_math": False,
                "text.color": _INK, "axes.labelcolor": _INK, "axes.edgecolor": _FAINT, "xtick.color": _INK,
                "ytick.color": _INK, "grid.color": _FAINT, "axes.titlesize": 9, "axes.titlelocation": "left",
                "axes.spines.top": False, "axes.spines.right": False, "axes.unicode_minus": False}
    return settings


def per_call(block: Block, null_s: float | None) -> float:
    """Seconds per call of a block: (T − c)/N, with c the null kernel's constant."""
    return (block.seconds - (null_s or 0.0)) / block.calls


def drawn_blocks(case: CaseResult) -> list[Block]:
    """The blocks the figure shows: those of the candidate and its opponents, without impossible records."""
    return [b for b in case.blocks if b.side in _LOOK and b.calls > 0 and math.isfinite(b.seconds)]


def _plot(axes: Any, case: CaseResult, last: bool) -> None:
    blocks = drawn_blocks(case)
    times = [per_call(b, case.null_s) for b in blocks]
    unit, scale = next((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
                       if max(times) >= s or u == "ns")
    instances = {number: place for place, number in enumerate(sorted({b.instance for b in blocks}), start=1)}
    pairs = max(b.pair for b in blocks) + 1
    sides = [s for s in _LOOK if any(b.side == s for b in blocks)]
    for place, side in enumerate(sides):
        chosen = [(b, t) for b, t in zip(blocks, times) if b.side == side]
        offset = (place - (len(sides) - 1) / 2) * 0.26
        x = [instances[b.instance] + offset + 0.18 * ((b.pair + 0.5) / pairs - 0.5) for b, _ in chosen]
        marker, color = _LOOK[side]
        axes.plot(x, [t / scale for _, t in chosen], marker, markersize=3.2, color=color, alpha=0.8,
                  markeredgewidth=0, label=SIDES[side])
    if min(times) > 0 and max(times) / min(times) > 8:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0.0, min(times) / scale))
    axes.set_title(f"{one_line(case.name, 40)}  ({one_line(shape(case.dims), 40)} {one_line(case.dtype, 20)})")
    axes.set_ylabel(f"{unit} per call")
    axes.set_xticks(list(instances.values()) if len(instances) <= 24 else [])
    axes.set_xlim(0.4, len(instances) + 0.6)
    axes.grid(axis="y", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    if last:
        axes.set_xlabel("instance")
