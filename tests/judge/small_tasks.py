"""What the judge's tests share: a task of almost no work, and how a candidate is judged on it."""

from harness.spec.candidate import Candidate
from harness.spec.task import Case, InputSpec, Task
from harness.spec.verdict import JudgeRequest, Limits

MIB = 2**20
TIGHT = Limits(build_s=60, load_s=20, call_s=5, memory=1024 * MIB, scratch=32 * MIB)
SOURCE = "def affine(x, factor=2.0):\n    return x * factor + 1\n"
RIGHT = "def kernel(x, factor=2.0):\n    return x * factor + 1\n"
# Reaches the loop that runs it, as an attacker would.
FRAME = """
import sys
def frame_with(name):
    frame = sys._getframe()
    while name not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals
"""


def make_task(source=SOURCE, entry="affine", *, inputs=None, dims=None, dtype="float32", **options):
    """One case, "only": by default x of [rows, cols], 6 × 40."""
    options.setdefault("cases", [Case(name="only", dims=dims or {"rows": 6, "cols": 40}, dtype=dtype)])
    return Task(schema=1, name="affine", reference="affine.py:affine", reference_source=source, reference_entry=entry,
                inputs=inputs or {"x": InputSpec(shape=["rows", "cols"], scales=[1.0])}, **options)


TASK = make_task()


def request(source, *, task=TASK, language="python", entry="kernel", flags=(), **options):
    """A request to judge `source` on `task` for correctness only, unless options say otherwise."""
    candidate = Candidate(source=source, language=language, entry=entry, flags=list(flags))
    return JudgeRequest(id="test", task=task, candidate=candidate,
                        **{"timed": False, "opponents": ["eager"], "limits": TIGHT, **options})
