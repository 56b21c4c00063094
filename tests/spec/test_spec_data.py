"""The user's own data: read without executing anything, drawn alike, known by content and not by place."""

import json
import math
import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judge.fill import Bank
from harness.judge.layout import Layout
from harness.spec import data
from harness.spec.data import describe, quantiles, read_tensor
from harness.spec.errors import SpecError
from harness.spec.inputs import draw, draw_all
from harness.spec.load import load_task
from harness.spec.task import InputSpec, Task

YAML = """\
schema: 1
name: t
reference: ref.py:scale
inputs:
  x: {shape: [rows, 8]}
  w: {shape: [8, 4], init: {%s: {path: %s}}}
cases:
  a: {rows: 16}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ref.py").write_text("def scale(x, w):\n    return x @ w\n")
    np.save(tmp_path / "w.npy", np.arange(32, dtype=np.float32).reshape(8, 4))
    return tmp_path


def load(folder, kind="file", path="w.npy", change=lambda text: text):
    (folder / "t.yaml").write_text(change(YAML % (kind, path)))
    return load_task(folder / "t.yaml")


def safetensors(path, **tensors):
    from safetensors.torch import save_file

    save_file(tensors, path)


# As it is


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.int32, np.int8, np.uint8, np.bool_])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
def test_arrays_are_read_as_they_were_saved(tmp_path, dtype, shape):
    array = (np.random.default_rng(1).standard_normal(shape) * 3).astype(dtype)
    np.save(tmp_path / "x.npy", array)
    found = read_tensor(tmp_path / "x.npy")
    assert found.numpy().dtype == dtype and found.shape == shape and np.array_equal(found.numpy(), array)


def test_tensors_of_safetensors_by_name(tmp_path):
    a, b = torch.randn(3, 4).to(torch.bfloat16), torch.arange(5)
    safetensors(tmp_path / "two.safetensors", **{"layer.0": a, "ids": b})
    safetensors(tmp_path / "one.safetensors", only=b)
    assert torch.equal(read_tensor(tmp_path / "two.safetensors", "layer.0"), a)
    assert torch.equal(read_tensor(tmp_path / "one.safetensors"), b)
    with pytest.raises(SpecError, match="holds 2 tensors; name one with `tensor`.*ids"):
        read_tensor(tmp_path / "two.safetensors")
    with pytest.raises(SpecError, match="no tensor 'layer.1'.*did you mean 'layer.0'"):
        read_tensor(tmp_path / "two.safetensors", "layer.1")


def pickled(path):
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)


@pytest.mark.parametrize("name, make, words", [
    ("x.npy", pickled, "is not an array of numbers"),
    ("x.npy", lambda path: path.write_bytes(b""), "is not an array of numbers"),
    ("x.npy", lambda path: path.write_bytes(b"\x93NUMPY\x01\x00\xff"), "is not an array of numbers"),
    ("x.npy", lambda path: np.save(path, np.array(["a"])), "is not an array of numbers"),
    ("x.npy", lambda path: path.mkdir(), "not a regular file"),
    ("x.npy", lambda path: None, "cannot be read: No such file"),
    ("x.pt", lambda path: torch.save(torch.ones(1), path), r"data files end in \.npy or \.safetensors"),
    ("x.safetensors", lambda path: path.write_bytes(b"\0" * 20), "is not a safetensors file"),
    ("x.safetensors", lambda path: path.write_bytes(struct.pack("<Q", 2**60) + b"{}"), "is not a safetensors file"),
])
def test_what_is_no_data(tmp_path, name, make, words):
    make(tmp_path / name)
    with pytest.raises(SpecError, match=words):
        read_tensor(tmp_path / name)


def test_what_is_too_large(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.zeros(100))
    monkeypatch.setattr(data, "MAX_BYTES", 500)
    with pytest.raises(SpecError, match="at most 500"):
        read_tensor(tmp_path / "x.npy")


def test_the_same_data_in_every_call_beside_fresh_inputs(folder):
    task = load(folder)
    first, second = (draw_all(task, task.cases[0], np.random.default_rng(seed)) for seed in range(2))
    assert torch.equal(first["w"], torch.arange(32.0).reshape(8, 4)) and torch.equal(first["w"], second["w"])
    assert not torch.equal(first["x"], second["x"])
    first["w"].zero_()
    assert draw_all(task, task.cases[0], np.random.default_rng(0))["w"].sum() == 31 * 32 / 2  # copies, not the data
    half = draw(task.inputs["w"], {}, "bfloat16", np.random.default_rng(0), offset_free=False)
    assert half.dtype == torch.bfloat16 and half.storage_offset() > 0 and half[7, 3] == 31


def test_data_that_has_changed_since_is_refused(folder):
    task = load(folder)
    data._kept.cache_clear()
    np.save(folder / "w.npy", np.zeros((8, 4), np.float32))
    with pytest.raises(SpecError, match="has changed since the task was loaded"):
        draw_all(task, task.cases[0], np.random.default_rng(0))
    assert load(folder).content_hash != task.content_hash


def test_the_content_counts_and_not_the_place(folder, tmp_path_factory):
    there = tmp_path_factory.mktemp("elsewhere")
    for name in ("ref.py", "w.npy"):
        (there / name).write_bytes((folder / name).read_bytes())
    for kind in ("file", "like"):
        here, other = load(folder, kind), load(there, kind)
        assert here.content_hash == other.content_hash and here != other
        assert str(folder) not in here.anywhere().model_dump_json() and "w.npy" in here.anywhere().model_dump_json()
        assert here.anywhere().content_hash == here.content_hash
        assert Task.model_validate_json(here.model_dump_json(by_alias=True)) == here
    assert load(folder, "like").content_hash != load(folder, "file").content_hash


# What is wrong with a task


@pytest.mark.parametrize("change, words", [
    (lambda text: text.replace("w.npy", "../w.npy"), "may not contain '..'"),
    (lambda text: text.replace("w.npy", "v.npy"), "t.yaml:6: inputs.w.init.file.path: no data file 'v.npy'"),
    (lambda text: text.replace("w.npy", "7"), "7 must be text"),
    (lambda text: text.replace("path: w.npy", "path: w.npy, sha256: abc"), "sha256: unknown option of file"),
    (lambda text: text.replace("path: w.npy", "name: w.npy"), "unknown option"),
    (lambda text: text.replace("path: w.npy", "path: w.npy, tensor: a"), "leave `tensor` out"),
    (lambda text: text.replace("[8, 4]", "[8, 5]"), r"w.npy has shape \[8, 4\], the task says \[8, 5\]"),
    (lambda text: text.replace("[8, 4]", "[rows, 4]") + "  b: {rows: 8}\n", "data from a file has one shape"),
    (lambda text: text.replace("[8, 4]", "[rows, 4]").replace("rows: 16", "rows: 8") + "dynamic: [rows]\n",
     "data from a file has one shape"),
    (lambda text: text.replace("{shape: [rows, 8]}", "{shape: [rows], init: {constant: {value: 1}}}"),
     "a kernel could return what it remembers"),
])
def test_mistakes_are_found_when_it_is_loaded(folder, change, words):
    with pytest.raises(SpecError, match=words):
        load(folder, change=change)


@pytest.mark.parametrize("array, words", [
    (np.full(9, 4.0), "holds nothing but 4; use constant"),
    (np.array([np.nan, np.inf]), "holds no finite number"),
    (np.zeros((0, 3)), "holds no finite number"),
])
def test_data_that_nothing_can_be_drawn_like(folder, array, words):
    np.save(folder / "w.npy", array)
    with pytest.raises(SpecError, match=words):
        load(folder, "like")


# Alike


SAMPLES = {
    "normal": lambda rng: rng.normal(3, 2, 50_000),
    "skewed": lambda rng: rng.lognormal(0, 0.5, 50_000),
    "uniform": lambda rng: rng.uniform(-1, 0.5, 50_000),
    "with one outlier": lambda rng: np.append(rng.normal(0, 1, 50_000), 1000.0),
    "two ends": lambda rng: rng.integers(0, 2, 50_000).astype(float),
    "tiny": lambda rng: rng.normal(1e-6, 1e-9, 50_000),
}


@pytest.mark.parametrize("scale", [1.0, 0.01])
@pytest.mark.parametrize("kind", SAMPLES)
def test_range_and_moments_are_those_of_the_data(tmp_path, kind, scale):
    given = SAMPLES[kind](np.random.default_rng(0))
    np.save(tmp_path / "x.npy", given)
    options = {"path": "x.npy", **describe(tmp_path / "x.npy", "", "like")}
    assert options["mean"] == pytest.approx(given.mean()) and options["std"] == pytest.approx(given.std())
    spec = InputSpec(shape=["n"], init={"like": options})
    bank = Bank(spec, {"n": 100_000}, "float32", scale)
    filled = [torch.empty(100_000) for _ in range(2)]
    bank.fill(*filled)
    drawn = [draw(spec, {"n": 100_000}, "float32", np.random.default_rng(seed), scale) for seed in range(2)]
    for x in (*filled, *drawn):
        x = x.double().numpy() / scale
        slack = 1e-6 * max(abs(given.min()), abs(given.max()))
        assert given.min() - slack <= x.min() and x.max() <= given.max() + slack
        assert abs(x.mean() - given.mean()) < 6 * given.std() / math.sqrt(1e5) + slack
        assert x.std() == pytest.approx(given.std(), rel=0.05)
        assert len(np.unique(x)) > 1000 or kind == "two ends"
    assert not torch.equal(*filled) and not torch.equal(*drawn)


@pytest.mark.parametrize("dtype", ["int64", "int8", "float16", "float64"])
def test_alike_in_other_types(tmp_path, dtype):
    given = np.random.default_rng(0).integers(-20, 100, 10_000)
    np.save(tmp_path / "x.npy", given)
    spec = InputSpec(shape=["n"], dtype=dtype, init={"like": {"path": "x.npy", **describe(tmp_path / "x.npy", "", "like")}})
    filled = torch.empty(50_000, dtype=getattr(torch, dtype))
    Bank(spec, {"n": 50_000}, "float32").fill(filled)
    for x in (filled, draw(spec, {"n": 50_000}, "float32", np.random.default_rng(0))):
        assert x.dtype == getattr(torch, dtype) and x.min() >= -20 and x.max() <= 99
        assert x.double().mean().item() == pytest.approx(given.mean(), abs=1)
        assert x.double().std().item() == pytest.approx(given.std(), rel=0.03)


@settings(max_examples=60)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_quantiles_rise_within_the_range(low, width, at, spread):
    m = at
    std = width * math.sqrt(m * (1 - m)) * spread
    table = quantiles(low, low + width, low + m * width, std)
    slack = 1e-9 * (abs(low) + width)
    assert (np.diff(table) >= -slack).all() and table[0] >= low - slack and table[-1] <= low + width + slack
    assert table.mean() == pytest.approx(low + m * width, abs=0.01 * width)


def test_through_a_layout_as_the_judge_fills_it(folder):
    from harness.judge.arena import Arena

    task = load(folder, "like")
    layout = Layout(task, {"rows": 16}, "float32", [(torch.float32, (16, 4))])
    arena = Arena(1 << 20, contestants_may_write=False)
    layout.fill(arena, 2)
    first, second = (layout.slot(arena, i)[1] for i in range(2))
    assert not torch.equal(first, second) and 0 <= first.min() and first.max() <= 31
    json.dumps(task.model_dump(mode="json"))
