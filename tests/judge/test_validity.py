"""The gate: each kind of worthless task is refused by the probe that is meant for it, and good ones pass."""

import pytest
import torch
from small_tasks import make_task

from harness.judge import validity
from harness.judge.validity import FACTOR, ROOM, validate, workloads
from harness.spec.content import Content, Layer, shipped_root
from harness.spec.errors import SpecError
from harness.spec.task import Case, InputSpec

SEEDS = 6


def judged(body, *, shapes=None, dtype="float32", dims=None, scales=(1.0,), seeds=SEEDS, init=None, **options):
    """The verdict on `def f(x, …): return BODY`; inputs of [rows, cols] unless shapes say otherwise."""
    shapes = shapes or {"x": ["rows", "cols"]}
    source = f"import torch\nimport torch.nn.functional as F\ndef f({', '.join(shapes)}):\n    return {body}\n"
    inputs = {name: InputSpec(shape=shape, scales=list(scales), **({"init": init[name]} if init and name in init else {}))
              for name, shape in shapes.items()}
    task = make_task(source, "f", inputs=inputs, dims=dims or {"rows": 16, "cols": 64}, dtype=dtype, **options)
    return validate(task, seeds=seeds)


def only(verdict):
    """The probe and the subject of every refusal."""
    return {(one.probe, one.what) for one in verdict.refusals}


# Right for the right reason


@pytest.mark.parametrize("body, options", [
    ("torch.softmax(x, -1)", {}),
    ("x * 2 + 1", {}),
    ("x @ y", {"shapes": {"x": ["rows", "cols"], "y": ["cols", "rows"]}}),
    ("torch.relu(x)", {"dtype": "bfloat16"}),
    ("x.sum(-1)", {}),
    ("x.sort(-1)[0]", {}),
    ("(x > 0.3)", {"compare": "exact"}),
    ("x.argmax(-1)", {"compare": "exact"}),
    ("x.masked_fill(x < 0, float('-inf'))", {}),
    ("torch.log(x)", {}),  # half of it NaN
    ("(x, x.amax(-1))", {"outputs": 2}),
    ("torch.round(x * 20).to(torch.int8)", {"compare": "quantised", "dtype": "float16"}),  # steps, in PyTorch's own too
    ("(x.double() @ x.double().t()).to(torch.int32)", {"compare": "exact"}),
])
def test_what_can_be_told_from_its_nulls_is_valid(body, options):
    verdict = judged(body, **options)
    assert verdict.refusals == [] and verdict.valid
    assert verdict.margins and min(verdict.margins.values()) >= FACTOR
    assert verdict.reference_ratio <= (1.0 if options.get("compare") == "quantised" else ROOM) and verdict.seconds > 0


@pytest.mark.parametrize("body, probe, what, options", [
    ("torch.zeros_like(x)", "constant", "", {}),
    ("torch.relu(-x.abs())", "constant", "", {}),  # vacuous: zero whatever is given
    ("torch.ones(x.shape[0])", "constant", "", {}),
    ("torch.clamp(x, 5.0, 5.0 + 1e-9)", "constant", "", {}),  # differs, but by less than the bound
    ("x.isnan()", "constant", "", {"compare": "exact"}),
    ("torch.softmax(x, -1)", "influence", "y", {"shapes": {"x": ["rows", "cols"], "y": ["rows"]}}),
    ("torch.softmax(x + y[:, None], -1)", "influence", "y", {"shapes": {"x": ["rows", "cols"], "y": ["rows"]}}),
    ("x * x + 1e-9 * y", "influence", "y", {"shapes": {"x": ["rows", "cols"], "y": ["rows", "cols"]}}),
    ("(x + 1e7) - 1e7", "cancellation", "", {}),
    ("(x + 1e4).pow(2).mean(-1) - (x + 1e4).mean(-1).pow(2)", "cancellation", "", {}),
    ("x + torch.rand_like(x)", "random", "", {}),
    ("F.dropout(x, 0.5)", "random", "", {}),
])
def test_a_task_that_is_worth_nothing_is_refused_for_the_right_reason(body, probe, what, options):
    verdict = judged(body, **options)
    assert not verdict.valid and only(verdict) == {(probe, what)}, verdict.refusals
    first = verdict.refusals[0]
    assert first.dims and first.dtype == "float32" and first.message
    if probe in ("influence", "random", "cancellation"):
        assert first.found is None or (first.found > first.needed) == (probe != "influence")


