"""Task files: what a good one becomes, and the exact line and wording of every mistake."""

import pytest

from harness.spec.errors import SpecError
from harness.spec.load import load_task, parse_task
from harness.spec.task import Task

GOOD = """\
schema: 1
name: scale_rows
title: Scaled rows
reference: ref.py:scale
inputs:
  x: {shape: [rows, "2*cols"]}
  index:
    shape: [rows]
    dtype: int64
    init: {integers: {low: 0, high: cols}}
args: {eps: 1e-6, exact: true, mode: fast}
cases:
  odd:  {rows: 7, cols: 5, dtype: float32}
  half: {cols: 50, dtype: float16, rows: 70}
verify:
  rows: [1, 9]
  cols: [2, 8]
dynamic: [rows]
hardware:
  cpu: {cases: [odd]}
cost: {flops: "rows*cols", bytes: "rows*cols*itemsize"}
"""
REFERENCE = "import torch\n\ndef scale(x, index, eps, exact, mode):\n    return x\n\nclass Other: pass\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ref.py").write_text(REFERENCE)
    return tmp_path


def load(folder, text):
    return parse_task(text, folder / "t.yaml")


def problems(folder, text):
    with pytest.raises(SpecError) as error:
        load(folder, text)
    for problem in error.value.problems:
        assert problem.file == str(folder / "t.yaml") and problem.line is not None
    return [(p.line, p.message) for p in error.value.problems]


def test_good(folder):
    (folder / "t.yaml").write_text(GOOD)
    task = load_task(folder / "t.yaml")
    assert task.reference_source == REFERENCE and task.reference_entry == "scale"
    assert task.source_file == str(folder / "t.yaml")
    assert task.args == {"eps": 1e-6, "exact": True, "mode": "fast"} and type(task.args["exact"]) is bool
    assert [c.name for c in task.cases] == ["odd", "half"]
    assert [list(c.dims.items()) for c in task.cases] == [[("rows", 7), ("cols", 5)], [("rows", 70), ("cols", 50)]]
    assert task.case("half").dtype == "float16" and task.timed_cases("cpu") == [task.case("odd")]
    assert list(task.inputs) == ["x", "index"]


def test_survives_json_with_its_order(folder):
    task = load(folder, GOOD)
    again = Task.model_validate_json(task.model_dump_json(by_alias=True))
    assert again == task and list(again.cases[1].dims) == ["rows", "cols"]


