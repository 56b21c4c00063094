"""Which workloads a candidate must get right, and what its record says when it does not."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tasks import RIGHT, TASK, make_task

from harness.judge import trials
from harness.judge.oracle import Reference
from harness.judge.trials import Plan, judge_call, make_layout, plan, record, scales, shrink
from harness.spec.errors import SpecError
from harness.spec.task import Case, InputSpec

X = {"x": InputSpec(shape=["rows", "cols"], scales=[1.0, 0.01])}


def planned(task, drawn=True, seed=0, cases=None):
    return list(plan(task, cases or task.cases, np.random.default_rng(seed), drawn=drawn))


# The plan


@pytest.mark.parametrize("dynamic", [["rows"], ["rows", "cols"]])
def test_every_dynamic_dimension_is_tried_at_3_and_17(dynamic):
    task = make_task(inputs=X, dynamic=dynamic)
    small = [p for p in planned(task, drawn=False) if p.kind == "small"]
    for dimension in dynamic:
        assert {p.dims[dimension] for p in small} >= {3, 17}
    fixed = {"rows", "cols"} - set(dynamic)
    assert all(p.dims[d] == TASK.cases[0].dims[d] for p in small for d in fixed)
    if len(dynamic) > 1:  # each also alone, the others as they are timed
        for dimension in dynamic:
            others = [d for d in dynamic if d != dimension]
            assert any(p.dims[dimension] in (3, 17) and all(p.dims[d] == TASK.cases[0].dims[d] for d in others)
                       for p in small)


def test_small_shapes_come_for_every_dtype_after_the_cases():
    cases = [Case(name=n, dims={"rows": 60, "cols": 40}, dtype=d) for n, d in
             (("a", "float32"), ("b", "float16"), ("c", "float32"))]
    found = planned(make_task(inputs=X, dynamic=["rows"], cases=cases))
    assert Counter(p.dtype for p in found if p.kind == "small") == {"float32": 2, "float16": 2}
    kinds = [p.kind for p in found]
    assert kinds == ["case"] * 3 + ["small"] * 4 + ["scaled"] * 3
    assert Counter((p.kind, p.case) for p in found if p.kind in ("case", "scaled")) == {
        (kind, case): 1 for kind in ("case", "scaled") for case in "abc"}


def test_the_small_scale_is_tried_on_every_case_and_the_case_itself_three_times():
    found = planned(make_task(inputs=X))
    assert [(p.kind, p.scale, p.calls) for p in found] == [("case", 1.0, 3), ("scaled", 0.01, 2)]


def test_shapes_are_drawn_from_the_range_in_a_final_only():
    task = make_task(inputs=X, verify={"rows": (1, 900), "cols": (3, 700)}, dynamic=["rows"])
    drawn = [p for p in planned(task) if p.kind == "drawn"]
    assert len(drawn) == trials.DRAWN and [p for p in planned(task, drawn=False) if p.kind == "drawn"] == []
    assert all(1 <= p.dims["rows"] <= 900 and 3 <= p.dims["cols"] <= 700 for p in drawn)
    assert all(p.fresh for p in drawn)  # cols need not be dynamic: built anew


def test_a_dynamic_dimension_needs_no_fresh_instance():
    task = make_task(inputs=X, verify={"rows": (1, 900)}, dynamic=["rows"])
    assert [p.fresh for p in planned(task) if p.kind == "drawn"] == [False] * trials.DRAWN


def test_two_judgements_draw_different_shapes(judge, ask):
    task = make_task(verify={"rows": (1, 5000)}, dynamic=["rows"])
    drawn = [[t.dims["rows"] for t in ask(RIGHT, task=task, depth="final").trials if t.kind == "drawn"]
             for _ in range(2)]
    assert len(drawn[0]) == len(drawn[1]) == trials.DRAWN and drawn[0] != drawn[1]  # equal: once in 10^11


def test_the_whole_range_is_drawn_from():
    task = make_task(inputs=X, verify={"rows": (2, 5)}, dynamic=["rows"])
    seen = {p.dims["rows"] for seed in range(40) for p in planned(task, seed=seed) if p.kind == "drawn"}
    assert seen == {2, 3, 4, 5}


@given(st.integers(1, 20_000), st.integers(1, 20_000), st.integers(1, 100), st.integers(1, 100))
@settings(max_examples=60)
def test_a_drawn_shape_is_no_larger_than_a_trial_may_be(rows, cols, low_rows, low_cols):
    task = make_task(verify={"rows": (low_rows, 20_000), "cols": (low_cols, 20_000)})
    dims = {"rows": max(rows, low_rows), "cols": max(cols, low_cols)}
    found = shrink(task, dims, "float32")
    assert found["rows"] * found["cols"] <= trials.MAX_DRAWN_ELEMENTS
    assert low_rows <= found["rows"] <= dims["rows"] and low_cols <= found["cols"] <= dims["cols"]
    if math.prod(dims.values()) <= trials.MAX_DRAWN_ELEMENTS:
        assert found == dims


def test_what_may_not_shrink_stays():
    task = make_task(verify={"rows": (5000, 20_000)})
    dims = {"rows": 9000, "cols": 100_000}
    assert shrink(task, dims, "float32") == dims  # half of 9000 would leave the range


def test_scales_are_those_every_floating_input_allows():
    def of(**inputs):
        return scales(make_task(inputs=inputs))

    a, b = InputSpec(shape=[1], scales=[1.0, 0.01, 10.0]), InputSpec(shape=[1], scales=[0.01, 1.0])
    index = InputSpec(shape=[1], dtype="int64", init={"integers": {"low": 0, "high": 2}}, scales=[5.0])
    assert of(a=a) == [0.01, 1.0, 10.0] and of(a=a, b=b) == [0.01, 1.0] and of(a=a, b=b, i=index) == [0.01, 1.0]
    assert of(i=index) == [1.0]


# Layouts and comparisons


def test_outputs_are_laid_out_as_the_reference_returns_them():
    source = "import torch\ndef f(x):\n    return x.sum(-1), x.argmax(-1), x > 0\n"
    task = make_task(source, "f", outputs=3)
    layout = make_layout(task, Reference(task), {"rows": 5, "cols": 8}, "float16")
    assert layout.outputs == [(torch.float16, (5,)), (torch.int64, (5,)), (torch.bool, (5, 8))]


def test_a_workload_beyond_the_arenas_is_the_tasks_mistake():
    task = make_task("import torch\ndef f(x):\n    return torch.empty(0).expand(2**28 + 1, 0)\n", "f")
    reference = Reference(task)
    reference.outputs = lambda inputs: [torch.empty(1).expand(2**28)]
    with pytest.raises(SpecError, match="does not fit into the judge's 1 GiB"):
        make_layout(task, reference, {"rows": 2, "cols": 2}, "float32")


def judged(answer, task=TASK, scale=1.0):
    reference = Reference(task)
    layout = make_layout(task, reference, task.cases[0].dims, "float32", scale)
    x = torch.empty(task.cases[0].dims["rows"], task.cases[0].dims["cols"])
    layout.banks[0].fill(x)
    return judge_call(task, reference, [x], answer(x), layout)


def test_each_output_of_a_call_is_compared():
    task = make_task("def f(x):\n    return x * 2, x.sum(-1)\n", "f", outputs=2)
    good = judged(lambda x: [x * 2, x.sum(-1)], task)
    assert [c.ok for c in good] == [True, True]
    bad = judged(lambda x: [x * 2, x.sum(-1) + 1], task)
    assert [c.ok for c in bad] == [True, False] and bad[1].mismatch.output == 1


def test_the_users_cap_holds_at_the_declared_scale_only():
    """At another scale the flat part of a tolerance would be vacuous, or too strict."""
    task = make_task(tolerance={"atol": 1e-9, "rtol": 1e-9})
    off = lambda x: [(x * 2 + 1) * (1 + 3e-7)]  # noqa: E731
    assert not judged(off, task)[0].ok and judged(off, task, scale=0.01)[0].ok


def test_a_record_of_a_right_and_of_a_wrong_call():
    item = Plan("small", "only", {"rows": 3, "cols": 40}, "float32", scale=0.01)
    trial = record(item, judged(lambda x: [x * 2 + 1]))
    assert (trial.kind, trial.status, trial.message, trial.scale) == ("small", "ok", "", 0.01)
    assert trial.worst_ratio <= 1 and trial.mismatch is None

    def wrong(x):
        y = x * 2 + 1
        y[4, 7] += 0.5
        return [y]

    trial = record(item, judged(wrong))
    assert trial.status == "wrong_output" and trial.mismatch.index == [4, 7] and trial.mismatch.wrong_elements == 1
    assert trial.mismatch.got - trial.mismatch.expected == pytest.approx(0.5, rel=1e-3)
    assert trial.max_abs == pytest.approx(0.5, rel=1e-3) and trial.worst_ratio > 100


# What trials are for


@pytest.mark.parametrize("language", ["python", "cpp"])
def test_a_kernel_right_at_the_timed_size_but_wrong_at_odd_ones(ask, language):
    """It handles four rows at a time and forgets the rest."""
    task = make_task(dims={"rows": 8, "cols": 40}, dynamic=["rows"], args={"factor": 3.0})
    if language == "python":
        source = ("def kernel(x, factor):\n    y = x * factor + 1\n    tail = x.shape[0] % 4\n"
                  "    if tail:\n        y[-tail:] = 0\n    return y\n")
    else:
        source = ("#include <cstdint>\nextern \"C\" void kernel(const float* x, int64_t rows, int64_t cols, "
                  "double factor, float* out) {\n  for (int64_t i = 0; i < rows / 4 * 4 * cols; ++i) "
                  "out[i] = x[i] * factor + 1;\n}\n")
    result = ask(source, task=task, language=language, depth="final")
    assert result.status == "wrong_output" and result.message.startswith("at 3×40 float32:")
    found = {(t.kind, t.dims["rows"]): t.status.value for t in result.trials}
    assert found["case", 8] == "ok" and found["small", 3] == found["small", 17] == "wrong_output"


def test_an_error_that_only_a_small_scale_shows(ask):
    """eps inside a root: hidden at scale 1."""
    source = "def f(x):\n    return x / (x * x).mean(-1, keepdim=True).sqrt()\n"
    task = make_task(source, "f", inputs=X)
    result = ask("def kernel(x):\n    return x / ((x * x).mean(-1, keepdim=True) + 1e-6).sqrt()\n", task=task)
    assert result.status == "wrong_output" and result.message.startswith("at 6×40 float32, inputs × 0.01:")
    assert [t.status.value for t in result.trials] == ["ok", "wrong_output"]


def test_the_same_content_at_another_address_is_asked_for(ask):
    """The third call repeats the first one's inputs: only their address is another."""
    source = ("seen = {}\ndef kernel(x, factor=2.0):\n"
              "    first = seen.setdefault(x.numpy().tobytes(), x.data_ptr())\n"
              "    return x * factor + (1 if first == x.data_ptr() else 2)\n")
    assert ask(source).status == "wrong_output"


def test_a_shape_the_reference_does_not_take_is_not_asked(ask):
    source = "def f(x):\n    assert x.shape[0] != 17\n    return x * 2.0 + 1\n"
    task = make_task(source, "f", dynamic=["rows"])
    result = ask(RIGHT, task=task)
    assert result.status == "ok" and [t.dims["rows"] for t in result.trials if t.kind == "small"] == [3]
