import math
import re
from xml.etree import ElementTree

import pytest
from report_records import case_result, estimate, result

from harness.report.figures import BAR_WIDTH, Scale, block_times, per_call
from harness.spec.verdict import Block, Estimate


def test_bars_share_a_logarithmic_axis_with_one_on_it():
    scale = Scale([estimate(0.25), estimate(4.0)])
    assert scale.x(1.0) == pytest.approx(BAR_WIDTH / 2, abs=0.1)
    assert scale.x(2.0) - scale.x(1.0) == pytest.approx(scale.x(4.0) - scale.x(2.0), abs=0.2)


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf, 1e300, 1e-300])
def test_absurd_ratios_stay_inside_the_drawing(value):
    bar = Scale([Estimate(value=value, low=0.0, high=math.inf, n=2), estimate(2.0)]).bar(
        Estimate(value=value, low=0.0, high=math.inf, n=2)
    )
    ElementTree.fromstring(bar)
    positions = [float(x) for x in re.findall(r'(?:x1|x2|cx)="([^"]+)"', bar)]
    assert all(0 <= x <= BAR_WIDTH for x in positions)


def test_bars_need_no_inline_style():
    bar = Scale([estimate(2.0)]).bar(estimate(2.0))
    assert "style" not in bar and Scale([]).bar(None) == ""


def test_time_per_call_has_the_null_constant_removed():
    assert per_call(Block(instance=0, pair=0, side="eager", calls=10, seconds=1.5), 0.5) == pytest.approx(0.1)


def test_block_times_draw_every_block_once_and_always_the_same():
    verdict = result()
    svg = block_times(verdict)
    assert block_times(verdict) == svg
    uses = list(ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}use"))
    blocks = sum(len(c.blocks) for c in verdict.cases)
    assert len(uses) >= blocks
    assert b"dc:date" not in svg and b"<script" not in svg


def test_names_in_a_figure_are_text():
    svg = block_times(result(cases=[case_result("$\\frac</svg><script>\u202e")]))
    root = ElementTree.fromstring(svg)
    assert not [e for e in root.iter() if e.tag.endswith("script")]
    assert "\u202e" not in svg.decode()


def test_nothing_to_draw():
    empty = case_result().model_copy(update={"blocks": []})
    impossible = Block(instance=0, pair=0, side="eager", calls=0, seconds=math.inf)
    assert block_times(result(cases=[])) is None
    assert block_times(result(cases=[empty, empty.model_copy(update={"blocks": [impossible]})])) is None