def swap(old, new):
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("schema: 1\n", "", 1, "missing key 'schema'"),
        ("schema: 1", "schema: 2", 1, "newer than this program"),
        ("schema: 1", "schema: one", 1, "must be 1"),
        ("title:", "titel:", 3, "unknown key — did you mean 'title'?"),
        ("title: Scaled rows", "reference_source: x", 3, "unknown key"),
        ("title: Scaled rows", "source_file: x", 3, "unknown key"),
        ("title: Scaled rows", "level: fuse", 3, "level: 'fuse' is not allowed — did you mean 'fused'?"),
        ("name: scale_rows", "name: Scale Rows", 2, "must match"),
        ("name: scale_rows\n", "", 1, "missing key 'name'"),
        ("    shape: [rows]\n", "    shap: [rows]\n", 8, "inputs.index.shap: unknown key — did you mean 'shape'?"),
        ("    shape: [rows]\n", "", 7, "inputs.index: missing key 'shape'"),
        ("    shape: [rows]", "    shape: rows", 8, "valid list"),
        ("    shape: [rows]", "    shape: [1.5]", 8, "must be text or an integer, not 1.5"),
        ("    shape: [rows]", "    shape:\n    - rows\n    - rowz", 10, "'rowz' — did you mean 'rows'?"),
        ("    shape: [rows]", "    shape: [rows - 10]", 8, "is negative (-3) at rows=7"),
        ("    shape: [rows]", "    shape: [rows - 2]", 8, "is negative (-1) at rows=1"),
        ("    dtype: int64", "    dtype: int46", 9, "did you mean 'int64'"),
        ("{integers: {low: 0, high: cols}}", "{normal: {}}", 10, "needs a floating dtype, not int64"),
        ("{integers: {low: 0, high: cols}}", "{integer: {}}", 10, "unknown initialiser — did you mean 'integers'?"),
        ("{integers: {low: 0, high: cols}}", "{integers: {low: 0}}", 10, "missing option 'high'"),
        ("{integers: {low: 0, high: cols}}", "{integers: {hi: 0, high: 3}}", 10, "unknown option of integers"),
        ("{integers: {low: 0, high: cols}}", "{integers: {high: colz}}", 10, "did you mean 'cols'?"),
        ("{integers: {low: 0, high: cols}}", "{integers: {low: 5, high: cols}}", 10, "above low (5) in case odd"),
        ("{integers: {low: 0, high: cols}}", "{integers: {low: 3, high: cols}}", 10, "at the low end of verify"),
        ("{integers: {low: 0, high: cols}}", "{file: {path: x.npy}}", 10, "data from a file has one shape"),
        ("{integers: {low: 0, high: cols}}", "{like: {path: x.npy}}", 10, "no data file"),
        ("{integers: {low: 0, high: cols}}", "{constant: {value: 1.5}}", 10, "does not fit dtype int64"),
        ("{integers: {low: 0, high: cols}}", "{constant: {}, bernoulli: {}}", 10, "exactly one initialiser"),
        ("{integers: {low: 0, high: cols}}", "{bernoulli: {p: 2}}", 10, "must lie in [0, 1]"),
        ('[rows, "2*cols"]', '[rows, "2*cols"], scales: [0.1]', 6, "1.0 among them"),
        ('[rows, "2*cols"]', '[rows, "2*cols"], init: {normal: {std: 0}}', 6, "must be positive"),
        ('[rows, "2*cols"]', '[rows, "2*cols"], init: {uniform: {low: 2}}', 6, "must be above low"),
        ('[rows, "2*cols"]', '[rows, "2*cols"], init: {normal: {mean: a}}', 6, "finite number"),
        ('[rows, "2*cols"]', '["1000000*rows", "1000000*cols"]', 6, "more than 2**40"),
        ("eps: 1e-6", "eps: [1]", 11, "args.eps: must be an integer or a number or true/false or text, not [1]"),
        ("eps: 1e-6", "x: 1", 11, "is an input already"),
        ("eps: 1e-6", "eps: .nan", 11, "must be finite"),
        ("eps: 1e-6", "class: 1", 11, "cannot name an argument"),
        ("  half: {cols: 50, dtype: float16, rows: 70}", "  half: {cols: 50}", 14, "missing dimension 'rows'"),
        ("  half: {cols: 50, dtype: float16, rows: 70}", "  half: {cols: 5, rows: 7, k: 1}", 14, "dimension 'k'"),
        ("dtype: float16", "dtype: half", 14, "unknown dtype 'half'"),
        ("rows: 70}", "rows: 70.5}", 14, "must be an integer"),
        ("rows: 70}", "rows: true}", 14, "must be an integer"),
        ("rows: 70}", "rows: 0}", 14, "from 1 to"),
        ("  half: {", "  Half Case: {", 14, "case name"),
        ("rows: 7,", "rows: 7, unused: 1,", 14, "missing dimension 'unused'"),
        ("  rows: [1, 9]", "  row: [1, 9]", 16, "unknown dimension — did you mean 'rows'?"),
        ("  rows: [1, 9]", "  rows: [9, 1]", 16, "low 9 is above high 1"),
        ("  rows: [1, 9]", "  rows: [0, 9]", 16, "at least 1"),
        ("  rows: [1, 9]", "  rows: [1, 2, 3]", 16, "verify.rows"),
        ("dynamic: [rows]", "dynamic: [rows, colls]", 18, "did you mean 'cols'?"),
        ("dynamic: [rows]", "dynamic: [rows, rows]", 18, "listed twice"),
        ("  cpu: {cases: [odd]}", "  cpu: {cases: [od]}", 20, "unknown case 'od' — did you mean 'odd'?"),
        ("  cpu: {cases: [odd]}", "  cuad: {cases: [odd]}", 20, "did you mean 'cuda'?"),
        ("  cpu: {cases: [odd]}", "  cpu: {case: [odd]}", 20, "did you mean 'cases'?"),
        ("  cpu: {cases: [odd]}", "  cuda: {min_capability: x}", 20, "must look like"),
        ('flops: "rows*cols"', 'flops: "rows*col"', 21, "did you mean 'cols'?"),
        ('flops: "rows*cols"', 'flops: "rows-rows"', 21, "must be positive"),
        ("ref.py:scale", "ref.py", 4, "must be file.py:name"),
        ("ref.py:scale", "ref.py:scales", 4, "did you mean 'scale'?"),
        ("ref.py:scale", "gone.py:scale", 4, "no reference file 'gone.py'"),
        ("ref.py:scale", "../ref.py:scale", 4, "may not contain '..'"),
        ("ref.py:scale", "/nonexistent/ref.py:scale", 4, "no reference file /nonexistent/ref.py"),
    ],
)
def test_mistake(folder, old, new, line, words):
    found = problems(folder, swap(old, new))
    assert any(at == line and words in message for at, message in found), found
    assert len(found) <= 2, found


