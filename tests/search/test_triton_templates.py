"""The Triton templates: right in the interpreter at any shape, and valid code for GPUs that are not here."""

import json
import os
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.search.space import load_space

TEMPLATES = Path(__file__).resolve().parents[2] / "suite" / "templates"
pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")

RUN = """
import importlib.util, json, sys
import torch

spec = importlib.util.spec_from_file_location("template", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
references = {"matmul": lambda a, b: a @ b, "softmax": lambda x: torch.softmax(x, -1)}
worst = {}
for shapes in json.loads(sys.argv[3]):
    for dtype in (torch.float32, torch.float16):
        for scale in (1.0, 0.01):
            generator = torch.Generator().manual_seed(0)
            inputs = [(torch.randn(shape, generator=generator) * scale).to(dtype) for shape in shapes]
            if sys.argv[2] == "softmax" and shapes[0][-1] > 4:
                inputs[0][0, 2] = -float("inf")
            found = module.kernel(*inputs)
            expected = references[sys.argv[2]](*[x.double() for x in inputs])
            assert found.dtype == dtype and found.shape == expected.shape
            error = float((found.double() - expected).norm() / expected.norm())
            worst[str(dtype)] = max(error, worst.get(str(dtype), 0.0))
print(json.dumps(worst))
"""
COMPILE = """
import importlib.util, json, sys, warnings
warnings.simplefilter("ignore")
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

spec = importlib.util.spec_from_file_location("template", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
signature, constants = json.loads(sys.argv[3]), json.loads(sys.argv[4])
source = ASTSource(fn=getattr(module, sys.argv[2]), signature={**signature, **dict.fromkeys(constants, "constexpr")},
                   constexprs=constants)
kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32),
                        options={"num_warps": module.NUM_WARPS, "num_stages": module.NUM_STAGES})
print(len(kernel.asm["cubin"]))
"""
SHAPES = {
    "matmul": [[[1, 1], [1, 1]], [[3, 3], [3, 3]], [[17, 5], [5, 33]], [[65, 70], [70, 129]]],
    "softmax": [[[1, 1]], [[3, 3]], [[2, 257]], [[3, 1500]]],
}


def run(program, *arguments, **environment):
    done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_the_spaces():
    matmul, softmax = (load_space(TEMPLATES / f"{name}_triton.space.yaml") for name in ("matmul", "softmax"))
    assert matmul.size == 4800 and softmax.size == 120
    assert (matmul.task, softmax.task, matmul.language) == ("matmul", "softmax", "python")
    assert matmul.render(matmul.default) == (TEMPLATES / "matmul_triton.py").read_text()
    assert softmax.render(softmax.default) == (TEMPLATES / "softmax_triton.py").read_text()


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("task", SHAPES)
def test_right_in_the_interpreter(tmp_path, task, number):
    space = load_space(TEMPLATES / f"{task}_triton.space.yaml")
    configuration = space.random(random.Random(number)) if number else space.default
    (tmp_path / "k.py").write_text(space.render(configuration))
    worst = run(RUN, tmp_path / "k.py", task, json.dumps(SHAPES[task]), TRITON_INTERPRET="1")
    assert worst["torch.float32"] < 5e-7 and worst["torch.float16"] < 1e-3, (configuration, worst)


@pytest.mark.parametrize("task, function, signature, constants", [
    ("matmul", "matmul", {**dict.fromkeys("abc", "*fp16"), **dict.fromkeys(
        ["m", "n", "k", "a_row", "a_col", "b_row", "b_col", "c_row", "c_col"], "i32")}, ["BLOCK_M", "BLOCK_N", "BLOCK_K",
                                                                                        "GROUP_M"]),
    ("softmax", "short_rows", {"x": "*fp32", "out": "*fp32", "cols": "i32", "x_row": "i32", "out_row": "i32"}, ["BLOCK"]),
    ("softmax", "long_rows", {"x": "*fp16", "out": "*fp16", "cols": "i32", "x_row": "i32", "out_row": "i32"}, ["BLOCK"]),
])
def test_compiles_for_a_gpu(tmp_path, task, function, signature, constants):
    space = load_space(TEMPLATES / f"{task}_triton.space.yaml")
    configuration = space.random(random.Random(5))
    (tmp_path / "k.py").write_text(space.render(configuration))
    values = {name: configuration[name] for name in constants}
    assert run(COMPILE, tmp_path / "k.py", function, json.dumps(signature), json.dumps(values),
               TRITON_CACHE_DIR=str(tmp_path / "cache")) > 1000
