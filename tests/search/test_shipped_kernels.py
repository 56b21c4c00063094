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
DIMS = {"softmax": "rc", "bias_gelu_residual": "rc", "matmul": "mnk", "two_matmul": "mknp"}
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


def call(function, language, inputs, dims, shape):
    """The output; for C++ through raw pointers, with guard values after every buffer."""
    if language == "python":
        return function(*inputs)
    guard = 16
    padded = [torch.cat([t.flatten(), torch.full((guard,), float("nan"))]) for t in inputs]
    size = torch.Size(shape).numel()
    out = torch.full((size + guard,), 12345.0)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in padded]
    before = [t.clone() for t in padded]
    function(*pointers, *[ctypes.c_int64(d) for d in dims], ctypes.c_void_p(out.data_ptr()))
    assert bool((out[size:] == 12345.0).all()), "written behind the output"
    for now, then in zip(padded, before):
        assert torch.equal(now.nan_to_num(7e7), then.nan_to_num(7e7)), "an input was changed"
    return out[:size].reshape(shape)


@pytest.mark.parametrize("name", SHIPPED)
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
            expected = reference(*[t.double() for t in inputs])
            got = call(built[name], candidate.language, inputs, dims, [extent[d] for d in out_shape]).double()
            where = f"{name} at {extent}, scale {scale}"
            assert got.shape == expected.shape and bool(torch.isfinite(got).all()), where
            error = (got - expected).abs()
            assert float(error.norm() / expected.norm()) < 1e-6, where
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
    out = call(built[name], candidate.language, [x], (4, 21), (4, 21))
    torch.testing.assert_close(out, torch.softmax(x, -1), equal_nan=True)


def test_every_task_with_a_template_or_solution_is_covered():
    templates = {p.name.removesuffix(".space.yaml") for p in (SUITE / "templates").glob("*.space.yaml")}
    solved = {p.name for p in (SUITE / "solutions").iterdir() if p.is_dir()}
    assert templates == set(CONFIGURATIONS)
    assert {task for task, _ in SHIPPED.values()} == set(TASKS) == templates | solved


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
