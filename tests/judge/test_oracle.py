"""The reference as the judge runs it: in float64 it is the oracle, and its mistakes are the task's."""

import math

import numpy as np
import pytest
import torch
from small_tasks import make_task

from harness.judge.oracle import Reference
from harness.spec.errors import SpecError
from harness.spec.task import InputSpec


def inputs(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def test_the_oracle_is_the_reference_in_float64():
    source = "import torch\ndef f(x):\n    return torch.softmax(x, -1)\n"
    x = inputs(5, 300) * 10
    found, = Reference(make_task(source, "f")).oracle([x])
    e = np.exp(x.double().numpy() - x.double().numpy().max(-1, keepdims=True))
    truth = e / e.sum(-1, keepdims=True)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), truth, rtol=1e-14)
    assert np.abs(Reference(make_task(source, "f")).outputs([x])[0].double().numpy() - truth).max() > 1e-10


@pytest.mark.parametrize("body", [
    "x.float().exp().sum(-1)",
    "x.to(torch.float32).exp().sum(-1)",
    "x.half().to(dtype=torch.bfloat16).float().exp().sum(-1)",
    "torch.sum(x.exp(), -1, dtype=torch.float32)",
    "x.exp() @ torch.ones(x.shape[1])",
    "x.exp() @ torch.ones(x.shape[1], dtype=torch.float32)",
    "x.type_as(torch.empty(1)).exp().sum(-1)",
    "torch.zeros(x.shape[0]).add_(x.exp().sum(-1))",
    "torch.from_numpy(np.exp(x.numpy()).sum(-1))",
    "F.softmax(x, -1, dtype=torch.float32) @ torch.zeros(x.shape[1]).float() + x.float().exp().sum(-1)",
])
def test_a_reference_that_names_a_precision_is_an_oracle_in_float64_all_the_same(body):
    """The idiom of half the references in the field, which would make the oracle as wrong as the kernels."""
    source = f"import numpy as np\nimport torch\nimport torch.nn.functional as F\ndef f(x):\n    return {body}\n"
    x = inputs(4, 3000)
    found, = Reference(make_task(source, "f")).oracle([x])
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), np.exp(x.double().numpy()).sum(-1), rtol=1e-12)
    assert torch.get_default_dtype() == torch.float32 and torch.ones(1).dtype == torch.float32


def test_a_module_with_constants_of_its_own_is_an_oracle_in_float64():
    source = ("import torch\nclass M(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
              "        self.k = torch.tensor(3.0)\n    def forward(self, x):\n        return (x.float() * self.k).tanh()\n")
    x = inputs(50)
    found, = Reference(make_task(source, "M")).oracle([x])
    np.testing.assert_allclose(found.numpy(), np.tanh(3 * x.double().numpy()), rtol=1e-14)


def test_the_references_own_result_keeps_the_dtype():
    reference = Reference(make_task("def f(x):\n    return x + 1\n", "f"))
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        assert reference.outputs([inputs(3, dtype=dtype)])[0].dtype == dtype


def test_integers_and_booleans_stay_what_they_are():
    source = ("def f(x, i, m):\n    assert x.dtype.itemsize == 8 and not i.is_floating_point()\n"
              "    return x[i].where(m, 0 * x[i])\n")
    task = make_task(source, "f", inputs={n: InputSpec(shape=[3]) for n in "xim"})
    found, = Reference(task).oracle([torch.tensor([1.0, 2.0, 4.0]), torch.tensor([2, 0, 1]),
                                     torch.tensor([True, True, False])])
    assert found.tolist() == [4.0, 1.0, 0.0]


def test_arguments_models_and_several_outputs():
    task = make_task("def f(x, k, mode):\n    return [x * k, x.t() if mode == 'turn' else x]\n", "f", outputs=2,
                     args={"k": 3, "mode": "turn"})
    first, second = Reference(task).oracle([torch.ones(2, 4)])
    assert first.sum() == 24 and second.shape == (4, 2) and second.is_contiguous()
    model = ("import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
             "        return x + (1 if not self.training else 100)\n")
    assert Reference(make_task(model, "Model")).oracle([torch.zeros(1)])[0].item() == 1


