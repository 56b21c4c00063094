"""Every shipped task: it loads, its reference runs at any dtype, leaves its inputs alone and is accurate."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from harness.judge.oracle import Reference
from harness.judge.trials import judge_call, scales
from harness.spec.content import Content
from harness.spec.inputs import draw_all, resolve
from harness.spec.task import Case

CONTENT = Content.discover()
NAMES = list(CONTENT.tasks())
EPS = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def run(task, dims, dtype, scale=1.0, seed=0):
    """Inputs, the reference's outputs and the same in float64."""
    inputs = list(draw_all(task, Case(name="x", dims=dims, dtype=dtype), np.random.default_rng(seed), scale).values())
    kept = [x.clone() for x in inputs]
    reference = Reference(task)
    outputs, oracle = reference.outputs(inputs), reference.oracle(inputs)
    assert all(torch.equal(a, b) for a, b in zip(inputs, kept))
    return inputs, outputs, oracle


def small(task, size):
    return {dim: max(size, task.verify[dim][0]) for dim in task.cases[0].dims}


@pytest.mark.parametrize("name", NAMES)
def test_task_is_complete(name):
    task = CONTENT.task(name)
    assert task.title and task.tags and task.cost and task.cost.flops and task.cost.bytes
    assert len(task.hardware["cpu"].cases) == 1 and len(task.hardware["cuda"].cases) >= 3
    floating = any(spec.dtype is None for spec in task.inputs.values())
    assert not floating or any(task.case(c).dtype == "float16" for c in task.hardware["cuda"].cases)
    assert set(task.verify) == set(task.cases[0].dims) and task.dynamic
    assert all(low <= 8 < high for low, high in task.verify.values())
    # One call of the CPU's case stays small: inputs below 32 MiB.
    assert sum(r.nbytes for r in resolve(task, task.timed_cases("cpu")[0])) < 2**25


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("size", [1, 3, 17, 64])
def test_reference_passes_its_own_task_with_room(name, dtype, size):
    """At every allowed scale, by the judge's own rules, of which PyTorch's error may then only be a part."""
    task = CONTENT.task(name)
    if name == "conv2d":  # a dimension more than the others: PyTorch's own takes a minute in half types at 64
        size = min(size, 24)
    for scale in scales(task):
        inputs, outputs, oracle = run(task, small(task, size), dtype, scale)
        asked = SimpleNamespace(outputs=[(o.dtype, tuple(o.shape)) for o in outputs], dtype=dtype, scale=scale)
        for found in judge_call(task, Reference(task), inputs, outputs, asked):
            assert found.ok and found.worst_ratio <= 0.7, (scale, found)
        for output, exact in zip(outputs, oracle, strict=True):
            if output.dtype.is_floating_point:
                assert output.dtype == getattr(torch, dtype) and exact.dtype == torch.float64


@pytest.mark.parametrize("name", NAMES)
def test_reference_is_far_inside_the_cap_where_it_is_timed(name):
    task = CONTENT.task(name)
    _, outputs, oracle = run(task, task.timed_cases("cpu")[0].dims, "float32")
    for output, exact in zip(outputs, oracle, strict=True):
        if output.dtype.is_floating_point:
            finite = exact.isfinite()
            apart = (output.double() - exact)[finite].abs()
            assert (apart <= 0.1 * (1e-3 + 1e-3 * exact[finite].abs())).all()


def test_softmax_inputs_overflow_without_the_row_maximum():
    task = CONTENT.task("softmax")
    (x,), (output,), (oracle,) = run(task, {"rows": 8, "cols": 50}, "float32")
    assert not torch.isfinite(x.exp() / x.exp().sum(-1, keepdim=True)).all()
    assert torch.allclose(oracle, scipy_softmax(x), rtol=1e-12) and torch.isfinite(output).all()


def scipy_softmax(x):
    from scipy.special import softmax

    return torch.from_numpy(softmax(x.double().numpy(), axis=-1))


def test_bias_gelu_residual_is_the_erf_gelu():
    from scipy.special import erf

    task = CONTENT.task("bias_gelu_residual")
    (x, bias, residual), _, (oracle,) = run(task, {"rows": 5, "cols": 7}, "float32")
    z = (x.double() + bias.double()).numpy()
    truth = 0.5 * z * (1 + erf(z / np.sqrt(2))) + residual.double().numpy()
    assert np.allclose(oracle.numpy(), truth, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", EPS)
def test_two_matmul_may_be_reassociated(dtype):
    """The rewrite that the task is about is as accurate as the reference, within rounding, at any size."""
    task = CONTENT.task("two_matmul")
    for dims in (task.timed_cases("cpu")[0].dims, small(task, 3)):
        (a, b, c), (output,), (oracle,) = run(task, dims, dtype)
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


@pytest.mark.parametrize("size", [3, 17, 300])
def test_integer_products_are_those_of_integers(size):
    task = CONTENT.task("int8_matmul")
    (a, b), (output,), (oracle,) = run(task, small(task, size), "float32")
    truth = a.numpy().astype(np.int64) @ b.numpy().astype(np.int64)
    assert output.dtype == torch.int32 and np.array_equal(output.numpy(), truth) and torch.equal(output, oracle)
    assert a.min() < -100 and a.max() > 100 or size < 17


def test_quantised_rows_use_the_whole_range_and_round_to_the_nearest():
    task = CONTENT.task("quantise")
    (x, scale), (output,), _ = run(task, {"rows": 64, "cols": 512}, "float32")
    quotient = x.double() / scale.double()[:, None]
    assert output.min() == -127 and output.max() == 127
    assert ((output - quotient.clamp(-127, 127)).abs() <= 0.5 + 1e-4).all()


def test_masked_rows_are_nan_and_masked_entries_minus_infinity():
    task = CONTENT.task("masked_log_softmax")
    (x, mask), (output,), (oracle,) = run(task, {"rows": 200, "cols": 3}, "float32")
    empty = ~mask.any(-1)
    assert empty.any() and (~empty).any()
    assert output[empty].isnan().all() and oracle[empty].isnan().all() and not output[~empty].isnan().any()
    assert (output.isneginf() == (~mask & ~empty[:, None])).all()
    sums = output[~empty].double().exp().sum(-1)
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5)
