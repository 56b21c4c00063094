"""Every shipped template and solution against float64, compiled as the judge compiles, at tiny, odd and timed sizes."""

import ctypes
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from harness.agents.kernel_file import kernel_files, read_kernel
from harness.search.space import load_space
from harness.spec.candidate import Candidate

SUITE = Path(__file__).resolve().parents[2] / "suite"
FLAGS = ["-std=c++17", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"]


def softmax(x):
    return torch.softmax(x, -1)


def bias_gelu_residual(x, bias, residual):
    return torch.nn.functional.gelu(x + bias) + residual


def matmul(a, b):
    return a @ b


def two_matmul(a, b, c):
    return (a @ b) @ c


def layer_norm(x, weight, bias):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)


def rms_norm(x, weight):
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight


def rms_norm_residual(x, residual, weight):
    s = x + residual
    return s / (s.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * weight, s


def gelu(x):
    return 0.5 * x * torch.special.erfc(-x / 2**0.5)


def cross_entropy(logits, target):
    return logits.logsumexp(-1) - logits.gather(1, target[:, None])[:, 0]


def cumsum(x):
    return x.cumsum(-1)


def matmul_bias_relu(a, b, bias):
    return (a @ b + bias).relu()


def masked_attention(q, k, v, mask):
    weights = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf).softmax(-1)
    return weights.nan_to_num(0.0) @ v


ROWS = [(1, 1), (3, 3), (17, 17), (1, 40001), (5, 64), (2, 15), (301, 781)]
# task -> reference, shapes of the inputs and of the output, sizes in the order of the task's dimensions
TASKS = {
    "softmax": (softmax, ["rc"], "rc", [(1, 1), (3, 3), (17, 17), (1, 40001), (5, 64), (2, 15), (1823, 781)]),
    "bias_gelu_residual": (
        bias_gelu_residual,
        ["rc", "c", "rc"],
        "rc",
        [(1, 1), (3, 3), (17, 17), (1, 40001), (301, 129), (1024, 1024)],
    ),
    "matmul": (
        matmul,
        ["mk", "kn"],
        "mn",
        [(1, 1, 1), (3, 3, 3), (17, 17, 17), (1, 3100, 3), (131, 67, 1031), (512, 512, 512)],
    ),
    "two_matmul": (
        two_matmul,
        ["mk", "kn", "np"],
        "mp",
        [(1, 1, 1, 1), (3, 3, 3, 3), (17, 17, 17, 17), (131, 257, 67, 5), (9, 3, 1500, 24), (512, 512, 512, 8)],
    ),
}
TASKS |= {
    "layer_norm": (layer_norm, ["rc", "c", "c"], "rc", ROWS),
    "rms_norm": (rms_norm, ["rc", "c"], "rc", ROWS),
    "gelu": (gelu, ["rc"], "rc", ROWS),
    "cross_entropy": (cross_entropy, ["rc", "r"], "r", ROWS),
    "cumsum": (cumsum, ["rc"], "rc", ROWS),
    "rms_norm_residual": (rms_norm_residual, ["rc", "rc", "c"], "rc", ROWS),
    "masked_attention": (masked_attention, ["hqw", "hkw", "hkw", "qk"], "hqw",
                         [(1, 1, 1, 3), (3, 3, 3, 3), (2, 17, 17, 17), (3, 5, 129, 64), (8, 128, 128, 64)]),
}
DIMS = {"softmax": "rc", "bias_gelu_residual": "rc", "matmul": "mnk", "two_matmul": "mknp", "layer_norm": "rc",
        "rms_norm": "rc", "gelu": "rc", "cross_entropy": "rc", "cumsum": "rc", "rms_norm_residual": "rc",
        "masked_attention": "hqkw"}
OTHERS = {"top_k"}  # with tests of their own below

