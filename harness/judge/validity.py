"""The validity gate: can a task tell right from wrong? (MEASURING section 2.)

Null answers must all be rejected by a factor, at every allowed scale; the reference must pass with room, mean the same
twice, depend on every input, and be more than what is left when large numbers cancel. Runs the reference, so it belongs
into a process that may be lost (`harness.runs.validation`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from harness.judge import compare as comparing
from harness.judge import tolerance as bounds
from harness.judge.margin import Margin
from harness.judge.nulls import nulls, same
from harness.judge.oracle import Reference
from harness.judge.selection import compare_selection
from harness.judge.trials import one_thread, scales, shrink
from harness.spec.inputs import draw_all, resolve
from harness.spec.task import Case, Task
from harness.spec.validity import Finding, Validity

FACTOR = 10.0  # by which every null must miss the bound
ROOM = 0.9  # of the bound that the reference may use
SEEDS = 20
INFLUENCE_SEEDS = 5
TIMED_SEEDS = 2  # of the timed cases, at their full size
SMALL_ELEMENTS = 1 << 14  # of the largest tensor of a call, where all seeds are tried
MAX_BYTES = 1 << 31  # of the inputs of one call: more is not tried
CANCELS = 0.1  # the reference's error, as a share of the answer, from which on the answer is cancellation
DOMINATES = 0.5  # the share of the bound, in the median, that is the reference's own error

@dataclass(frozen=True)
class Workload:
    """Where the probes are tried: one case, or a smaller one, at one scale of the inputs."""

    case: str
    dims: dict[str, int]
    dtype: str
    scale: float
    seeds: int

    def where(self) -> dict:
        """What a Finding says about it."""
        return {"case": self.case, "dims": self.dims, "dtype": self.dtype, "scale": self.scale}


@dataclass
class _Call:
    """One call's inputs and what is right for them."""

    inputs: dict[str, torch.Tensor]
    answer: list[torch.Tensor]  # the reference's, in the case's dtype
    oracle: list[torch.Tensor]
    scores: torch.Tensor | None = None
    reference_scores: torch.Tensor | None = None
    margins: dict[int, Margin] = field(default_factory=dict)


def validate(task: Task, *, device: str = "cpu", seeds: int = SEEDS) -> Validity:
    """Try every probe on `task`. Raises SpecError when the reference cannot be loaded or run at all."""
    begun = time.perf_counter()
    gate = _Gate(task)
    with torch.no_grad():
        for workload in workloads(task, device, seeds):
            gate.try_workload(workload)
    return Validity(
        task=task.name, task_hash=task.content_hash, device=device, torch=torch.__version__,
        refusals=gate.refusals(), warnings=list(gate.warnings.values()), margins=gate.margins, reference_ratio=gate.reference_ratio, seconds=time.perf_counter() - begun)


def validate_json(task: dict[str, Any], device: str, seeds: int | None) -> dict[str, Any]:
    """`validate` on plain values, for a process of its own. seeds: None for all."""
    return validate(Task.model_validate(task), device=device, seeds=seeds or SEEDS).model_dump(mode="json")


def workloads(task: Task, device: str = "cpu", seeds: int = SEEDS) -> Iterator[Workload]:
    """One small workload per dtype with all seeds, and the timed cases as they are with a few; each at every scale."""
    first: dict[str, Case] = {}
    for case in task.cases:
        first.setdefault(case.dtype, case)
    for dtype, case in first.items():
        dims = small(task, case, dtype)
        if _bytes(task, dims, dtype) <= MAX_BYTES:
            for scale in scales(task):
                yield Workload(case.name, dims, dtype, scale, seeds)
    for case in task.timed_cases(device):
        if _bytes(task, case.dims, case.dtype) <= MAX_BYTES and small(task, case, case.dtype) != case.dims:
            yield Workload(case.name, dict(case.dims), case.dtype, 1.0, min(seeds, TIMED_SEEDS))


def small(task: Task, case: Case, dtype: str) -> dict[str, int]:
    """The dims of `case`, halved where `verify` allows it until no input has more than SMALL_ELEMENTS."""
    return shrink(task, dict(case.dims), dtype, SMALL_ELEMENTS)


