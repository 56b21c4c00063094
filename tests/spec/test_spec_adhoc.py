"""Tasks from a command line, and tasks back into files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.spec.content import Content
from harness.spec.errors import SpecError
from harness.spec.inputs import draw_all
from harness.spec.load import dump_task, load_task, parse_task, task_from_parts
from harness.spec.shapes import shape
from harness.spec.task import Case, InputSpec, Task


@pytest.fixture
def folder(tmp_path):
    source = "def softmax(x, eps=0):\n    return x\n\ndef take(x, index):\n    return x[index]\n"
    (tmp_path / "ops.py").write_text(source)
    return tmp_path


def make(folder, inputs, args=(), reference="ops.py:softmax", **more):
    return task_from_parts(reference, inputs, args, folder=folder, **more)


def test_the_example_of_the_command_line(folder):
    task = make(folder, ["x=4096x781:f16"], ["eps=1e-6", "causal=true", "k=3", "mode=max"])
    assert task.name == "softmax" and task.reference == f"{folder / 'ops.py'}:softmax"
    assert task.reference_entry == "softmax" and "def softmax" in task.reference_source
    assert task.args == {"eps": 1e-6, "causal": True, "k": 3, "mode": "max"}
    (case,) = task.cases
    assert case.dtype == "float16" and case.dims == {"d4096": 4096, "d781": 781}
    assert shape(task.inputs["x"].shape, case.dims) == (4096, 781)
    assert task.dynamic == ["d4096", "d781"] and task.verify == {"d4096": (3, 4096), "d781": (3, 781)}


def test_equal_extents_stay_equal_and_ones_stay_one(folder):
    task = make(folder, ["x=64x1x32", "y=32x2:f32", "z=scalar"])
    small = {dim: 3 for dim in task.cases[0].dims}
    assert [shape(spec.shape, small) for spec in task.inputs.values()] == [(3, 1, 3), (3, 3), ()]
    assert task.verify["d2"] == (2, 2)


def test_dtypes_and_ranges(folder):
    task = make(folder, ["i=9:i64", "x=9x5:bf16", "y=9:f32:0..1", "m=5:bool", "j=5:i32:-2..7", "b=500:u8"])
    case = task.cases[0]
    assert case.dtype == "bfloat16"
    assert [s.dtype for s in task.inputs.values()] == ["int64", None, "float32", "bool", "int32", "uint8"]
    assert task.inputs["y"].init == {"uniform": {"low": 0.0, "high": 1.0}}
    assert task.inputs["j"].init == {"integers": {"low": -2, "high": 7}}


def test_indices_stay_valid_at_every_shape(folder):
    import numpy as np

    task = make(folder, ["x=50x40:f32", "index=30:i64"], reference="ops.py:take")
    for size in (1, 3, 17):
        case = Case(name="small", dims=dict.fromkeys(task.cases[0].dims, size))
        drawn = draw_all(task, case, np.random.default_rng(size))
        assert 0 <= drawn["index"].min() and drawn["index"].max() < min(drawn["x"].shape)


@pytest.mark.parametrize(
    ("inputs", "args", "words"),
    [
        ([], [], "at least one input"),
        (["x"], [], "must look like x=4096x4096:f32"),
        (["x="], [], "sizes joined by 'x'"),
        (["x=4x"], [], "sizes joined by 'x'"),
        (["x=4x0"], [], "from 1 to"),
        (["x=4:f31"], [], "did you mean 'f32'"),
        (["x=4:float31"], [], "did you mean 'float3?"),
        (["1x=4"], [], "cannot name an argument"),
        (["x=4", "x=5"], [], "given twice"),
        (["x=4:f32:1"], [], "must look like 0..1"),
        (["x=4:f32:1..0"], [], "must be above low"),
        (["x=4:f32:0..inf"], [], "finite"),
        (["x=4:i32:0..0.5"], [], "must be integers"),
        (["x=4:i32:5..5"], [], "must be above low"),
        (["x=4:u8:0..300"], [], "does not fit dtype uint8"),
        (["x=4:bool:0..1"], [], "takes no range"),
        (["x=4"], ["eps"], "must look like eps=1e-6"),
        (["x=4"], ["eps=1", "eps=2"], "given twice"),
        (["x=4"], ["x=1"], "is an input already"),
        (["x=4"], ["e=nan"], "finite"),
    ],
)
def test_refused(folder, inputs, args, words):
    with pytest.raises(SpecError, match=words):
        make(folder, inputs, args)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("ops.py", "must be file.py:name"),
        ("ops.py:sofmax", "did you mean 'softmax'"),
        ("op.py:softmax", "no reference"),
    ],
)
def test_wrong_reference(folder, reference, words):
    with pytest.raises(SpecError, match=words):
        make(folder, ["x=4"], reference=reference)


def test_save_and_load(folder):
    task = make(folder, ["x=64x50:f16", "index=3:i64"], ["eps=1e-6", "text=1e-3x"])
    for beside in (folder, None):
        text = dump_task(task, beside)
        assert text.startswith("# yaml") and "harness judge" in text
        (folder / "saved.yaml").write_text(text)
        again = load_task(folder / "saved.yaml")
        written = "ops.py:softmax" if beside else f"{folder / 'ops.py'}:softmax"
        assert again == task.model_copy(update={"source_file": str(folder / "saved.yaml"), "reference": written})


def test_shipped_tasks_survive_a_round_trip():
    content = Content.discover()
    for name in content.tasks():
        task = content.task(name)
        assert parse_task(dump_task(task), task.source_file, content) == task
        assert [list(c.dims) for c in parse_task(dump_task(task), task.source_file, content).cases] == [
            list(c.dims) for c in task.cases
        ]


SCALARS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f\x85"), max_size=20)
ODD_TEXTS = st.sampled_from("1e-3|true|no|null|~||0x1|1:30| x |a: b|# c|<<|'|\n".split("|"))


@given(
    args=st.dictionaries(st.sampled_from(["p", "q", "r"]), SCALARS | TEXTS | ODD_TEXTS),
    title=TEXTS | ODD_TEXTS,
    scales=st.lists(st.floats(1e-6, 1e6), max_size=3).map(lambda s: [1.0, *s]),
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
def test_any_task_survives_a_round_trip(args, title, scales, sizes):
    reference = Path(__file__).resolve()
    index = InputSpec(shape=[], dtype="int32", init={"integers": {"high": "n"}})
    task = Task(
        name="made",
        title=title,
        reference=f"{reference}:test_save_and_load",
        inputs={"x": InputSpec(shape=["n", "2*k"], scales=scales), "i": index},
        args=args,
        cases=[
            Case(name="a", dims={"n": sizes[0], "k": sizes[1]}),
            Case(name="b", dims={"n": 1, "k": 1}, dtype="float64"),
        ],
        verify={"k": (1, 5)},
        hardware={"cuda": {"cases": ["b"], "min_capability": "8.0"}},
        cost={"flops": "n*k", "bytes": 3},
        tolerance={"atol": 1e-5, "rtol": 0.5},
        tags=["a", "b"],
    )
    again = parse_task(dump_task(task), "made.yaml")
    filled = {"reference_source": again.reference_source, "reference_entry": again.reference_entry}
    assert again == task.model_copy(update={**filled, "source_file": "made.yaml"})
    assert {k: type(v) for k, v in again.args.items()} == {k: type(v) for k, v in args.items()}