ARGS = {"layer_norm": [1e-5], "rms_norm": [1e-5], "rms_norm_residual": [1e-6]}  # keyword arguments, in their order
CONFIGURATIONS = {
    "softmax": [
        {},
        {"VEC": 4, "UNROLL": 2, "KEEP": 0},
        {"VEC": 8, "UNROLL": 4, "STREAM": 1, "SCHEDULE": "dynamic, 16"},
        {"VEC": 16, "KEEP": 2},
    ],
    "bias_gelu_residual": [
        {},
        {"METHOD": 1, "VEC": 8, "UNROLL": 2, "STREAM": 1, "SCHEDULE": "dynamic, 16"},
        {"METHOD": 1, "VEC": 4},
    ],
    "matmul": [{}, {"MR": 6, "NV": 2, "KC": 512, "MC": 48}],
    "layer_norm": [{}, {"MOMENTS": 1, "STREAM": 1}, {"VEC": 16, "UNROLL": 1}, {"VEC": 4, "MOMENTS": 1}],
    "rms_norm": [{}, {"STREAM": 1, "AHEAD": 1, "SCHEDULE": "dynamic, 16"}, {"VEC": 4, "UNROLL": 4}, {"VEC": 16}],
    "gelu": [{}, {"METHOD": 1, "VEC": 8, "UNROLL": 2, "STREAM": 1}, {"METHOD": 1, "VEC": 4}],
    "cross_entropy": [{}, {"ONLINE": 1, "VEC": 16}, {"ONLINE": 1, "VEC": 4, "UNROLL": 4}, {"VEC": 16, "UNROLL": 1}],
    "cumsum": [{}, {"PREFIX": 1, "ROWS": 8}, {"WIDE": 1, "ROWS": 1}, {"PREFIX": 1, "WIDE": 1, "ROWS": 2}],
}


def shipped() -> dict[str, tuple[str, Candidate]]:
    found = {}
    for task, configurations in CONFIGURATIONS.items():
        space = load_space(SUITE / "templates" / f"{task}.space.yaml")
        for changes in configurations:
            candidate = space.candidate({**space.default, **changes})
            found[f"{task}: {candidate.note}"] = (task, candidate)
    for folder in sorted(p for p in (SUITE / "solutions").iterdir() if p.is_dir()):
        for path in kernel_files(folder):
            found[f"{folder.name}: {path.name}"] = (folder.name, read_kernel(path))
    return found


SHIPPED = shipped()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")

    def build(item):
        name, (_, candidate) = item
        if candidate.language == "python":
            space: dict = {}
            exec(compile(candidate.source, name, "exec"), space)
            return name, space[candidate.entry]
        source = folder / f"{candidate.hash}.cpp"
        source.write_text(candidate.source)
        library = source.with_suffix(".so")
        command = ["g++", *FLAGS, "-Wall", "-Werror", "-Wno-unknown-pragmas", *candidate.flags, str(source), "-o"]
        done = subprocess.run([*command, str(library)], capture_output=True, text=True)
        assert done.returncode == 0, f"{name}\n{done.stderr}"
        return name, getattr(ctypes.CDLL(str(library)), candidate.entry)

    with ThreadPoolExecutor(2) as pool:
        return dict(pool.map(build, SHIPPED.items()))


def call(function, language, inputs, dims, shape, args=(), outputs=1):
    """The outputs; for C++ through raw pointers, with guard values after every buffer."""
    if language == "python":
        found = function(*inputs, *args)
        return found if isinstance(found, (tuple, list)) else (found,)
    guard = 16
    padded = [torch.cat([t.flatten(), torch.full((guard,), float("nan")).to(t.dtype)]) for t in inputs]
    size = torch.Size(shape).numel()
    outs = [torch.full((size + guard,), 12345.0) for _ in range(outputs)]
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in padded]
    before = [t.clone() for t in padded]
    function(*pointers, *[ctypes.c_int64(d) for d in dims], *[ctypes.c_double(a) for a in args],
             *[ctypes.c_void_p(out.data_ptr()) for out in outs])
    assert all(bool((out[size:] == 12345.0).all()) for out in outs), "written behind the output"
    for now, then in zip(padded, before):
        assert torch.equal(now.nan_to_num(7e7), then.nan_to_num(7e7)), "an input was changed"
    return tuple(out[:size].reshape(shape) for out in outs)


