"""Honest implementations pass and wrong ones fail, in every dtype; and the report says where and by how much."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judge import tolerance as bounds
from harness.judge.compare import MAX_RATIO, Comparison, UnsupportedComparison, compare, merge
from harness.spec.task import Tolerance

settings.register_profile("no-deadline", deadline=None)  # a busy machine is not a failure
settings.load_profile("no-deadline")

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
HALVES = [torch.float16, torch.bfloat16]
SCALES = [1.0, 0.01]


def _random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def judge(y, reference, *inputs, dtype, scale=1.0, **options):
    """y against reference(*inputs) in float64, calibrated by reference(*inputs) as it is."""
    o = reference(*(x.double() for x in inputs))
    options.setdefault("tolerance", Tolerance())
    return compare(y.to(dtype), o, dtype=dtype, reference=lambda: reference(*inputs), cap=scale == 1.0, **options)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Many small operations on a machine that others use: waiting for a second thread costs more than it brings."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# Four operations: the reference, its inputs, and honest ways to compute it in float32 inside


def softmax(x):
    return torch.softmax(x, -1)


def matmul(a, b):
    return a @ b


def gelu(x):
    return F.gelu(x)


def layernorm(x):
    return F.layer_norm(x, x.shape[-1:])


def inputs_of(op, dtype, scale=1.0):
    shapes = {softmax: [(48, 4096)], matmul: [(64, 512), (512, 48)], gelu: [(64, 300)], layernorm: [(40, 768)]}
    return [(_random(*shape, seed=i) * scale).to(dtype) for i, shape in enumerate(shapes[op])]


def softmax_online(x, block=128):
    """Flash-style: a running maximum and a rescaled running sum."""
    x = x.float()
    top = torch.full((x.shape[0], 1), -math.inf)
    total = torch.zeros(x.shape[0], 1)
    for part in x.split(block, -1):
        new = torch.maximum(top, part.amax(-1, keepdim=True))
        total = total * torch.exp(top - new) + torch.exp(part - new).sum(-1, keepdim=True)
        top = new
    return torch.exp(x - top) / total


def softmax_by(add):
    def compute(x):
        e = torch.exp(x.float() - x.float().amax(-1, keepdim=True))
        return e / add(e)

    return compute


def add_reversed(e):
    return e.flip(-1).cumsum(-1)[..., -1:]


def add_blocked(e):
    return torch.stack([p.sum(-1, keepdim=True) for p in e.split(100, -1)]).sum(0)


def add_pairwise(e):
    while e.shape[-1] > 1:
        if e.shape[-1] % 2:
            e = F.pad(e, (0, 1))
        e = e[..., ::2] + e[..., 1::2]
    return e


def add_double(e):
    return e.double().sum(-1, keepdim=True).float()


def matmul_blocked(a, b, block=64):
    acc = torch.zeros(a.shape[0], b.shape[1])
    for k in range(0, a.shape[1], block):
        acc += a[:, k : k + block].float() @ b[k : k + block].float()
    return acc


def matmul_reversed(a, b):
    return a.float().flip(1) @ b.float().flip(0)


def matmul_serial(a, b):
    acc = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        acc += a[:, k : k + 1].float() * b[k : k + 1].float()
    return acc


def matmul_double(a, b):
    return a.double() @ b.double()


def gelu_fused(x):
    x = x.float()
    return 0.5 * x * (1 + torch.erf(x * (1 / math.sqrt(2))))


def layernorm_two_pass(x):
    d = x.float() - x.float().mean(-1, keepdim=True)
    return d * torch.rsqrt(d.square().mean(-1, keepdim=True) + 1e-5)


def layernorm_blocked(x, block=64):
    """Blocks' means and squares merged as by Chan et al."""
    mean, m2, n = torch.zeros(x.shape[0], 1), torch.zeros(x.shape[0], 1), 0
    for part in x.float().split(block, -1):
        k = part.shape[-1]
        part_mean = part.mean(-1, keepdim=True)
        gap = part_mean - mean
        m2 = m2 + (part - part_mean).square().sum(-1, keepdim=True) + gap.square() * n * k / (n + k)
        mean, n = mean + gap * k / (n + k), n + k
    return (x.float() - mean) * torch.rsqrt(m2 / n + 1e-5)


