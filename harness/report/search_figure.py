"""The figure of a comparison of samplers: the best time so far against the number of evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.report.figures import svg

if TYPE_CHECKING:
    from harness.search.baseline import Baseline
    from harness.search.simulate import Outcome

_COLOURS = ("#2f81c7", "#d08a1d", "#3a9a74", "#b5479d", "#7a6bd1")
_DASHES = ("-", "--", "-.", ":")


def search_curves(chance: Baseline, outcomes: Sequence[Outcome], unit: str) -> bytes:
    """An SVG file: mean and middle half of the replays of each sampler, the expectation of chance, and the optimum.

    Samplers differ by dash as well as by colour.
    """
    import numpy as np

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        n = np.arange(1, chance.horizon + 1)
        axes.plot(n, chance.curve[: chance.horizon], color="#8b8b99", linewidth=2.5, alpha=0.6,
                  label="random, expected (closed form)")
        for number, one in enumerate(outcomes):
            colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)]
            low, high = np.quantile(one.curves, [0.25, 0.75], axis=0)
            axes.fill_between(n, low, high, color=colour, alpha=0.12, linewidth=0)
            axes.plot(n, one.mean, color=colour, linestyle=dash, linewidth=1.4, label=f"{one.sampler}, mean")
        axes.axhline(chance.optimum, color="#8b8b99", linewidth=0.8, linestyle=(0, (1, 2)), label="optimum")
        axes.set_xlabel("configurations evaluated")
        axes.set_ylabel(f"best so far: {unit}")
        axes.grid(axis="y", linewidth=0.6)
        axes.set_xlim(1, max(2, chance.horizon))
        # The first evaluations of the unluckiest replays would flatten everything else.
        axes.set_ylim(top=1.05 * max([float(chance.curve[0]), *(float(one.mean[0]) for one in outcomes)]))
        axes.legend(frameon=False, loc="upper right")

    return svg(7.2, 3.8, draw)
