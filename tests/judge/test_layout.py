"""Where calls' inputs and outputs lie: apart from each other, aligned, and inside the arenas."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tasks import make_task

from harness.judge import layout as layouts
from harness.judge.arena import Arena
from harness.judge.layout import Layout
from harness.spec.inputs import ITEMSIZE
from harness.spec.task import InputSpec

dtypes = st.sampled_from(["float32", "float16", "bfloat16", "float64", "int64", "int32", "int8", "uint8", "bool"])
shapes = st.lists(st.integers(0, 40), max_size=3)
tensors = st.lists(st.tuples(dtypes, shapes), min_size=1, max_size=4)


def make_layout(inputs, outputs, **options):
    init = {"constant": {"value": 1}}
    task = make_task(inputs={f"x{i}": InputSpec(shape=list(s), dtype=d, init=init) for i, (d, s) in enumerate(inputs)},
                     **options)
    return Layout(task, {"rows": 6, "cols": 40}, "float32", [(getattr(torch, d), tuple(s)) for d, s in outputs])


def intervals(tensors, offsets, stride, slots, start=0):
    for slot in range(slots):
        for (dtype, shape), offset in zip(tensors, offsets, strict=True):
            first = start + slot * stride + offset
            yield first, first + math.prod(shape) * ITEMSIZE[dtype]


@given(tensors, tensors)
@settings(max_examples=40)
def test_nothing_overlaps_and_everything_is_aligned(inputs, outputs):
    layout = make_layout(inputs, outputs)
    assert layout.fits and layout.slots >= 1
    slots = min(layout.slots, 5)
    sides = ((inputs, layout.offsets, layout.stride, 0),
             (outputs, layout.out_offsets, layout.out_stride, layout.commit_bytes))
    for given_tensors, offsets, stride, start in sides:
        spans = sorted(s for s in intervals(given_tensors, offsets, stride, slots, start) if s[0] < s[1])
        assert all(end <= following for (_, end), (following, _) in zip(spans, spans[1:]))
        assert all(first % 64 == 0 for first, _ in spans)
        assert stride % 64 == 0 and stride % 4096 != 0  # equal addresses modulo 4096 would share cache sets
        last = start + layout.slots * stride
        assert all(end <= last for _, end in intervals(given_tensors, offsets, stride, layout.slots, start))
        assert last <= layouts.ARENA_BYTES
    assert layout.commit_bytes >= 8 * layout.slots * len(outputs) and layout.commit_bytes % 4096 == 0


@given(tensors, tensors)
@settings(max_examples=40)
def test_the_contestant_is_told_the_same(inputs, outputs):
    layout = make_layout(inputs, outputs)
    message = layout.message()
    assert message["op"] == "layout" and message["dims"] == {"rows": 6, "cols": 40}
    assert [(i["dtype"], i["shape"], i["count"]) for i in message["inputs"]] == [
        (d, s, math.prod(s)) for d, s in inputs]
    assert [i["offset"] for i in message["inputs"]] == layout.offsets
    assert [(o["dtype"], o["shape"], o["offset"]) for o in message["outputs"]] == [
        (d, s, o) for (d, s), o in zip(outputs, layout.out_offsets, strict=True)]
    assert (message["slots"], message["stride"], message["out_stride"], message["commit_bytes"]) == (
        layout.slots, layout.stride, layout.out_stride, layout.commit_bytes)
    assert [layout.nbytes(j) for j in range(len(outputs))] == [math.prod(s) * ITEMSIZE[d] for d, s in outputs]


@pytest.mark.parametrize("rows, slots", [(1, 10**9), (2**16, 2**20 * 192 // (2**18 + 64)), (2**25, 1), (2**27, 1)])
def test_the_number_of_slots_keeps_the_budget(rows, slots):
    layout = make_layout([("float32", [rows])], [("float32", [1])])
    assert layout.slots == min(slots, layouts.MAX_SLOTS)
    assert layout.slots == 1 or layout.slots * layout.stride <= layouts.SLOT_BUDGET


@pytest.mark.parametrize("inputs, outputs", [([2**28 + 1], [1]), ([1], [2**28])])
def test_what_does_not_fit_says_so(inputs, outputs):
    layout = Layout(make_task(inputs={"x": InputSpec(shape=[1])}), {"rows": 1, "cols": 1}, "float32", [])
    layout.inputs, layout.outputs = [(torch.float32, tuple(inputs))], [(torch.float32, tuple(outputs))]
    layout._place()
    assert not layout.fits


def test_the_budget_holds_for_the_wider_side():
    layout = make_layout([("float32", [1])], [("float64", [2**20])])
    assert layout.slots * layout.out_stride <= layouts.SLOT_BUDGET < (layout.slots + 1) * layout.out_stride


def test_slots_are_the_judges_views_and_fill_writes_only_those_of_the_block():
    task = make_task(inputs={"x": InputSpec(shape=["rows"]), "y": InputSpec(shape=["cols"], dtype="int32",
                     init={"integers": {"low": 5, "high": 9}})})
    layout = Layout(task, {"rows": 3, "cols": 2}, "float16", [])
    arena = Arena(layout.stride * 4, contestants_may_write=False)
    layout.fill(arena, 2)
    assert any(arena.view[: 2 * layout.stride]) and not any(arena.view[2 * layout.stride:])
    for index in range(2):
        x, y = layout.slot(arena, index)
        assert (x.dtype, x.shape, y.dtype, y.shape) == (torch.float16, (3,), torch.int32, (2,))
        assert ((y >= 5) & (y < 9)).all()
        raw = bytes(arena.view[index * layout.stride: index * layout.stride + 6])
        assert torch.frombuffer(bytearray(raw), dtype=torch.float16).tolist() == x.tolist()
    del x, y
    arena.close()


def test_a_layout_over_a_probe_keeps_its_banks():
    probe = make_layout([("float32", [4])], [])
    layout = Layout.over(probe, [(torch.float32, (4,))])
    assert layout.banks is probe.banks and probe.outputs == [] and layout.out_stride == 64