HONEST = [
    (softmax, softmax_online),
    (softmax, softmax_by(add_reversed)),
    (softmax, softmax_by(add_blocked)),
    (softmax, softmax_by(add_pairwise)),
    (softmax, softmax_by(add_double)),
    (matmul, matmul_blocked),
    (matmul, matmul_reversed),
    (matmul, matmul_serial),
    (matmul, matmul_double),
    (gelu, gelu_fused),
    (layernorm, layernorm_two_pass),
    (layernorm, layernorm_blocked),
]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op, variant", HONEST)
def test_honest_variants_pass(op, variant, dtype, scale):
    inputs = inputs_of(op, dtype, scale)
    found = judge(variant(*inputs), op, *inputs, dtype=dtype, scale=scale)
    assert found.ok, found.message
    assert found.looks_like == "float32"


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [softmax, matmul, gelu, layernorm])
def test_torchs_own_reference_passes_with_room(op, dtype, scale):
    inputs = inputs_of(op, dtype, scale)
    found = judge(op(*inputs), op, *inputs, dtype=dtype, scale=scale)
    # Half outputs cannot be closer than their rounding, two thirds of what L2 allows.
    assert found.worst_ratio < 0.5 and found.l2_ratio < 0.7, found


@pytest.mark.parametrize("dtype", DTYPES)
def test_more_accurate_than_eager_passes(dtype):
    def eager(x, bias, residual):
        return F.gelu(x + bias) + residual

    inputs = [_random(64, 300).to(dtype), _random(300, seed=1).to(dtype), _random(64, 300, seed=2).to(dtype)]
    exact = eager(*(x.double() for x in inputs)).to(dtype)
    found = judge(exact, eager, *inputs, dtype=dtype)
    assert found.ok and found.worst_ratio < 0.5
    fused = eager(*(x.float() for x in inputs)).to(dtype)
    assert judge(fused, eager, *inputs, dtype=dtype).ok


# Wrong ones


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_for_a_wide_softmax_fail_though_a_flat_tolerance_lets_them_pass(dtype):
    (x,) = inputs_of(softmax, dtype)
    zeros = torch.zeros_like(x)
    found = judge(zeros, softmax, x, dtype=dtype)
    assert not found.ok and found.worst_ratio > 10
    narrow = 0.3 * x  # all values near 1/4096: what a flat 1e-3 cannot see
    assert torch.allclose(zeros.double(), softmax(narrow.double()), rtol=1e-3, atol=1e-3)
    found = judge(zeros, softmax, narrow, dtype=dtype)
    assert not found.ok and found.worst_ratio > 10


def round_mantissa(x, bits=10):
    """x (float32) to `bits` mantissa bits, to nearest: what tensor cores keep of tf32 operands."""
    m, e = torch.frexp(x)
    return torch.ldexp(torch.round(m * 2 ** (bits + 1)) / 2 ** (bits + 1), e)


@pytest.mark.parametrize("scale", SCALES)
def test_tf32_fails_under_ieee_and_passes_where_the_task_asks_for_it(scale):
    inputs = inputs_of(matmul, torch.float32, scale)
    y = matmul(*(round_mantissa(x) for x in inputs))
    found = judge(y, matmul, *inputs, dtype=torch.float32, scale=scale)
    assert not found.ok and found.looks_like == "tf32"
    assert judge(y, matmul, *inputs, dtype=torch.float32, scale=scale, precision="tf32").ok


def test_one_pass_variance_at_an_offset_fails():
    def one_pass(x):
        mean = x.mean(-1, keepdim=True)
        variance = x.square().mean(-1, keepdim=True) - mean.square()
        return (x - mean) * torch.rsqrt(variance + 1e-5)

    x = inputs_of(layernorm, torch.float32)[0] + 100
    assert judge(layernorm_two_pass(x), layernorm, x, dtype=torch.float32).ok
    assert not judge(one_pass(x), layernorm, x, dtype=torch.float32).ok


