"""JudgeRequest → JudgeResult: the only way to the judge, plain JSON-able models (DESIGN section 8)."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.spec.candidate import Candidate
from harness.spec.task import Task


class Status(str, Enum):
    """The verdict on an attempt. Only `ok` can carry a speedup; `infra_error` is never charged to the agent."""

    ok = "ok"
    wrong_output = "wrong_output"
    compile_error = "compile_error"
    runtime_error = "runtime_error"
    timeout = "timeout"
    out_of_memory = "out_of_memory"
    unsupported = "unsupported"
    forbidden = "forbidden"
    tampered = "tampered"
    noisy = "noisy"
    infra_error = "infra_error"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Limits(_Record):
    """Wall-clock limits in seconds, memory in bytes. Generous: they stop the endless, not the slow."""

    build_s: float = 120.0
    load_s: float = 60.0
    call_s: float = 30.0
    memory: int = 6 * 2**30
    scratch: int = 1 * 2**30


class JudgeRequest(_Record):
    """One candidate to be judged on one task.

    depth: ``screen`` (one instance, short blocks: for search and feedback) or ``final`` (the full protocol: a score).
    half_width: target of the 95 % interval's half-width, relative (0.03 is ±3 %).
    instances: (first, most) fresh instances of each side in a final.
    timed: False judges correctness only.
    split: report the speedup from the second half of the instances, `selected` from the first: for when several
        finalists compete and the best is picked by `selected` (MEASURING section 4).
    vouched: somebody answers for the candidate, so that it may run where a stranger's is refused for lack of containment.
    """

    id: str
    task: Task
    candidate: Candidate
    depth: Literal["screen", "final"] = "screen"
    device: str = "cpu"
    cases: list[str] | None = None
    opponents: list[Literal["eager", "compile"]] = Field(default_factory=lambda: ["eager", "compile"])
    half_width: float = 0.03
    instances: tuple[int, int] = (8, 24)
    timed: bool = True
    split: bool = False
    vouched: bool = False
    limits: Limits = Field(default_factory=Limits)


class Estimate(_Record):
    """A ratio with its 95 % interval (Student's t over instances of their median paired log-ratio).

    value, low, high: time of the opponent ÷ time of the candidate; above 1 the candidate is faster.
    n: instances; derived: follows through another pair (opponents' own ratio) instead of being paired itself.
    """

    value: float
    low: float
    high: float
    n: int
    derived: bool = False


class Errors(_Record):
    """Achieved errors over all trials of a case, against the float64 oracle (and torch's reference where computed)."""

    max_abs: float | None = None
    max_rel: float | None = None
    rel_l2: float | None = None
    worst_ratio: float | None = None  # largest |y−o| / T: above 1 is wrong
    reference_rel_l2: float | None = None
    looks_like: str | None = None  # float32 | tf32 | half


class Mismatch(_Record):
    """The first wrong element: which call, output and index, and what was expected."""

    output: int = 0
    index: list[int] = Field(default_factory=list)
    expected: float | int | str | None = None
    got: float | int | str | None = None
    wrong_elements: int = 0
    elements: int = 0


class Trial(_Record):
    """One correctness trial: dims × dtype × scale."""

    kind: str  # case | small | scaled | drawn | timed
    case: str
    dims: dict[str, int]
    dtype: str
    scale: float = 1.0
    status: Status = Status.ok
    message: str = ""
    worst_ratio: float | None = None
    max_abs: float | None = None
    mismatch: Mismatch | None = None


class Block(_Record):
    """One timed block: raw times, so that everything can be computed again. Times in seconds."""

    instance: int
    pair: int
    side: str  # candidate | eager | compile | null
    calls: int
    seconds: float


class CaseResult(_Record):
    """One timed case. seconds: side → median seconds per call, null constant removed."""

    name: str
    dims: dict[str, int]
    dtype: str
    status: Status
    message: str = ""
    errors: Errors = Field(default_factory=Errors)
    seconds: dict[str, float] = Field(default_factory=dict)
    vs_eager: Estimate | None = None
    vs_compile: Estimate | None = None
    speedup: Estimate | None = None  # over the faster of the opponents
    selected: Estimate | None = None  # the same from the first half of the instances (choosing finalists)
    single_call_s: float | None = None  # latency of a block of one call, null removed
    launch_bound: bool = False
    fit_intercept_s: float | None = None  # a of a + b·N beyond the null's
    null_s: float | None = None
    calls: int = 0
    checked: int = 0
    skip_detectable: float | None = None  # share of skipped calls that would have been found with 95 % probability
    blocks: list[Block] = Field(default_factory=list)


class Classification(_Record):
    """Who does the work of a candidate: a heuristic, shown beside a score and never inside it.

    library_share: of a call's time, in operations of PyTorch's; None where only the source was read.
    """

    kind: Literal["authored", "mixed", "library", "reference"]
    by: Literal["profile", "source"]
    library_share: float | None = None
    why: str = ""


class JudgeResult(_Record):
    """The verdict. `speedup`: geometric mean over timed cases, only with status ok and only in a final a score."""

    id: str
    status: Status
    message: str = ""
    depth: str
    device: str
    task: str
    task_hash: str
    candidate_hash: str
    speedup: Estimate | None = None
    cases: list[CaseResult] = Field(default_factory=list)
    trials: list[Trial] = Field(default_factory=list)
    classification: Classification | None = None
    containment: dict[str, Any] = Field(default_factory=dict)
    environment: dict[str, Any] = Field(default_factory=dict)
    build_log: str = ""
    output_tail: str = ""  # what the candidate printed
    phases: dict[str, float] = Field(default_factory=dict)  # wall seconds: build, start, candidate, opponents, oracle, …
    wall_s: float = 0.0
