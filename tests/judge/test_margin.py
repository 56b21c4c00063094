"""One number per answer, against the comparison that decides."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.compare import MAX_RATIO, compare
from harness.judge.margin import Margin
from harness.spec.task import Tolerance

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
ODD = st.sampled_from([0.0, 1e-3, 1.0, 1e30, math.inf, -math.inf, math.nan])


@given(st.integers(0, 2**31), st.sampled_from(DTYPES), st.sampled_from([(), (1,), (7, 5), (3, 4, 5)]),
       st.sampled_from([0.0, 1e-6, 1e-3, 1.0]), st.lists(st.tuples(st.integers(0, 59), ODD, ODD), max_size=3),
       st.sampled_from([None, Tolerance()]))
def test_it_is_what_the_comparison_finds(seed, dtype, shape, error, odd, tolerance):
    generator = torch.Generator().manual_seed(seed)
    o = torch.randn(shape, generator=generator, dtype=torch.float64)
    for place, right, _ in odd:
        o.view(-1)[place % o.numel()] = right
    r = o.to(dtype)
    y = (o + error * torch.randn(shape, generator=generator)).to(dtype)
    for place, _, answered in odd:
        y.view(-1)[place % o.numel()] = answered
    found = compare(y, o, dtype=dtype, reference=lambda: r, tolerance=tolerance or Tolerance(), cap=tolerance is not None)
    ratio = Margin(o, dtype, reference=r, tolerance=tolerance).miss(y)
    assert ratio == pytest.approx(min(max(found.worst_ratio, found.l2_ratio), MAX_RATIO), rel=1e-6)
    assert (ratio <= 1) == found.ok


def test_the_same_bounds_serve_many_answers():
    o = torch.linspace(1, 2, 1000, dtype=torch.float64)
    margin = Margin(o, torch.float32, reference=o.float())
    right = margin.miss(o.float())
    assert right < 0.1 < 10 < margin.miss(torch.zeros(1000)) == margin.miss(torch.zeros(1000))
    assert margin.miss(o.float()) == right