def test_tanh_gelu_for_erf_gelu_fails():
    x = _random(256, 300)
    found = judge(F.gelu(x, approximate="tanh"), gelu, x, dtype=torch.float32)
    assert not found.ok and found.worst_ratio > 2


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [softmax, gelu, layernorm])
def test_echoing_the_input_fails(op, dtype, scale):
    (x,) = inputs_of(op, dtype, scale)
    if op is layernorm:
        x = 2 * x + 1  # of standard normal data it is nearly the identity
    found = judge(x, op, x, dtype=dtype, scale=scale)
    assert not found.ok and found.worst_ratio > 10


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [softmax, matmul, gelu, layernorm])
def test_an_unwritten_row_fails_and_is_named(op, dtype):
    inputs = inputs_of(op, dtype)
    y = op(*inputs)
    y[17] = 0
    found = judge(y, op, *inputs, dtype=dtype)
    assert not found.ok and found.worst_ratio > 10
    assert found.mismatch.index[0] == 17


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_unwritten_small_row_is_judged_at_its_own_size(dtype):
    x = _random(32, 256).to(dtype)
    x[5] *= 2.0**-8
    y = gelu(x)
    assert judge(y, gelu, x, dtype=dtype).ok
    y[5] = 0
    found = judge(y, gelu, x, dtype=dtype)
    assert not found.ok and found.worst_ratio > 10 and found.mismatch.index[0] == 5


@pytest.mark.parametrize("k", [1024, 4096])
@pytest.mark.parametrize("dtype", HALVES)
def test_half_accumulation_fails(dtype, k):
    a, b = _random(24, k).to(dtype), _random(k, 16, seed=1).to(dtype)
    acc = torch.zeros(24, 16, dtype=dtype)
    for i in range(k):
        acc = acc + a[:, i : i + 1] * b[i : i + 1]
    found = judge(acc, matmul, a, b, dtype=dtype)
    assert not found.ok and found.looks_like == "half"


@pytest.mark.parametrize("dtype", HALVES)
def test_half_arithmetic_in_a_float32_task_fails(dtype):
    inputs = inputs_of(matmul, torch.float32)
    y = matmul(*(x.to(dtype) for x in inputs)).float()
    assert not judge(y, matmul, *inputs, dtype=torch.float32).ok


# The cap


def test_the_cap_holds_at_the_declared_scale_only():
    o = torch.ones(8, 8, dtype=torch.float64)
    y = torch.ones(8, 8)
    y[2, 3] += 1e-5
    tight = Tolerance(atol=1e-6, rtol=1e-6)
    assert not compare(y, o, dtype=torch.float32, tolerance=tight, cap=True).ok
    assert compare(y, o, dtype=torch.float32, tolerance=tight, cap=False).ok
    assert compare(y, o, dtype=torch.float32, tolerance=tight, cap=True, reference=lambda: y).ok


# When the reference is asked


def test_the_reference_is_not_computed_for_an_output_that_passes_without_it():
    def never():
        raise AssertionError("the reference was computed")

    o = torch.ones(4, 4, dtype=torch.float64)
    assert compare(torch.ones(4, 4), o, dtype=torch.float32, reference=never, tolerance=Tolerance()).ok


def test_the_reference_is_computed_once_where_it_is_needed_and_can_excuse():
    calls = []
    o = torch.ones(8, 8, dtype=torch.float64)
    y = torch.ones(8, 8) * (1 + 3e-4)

    def reference():
        calls.append(1)
        return torch.ones(8, 8) * (1 - 2e-4)

    found = compare(y, o, dtype=torch.float32, reference=reference, tolerance=Tolerance())
    assert found.ok and len(calls) == 1
    assert found.reference_rel_l2 == pytest.approx(2e-4, rel=1e-3)
    assert found.rel_l2 == pytest.approx(3e-4, rel=1e-3)
    assert not compare(y, o, dtype=torch.float32, tolerance=Tolerance()).ok


def test_a_reference_that_overflows_excuses_nothing():
    o = torch.ones(4, 4, dtype=torch.float64)
    broken = torch.full((4, 4), math.inf)
    assert not compare(torch.zeros(4, 4), o, dtype=torch.float32, reference=lambda: broken).ok


# Non-finite values


def _against(expected, got, dtype=torch.float16):
    o = torch.full((4, 4), 1.0, dtype=torch.float64)
    y = torch.full((4, 4), 1.0, dtype=dtype)
    o[1, 2], y[1, 2] = expected, got
    return compare(y, o, dtype=dtype)


@pytest.mark.parametrize(
    "expected, got, ok",
    [
        (math.inf, math.inf, True),
        (-math.inf, -math.inf, True),
        (math.nan, math.nan, True),
        (math.inf, -math.inf, False),
        (math.inf, math.nan, False),
        (math.inf, 65504.0, False),
        (math.nan, 1.0, False),
        (1.0, math.nan, False),
        (1.0, math.inf, False),
        (1e6, math.inf, True),  # not representable: the right answer is inf
        (-1e6, -math.inf, True),
        (-1e6, math.inf, False),
        (1e6, 65504.0, False),
        (65600.0, math.inf, True),  # within T of the largest value both are right
        (65600.0, 65504.0, True),
        (65400.0, math.inf, True),
        (65400.0, -math.inf, False),
        (60000.0, math.inf, False),
    ],
)
def test_patterns_of_non_finite_values(expected, got, ok):
    found = _against(expected, got)
    assert found.ok is ok
    if not ok:
        assert found.mismatch.index == [1, 2] and found.mismatch.wrong_elements == 1
        assert math.isfinite(found.worst_ratio) and found.worst_ratio > 1