def _bytes(task: Task, dims: dict[str, int], dtype: str) -> int:
    return sum(one.nbytes for one in resolve(task, Case(name="x", dims=dims, dtype=dtype)))


@dataclass
class _Gate:
    """Collects the worst of every probe over workloads and seeds."""

    task: Task
    margins: dict[str, float] = field(default_factory=dict)
    warnings: dict[str, Finding] = field(default_factory=dict)
    reference_ratio: float | None = None
    _found: dict[tuple, Finding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reference = Reference(self.task)

    def refusals(self) -> list[Finding]:
        """What is wrong, the cause before its consequences: nulls that pass say nothing new about a constant output."""
        found = list(self._found.values())
        for causes in ({"reference"}, {"random"}, {"constant", "cancellation", "spread"}):
            first = [one for one in found if one.probe in causes]
            if first:
                return first
        return found

    def _refuse(self, finding: Finding) -> None:
        """Keep it, unless the same probe failed worse before."""
        key = (finding.probe, finding.what, finding.output)
        known = self._found.get(key)
        if known is None or (finding.found or 0) < (known.found or 0):
            self._found[key] = finding

    # ------------------------------------------------------------------ one workload

    def try_workload(self, at: Workload) -> None:
        """Every probe at one workload."""
        case = Case(name="x", dims=at.dims, dtype=at.dtype)
        if max((one.elements for one in resolve(self.task, case)), default=0) <= 4 * SMALL_ELEMENTS:
            with one_thread():
                self._probe(at)
        else:
            self._probe(at)

    def _probe(self, at: Workload) -> None:
        another = self._call(at, at.seeds)
        spans: list[list[torch.Tensor]] = []
        influence: dict[str, tuple[float, int]] = {}
        varies = [False] * len(another.oracle)
        for seed in range(at.seeds):
            call = self._call(at, seed)
            if seed < TIMED_SEEDS and not self._means_the_same(at, seed, call):
                return
            if not self._reference_passes(at, seed, call):
                return
            for j in range(len(call.answer)):
                varies[j] = varies[j] or at.scale != 1.0 or self._varies(call, another, j)
                self._nulls(at, seed, call, another, j)
            if seed < INFLUENCE_SEEDS and at.scale == 1.0:  # at a small scale softmax forgets what it is given
                self._influence(at, seed, call, another, influence)
            spans.append(_scalars(call.oracle))
            another = call
        for j, moves in enumerate(varies):
            if not moves:
                self._refuse(Finding(
                    probe="constant", output=j, **at.where(),
                    message=f"output {j} is the same everywhere and for every input, within its bound: there is "
                            "nothing to compute"))
        for name, (ratio, seed) in influence.items():
            if ratio < FACTOR:
                self._refuse(Finding(
                    probe="influence", what=name, **at.where(), seed=seed, found=ratio, needed=FACTOR,
                    message=f"input {name} has no influence: other values of it change no output by more than "
                            f"{ratio:.3g}× its bound, {FACTOR:g}× is needed"))
        if at.scale == 1.0 and any(self._is_scalar(one) for one in another.answer):
            for seed in range(at.seeds, SEEDS):  # the larger the case, the nearer all its means are to each other
                spans.append(_scalars(self.reference.oracle(list(self._inputs(at, seed).values()))))
            self._spread(at, another, spans)

    def _call(self, at: Workload, seed: int, replaced: dict[str, torch.Tensor] | None = None) -> _Call:
        inputs = {**self._inputs(at, seed), **(replaced or {})}
        given = list(inputs.values())
        call = _Call(inputs, self.reference.outputs(given), self.reference.oracle(given))
        if self.task.compare == "selection":
            call.scores = self.reference.scores(given, double=True)
            call.reference_scores = self.reference.scores(given)
        return call

    def _inputs(self, at: Workload, seed: int) -> dict[str, torch.Tensor]:
        case = Case(name="x", dims=at.dims, dtype=at.dtype)
        return draw_all(self.task, case, np.random.default_rng([seed, 20]), at.scale)

    def _miss(self, at: Workload, call: _Call, j: int, y: torch.Tensor) -> float:
        """By what factor y instead of output j misses what would reject it, the worst element or the whole."""
        cap = at.scale == 1.0
        if self.task.compare == "selection":
            return max(map(_worse, self._selected(at, call, j, y)))
        if y.shape != call.answer[j].shape or y.dtype != call.answer[j].dtype:
            return comparing.MAX_RATIO
        if not self._is_measured(y):
            return _worse(comparing.compare(y, call.oracle[j], dtype=y.dtype, reference=lambda: call.answer[j],
                                            kind=self.task.compare, output=j))
        if j not in call.margins:
            call.margins[j] = Margin(call.oracle[j], y.dtype, reference=call.answer[j], precision=self.task.precision,
                                     tolerance=self.task.tolerance if cap else None)
        return call.margins[j].miss(y)

    def _selected(self, at: Workload, call: _Call, j: int, y: torch.Tensor) -> list[comparing.Comparison]:
        assert call.scores is not None and call.reference_scores is not None
        ours = call.reference_scores
        return compare_selection(
            [y if i == j else one for i, one in enumerate(call.answer)], call.scores,
            [(one.dtype, tuple(one.shape)) for one in call.answer], score_dtype=getattr(torch, at.dtype),
            reference=lambda: ours, tolerance=self.task.tolerance, precision=self.task.precision, cap=at.scale == 1.0)

    # ------------------------------------------------------------------ probes

    def _means_the_same(self, at: Workload, seed: int, call: _Call) -> bool:
        """A reference that draws random numbers answers the same inputs differently."""
        given = list(call.inputs.values())
        torch.manual_seed(seed + 1_000_003)
        again = self.reference.outputs(given)
        for j, y in enumerate(again):
            if same(y, call.answer[j]):
                continue
            ratio = self._miss(at, call, j, y)
            if not ratio <= 1:
                self._refuse(Finding(
                    probe="random", output=j, **at.where(), seed=seed, found=ratio, needed=1.0,
                    message=f"the reference is random: output {j} for the same inputs came out {_times(ratio)} the "
                            "bound apart; pass what is random as an input"))
                return False
        return True

    def _reference_passes(self, at: Workload, seed: int, call: _Call) -> bool:
        for j, (r, o) in enumerate(zip(call.answer, call.oracle, strict=True)):
            ratio = self._miss(at, call, j, r)
            self.reference_ratio = max(self.reference_ratio or 0.0, ratio)
            if self._is_measured(r):
                error, size = bounds.reference_excess(r, o, r.dtype), o[bounds.representable(o, r.dtype)]
                wrong, whole = float(torch.linalg.vector_norm(error)), float(torch.linalg.vector_norm(size))
                if wrong > CANCELS * whole:
                    self._refuse(Finding(
                        probe="cancellation", output=j, **at.where(), seed=seed, found=wrong / whole if whole else None,
                        needed=CANCELS,
                        message=f"output {j} is what is left when large numbers cancel: PyTorch's own result is off by "
                                f"{_percent(wrong, whole)} of its size, and no kernel could be told from a wrong one"))
                    return False
                self._warn_of_dominance(at, seed, j, r, o)
            room = ROOM if self._is_measured(r) else 1.0  # what is counted in steps uses one or none
            if not ratio <= room:
                self._refuse(Finding(
                    probe="reference", output=j, **at.where(), seed=seed, found=ratio, needed=room,
                    message=f"the reference itself does not pass with room: output {j} comes to {_times(ratio)} the "
                            f"bound, at most {room:g}× may be used; compute in float32 inside, or choose other inputs"))
                return False
        return True

    def _is_measured(self, r: torch.Tensor) -> bool:
        return self.task.compare == "values" and r.dtype.is_floating_point and r.numel() > 0

    def _is_scalar(self, r: torch.Tensor) -> bool:
        return r.numel() == 1 and self._is_measured(r)

    def _warn_of_dominance(self, at: Workload, seed: int, j: int, r: torch.Tensor, o: torch.Tensor) -> None:
        key = f"precision {j} {at.dtype}"
        if key in self.warnings or at.scale != 1.0 or seed:
            return
        whole = bounds.bound(o, r.dtype, reference=r, precision=self.task.precision)
        share = float((16 * bounds.excess_scale(bounds.reference_excess(r, o, r.dtype)) / whole).median())
        if share > DOMINATES:
            self.warnings[key] = Finding(
                probe="precision", output=j, **at.where(), seed=seed, found=share, needed=DOMINATES,
                message=f"PyTorch's own error makes up {100 * share:.0f} % of what output {j} may be off in "
                        f"{at.dtype}: write the reference so that it computes in float32 inside")

    def _varies(self, call: _Call, another: _Call, j: int) -> bool:
        """Whether an output is more than one value for all elements and all inputs. Scalars: see `_spread`."""
        o, other = call.oracle[j], another.oracle[j]
        if o.shape != other.shape or self._is_scalar(call.answer[j]):
            return True
        if o.numel() == 0:
            return False
        if not o.is_floating_point():
            return bool((o != o.flatten()[0]).any() or (o != other).any())
        first = torch.nan_to_num(o.flatten()[0])
        apart = torch.maximum((o - first).abs(), (o - other).abs()).nan_to_num(nan=torch.inf)
        if self.task.compare == "quantised":
            return bool((apart > 1).any())
        if self.task.compare == "exact":
            return bool((apart > 0).any())
        return bool((apart > bounds.bound(o, call.answer[j].dtype, precision=self.task.precision)).any())

    def _nulls(self, at: Workload, seed: int, call: _Call, another: _Call, j: int) -> None:
        scalar = self._is_scalar(call.answer[j])
        for name, y in nulls(call.answer[j], another.answer[j], list(call.inputs.items())):
            if scalar and name in ("the answer to other inputs", "the mean of another answer", "stale memory"):
                continue  # near by chance now and then: judged by the spread over all seeds
            ratio = self._miss(at, call, j, y)
            key = f"{name} (output {j})" if len(call.answer) > 1 else name
            self.margins[key] = min(ratio, self.margins.get(key, math.inf))
            if ratio < FACTOR:
                self._refuse(Finding(
                    probe="null", what=name, output=j, **at.where(), seed=seed, found=ratio, needed=FACTOR,
                    message=f"{name} instead of output {j} misses the bound by {ratio:.3g}× only, {FACTOR:g}× is "
                            f"needed: such a kernel {'would pass' if ratio <= 1 else 'is too near to passing'}"))

    def _influence(self, at: Workload, seed: int, call: _Call, another: _Call,
                   influence: dict[str, tuple[float, int]]) -> None:
        for name, value in call.inputs.items():
            other = another.inputs[name]
            if other.shape != value.shape or torch.equal(other, value):
                continue  # constants, and what came out the same by chance
            changed = self._call(at, seed, {name: other})
            ratio = max((self._miss(at, call, j, y) for j, y in enumerate(changed.answer)), default=0.0)
            if ratio >= influence.get(name, (-1.0, 0))[0]:
                influence[name] = (ratio, seed)

    def _spread(self, at: Workload, call: _Call, spans: Sequence[Sequence[torch.Tensor]]) -> None:
        """Scalars: their spread over the seeds against their bound."""
        for j, answer in enumerate(call.answer):
            if not self._is_scalar(answer):
                continue
            values = torch.stack([one[j].reshape(()) for one in spans]).to(torch.float64)
            bound = float(bounds.bound(call.oracle[j], answer.dtype, precision=self.task.precision).max())
            ratio = float(values.std()) / bound if bound > 0 else math.inf
            key = f"the answer to other inputs (output {j})" if len(call.answer) > 1 else "the answer to other inputs"
            self.margins[key] = min(ratio, self.margins.get(key, math.inf))
            if ratio < FACTOR:
                self._refuse(Finding(
                    probe="spread", output=j, **at.where(), found=ratio, needed=FACTOR,
                    message=f"output {j} is one number that differs by {ratio:.3g}× its bound between inputs, "
                            f"{FACTOR:g}× is needed: a kernel that returns a constant would pass. Return it per row "
                            "(reduction: none), or in float32"))


def _scalars(outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of one element; a placeholder for the others."""
    return [one if one.numel() == 1 else one.new_zeros(()) for one in outputs]


def _worse(found: comparing.Comparison) -> float:
    return max(found.worst_ratio, found.l2_ratio)


def _times(ratio: float) -> str:
    return f"{ratio:.3g}×" if ratio < comparing.MAX_RATIO else "beyond"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.3g} %" if whole > 0 else "more than the whole"