def test_where_all_answers_are_near_their_mean_it_passes_for_right():
    """Softmax of small numbers is 1/n everywhere: a constant would pass in bfloat16, whose bound is wide."""
    verdict = judged("torch.softmax(x, -1)", dtype="bfloat16", scales=(1.0, 0.001))
    assert ("null", "the mean of another answer") in only(verdict)
    worst = next(one for one in verdict.refusals if one.what == "the mean of another answer")
    assert worst.scale == 0.001 and worst.found < 1 and "such a kernel would pass" in worst.message
    assert judged("torch.softmax(x, -1)", dtype="bfloat16").valid


def test_a_reference_that_does_not_pass_itself():
    """One sum in 64 is NaN in float16, by ∞ − ∞ on the way, and a number in float64."""
    verdict = judged("((x * 3e4 + 3e4) - (x * 3e4 + 3e4).flip(0)) * 1e-4", dtype="float16")
    assert {one.probe for one in verdict.refusals} == {"reference"}
    assert verdict.refusals[0].found > ROOM and "compute in float32" in verdict.refusals[0].message


def test_one_number_that_hardly_changes_is_refused():
    """The mean square of a million standard normal numbers is 1.000 ± 0.0014: in bfloat16 a constant."""
    refused = judged("(x * x).mean()", dims={"rows": 1000, "cols": 1000}, dtype="bfloat16", seeds=20)
    assert ("spread", "") in only(refused) and "return it per row" in refused.refusals[0].message.lower()
    assert judged("x.sum()", seeds=20).valid


def test_what_the_reference_wastes_of_the_bound_is_warned_of():
    warned = judged("sum(x[:, i] for i in range(x.shape[1]))", dtype="bfloat16")
    assert [one.probe for one in warned.warnings] == ["precision"] and "float32" in warned.warnings[0].message
    assert judged("x.float().sum(-1).to(x.dtype)", dtype="bfloat16").warnings == []


def test_the_weakest_case_decides():
    """Right at one dtype and at full scale only is not right."""
    cases = [Case(name="good", dims={"rows": 8, "cols": 16}), Case(name="bad", dims={"rows": 8, "cols": 16}, dtype="bfloat16")]
    task = make_task("def f(x):\n    return (x + 300) - 300\n", "f", cases=cases)
    verdict = validate(task, seeds=SEEDS)
    assert {(one.probe, one.case, one.dtype) for one in verdict.refusals} == {("cancellation", "bad", "bfloat16")}


def test_a_reference_that_does_not_run_is_an_error():
    with pytest.raises(SpecError, match="the reference affine.py:affine raised"):
        judged("x.view(3, 5)")


def test_verdicts_do_not_depend_on_what_ran_before():
    first = judged("torch.softmax(x, -1)")
    torch.rand(1000)
    assert judged("torch.softmax(x, -1)").margins == first.margins


def test_where_the_probes_are_tried():
    task = make_task("def f(x):\n    return x\n", "f", inputs={"x": InputSpec(shape=["rows", "cols"], scales=[1.0, 0.01])},
                     cases=[Case(name="a", dims={"rows": 4096, "cols": 1024}), Case(name="b", dims={"rows": 2, "cols": 8}),
                            Case(name="half", dims={"rows": 2, "cols": 8}, dtype="float16")],
                     verify={"rows": (1, 9999), "cols": (3, 9999)})
    found = list(workloads(task, seeds=20))
    small = {"rows": 128, "cols": 128}
    assert [(w.case, w.dims, w.scale, w.seeds) for w in found] == [
        ("a", small, 0.01, 20), ("a", small, 1.0, 20), ("half", {"rows": 2, "cols": 8}, 0.01, 20),
        ("half", {"rows": 2, "cols": 8}, 1.0, 20), ("a", {"rows": 4096, "cols": 1024}, 1.0, validity.TIMED_SEEDS)]
    huge = make_task("def f(x):\n    return x\n", "f", dims={"rows": 2**20, "cols": 2**20})
    assert list(workloads(huge)) == []


# What is shipped


CONTENT = Content((Layer("shipped", shipped_root()),), shipped_root())


@pytest.mark.parametrize("name", CONTENT.tasks())
def test_shipped_tasks_are_valid(name):
    verdict = validate(CONTENT.task(name), seeds=2)
    assert verdict.refusals == [] and min(verdict.margins.values()) >= FACTOR


@pytest.mark.long
@pytest.mark.parametrize("name", CONTENT.tasks())
def test_shipped_tasks_are_valid_on_all_seeds(name):
    assert validate(CONTENT.task(name)).refusals == []
