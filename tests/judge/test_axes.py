"""Which axes of a reference belong together, against references for which it is known."""

import pytest

from harness.judge.axes import tie
from harness.runs.expendable import call
from harness.spec.adhoc import task_from_parts
from harness.spec.errors import GauntletError, SpecError

OPS = """
import torch

def softmax(x): return torch.softmax(x, -1)
def matmul(x, w): return x @ w
def add(x, y): return x + y
def bias(x, b): return (x + b).relu()
def chain(x, w, v): return x @ w @ v
def gather(i, table): return table[i]
def square_only(x): return x.trace() * x @ x
def fixed(x): return x.view(4096, 4096) * 2
def two(x): return x.max(-1)
def grouped(x): return x.view(x.shape[0], x.shape[1] // 8, 8).sum(-1)
def nothing(x): return 3
"""


@pytest.fixture
def found(tmp_path):
    (tmp_path / "ops.py").write_text(OPS)

    def make(name, *inputs):
        loose = task_from_parts(f"ops.py:{name}", inputs, folder=tmp_path, together={})
        together, outputs = tie(loose)
        return task_from_parts(f"ops.py:{name}", inputs, folder=tmp_path, together=together, outputs=outputs or 1)

    return make


@pytest.mark.parametrize("name, inputs, shapes", [
    ("softmax", ["x=4096x4096"], {"x": "ab"}),
    ("matmul", ["x=64x64", "w=64x64"], {"x": "ab", "w": "bc"}),
    ("matmul", ["x=64x32", "w=32x64"], {"x": "ab", "w": "bc"}),
    ("add", ["x=16x16", "y=16x16"], {"x": "ab", "y": "ab"}),
    ("bias", ["x=100x100", "b=100"], {"x": "ab", "b": "b"}),
    ("chain", ["x=8x8", "w=8x8", "v=8x8"], {"x": "ab", "w": "bc", "v": "cd"}),
    ("gather", ["i=50:i64", "table=50x50"], {"i": "a", "table": "bc"}),
    ("square_only", ["x=40x40"], {"x": "aa"}),
    ("fixed", ["x=4096x4096"], {"x": "aa"}),  # it takes no other size: nothing can be said
    ("grouped", ["x=64x64"], {"x": "ab"}),
    ("softmax", ["x=3x3"], {"x": "aa"}),  # half of it would be 1, which is broadcast
])
def test_axes_that_must_agree_are_one_dimension(found, name, inputs, shapes):
    task = found(name, *inputs)
    letters = {}
    assert {n: "".join(letters.setdefault(d, "abcdefgh"[len(letters)]) for d in spec.shape)
            for n, spec in task.inputs.items()} == shapes
    sizes = {n: [task.cases[0].dims[d] for d in spec.shape] for n, spec in task.inputs.items()}
    assert [f"{n}={'x'.join(map(str, s))}" for n, s in sizes.items()] == [i.partition(":")[0] for i in inputs]
    assert task.dynamic == list(task.cases[0].dims) == list(task.verify)


def test_outputs_are_counted(found):
    assert found("two", "x=9x9").outputs == 2
    assert found("fixed", "x=4096x4096").outputs == 1


def test_what_returns_no_tensor_is_refused(found):
    with pytest.raises(SpecError, match="returned int; it must return a tensor"):
        found("nothing", "x=4x4")


def test_imports_come_from_where_they_are_said_to_lie(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "gauntlet_axes_helper.py").write_text("def twice(x): return x * 2\n")
    (tmp_path / "ops.py").write_text("import gauntlet_axes_helper as helper\n\n\ndef twice(x):\n    return helper.twice(x)\n")
    task = task_from_parts("ops.py:twice", ["x=8x8"], folder=tmp_path, together={})
    with pytest.raises(GauntletError, match="--pythonpath"):
        in_a_process(task)
    found = in_a_process(task, [tmp_path / "lib"])
    assert found == {"together": [[["x", 0], [["x", 0]]], [["x", 1], [["x", 1]]]], "outputs": 1}


@pytest.mark.parametrize("body, words", [("os._exit(0)", "ended the process"), ("time.sleep(60)", "longer than 8 s"),
                                         ("print('hello' * 100_000)", "returned NoneType")])
def test_whatever_a_reference_does_is_one_message(tmp_path, capfd, body, words):
    (tmp_path / "ops.py").write_text(f"import os, time\n\n\ndef f(x):\n    {body}\n")
    with pytest.raises(GauntletError, match=words):
        in_a_process(task_from_parts("ops.py:f", ["x=8x8"], folder=tmp_path, together={}))
    assert capfd.readouterr() == ("", "")


def in_a_process(task, pythonpath=()):
    argument = {"task": task.model_dump(mode="json", by_alias=True)}
    return call("harness.judge.axes:tie_json", argument, seconds=8, what="it", pythonpath=pythonpath)
