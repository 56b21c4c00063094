"""Every shipped task: it loads, its reference runs at any dtype, leaves its inputs alone and is accurate."""

import numpy as np
import pytest
import torch

from harness.spec.content import Content
from harness.spec.inputs import draw_all, resolve
from harness.spec.task import Case

CONTENT = Content.discover()
NAMES = list(CONTENT.tasks())
EPS = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def reference(task):
    space = {}
    exec(compile(task.reference_source, task.reference, "exec"), space)
    return space[task.reference_entry]


def run(task, dims, dtype, scale=1.0, seed=0):
    """Inputs, the reference's output and the same in float64."""
    inputs = list(draw_all(task, Case(name="x", dims=dims, dtype=dtype), np.random.default_rng(seed), scale).values())
    kept = [x.clone() for x in inputs]
    function = reference(task)
    output = function(*inputs, **task.args)
    oracle = function(*[x.double() if x.is_floating_point() else x for x in inputs], **task.args)
    assert all(torch.equal(a, b) for a, b in zip(inputs, kept))
    return inputs, output, oracle


def small(task, size):
    return {dim: max(size, task.verify[dim][0]) for dim in task.cases[0].dims}


@pytest.mark.parametrize("name", NAMES)
def test_task_is_complete(name):
    task = CONTENT.task(name)
    assert task.title and task.tags and task.cost and task.cost.flops and task.cost.bytes
    assert len(task.hardware["cpu"].cases) == 1 and len(task.hardware["cuda"].cases) >= 3
    assert any(task.case(c).dtype == "float16" for c in task.hardware["cuda"].cases)
    assert set(task.verify) == set(task.cases[0].dims) and task.dynamic
    assert all(low <= 3 < high for low, high in task.verify.values())
    # One call of the CPU's case stays small: inputs below 32 MiB.
    assert sum(r.nbytes for r in resolve(task, task.timed_cases("cpu")[0])) < 2**25


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("size", [1, 3, 17, 64])
def test_reference_agrees_with_float64(name, dtype, size):
    task = CONTENT.task(name)
    for scale in next(iter(task.inputs.values())).scales:
        _, output, oracle = run(task, small(task, size), dtype, scale)
        assert output.dtype == getattr(torch, dtype) and oracle.dtype == torch.float64
        error = (output.double() - oracle).norm() / oracle.norm()
        assert error <= 4 * EPS[dtype] * max(1, size) ** 0.5, (scale, error)


@pytest.mark.parametrize("name", NAMES)
def test_reference_is_far_inside_the_cap_where_it_is_timed(name):
    task = CONTENT.task(name)
    _, output, oracle = run(task, task.timed_cases("cpu")[0].dims, "float32")
    assert ((output.double() - oracle).abs() <= 0.1 * (1e-3 + 1e-3 * oracle.abs())).all()


def test_softmax_inputs_overflow_without_the_row_maximum():
    task = CONTENT.task("softmax")
    (x,), output, oracle = run(task, {"rows": 8, "cols": 50}, "float32")
    assert not torch.isfinite(x.exp() / x.exp().sum(-1, keepdim=True)).all()
    assert torch.allclose(oracle, scipy_softmax(x), rtol=1e-12) and torch.isfinite(output).all()


def scipy_softmax(x):
    from scipy.special import softmax

    return torch.from_numpy(softmax(x.double().numpy(), axis=-1))


def test_bias_gelu_residual_is_the_erf_gelu():
    from scipy.special import erf

    task = CONTENT.task("bias_gelu_residual")
    (x, bias, residual), _, oracle = run(task, {"rows": 5, "cols": 7}, "float32")
    z = (x.double() + bias.double()).numpy()
    truth = 0.5 * z * (1 + erf(z / np.sqrt(2))) + residual.double().numpy()
    assert np.allclose(oracle.numpy(), truth, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", EPS)
def test_two_matmul_may_be_reassociated(dtype):
    """The rewrite that the task is about is as accurate as the reference, within rounding, at any size."""
    task = CONTENT.task("two_matmul")
    for dims in (task.timed_cases("cpu")[0].dims, small(task, 3)):
        (a, b, c), output, oracle = run(task, dims, dtype)
        rewritten = (a @ (b @ c)).double()
        scale = oracle.norm()
        assert (rewritten - oracle).norm() <= 3 * (output.double() - oracle).norm() + 2 * EPS[dtype] * scale


def test_two_matmul_costs_count_the_cheaper_order():
    from harness.spec.shapes import evaluate

    task = CONTENT.task("two_matmul")
    for case in task.cases:
        d = case.dims
        asked = 2 * d["m"] * d["k"] * d["n"] + 2 * d["m"] * d["n"] * d["p"]
        assert evaluate(task.cost.flops, d) * 10 < asked
