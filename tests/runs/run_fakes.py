"""A scripted executor and small agents, so that runs are tested without a judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from harness.agents.protocol import History, View
from harness.spec.candidate import Candidate
from harness.spec.task import Case, InputSpec, Task
from harness.spec.verdict import Block, CaseResult, Estimate, JudgeRequest, JudgeResult, Mismatch, Status, Trial

FACTS = {"name": "Test CPU", "cores": 2}


def make_task(name: str = "softmax", **more: Any) -> Task:
    """A task of one case; nothing ever computes it."""
    return Task(
        name=name,
        reference="references/x.py:f",
        inputs={"x": InputSpec(shape=["rows", "cols"])},
        cases=[Case(name="odd", dims={"rows": 3, "cols": 5})],
        reference_source="def f(x):\n    return x\n",
        reference_entry="f",
        **more,
    )


def candidate(number: int | str) -> Candidate:
    """A candidate that differs from every other number's."""
    return Candidate(source=f"def kernel(x):\n    return x  # {number}\n", parameters={"number": number})


def verdict(
    request: JudgeRequest, status: Status = Status.ok, speedup: float | None = None, **more: Any
) -> JudgeResult:
    """A verdict on `request`, with one case and raw blocks when there is a speedup."""
    estimate = None if speedup is None else Estimate(value=speedup, low=speedup * 0.97, high=speedup * 1.03, n=8)
    case = CaseResult(name="odd", dims={"rows": 3, "cols": 5}, dtype="float32", status=status, speedup=estimate)
    if estimate:
        case.blocks = [Block(instance=0, pair=0, side="candidate", calls=9, seconds=0.008)]
        case.selected = estimate
    return JudgeResult(
        id=request.id,
        status=status,
        depth=request.depth,
        device=request.device,
        task=request.task.name,
        task_hash=request.task.content_hash,
        candidate_hash=request.candidate.hash,
        speedup=estimate,
        cases=[case],
        containment={"level": 3},
        **more,
    )


def wrong(request: JudgeRequest) -> JudgeResult:
    """Right at 4096×5, wrong at 3×781 from [0, 2] on."""
    found = Mismatch(index=[0, 2], expected=0.5, got=float("nan"), wrong_elements=3, elements=2343)
    trials = [
        Trial(kind="case", case="odd", dims={"rows": 4096, "cols": 5}, dtype="float32"),
        Trial(kind="small", case="odd", dims={"rows": 3, "cols": 781}, dtype="float32", mismatch=found,
              status=Status.wrong_output, max_abs=float("inf"), worst_ratio=float("inf")),
    ]
    return verdict(request, Status.wrong_output, message="wrong at rows=3 cols=781", trials=trials)


class FakeExecutor:
    """Answers from a script: a function of the request, by default a speedup that follows from the candidate."""

    def __init__(self, script: Callable[[JudgeRequest], JudgeResult] | None = None) -> None:
        self.script = script or self.by_number
        self.requests: list[JudgeRequest] = []

    @staticmethod
    def by_number(request: JudgeRequest) -> JudgeResult:
        """Number n is 1 + n/10 times as fast; a final says a little less."""
        number = int(request.candidate.parameters["number"])
        return verdict(request, speedup=(1 + number / 10) * (0.98 if request.depth == "final" else 1))

    def __enter__(self) -> FakeExecutor:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def start(self) -> None:
        pass

    def submit(self, request: JudgeRequest) -> JudgeResult:
        self.requests.append(request)
        return self.script(request)

    def facts(self) -> dict[str, Any]:
        return dict(FACTS)

    @property
    def asked(self) -> list[str]:
        """What was judged, in order."""
        return [request.id for request in self.requests]


class Counting:
    """Proposes numbers from its list, `batch` at a time, as far as the history does not hold them."""

    def __init__(self, numbers: Iterable[int], batch: int = 1) -> None:
        self.numbers = list(numbers)
        self.batch = batch

    def propose(self, view: View, history: History) -> Iterable[Candidate]:
        done = len(history)
        for number in self.numbers[done : done + self.batch]:
            yield candidate(number)


class Climbing:
    """Looks at the history: from the best number so far, up by a seeded step, until 9."""

    def propose(self, view: View, history: History) -> Iterable[Candidate]:
        best = history.best()
        at = int(best.candidate.parameters["number"]) if best else 0
        if at < 9:
            yield candidate(at + view.rng(len(history)).randint(1, 3))
