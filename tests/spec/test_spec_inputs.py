"""Drawn inputs against their declared distributions."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy import stats

from harness.spec.errors import SpecError
from harness.spec.inputs import ITEMSIZE, draw, draw_all, is_floating, itemsize, resolve, torch_dtype
from harness.spec.task import Case, InputSpec, Task


def drawn(init, shape=("n",), dtype="float32", n=20000, seed=1, **more):
    return draw(InputSpec(shape=list(shape), init=init), {"n": n}, dtype, np.random.default_rng(seed), **more)


def test_normal_is_normal_and_scaled():
    x = drawn({"normal": {"mean": 3.0, "std": 2.0}}, dtype="float64", scale=0.5)
    assert stats.kstest(x.numpy(), "norm", args=(1.5, 1.0)).pvalue > 1e-3


def test_uniform_is_uniform_and_scaled():
    x = drawn({"uniform": {"low": -1, "high": 3}}, scale=10.0)
    assert stats.kstest(x.numpy(), "uniform", args=(-10.0, 40.0)).pvalue > 1e-3
    assert x.min() >= -10 and x.max() <= 30


def test_defaults_are_the_standard_ones():
    assert stats.kstest(drawn({"normal": {}}).numpy(), "norm").pvalue > 1e-3
    assert stats.kstest(drawn({"uniform": {}}).numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8", "float32"])
def test_integers_reach_both_ends_and_ignore_scale(dtype):
    x = drawn({"integers": {"low": 2, "high": "n - 19993"}}, dtype=dtype, scale=0.01)
    assert sorted(set(x.tolist())) == [2, 3, 4, 5, 6]
    counts = np.unique(x.numpy(), return_counts=True)[1]
    assert stats.chisquare(counts).pvalue > 1e-3


def test_bernoulli():
    x = drawn({"bernoulli": {"p": 0.25}}, dtype="bool", scale=0.01)
    assert x.dtype == torch.bool and abs(x.float().mean().item() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 20000)
    assert set(drawn({"bernoulli": {}}, dtype="float32", scale=0.01).tolist()) == {0.0, 1.0}


def test_permutation_runs_along_the_last_axis():
    x = drawn({"permutation": {}}, shape=(5, "n"), dtype="int64", n=50)
    assert torch.equal(x.sort(-1).values, torch.arange(50).expand(5, 50))
    assert not torch.equal(x[0], x[1]) and not torch.equal(x[0], torch.arange(50))


def test_constant_ignores_scale():
    assert drawn({"constant": {"value": 2.5}}, n=3, scale=0.01).tolist() == [2.5] * 3
    assert drawn({"constant": {"value": 7}}, n=3, dtype="uint8").tolist() == [7] * 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_is_rounded_after_scaling(dtype):
    exact = drawn({"normal": {}}, scale=0.01)
    assert torch.equal(drawn({"normal": {}}, dtype=dtype, scale=0.01), exact.to(torch_dtype(dtype)))


def test_float64_has_all_its_bits():
    x = drawn({"normal": {}}, dtype="float64")
    assert (x.float().double() != x).double().mean() > 0.9


@pytest.mark.parametrize("shape", [(), (0,), ("n",), (2, "n", 3)])
@pytest.mark.parametrize("offset_free", [True, False])
@pytest.mark.parametrize(
    "init", [{"normal": {}}, {"uniform": {}}, {"integers": {"high": 3}}, {"constant": {"value": 1}}]
)
def test_shape_and_layout(shape, offset_free, init):
    x = drawn(init, shape=shape, n=4, offset_free=offset_free)
    assert x.shape == tuple(4 if s == "n" else s for s in shape)
    assert x.is_contiguous() and x.device.type == "cpu" and type(x) is torch.Tensor and not x.requires_grad
    assert (x.storage_offset() == 0) is offset_free


def test_seed_decides_and_nothing_else():
    a, b, c = (drawn({"normal": {}}, n=9, seed=s) for s in (1, 1, 2))
    assert torch.equal(a, b) and not torch.equal(a, c)
    assert torch.equal(a, drawn({"normal": {}}, n=9, offset_free=False))


@pytest.mark.parametrize(
    ("init", "words"),
    [
        ({"normla": {}}, "did you mean 'normal'"),
        ({"integers": {"low": 3, "high": 3}}, "not below high"),
        ({"permutation": {}}, "axis"),
    ],
)
def test_draw_refuses(init, words):
    with pytest.raises(SpecError, match=words):
        drawn(init, shape=())


def make_task():
    index = InputSpec(shape=[], dtype="int64", init={"integers": {"high": "n"}})
    inputs = {"x": InputSpec(shape=["n", "2*n"]), "i": index}
    return Task(name="t", reference="r.py:f", inputs=inputs, cases=[Case(name="a", dims={"n": 3}, dtype="float16")])


def test_resolve():
    task = make_task()
    x, i = resolve(task, task.cases[0])
    assert (x.name, x.shape, x.dtype, x.elements, x.nbytes) == ("x", (3, 6), "float16", 18, 36)
    assert (i.name, i.shape, i.dtype, i.elements, i.nbytes) == ("i", (), "int64", 1, 8)
    for resolved, tensor in zip((x, i), draw_all(task, task.cases[0], np.random.default_rng(0)).values()):
        assert tensor.shape == resolved.shape and tensor.dtype == torch_dtype(resolved.dtype)


@pytest.mark.parametrize("dtype", ITEMSIZE)
def test_dtypes_agree_with_torch(dtype):
    assert itemsize(dtype) == torch_dtype(dtype).itemsize and is_floating(dtype) == torch_dtype(dtype).is_floating_point


def test_unknown_dtype():
    with pytest.raises(SpecError, match="did you mean 'bfloat16'"):
        torch_dtype("bfloat61")


def test_loading_tasks_imports_neither_torch_nor_numpy():
    code = "import sys; from harness.spec.content import Content; Content.discover().select(['*'])\n"
    code += "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