def test_non_finite_values_are_written_as_text():
    found = _against(1.0, math.nan)
    assert found.mismatch.got == "nan" and found.mismatch.expected == 1.0
    assert found.worst_ratio == MAX_RATIO and found.looks_like is None
    assert "expected 1.0, got nan" in found.message


def test_a_masked_softmax_row_of_nan_passes():
    x = torch.full((3, 5), -math.inf)
    x[0] = 1.0
    found = judge(softmax(x), softmax, x, dtype=torch.float32)
    assert found.ok and found.max_abs < 1e-6


# The report


def test_the_first_wrong_element_and_its_message():
    o = torch.full((5, 40), 0.0123, dtype=torch.float64)
    y = torch.full((5, 40), 0.0123)
    y[3, 17] = 0
    y[4, 2] = 0.02
    found = compare(y, o, dtype=torch.float32, output=1)
    assert found.mismatch.output == 1 and found.mismatch.index == [3, 17]
    assert found.mismatch.wrong_elements == 2 and found.mismatch.elements == 200
    expected = "output 1 wrong at [3, 17]: expected 0.0123, got 0 (2 of 200 elements wrong, worst "
    assert found.message.startswith(expected)
    assert found.max_abs == pytest.approx(0.0123) and found.max_rel == pytest.approx(1.0)
    assert found.rel_l2 == pytest.approx(math.sqrt(0.0123**2 + 0.0077**2) / (0.0123 * math.sqrt(200)), rel=1e-6)


def test_the_message_shows_digits_that_differ():
    o = torch.ones(3, 3, dtype=torch.float64)
    y = torch.ones(3, 3)
    y[0, 1] = 1.0004
    assert "expected 1, got 1.0004 (" in compare(y, o, dtype=torch.float32).message


def test_an_error_everywhere_within_each_bound_fails_overall():
    o = torch.full((50, 50), 1.0, dtype=torch.float64)
    y = torch.full((50, 50), 1.0 + 2.0**-14)
    found = compare(y, o, dtype=torch.float32)
    assert not found.ok and found.worst_ratio <= 1 and found.l2_ratio == pytest.approx(2, rel=1e-3)
    assert found.message.startswith("output 0 wrong overall: relative L2 error 6.1e-05, 2× the bound")
    assert found.mismatch.wrong_elements == 0


def test_indices_are_right_beyond_the_first_block():
    o = torch.ones(700, 300, dtype=torch.float64)
    y = torch.ones(700, 300)
    y[650, 299] = 2
    found = compare(y, o, dtype=torch.float32)
    assert found.mismatch.index == [650, 299] and found.mismatch.wrong_elements == 1


def test_the_overall_bound_is_that_of_l2_bound():
    o, r = _random(300, 200).double(), _random(300, 200) * (1 + 1e-3)
    y = 1.001 * _random(300, 200)
    error = float((y.double() - o).norm())
    found = compare(y, o, dtype=torch.float32, reference=lambda: r)
    assert found.l2_ratio == pytest.approx(error / bounds.l2_bound(o, torch.float32, reference=r), rel=1e-9)
    found = compare(y, o, dtype=torch.float32)
    assert found.l2_ratio == pytest.approx(error / bounds.l2_bound(o, torch.float32), rel=1e-9)


def test_figures_do_not_depend_on_how_the_output_is_cut():
    o = _random(2000, 150).double()
    y = (o * (1 + 1e-6 * _random(2000, 150, seed=1))).float()
    d = (y.double() - o).abs()
    found = compare(y, o, dtype=torch.float32)
    assert found.max_abs == d.max().item()
    assert found.max_rel == pytest.approx((d / o.abs()).max().item(), rel=1e-12)
    assert found.rel_l2 == pytest.approx((d.norm() / o.norm()).item(), rel=1e-12)


