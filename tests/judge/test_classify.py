"""Who does the work: rules on made-up profiles, and a labelled set of real candidates, profiled by the judge."""

from pathlib import Path

import pytest

from harness.judge.classify import classify
from harness.spec.candidate import Candidate
from harness.spec.task import Case, InputSpec, Task
from harness.spec.verdict import JudgeRequest

ROOT = Path(__file__).resolve().parents[2]
EAGER = {"rows": [["aten::mm", "[[9, 9], [9, 9]]", True, 3, 90.0]], "us": 100.0}
TRITON = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x, y):\n    tl.store(y, tl.sum(tl.load(x)))\n"


def rows(*found, us=100.0):
    return {"rows": [list(row) for row in found], "us": us}


@pytest.mark.parametrize(("source", "profile", "kind"), [
    ("def kernel(a, b):\n    return a @ b\n", EAGER, "reference"),
    ("def kernel(a, b):\n    return a @ b\n", rows(["aten::mm", "[[9, 9], [9, 1]]", True, 3, 90.0]), "library"),
    ("def kernel(a, b):\n    return a @ b\n", None, "library"),
    (TRITON + "def kernel(x):\n    k[1,](x, x)\n    return x\n", rows(["aten::empty", "[]", True, 3, 9.0]), "authored"),
    (TRITON + "def kernel(x):\n    k[1,](x, x)\n    return x\n", None, "authored"),
    (TRITON + "def kernel(x):\n    k[1,](x, x)\n    return x @ x\n", None, "mixed"),
    (TRITON + "def kernel(x):\n    return x @ x\n", rows(["aten::mm", "[[9, 9], [9, 9]]", True, 3, 97.0]), "library"),
    (TRITON + "def kernel(x):\n    return x @ x\n", rows(["aten::mm", "[[9, 9], [9, 9]]", True, 3, 50.0]), "mixed"),
    ("import torch\nkernel = torch.compile(lambda a, b: a @ b)\n",
     rows(["## Call CompiledFxGraph fabc ##", "[]", True, 3, 80.0]), "library"),
    ("def kernel(x):\n    return x\n", rows(["aten::mm", "bad"]), "library"),  # a profile that is none
    ("def kernel(x:\n", None, "library"),
])
def test_rules_for_python(source, profile, kind):
    assert classify(Candidate(source=source, entry="kernel"), profile, EAGER).kind == kind


@pytest.mark.parametrize(("source", "kind"), [
    ("void kernel() { for (int i = 0; i < 3; ++i) {} }", "authored"),
    ("// cblas_sgemm would be quicker\nvoid kernel() { for (;;) {} }", "authored"),
    ('const char* name = "at::matmul";\nvoid kernel() { for (;;) {} }', "authored"),
    ("void kernel() { cblas_sgemm(); }", "library"),
    ("void kernel() { cblas_sgemm(); for (;;) {} }", "mixed"),
    ("void kernel() { void* mkl = dlopen(0, 1); }", "library"),
])
def test_rules_for_cpp(source, kind):
    assert classify(Candidate(source=source, language="cpp", entry="kernel"), None, None).kind == kind


@pytest.mark.parametrize("profile", [{}, {"rows": 7}, {"rows": [[1, 2, 3, 4, 5]]}, {"rows": [], "us": "x"}, {"rows": [], "us": -1}])
def test_a_profile_that_is_none_breaks_nothing(profile):
    assert classify(Candidate(source="def kernel(x):\n    return x\n", entry="kernel"), profile, profile).kind == "library"


# The labelled set: what a person says who reads them. Kernels of the gallery answer eight times 1.5·sin(x).
LABELS = {
    "reference": "plain strided custom_autograd module class_entry double_inside grad_enabled no_grad_decorator scripted "
                 "keeps_all_answers prints_a_little warns collects_garbage reads_its_own_file writes_scratch set_threads "
                 "child_at_import retries_inside lambda_entry partial_entry dataclass_settings table_at_import "
                 "non_contiguous_inside expanded_answer tuple_of_one deliberately_slow two_buffers ten_buffers "
                 "random_order ctypes_inside vmap",
    "library": "one_buffer compiled numpy_inside out_variants in_place_scratch autotuned threads_inside pool_inside rows_one_by_one "
               "blocks_of_rows caches_constants workspace_of_bytes",
    "authored": "compiled_by_hand openmp.cpp threads.cpp pool_of_threads.cpp workspace.cpp in_output.cpp "
                "double_inside.cpp column_order.cpp twice.cpp omp_dynamic.cpp templates.cpp prints.cpp",
}
# Known errors, so that a change of them is seen: what it says instead.
ERRORS = {"strided.py": "library", "vmap.py": "library"}  # the same operations, on transposed or batched shapes
QUICK = ("plain.py", "compiled_by_hand.py", "numpy_inside.py", "openmp.cpp", "blocks_of_rows.py")
LABELLED = {name if "." in name else f"{name}.py": kind for kind, names in LABELS.items() for name in names.split()}
REFERENCE = "import torch\n\n\ndef work(x):\n    for _ in range(8):\n        x = torch.sin(x) * 1.5\n    return x\n"
TASK = Task(schema=1, name="work", reference="work.py:work", reference_source=REFERENCE, reference_entry="work",
            inputs={"x": InputSpec(shape=["rows", "cols"], scales=[1.0])},
            cases=[Case(name="only", dims={"rows": 96, "cols": 512})])


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.long) for n in LABELLED])
def test_the_labelled_set(judge, name):
    source = (ROOT / "tests" / "exploits" / "honest" / name).read_text()
    candidate = Candidate(source=source, language="cpp" if name.endswith("cpp") else "python", entry="kernel")
    forbidden = TASK.model_copy(update={"forbid": ["reference", "library"]})
    result = judge.judge(JudgeRequest(id="x", task=forbidden, candidate=candidate, timed=False, opponents=[]))
    expected = ERRORS.get(name, LABELLED[name])
    assert result.classification.kind == expected, result.classification
    assert result.status == ("forbidden" if expected in ("reference", "library") else "ok"), result.message
    assert expected not in ("reference", "library") or f"takes no candidate of class {expected}" in result.message


def test_the_labelled_set_is_large_enough_and_its_errors_are_few():
    assert len(LABELLED) >= 40 and len(ERRORS) / len(LABELLED) < 0.1 and set(ERRORS) <= set(LABELLED)


@pytest.mark.parametrize(("path", "kind"), [
    ("suite/solutions/softmax/in_place.cpp", "authored"), ("suite/solutions/matmul/direct_a.cpp", "authored"),
    ("suite/solutions/two_matmul/reordered.py", "library"), ("suite/solutions/masked_attention/fused.py", "library"),
    ("suite/templates/softmax_triton.py", "authored"), ("suite/templates/matmul_triton.py", "authored"),
])
def test_shipped_kernels_by_their_source(path, kind):
    language = "cpp" if path.endswith("cpp") else "python"
    assert classify(Candidate(source=(ROOT / path).read_text(), language=language, entry="kernel"), None, None).kind == kind


def test_a_screen_asks_only_where_a_task_forbids_something(judge):
    candidate = Candidate(source=REFERENCE, entry="work")
    found = judge.judge(JudgeRequest(id="x", task=TASK, candidate=candidate, timed=False, opponents=[]))
    assert found.classification is None and found.status == "ok"