def test_unused_dimension(folder):
    text = GOOD.replace("rows: 7,", "rows: 7, deep: 1,").replace("rows: 70}", "rows: 70, deep: 1}")
    assert problems(folder, text) == [(13, "cases.odd.deep: dimension 'deep' is used by no input; remove it")]


def test_every_problem_is_listed_in_the_order_of_lines(folder):
    text = swap("title:", "titel:").replace("dynamic: [rows]", "dynamic: rows").replace("rows: 70}", "rows: x}")
    assert [line for line, _ in problems(folder, text)] == [3, 14, 18]
    text = swap("dynamic: [rows]", "dynamic: [a]").replace("[odd]", "[b]").replace("ref.py:scale", "ref.py:f")
    assert [line for line, _ in problems(folder, text)] == [4, 18, 20]


@pytest.mark.parametrize("cases", ["cases: {}", "cases: []", "cases:"])
def test_needs_a_case(folder, cases):
    text = GOOD[: GOOD.index("cases:")] + cases + "\n"
    assert problems(folder, text) == [(12, problems(folder, text)[0][1])]
    assert "at least one case" in problems(folder, text)[0][1]


def test_reference_is_not_executed(folder):
    (folder / "ref.py").write_text("raise SystemExit('executed')\ndef scale(): pass\n")
    assert load(folder, GOOD).reference_entry == "scale"


def test_reference_syntax_error_has_its_own_line(folder):
    (folder / "ref.py").write_text("def scale():\n    pass\n\ndef (\n")
    with pytest.raises(SpecError) as error:
        load(folder, GOOD)
    assert error.value.file == str(folder / "ref.py") and error.value.line == 4


def test_reference_must_be_at_top_level_and_readable(folder):
    (folder / "ref.py").write_text("if True:\n    def scale(): pass\n")
    assert "at its top level" in problems(folder, GOOD)[0][1]
    (folder / "ref.py").write_bytes(b"x = '" + b"a" * 600_000 + b"'")
    with pytest.raises(SpecError, match="larger than"):
        load(folder, GOOD)


def test_reference_may_be_a_class(folder):
    assert load(folder, swap("ref.py:scale", "ref.py:Other")).reference_entry == "Other"


def test_reference_beside_tasks_folder(folder):
    """tasks/t.yaml finds suite/references/ of its own root."""
    (folder / "tasks").mkdir()
    (folder / "suite/references").mkdir(parents=True)
    (folder / "suite/references/ref.py").write_text("def scale(): return 'suite'\n")
    task = parse_task(swap("ref.py:scale", "references/ref.py:scale"), folder / "tasks/t.yaml")
    assert "'suite'" in task.reference_source


def test_missing_file(tmp_path):
    with pytest.raises(SpecError, match="cannot be read"):
        load_task(tmp_path / "none.yaml")