@pytest.mark.parametrize("wrong", [torch.zeros(2, 3), torch.zeros(3, 2, dtype=torch.float16)])
def test_wrong_shape_or_dtype_is_a_wrong_output(wrong):
    found = compare(wrong, torch.zeros(3, 2, dtype=torch.float64), dtype=torch.float32)
    assert not found.ok and "output 0 must be float32[3, 2], got" in found.message


def test_scalars_and_empty_outputs():
    o = torch.tensor(2.5, dtype=torch.float64)
    assert compare(torch.tensor(2.5), o, dtype=torch.float32).ok
    found = compare(torch.tensor(0.0), o, dtype=torch.float32, reference=lambda: torch.tensor(2.5))
    assert not found.ok and found.mismatch.index == [] and "wrong at []" in found.message
    assert compare(torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.float64), dtype=torch.float32).ok


@given(st.integers(0, 2**32 - 1), st.randoms(use_true_random=False))
def test_the_verdict_does_not_depend_on_the_order_of_rows(seed, random):
    o = _random(9, 5, seed=seed).double()
    y = (o * (1 + 2e-4 * _random(9, 5, seed=seed // 2))).float()
    order = list(range(9))
    random.shuffle(order)
    one, other = compare(y, o, dtype=torch.float32), compare(y[order], o[order], dtype=torch.float32)
    assert one.ok == other.ok
    assert one.worst_ratio == pytest.approx(other.worst_ratio, rel=1e-12)
    assert one.rel_l2 == pytest.approx(other.rel_l2, rel=1e-12)


# Other kinds


def test_integers_and_booleans_are_compared_exactly():
    o = torch.tensor([[1, 2], [3, 4]])
    assert compare(o.clone(), o, dtype=torch.int64).ok
    y = o.clone()
    y[1, 0] = 5
    found = compare(y, o, dtype=torch.int64)
    assert not found.ok and found.max_abs == 2
    assert found.message == "output 0 wrong at [1, 0]: expected 3, got 5 (1 of 4 elements wrong)"
    flags = torch.tensor([True, False])
    assert compare(flags, flags, dtype=torch.bool, kind="exact").ok
    assert compare(~flags, flags, dtype=torch.bool).mismatch.expected == 1


def test_exact_floats_allow_no_rounding():
    o = torch.tensor([1.0, math.nan, -0.0], dtype=torch.float64)
    assert compare(torch.tensor([1.0, math.nan, 0.0]), o, dtype=torch.float32, kind="exact").ok
    assert not compare(torch.tensor([1.0 + 2.0**-23, math.nan, 0.0]), o, dtype=torch.float32, kind="exact").ok


def test_quantised_outputs_may_be_off_by_one_step_rarely():
    o = torch.zeros(100, 100, dtype=torch.int64)
    y = torch.zeros(100, 100, dtype=torch.int8)
    y[0, :10] = 1  # one in a thousand
    assert compare(y, o, dtype=torch.int8, kind="quantised").ok
    y[1, :10] = -1
    found = compare(y, o, dtype=torch.int8, kind="quantised")
    assert not found.ok and found.worst_ratio == pytest.approx(2) and "off by one step" in found.message
    assert compare(y, o, dtype=torch.int8, kind="quantised", reference=lambda: y[torch.randperm(100)]).ok
    y[5, 6] = 2
    found = compare(y, o, dtype=torch.int8, kind="quantised", reference=lambda: y)
    assert not found.ok and found.mismatch.index == [5, 6]


@pytest.mark.parametrize("kind", ["selection", "typo"])
def test_other_kinds_are_refused_with_what_to_use(kind):
    o = torch.zeros(2, dtype=torch.float64)
    with pytest.raises(UnsupportedComparison, match=f"{kind} is not a comparison of values; use values"):
        compare(o.float(), o, dtype=torch.float32, kind=kind)


def test_merge_keeps_the_largest_of_each():
    merged = merge(
        [
            Comparison(ok=True, worst_ratio=0.1, max_abs=1e-3, max_rel=0.5, rel_l2=1e-7, looks_like="float32"),
            Comparison(ok=False, worst_ratio=7.0, max_abs=1e-4, rel_l2=4e-4, looks_like="tf32", reference_rel_l2=1e-7),
            Comparison(ok=True),
        ]
    )
    assert merged.worst_ratio == 7.0 and merged.max_abs == 1e-3 and merged.max_rel == 0.5
    assert merged.rel_l2 == 4e-4 and merged.looks_like == "tf32" and merged.reference_rel_l2 == 1e-7
    assert merge([]).worst_ratio is None