def test_no_graph_is_kept():
    source = "import torch\nw = torch.ones(1, requires_grad=True)\ndef f(x):\n    return x * w\n"
    assert not Reference(make_task(source, "f")).outputs([torch.ones(1)])[0].requires_grad


@pytest.mark.parametrize("source, entry, words", [
    ("def f(x)\n", "f", "cannot be loaded: SyntaxError"),
    ("def f(x):\n    return x\n", "g", "cannot be loaded: AttributeError"),
    ("import nowhere_at_all\n", "f", "cannot be loaded: ModuleNotFoundError"),
    ("class f:\n    def __init__(self, need):\n        pass\n", "f", "cannot be loaded: TypeError"),
])
def test_a_reference_that_does_not_load(source, entry, words):
    with pytest.raises(SpecError, match=f"task affine: the reference affine.py:affine {words}"):
        Reference(make_task(source, entry))


def test_a_reference_that_raises_names_the_shapes():
    reference = Reference(make_task("def f(x):\n    return x.view(7, 11)\n", "f"))
    with pytest.raises(SpecError, match=r"raised on x=\[2, 3\]: RuntimeError"):
        reference.oracle([torch.ones(2, 3)])


@pytest.mark.parametrize("answer, outputs, words", [
    ("(x, x)", 1, "returned a tensor, a tensor; the task declares 1 tensor "),
    ("x", 2, "returned a tensor; the task declares 2 tensors"),
    ("x.tolist()", 4, "returned float, float, float, float; the task declares 4"),
    ("None", 1, "returned NoneType; the task declares 1"),
    ("()", 1, "returned nothing; the task declares 1"),
    ("3.0", 1, "returned float"),
])
def test_a_reference_that_returns_something_else(answer, outputs, words):
    reference = Reference(make_task(f"def f(x):\n    return {answer}\n", "f", outputs=outputs))
    with pytest.raises(SpecError, match=words):
        reference.outputs([torch.ones(4)])


@pytest.mark.parametrize("body", ["x.mul_(2)", "x[0] = 1", "torch.relu_(x)", "torch.add(x, 1, out=x)"])
def test_a_reference_that_writes_into_its_input_is_refused(body):
    """Its answer would be that to other inputs than the kernels get."""
    reference = Reference(make_task(f"import torch\ndef f(x):\n    {body}\n    return x + 1\n", "f"))
    with pytest.raises(SpecError, match="affine.py:affine writes into its input x"):
        reference.outputs([torch.ones(4)])
    reference = Reference(make_task(f"import torch\ndef f(x):\n    x = x.clone()\n    {body}\n    return x\n", "f"))
    assert reference.outputs([torch.zeros(4)])[0].shape == (4,)


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt"])
def test_a_reference_that_exits_has_raised(kind):
    with pytest.raises(SpecError, match=f"cannot be loaded: {kind}: 3"):
        Reference(make_task(f"raise {kind}(3)\n", "f"))
    with pytest.raises(SpecError, match=rf"raised on x=\[1\]: {kind}: 3"):
        Reference(make_task(f"def f(x):\n    raise {kind}(3)\n", "f")).outputs([torch.ones(1)])


def test_references_of_two_tasks_do_not_share_names():
    first = Reference(make_task("k = 1\ndef f(x):\n    return x + k\n", "f"))
    second = Reference(make_task("k = 100\ndef f(x):\n    return x + k\n", "f"))
    assert first.outputs([torch.zeros(1)])[0].item() == 1 and second.outputs([torch.zeros(1)])[0].item() == 100


def test_the_oracle_of_a_long_sum_is_exact_where_float32_is_not():
    x = torch.full((1, 3_000_000), 0.1)
    source = "def f(x):\n    return x.cumsum(-1)[:, -1]\n"
    exact = math.fsum([float(torch.tensor(0.1))] * 3_000_000)
    assert Reference(make_task(source, "f")).oracle([x])[0].item() == pytest.approx(exact, rel=1e-10)
    assert abs(Reference(make_task(source, "f")).outputs([x])[0].item() - exact) > 1e-3