@pytest.mark.parametrize("name", [n for n, (t, c) in SHIPPED.items() if t not in OTHERS])
def test_is_right_against_float64(built, name):
    task, candidate = SHIPPED[name]
    reference, shapes, out_shape, sizes = TASKS[task]
    generator = torch.Generator().manual_seed(7)
    for dims in sizes:
        extent = dict(zip(DIMS[task], dims))
        for scale in (1.0, 0.01, 30.0) if dims != sizes[-1] else (1.0,):
            inputs = [
                torch.randn([extent[d] for d in shape], generator=generator, dtype=torch.float32) * scale
                for shape in shapes
            ]
            if task == "cross_entropy":
                inputs[1] = torch.randint(extent["c"], (extent["r"],), generator=generator)
            if task == "masked_attention":
                inputs[3] = torch.rand(inputs[3].shape, generator=generator) < 0.5
                inputs[3][-1] = False
            wide = reference(*[t.double() if t.is_floating_point() else t for t in inputs])
            wide = wide if isinstance(wide, tuple) else (wide,)
            narrow = call(built[name], candidate.language, inputs, dims, [extent[d] for d in out_shape],
                          ARGS.get(task, ()), len(wide))
            where = f"{name} at {extent}, scale {scale}"
            assert len(narrow) == len(wide), where
            for got, expected in zip(narrow, wide, strict=True):
                check(task, got.double(), expected, inputs, reference, where)


def check(task, got, expected, inputs, reference, where):
    """Within float32's rounding of the float64 result, on the whole and in every element."""
    assert got.shape == expected.shape and bool(torch.isfinite(got).all()), where
    error = (got - expected).abs()
    if task == "cross_entropy":  # a difference of logits: its rounding is that of the logits
        assert bool((error <= 1e-6 * (1 + inputs[0].abs().amax(-1))).all()), where
        return
    if task == "cumsum":  # the rounding of a long sum grows with what was added, not with what is left
        assert bool((error <= 1e-6 * inputs[0].double().abs().cumsum(-1)).all()), where
        return
    if "norm" in task:  # the last input is what is multiplied with or added
        assert float(error.norm()) <= 2e-6 * float(expected.norm()) + 1e-12, where
        assert bool((error <= 5e-6 * (1 + expected.abs() + 2 * inputs[-1].abs())).all()), where
        return
    if task == "masked_attention":  # exponentials of scores as large as these multiply their rounding
        size = max(1.0, float(inputs[0].abs().max() * inputs[1].abs().max()))
        assert float(error.norm()) <= 1e-6 * size * float(expected.norm()) + 1e-12, where
        return
    assert float(error.norm()) <= 1e-6 * float(expected.norm()) + 1e-12, where
    if task == "gelu":
        assert bool((error <= 4e-7 * inputs[0].abs() + 1e-12).all()), where
        return
    if task == "softmax":  # a relative error, down to where float32 has no normal numbers
        assert bool((error <= 5e-6 * expected + 1.2e-38).all()), where
    elif task == "bias_gelu_residual":
        size = inputs[0].abs() + inputs[1].abs() + inputs[2].abs()
        assert bool((error <= 4e-7 * size + 1e-12).all()), where
    else:  # a product's rounding grows with the absolute values summed, not with the sum
        bound = reference(*[t.double().abs() for t in inputs])
        assert bool((error <= 2e-6 * bound).all()), where


