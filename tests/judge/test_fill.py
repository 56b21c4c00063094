"""Fresh inputs: of the declared distribution, and never the same twice.

Bounds are for error probabilities below 1e-6 per test, so that a failure means something.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.judge.fill import Bank, entropy, torch_shape
from harness.spec.inputs import draw
from harness.spec.task import InputSpec

COUNT = 20_000


def spec_of(kind, shape=("n",), dtype=None, **options):
    return InputSpec(shape=list(shape), dtype=dtype, init={kind: options})


def fills(bank, times):
    for _ in range(times):
        target = torch.empty(bank.shape, dtype=getattr(torch, bank.dtype))
        bank.fill(target)
        yield target


def one(spec, n=COUNT, dtype="float32", scale=1.0, **dims):
    return next(fills(Bank(spec, {"n": n, **dims}, dtype, scale), 1))


# Distributions


@pytest.mark.parametrize("mean, std, scale", [(0.0, 1.0, 1.0), (3.0, 0.5, 1.0), (-1.0, 2.0, 0.01), (100.0, 1.0, 1.0)])
def test_normal_moments(mean, std, scale):
    """Each fill stays within 12 % of the declared standard deviation, and their mean square is the declared one."""
    bank = Bank(spec_of("normal", mean=mean, std=std), {"n": COUNT}, "float32", scale)
    found = [(float(x.double().mean()), float(x.double().std())) for x in fills(bank, 40)]
    width = std * scale
    for m, s in found:
        assert abs(m - mean * scale) < 6 * 1.6 * width / math.sqrt(COUNT) + 1e-6 * abs(mean * scale)
        assert 0.87 * width < s < 1.14 * width
    assert np.mean([s**2 for _, s in found]) == pytest.approx(width**2, rel=0.12)
    assert np.std([s for _, s in found]) > 0.02 * width  # the factor is drawn anew for each


def test_normal_stays_normal():
    for x in fills(Bank(spec_of("normal", mean=1.0, std=3.0), {"n": COUNT}, "float32"), 8):
        values = x.double().numpy()
        assert stats.kstest((values - values.mean()) / values.std(), "norm").pvalue > 1e-7
        assert abs(stats.skew(values)) < 0.08 and abs(stats.kurtosis(values)) < 0.16


@pytest.mark.parametrize("low, high, scale", [(0.0, 1.0, 1.0), (-2.0, 5.0, 1.0), (1.0, 2.0, 0.01)])
def test_uniform_is_uniform(low, high, scale):
    for x in fills(Bank(spec_of("uniform", low=low, high=high), {"n": COUNT}, "float32", scale), 8):
        values = x.double().numpy()
        width = (high - low) * scale
        assert values.min() >= low * scale - 1e-6 * width and values.max() <= high * scale + 1e-6 * width
        assert stats.kstest((values - low * scale) / width, "uniform").pvalue > 1e-7


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
def test_integers_are_uniform_over_their_range(dtype):
    bank = Bank(spec_of("integers", dtype=dtype, low=3, high=11), {"n": COUNT}, "float32")
    for x in fills(bank, 6):
        assert str(x.dtype) == f"torch.{dtype}"
        counts = np.bincount(x.numpy().astype(int), minlength=11)
        assert counts[:3].sum() == 0 and len(counts) == 11
        assert stats.chisquare(counts[3:]).pvalue > 1e-7


@given(st.integers(-50, 50), st.integers(1, 60), st.integers(1, 300))
@settings(max_examples=40)
def test_integers_stay_in_range(low, span, n):
    for x in fills(Bank(spec_of("integers", dtype="int64", low=low, high=low + span), {"n": n}, "float32"), 3):
        assert low <= int(x.min()) and int(x.max()) < low + span


def test_integers_below_an_expression():
    x = one(spec_of("integers", dtype="int64", low="n - 2", high="2*n"), 100)
    assert 98 <= int(x.min()) and 150 < int(x.max()) < 200


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_bernoulli_has_its_rate(p, dtype):
    for x in fills(Bank(spec_of("bernoulli", dtype=dtype, p=p), {"n": COUNT}, "float32"), 3):
        assert set(x.double().unique().tolist()) <= {0.0, 1.0}
        assert abs(float(x.double().mean()) - p) < 6 * math.sqrt(p * (1 - p) / COUNT)


def test_permutation_rows_are_permutations():
    bank = Bank(spec_of("permutation", shape=("n", 50), dtype="int64"), {"n": 20}, "float32")
    for x in fills(bank, 3):
        assert (x.sort(dim=-1).values == torch.arange(50)).all()
        assert len({tuple(row) for row in x.tolist()}) == 20


def test_constant_is_constant_whatever_the_scale():
    assert (one(spec_of("constant", value=2.5), 9, scale=0.01) == 2.5).all()
    assert (one(spec_of("constant", value=7, dtype="int32"), 9) == 7).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_other_floating_types(dtype, kind):
    x = one(spec_of(kind), dtype=dtype)
    assert str(x.dtype) == f"torch.{dtype}" and torch.isfinite(x).all()
    like = draw(spec_of(kind), {"n": COUNT}, dtype, np.random.default_rng(0))
    assert float(x.double().std()) == pytest.approx(float(like.double().std()), rel=0.14)


def test_an_inputs_own_dtype_goes_before_the_cases():
    assert one(spec_of("normal", dtype="float16"), dtype="float32").dtype == torch.float16
    assert torch_shape(spec_of("normal", dtype="float16", shape=("2*n", 3)), {"n": 4}, "float32") == (
        torch.float16, (8, 3))


# Freshness


@pytest.mark.parametrize("spec", [spec_of("normal"), spec_of("uniform"), spec_of("bernoulli"),
                                  spec_of("integers", dtype="int64", low=0, high=1000),
                                  spec_of("permutation", dtype="int64")], ids=lambda s: next(iter(s.init)))
@pytest.mark.parametrize("n", [64, 5000])
def test_no_two_fills_are_equal(spec, n):
    bank = Bank(spec, {"n": n}, "float32")
    seen = {x.numpy().tobytes() for x in fills(bank, 200)} | {x.numpy().tobytes() for x in fills(
        Bank(spec, {"n": n}, "float32"), 200)}
    assert len(seen) == 400


def test_one_fill_does_not_tell_the_next():
    """Neither the values nor their order carry over: correlations of neighbouring fills are those of noise."""
    for kind in ("normal", "uniform"):
        found = list(fills(Bank(spec_of(kind), {"n": COUNT}, "float32"), 12))
        for a, b in zip(found, found[1:]):
            assert abs(np.corrcoef(a.numpy(), b.numpy())[0, 1]) < 7 / math.sqrt(COUNT)


def test_elements_of_a_fill_are_not_copies_of_each_other():
    for kind in ("normal", "uniform"):
        x = one(spec_of(kind)).numpy()
        assert len(np.unique(x)) > 0.99 * COUNT
        assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 7 / math.sqrt(COUNT)


def test_the_secret_comes_from_the_operating_system(monkeypatch):
    asked = []

    def urandom(count):
        asked.append(count)
        return bytes(count)

    np.random.seed(0)
    torch.manual_seed(0)
    first, second = entropy().random(4), entropy().random(4)
    assert (first != second).all()
    monkeypatch.setattr("os.urandom", urandom)
    assert (entropy().random(4) == entropy().random(4)).all() and asked == [16, 16]


def test_shapes_of_all_kinds_are_written_whole():
    for shape in ((), ("n",), (2, "n"), ("n", 1, 3)):
        bank = Bank(spec_of("normal", shape=shape), {"n": 5}, "float32")
        target = torch.full(bank.shape, math.nan)
        bank.fill(target)
        assert torch.isfinite(target).all()
