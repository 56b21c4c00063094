"""The bounds against independent truth: numpy's and torch's own spacing, hand-computed scales, and invariances."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from harness.judge import tolerance as bounds
from harness.spec.task import Tolerance

settings.register_profile("no-deadline", deadline=None)  # a busy machine is not a failure
settings.load_profile("no-deadline")

HALF_AND_SINGLE = [torch.float32, torch.float16, torch.bfloat16]
# Values 0 or of a size that stays normal in every format at the powers of two used below.
moderate = st.one_of(st.just(0.0), st.floats(2.0**-6, 2.0**6), st.floats(-(2.0**6), -(2.0**-6)))


def matrices(least=1):
    shapes = st.tuples(st.integers(least, 6), st.integers(least, 6))
    return hnp.arrays(np.float64, shapes, elements=moderate).map(torch.from_numpy)


def _f64(*values):
    return torch.tensor(values, dtype=torch.float64)


# ulp


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_ulp_is_numpys_spacing_in_float32(x):
    at_top = abs(x) == float(np.finfo(np.float32).max)  # where numpy has no next value
    expected = 2.0**104 if at_top else float(np.spacing(np.float32(abs(x))))
    assert bounds.ulp(_f64(x), torch.float32).item() == expected


@given(st.floats(width=16, allow_nan=False, allow_infinity=False))
def test_ulp_is_numpys_spacing_in_float16(x):
    expected = 2.0**5 if abs(x) == 65504 else float(np.spacing(np.float16(abs(x))))
    assert bounds.ulp(_f64(x), torch.float16).item() == expected


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e308, max_value=1e308))
def test_ulp_is_numpys_spacing_in_float64(x):
    assert bounds.ulp(_f64(x), torch.float64).item() == float(np.spacing(abs(x)))


def test_ulp_is_the_distance_to_torchs_next_bfloat16():
    x = torch.tensor([0.0, 1.0, 1.5, 2.0, 300.0, 1e-39, 1.2e-38, 1e30], dtype=torch.bfloat16)
    following = torch.nextafter(x, torch.full_like(x, math.inf))
    assert torch.equal(bounds.ulp(x.double(), torch.bfloat16), following.double() - x.double())


def test_ulp_between_values_at_powers_of_two_and_above_the_largest():
    spacing = bounds.ulp(_f64(0.0, 1.0, 1.9999, 2.0, -3.3), torch.float16)
    assert spacing.tolist() == [2**-24, 2**-10, 2**-10, 2**-9, 2**-9]
    assert bounds.ulp(_f64(2.0**20), torch.float16).item() == 2.0**10
    assert bounds.ulp(_f64(math.inf, math.nan), torch.float32).tolist() == [math.inf, math.inf]


def test_representable_ends_where_rounding_overflows():
    o = _f64(65504, 65519.9, 65520, -65520, math.inf, math.nan)
    rounds_finite = torch.isfinite(o.to(torch.float16))
    assert bounds.representable(o, torch.float16).tolist() == rounds_finite.tolist()
    assert bounds.representable(_f64(1.7e308, math.inf), torch.float64).tolist() == [True, False]
    assert bounds.representable(_f64(3.4028235e38, 3.41e38), torch.float32).tolist() == [True, False]


# constants


def test_constants_are_those_of_the_rule():
    assert bounds.kappa(torch.float32) == 2**-14
    assert bounds.kappa(torch.float16) == 12 / 2048
    assert bounds.kappa(torch.bfloat16) == 12 / 256
    assert bounds.lambda_l2(torch.float32) == 512 / 2**24
    assert bounds.lambda_l2(torch.float16) == 1.5 / 2048
    assert bounds.lambda_l2(torch.bfloat16) == 1.5 / 256
    assert bounds.kappa(torch.float32, "tf32") == 2**-8
    assert bounds.lambda_l2(torch.float32, "tf32") == 1e-3


@pytest.mark.parametrize("dtype", HALF_AND_SINGLE)
def test_tf32_never_tightens(dtype):
    assert bounds.kappa(dtype, "tf32") >= bounds.kappa(dtype)
    assert bounds.lambda_l2(dtype, "tf32") >= bounds.lambda_l2(dtype)


# local scale


def test_local_scale_by_hand():
    o = torch.tensor([[3.0, 4.0], [0.3, 0.4]], dtype=torch.float64)
    rows = [math.sqrt(12.5), math.sqrt(0.125)]
    columns = [math.sqrt((9 + 0.09) / 2), math.sqrt((16 + 0.16) / 2)]
    expected = [[min(r, c) for c in columns] for r in rows]
    assert torch.allclose(bounds.local_scale(o), torch.tensor(expected, dtype=torch.float64), rtol=1e-14)


def test_local_scale_of_three_axes_by_loops():
    o = torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    o[1] *= 1e-6
    rms = lambda t: float(t.square().mean().sqrt())  # noqa: E731
    scale = bounds.local_scale(o)
    for i in range(3):
        for j in range(4):
            for k in range(5):
                smallest = min(rms(o[i]), rms(o[:, j]), rms(o[:, :, k]))
                assert scale[i, j, k].item() == pytest.approx(max(smallest, 2**-10 * rms(o)), rel=1e-12)


@pytest.mark.parametrize("shape", [(6,), (1, 6), (6, 1), (1, 6, 1), ()])
def test_an_output_with_one_real_axis_has_one_scale(shape):
    o = torch.arange(1.0, 7.0, dtype=torch.float64)[: math.prod(shape)].reshape(shape)
    expected = o.square().mean().sqrt().item()
    assert bounds.local_scale(o).shape == o.shape
    assert bounds.local_scale(o).flatten().tolist() == pytest.approx([expected] * o.numel(), rel=1e-14)
    assert bounds.excess_scale(o).flatten().tolist() == pytest.approx([expected] * o.numel(), rel=1e-14)


def test_non_finite_elements_leave_the_scale_alone():
    o = torch.ones(4, 4, dtype=torch.float64)
    o[0, 0], o[1, 1] = math.inf, math.nan
    assert torch.allclose(bounds.local_scale(o), torch.ones_like(o))
    big = torch.ones(4, 4, dtype=torch.float64)
    big[0, 0] = 1e9  # infinite once in float16: it must not excuse its neighbours
    assert bounds.bound(big, torch.float16)[0, 1] == bounds.bound(torch.ones_like(big), torch.float16)[0, 1]


# the reference's excess


def test_reference_excess_leaves_out_the_unavoidable_rounding():
    o = _f64(1.0 + 2.0**-12, 1.0, 1.0)
    r = torch.tensor([1.0, 1.0 + 2.0**-10, math.inf], dtype=torch.float16)
    assert bounds.reference_excess(r, o, torch.float16).tolist() == [0.0, 2.0**-11, 0.0]


@given(matrices())
def test_the_rounded_oracle_has_no_excess(o):
    for dtype in HALF_AND_SINGLE:
        assert bounds.reference_excess(o.to(dtype), o, dtype).max() == 0


def test_excess_scale_is_the_largest_slice_by_hand():
    e = torch.tensor([[0.0, 2.0], [0.0, 0.0]], dtype=torch.float64)
    root = math.sqrt(2.0)
    assert bounds.excess_scale(e).flatten().tolist() == pytest.approx([root, root, 0.0, root])


# the bound


def test_bound_by_hand():
    o = torch.tensor([[3.0, 4.0], [3.0, 4.0]], dtype=torch.float64)
    r = o.clone()
    r[0, 0] += 0.5
    excess = 0.5 - 2.0**-23  # ½ulp of 3 is 2⁻²³
    e = excess / math.sqrt(2.0)
    row, columns = math.sqrt(12.5), [3.0, 4.0]
    t = bounds.bound(o, torch.float32, reference=r)
    expected_00 = 2.0**-23 + 2.0**-14 * (3.0 + min(row, columns[0])) + 16 * e
    expected_11 = 2.0**-22 + 2.0**-14 * (4.0 + min(row, columns[1])) + 0.0
    assert t[0, 0].item() == pytest.approx(expected_00, rel=1e-14)
    assert t[1, 1].item() == pytest.approx(expected_11, rel=1e-14)


@given(matrices())
def test_the_rounded_oracle_is_within_half_ulp_of_every_bound(o):
    for dtype in HALF_AND_SINGLE:
        d = (o.to(dtype).double() - o).abs()
        assert bool((d <= bounds.bound(o, dtype)).all())
        assert float(torch.linalg.vector_norm(d)) <= bounds.l2_bound(o, dtype)


@given(st.integers(0, 2**32 - 1), st.sampled_from([torch.float16, torch.float32, torch.bfloat16]))
def test_the_rounded_oracle_passes_where_it_is_subnormal(seed, dtype):
    o = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    o *= torch.finfo(dtype).tiny * 2.0**-3
    d = (o.to(dtype).double() - o).abs()
    assert bool((d <= bounds.bound(o, dtype)).all())
    assert float(torch.linalg.vector_norm(d)) <= bounds.l2_bound(o, dtype)


@given(matrices(), st.integers(-6, 6), st.integers(0, 2**32 - 1))
def test_bound_scales_with_powers_of_two(o, power, seed):
    factor = 2.0**power
    o = torch.where(o == 0, 0.5, o)  # the spacing at 0 belongs to the format, not to the data
    noise = torch.randn(o.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 1e-2
    for dtype in HALF_AND_SINGLE:
        plain = bounds.bound(o, dtype, reference=o + noise)
        scaled = bounds.bound(o * factor, dtype, reference=(o + noise) * factor)
        assert torch.equal(scaled, plain * factor)
        l2 = bounds.l2_bound(o, dtype, reference=o + noise)
        scaled_l2 = bounds.l2_bound(o * factor, dtype, reference=(o + noise) * factor)
        assert scaled_l2 == pytest.approx(l2 * factor, rel=1e-12)


@given(matrices(), st.randoms(use_true_random=False))
def test_bound_follows_permutations_of_rows_columns_and_axes(o, random):
    rows, columns = list(range(o.shape[0])), list(range(o.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    t = bounds.bound(o, torch.float32)
    assert torch.allclose(bounds.bound(o[rows][:, columns], torch.float32), t[rows][:, columns], rtol=1e-13, atol=0)
    assert torch.allclose(bounds.bound(o.T, torch.float32), t.T, rtol=1e-13, atol=0)


@given(matrices(), matrices())
@settings(max_examples=50)
def test_a_reference_only_widens(o, other):
    r = o + other.flatten()[: o.numel()].sum() * 1e-3
    for dtype in HALF_AND_SINGLE:
        assert bool((bounds.bound(o, dtype, reference=r) >= bounds.bound(o, dtype)).all())
        assert bounds.l2_bound(o, dtype, reference=r) >= bounds.l2_bound(o, dtype)


def test_blocks_are_the_whole_bound_in_pieces():
    o = torch.randn(9, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    r = o.to(torch.float32) * (1 + 1e-5)
    whole = bounds.bound(o, torch.float32, reference=r, tolerance=Tolerance())
    rule = bounds.ElementBound(o, torch.float32, reference=r, tolerance=Tolerance())
    pieces = torch.cat([rule.block(a, min(a + 2, 9))[0] for a in range(0, 9, 2)])
    assert torch.equal(pieces, whole)


def test_l2_bound_by_hand():
    o = torch.tensor([3.0, 4.0], dtype=torch.float64)
    r = torch.tensor([3.0, 5.0], dtype=torch.float64)
    assert bounds.l2_bound(o, torch.float32) == pytest.approx(5 * 512 / 2**24, rel=1e-14)
    expected = 5 * 512 / 2**24 + 4 * (1 - 2.0**-22)
    assert bounds.l2_bound(o, torch.float32, reference=r) == pytest.approx(expected, rel=1e-14)
    assert bounds.l2_bound(o, torch.float32, precision="tf32") == pytest.approx(5e-3, rel=1e-14)
    assert bounds.l2_bound(_f64(3.0, 4.0, math.inf), torch.float32) == bounds.l2_bound(o, torch.float32)


# the cap


def test_cap_limits_to_the_users_tolerance():
    o, t = _f64(0.0, 1.0, 100.0), _f64(1.0, 1.0, 1.0)
    capped = bounds.cap(t, o, torch.float32, Tolerance(atol=1e-3, rtol=1e-3))
    assert capped.tolist() == pytest.approx([1e-3, 2e-3, 0.101])


def test_cap_yields_only_where_the_reference_is_outside():
    o, t = _f64(1.0, 1.0, 1.0), _f64(0.5, 0.5, 0.5)
    r = torch.tensor([1.0, 1.0019, 1.0021])
    assert bounds.cap(t, o, torch.float32, Tolerance(), r).tolist() == pytest.approx([2e-3, 2e-3, 0.5])


def test_cap_never_widens_and_never_forbids_rounding():
    o, t = _f64(1.0), _f64(1e-5)
    assert bounds.cap(t, o, torch.float32, Tolerance()).item() == 1e-5
    assert bounds.cap(t, o, torch.float32, Tolerance(atol=1e-30, rtol=1e-30)).item() == 2.0**-24


def test_bound_uses_the_cap_for_float32_in_ieee_only():
    o = torch.full((4, 4), 1.0, dtype=torch.float64)
    tight = Tolerance(atol=1e-6, rtol=1e-6)
    assert bounds.bound(o, torch.float32, tolerance=tight).max().item() == pytest.approx(2e-6)
    for dtype, precision in [(torch.float16, "ieee"), (torch.bfloat16, "ieee"), (torch.float32, "tf32")]:
        free = bounds.bound(o, dtype, precision=precision)
        assert torch.equal(bounds.bound(o, dtype, tolerance=tight, precision=precision), free)


@given(matrices(), st.floats(1e-8, 1e-1), st.floats(1e-8, 1e-1))
def test_no_float32_element_passes_outside_the_cap_unless_the_reference_is_outside(o, atol, rtol):
    r = o + 3e-3
    t = bounds.bound(o, torch.float32, reference=r, tolerance=Tolerance(atol=atol, rtol=rtol))
    limit = torch.maximum(atol + rtol * o.abs(), 0.5 * bounds.ulp(o, torch.float32))
    outside = (r - o).abs() > atol + rtol * o.abs()
    assert bool((outside | (t <= limit)).all())