@pytest.mark.parametrize("name", [n for n, (t, c) in SHIPPED.items() if t == "softmax"])
def test_softmax_keeps_to_its_row_and_to_nan(built, name):
    _, candidate = SHIPPED[name]
    x = torch.zeros(4, 21)
    x[1, 20] = float("nan")
    x[2, :20] = -float("inf")
    x[3] = 3e38
    out, = call(built[name], candidate.language, [x], (4, 21), (4, 21))
    torch.testing.assert_close(out, torch.softmax(x, -1), equal_nan=True)


@pytest.mark.parametrize("name", [n for n, (t, c) in SHIPPED.items() if t == "top_k"])
@pytest.mark.parametrize("rows, cols, k", [(1, 1, 1), (3, 8, 8), (5, 17, 8), (7, 40, 3), (64, 1024, 8), (1, 50001, 50)])
def test_top_k(built, name, rows, cols, k):
    generator = torch.Generator().manual_seed(1)
    for x in (torch.randn(rows, cols, generator=generator), torch.randint(3, (rows, cols), generator=generator).float(),
              torch.arange(rows * cols).float().reshape(rows, cols), -torch.arange(rows * cols).float().reshape(rows, cols),
              torch.full((rows, cols), float("nan")), torch.full((rows, cols), -float("inf"))):
        if cols > 20 and rows > 3:
            x[2, 13], x[3, 5], x[3, 6] = float("nan"), float("inf"), -float("inf")
        values, indices = torch.full((rows, k), -7.0), torch.full((rows, k), -7)
        built[name](*[ctypes.c_void_p(x.data_ptr()), ctypes.c_int64(rows), ctypes.c_int64(cols), ctypes.c_int64(k)],
                    ctypes.c_void_p(values.data_ptr()), ctypes.c_void_p(indices.data_ptr()))
        torch.testing.assert_close(values, torch.topk(x, k)[0], rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(x.gather(1, indices), values, rtol=0, atol=0, equal_nan=True)
        assert all(len(set(row)) == k for row in indices.tolist())


@pytest.mark.parametrize("mean", [20.0, 3000.0])
@pytest.mark.parametrize("name", [n for n, (t, c) in SHIPPED.items() if t == "layer_norm"])
def test_layer_norm_far_from_zero(built, name, mean):
    """E[x²] − E[x]² would leave nothing right here."""
    _, candidate = SHIPPED[name]
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(9, 781, generator=generator) + mean
    weight, bias = torch.rand(781, generator=generator), torch.randn(781, generator=generator)
    out, = call(built[name], candidate.language, [x, weight, bias], (9, 781), (9, 781), [1e-5])
    expected = layer_norm(x.double(), weight.double(), bias.double())
    assert (out - expected).abs().max() < 1e-6 * mean


def test_every_task_with_a_template_or_solution_is_covered():
    templates = {p.name.removesuffix(".space.yaml") for p in (SUITE / "templates").glob("*.space.yaml")
                 if load_space(p).language == "cpp"}
    solved = {p.name for p in (SUITE / "solutions").iterdir() if p.is_dir()}
    assert templates == set(CONFIGURATIONS)
    assert {task for task, _ in SHIPPED.values()} == set(TASKS) | OTHERS == templates | solved


@pytest.mark.parametrize("task", CONFIGURATIONS)
def test_shipped_spaces_are_worth_a_search(task):
    space = load_space(SUITE / "templates" / f"{task}.space.yaml")
    assert space.task == task and 12 <= space.size <= 60
    written = dict(re.findall(r"^#ifndef (\w+)\n#define \1 (.*)$", space.source, re.MULTILINE))
    assert written == {name: str(value) for name, value in space.default.items()}  # the bare template is the default
    reached, frontier = {space.key(space.default)}, [space.default]
    while frontier:  # steps alone lead from the default to every configuration
        for other in space.neighbours(frontier.pop()):
            if space.key(other) not in reached:
                reached.add(space.key(other))
                frontier.append(other)
    assert len(reached) == space.size
