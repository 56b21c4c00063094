"""The judge: a request in, a verdict out. Correctness first, in fresh contestants; then sealed blocks for the time."""

from __future__ import annotations

import ast
import time
from functools import partial
from pathlib import Path

import torch

from harness.devices.cpu import facts as cpu_facts
from harness.judge import block, canary, trials
from harness.judge.builds import Builds
from harness.judge.compare import merge
from harness.judge.classify import CALLS, classify
from harness.judge.contestants import Lost, MachineFault, OpponentLost, Zygote
from harness.judge.fill import entropy
from harness.judge.level import is_contained
from harness.judge.layout import Layout
from harness.judge.oracle import Reference
from harness.judge.ratio import geometric_mean
from harness.judge.roster import WARM_CALLS, Roster
from harness.judge.controls import measure_null
from harness.judge.timing import Clockwork, Match, WrongAnswer
from harness.spec.baselines import BASELINES
from harness.spec.candidate import Candidate
from harness.spec.errors import SpecError, near
from harness.spec.task import Case, Task
from harness.spec.verdict import CaseResult, JudgeRequest, JudgeResult, Status, Trial

INTERPRETED = ("Triton runs in its interpreter on a CPU: judged for correctness only, "
               "a speed is only measured on a GPU")


class Judge:
    """One judge on one device. Not thread-safe: it has one input arena and one clock.

    cache: folder of compiled candidates. pythonpath: extra import folders for references. containment and the rest: see
    Zygote.
    """

    def __init__(self, cache: Path, containment: str = "auto", pythonpath: list[str] = (), **zygote):
        torch.set_grad_enabled(False)
        zygote.setdefault("preload", ["torch._dynamo", "torch._inductor.compile_fx"])
        self._start_zygote = partial(Zygote, containment, pythonpath, **zygote)
        self.zygote = self._start_zygote()
        self.roster = Roster(self.zygote, Builds(cache))
        self._layouts: dict[tuple, Layout] = {}
        self._null: tuple[float, tuple[float, float]] | None = None

    def close(self) -> None:
        """End every contestant and the zygote."""
        self.roster.close()
        self.zygote.close()

    def judge(self, request: JudgeRequest) -> JudgeResult:
        """The verdict. Raises SpecError when the task itself cannot be judged; everything else is in the result."""
        begun = time.perf_counter()
        clockwork = Clockwork()
        self.zygote.strict = not request.vouched
        result, lost = self._once(request, clockwork)
        if lost and not self._canary(result, clockwork):
            result, again = self._once(request, clockwork)
            result.environment["canary"] = "well"
            if again and not self._canary(result, clockwork):
                result.status = Status.runtime_error
                result.message = (f"{again}; twice, and only beside this candidate: without it a known kernel runs as it "
                                  "should, so the fault is charged to it")
        elif not lost and _may_be_the_machines(result) and (why := self._canary(result, clockwork)):
            result.message = f"{result.status.value} ({result.message}); but a known kernel fails here too: {why}"
            result.status = Status.infra_error
            self._recover()
        result.containment = dict(self.roster.level)
        if result.containment and not is_contained(result.containment):
            result.containment["unsafe"] = True
        result.environment = {**cpu_facts(), **self.zygote.facts.get("versions", {}), **result.environment}
        result.phases = {name: round(seconds, 6) for name, seconds in clockwork.phases.items()}
        result.wall_s = time.perf_counter() - begun
        return result

    def _recover(self) -> None:
        """After a fault of the machine: opponents may be lost, and the zygote; the next request gets fresh ones."""
        self.roster.release()
        if self.zygote.process.poll() is not None:
            strict = self.zygote.strict
            self.zygote.close()
            self.zygote = self.roster.zygote = self._start_zygote()
            self.zygote.strict = strict

    def _once(self, request: JudgeRequest, clockwork: Clockwork) -> tuple[JudgeResult, str]:
        """The verdict, and what is said of a baseline that was lost beside the candidate, if one was."""
        result = JudgeResult(
            id=request.id, status=Status.ok, depth=request.depth, device=request.device, task=request.task.name,
            task_hash=request.task.content_hash, candidate_hash=request.candidate.hash)
        try:
            Session(self, request, result, clockwork).run()
        except MachineFault as fault:
            result.status, result.message, result.speedup = Status.infra_error, str(fault), None
            self._recover()
            return result, str(fault) if isinstance(fault, OpponentLost) else ""
        return result, ""

    def _canary(self, result: JudgeResult, clockwork: Clockwork) -> str:
        """Why a known kernel fails too; empty when it does not. The level of containment stays the candidate's."""
        begun, level = time.perf_counter(), self.roster.level
        why = canary.sings(self.roster)
        self.roster.level = level
        clockwork.add("canary", begun)
        result.environment["canary"] = why or "well"
        return why

    def layout(self, task: Task, reference: Reference, dims: dict[str, int], dtype: str, scale: float = 1.0) -> Layout:
        """The layout of a workload; those of timed cases are kept, for their opponents live on."""
        key = (task.content_hash, tuple(dims.items()), dtype, scale)
        if key not in self._layouts:
            if len(self._layouts) > 16:
                self._layouts.clear()
            self._layouts[key] = trials.make_layout(task, reference, dims, dtype, scale)
        return self._layouts[key]

    def null(self, task: Task) -> tuple[float, float]:
        """The null kernel's constant and its seconds per call, in seconds: the smallest of all measurements so far.

        Measured anew every minute, before the candidate's first process: what an earlier one may have left running
        can only make it longer, and a longer one would be to a candidate's favour.
        """
        if self._null is None or time.monotonic() - self._null[0] > 60:
            measured = measure_null(self.roster, task)
            known = self._null[1] if self._null else measured
            self._null = (time.monotonic(), min(measured, known))
        return self._null[1]


def _may_be_the_machines(result: JudgeResult) -> bool:
    """Whether a failure looks as one of the machine may: a process that ended, hung, or broke off."""
    return result.status in (Status.timeout, Status.out_of_memory, Status.tampered) or (
        result.status == Status.runtime_error and "the process ended" in result.message)


def first_error(log: str) -> str:
    """The line of a compiler's log that says what is wrong; the log itself where it is one line or says no such thing."""
    lines = log.strip().splitlines()
    return next((line.strip() for line in lines if "error" in line), log) if len(lines) > 1 else log


class Session:
    """One judgement in progress: fills in `result`."""

    def __init__(self, judge: Judge, request: JudgeRequest, result: JudgeResult, clockwork: Clockwork):
        self.judge, self.roster, self.request, self.result = judge, judge.roster, request, result
        self.task, self.candidate, self.clockwork = request.task, request.candidate, clockwork
        self.rng = entropy()
        self.shared: dict[str, Path] = {}
        self.tail, self.trace = b"", ""
        self.longest_warm_up = 0.0

    def run(self) -> None:
        """Build, try, time; stops at the first thing that is wrong."""
        cases = self._cases()
        begun = time.perf_counter()
        self.reference = Reference(self.task)  # while the zygote still imports: what is wrong with it shows at once
        begun = self.clockwork.add("oracle", begun)
        self.judge.zygote.wait()
        self.clockwork.add("zygote", begun)
        if self.request.timed:
            begun = time.perf_counter()
            self.judge.null(self.task)
            self.clockwork.add("null", begun)
        self.interpreted = self.candidate.language == "python" and _imports(self.candidate.source, "triton")
        try:
            if self.interpreted:
                self._check_interpreter(cases)
            self._build(cases)
            self._trials(cases)
        except Lost as lost:
            self._fail(lost)
            return
        finally:
            printed = self.tail.decode(errors="replace")[-4000:]
            self.result.output_tail = f"{printed}\n{self.trace}".strip() if self.trace else printed
        failed = next((t for t in self.result.trials if t.status != Status.ok), None)
        if failed:
            self.result.status = failed.status
            self.result.message = f"{_where(failed)}: {failed.message}{self._only_this_size(failed)}"
            return
        if not self._classify(cases[0]):
            return
        if self.interpreted:
            self.result.message = INTERPRETED
        elif self.request.timed:
            self._time(cases)

    def _cases(self) -> list[Case]:
        if self.request.cases is None:
            return self.task.timed_cases(self.request.device)
        known = {c.name: c for c in self.task.cases}
        for name in self.request.cases:
            if name not in known:
                raise SpecError(f"task {self.task.name} has no case {name!r}{near(name, known)}")
        return [known[name] for name in self.request.cases]

    def _fail(self, lost: Lost) -> None:
        if lost.status == "infra_error":
            raise MachineFault(str(lost))
        self.result.status, self.result.message = Status(lost.status), str(lost)
        if lost.status == "compile_error":
            self.result.message, self.result.build_log = first_error(str(lost)), str(lost)
        self.trace = getattr(lost, "trace", "")

    def _check_interpreter(self, cases: list[Case]) -> None:
        if not self.judge.zygote.facts["versions"].get("triton"):
            raise Lost("unsupported", "the candidate needs Triton, which is not installed: "
                                      "pip install 'kernel-gauntlet[triton]'")
        if any(c.dtype == "bfloat16" for c in cases) and "tl.dot" in self.candidate.source:
            raise Lost("unsupported", "bfloat16 tl.dot is wrong in Triton's interpreter: "
                                      "this candidate can only be judged on a GPU")

    def _build(self, cases: list[Case]) -> None:
        if self.candidate.language != "cpp":
            return
        begun = time.perf_counter()
        limits = self.request.limits
        for dtype in dict.fromkeys(c.dtype for c in cases):
            path, log, cached = self.roster.builds.shared_object(
                self.candidate, dtype, self.judge.zygote, self.roster.inputs, seconds=limits.build_s,
                scratch=limits.scratch, memory=limits.memory)
            self.shared[dtype] = path
            self.result.build_log = log
            self.result.environment["build_cached"] = cached
        self.clockwork.add("build", begun)

    # ------------------------------------------------------------------ correctness

    def _trials(self, cases: list[Case]) -> None:
        players: dict[str, block.Player] = {}
        try:
            for item in trials.plan(self.task, cases, self.rng, drawn=self.request.depth == "final"):
                player = None if item.fresh else players.get(item.dtype)
                if player is None:
                    player = self._start(item.dtype)
                    if item.fresh:
                        players[f"fresh {len(players)}"] = player
                    else:
                        players[item.dtype] = player
                self._trial(player, item)
                if self.request.depth == "screen" and any(t.status != Status.ok for t in self.result.trials):
                    return
            for dtype, player in players.items():
                if not dtype.startswith("fresh"):
                    self.roster.keep_warm(player, self.candidate, dtype, self.longest_warm_up)
        finally:
            begun = time.perf_counter()
            for player in players.values():
                player.contestant.drain()
                self.tail = (self.tail + player.contestant.tail)[-8000:]
                player.close()
            self.clockwork.add("end", begun)

    def _start(self, dtype: str) -> block.Player:
        begun = time.perf_counter()
        player = self.roster.start(self.candidate, self.task, dtype, self.request.limits,
                                   shared_object=self.shared.get(dtype))
        self.clockwork.add("start", begun)
        return player

    def _trial(self, player: block.Player, item: trials.Plan) -> None:
        """One trial. A failure of the process ends the judgement (Lost); a wrong answer is recorded."""
        begun = time.perf_counter()
        try:
            layout = self.judge.layout(self.task, self.reference, item.dims, item.dtype, item.scale)
        except SpecError:
            if item.kind == "case":
                raise
            return  # the reference itself does not take this shape: nothing can be asked of a candidate there
        begun = self.clockwork.add("oracle", begun)
        try:
            # An interpreted kernel takes seconds a call, and is not timed: one call says all.
            most = 1 if self.interpreted else layout.slots
            seconds = self.roster.seat(player, layout, self.request.limits, min(WARM_CALLS, most))
            self.longest_warm_up = max(self.longest_warm_up, WARM_CALLS * seconds)
            begun = self.clockwork.add("candidate", begun)
            calls = min(item.calls, layout.slots, most)
            layout.fill(self.roster.inputs, calls)
            if calls > 2:  # the same content at another address must give as good an answer
                for first, copy in zip(layout.slot(self.roster.inputs, 0), layout.slot(self.roster.inputs, calls - 1),
                                       strict=True):
                    copy.copy_(first)
            block.poison(player, calls)
            begun = self.clockwork.add("fill", begun)
            block.run_block(player, calls, calls * self.request.limits.call_s)
            begun = self.clockwork.add("candidate", begun)
            answers = block.collect(player, calls, list(range(calls)))
            block.settle(player)
            begun = self.clockwork.add("protocol", begun)
        except Lost as lost:
            raise self._located(lost, item) from None
        comparisons = [c for index, outputs in answers.items() for c in trials.judge_call(
            self.task, self.reference, layout.slot(self.roster.inputs, index), outputs, layout)]
        self.clockwork.add("oracle", begun)
        self.result.trials.append(trials.record(item, comparisons))
        self._figures = merge(comparisons)

    def _located(self, lost: Lost, item: trials.Plan) -> Lost:
        self.result.trials.append(Trial(kind=item.kind, case=item.case, dims=item.dims, dtype=item.dtype,
                                        scale=item.scale, status=Status(lost.status), message=str(lost)[:500]))
        failed = self.result.trials[-1]
        found = Lost(lost.status, f"{_where(failed)}: {lost}{self._only_this_size(failed)}")
        found.trace = getattr(lost, "trace", "")
        return found

    def _only_this_size(self, failed: Trial) -> str:
        """What to add when a candidate was right at a case's own size and then failed at another."""
        right = any(t.kind == "case" and t.status == Status.ok and t.dims != failed.dims for t in self.result.trials)
        if failed.kind != "small" or not right:
            return ""
        own = [name for name in self.task.dynamic if name in failed.dims]
        return f" (right at the size of the case; {' and '.join(own)} may have any size here, without a new build)"

    def _classify(self, case: Case) -> bool:
        """Find out who does the work, in a final or where the task forbids a class; whether it may go on."""
        if not self.task.forbid and not (self.request.timed and self.request.depth == "final"):
            return True
        begun = time.perf_counter()
        profiles: list[dict | None] = [None, None]
        if self.candidate.language == "python" and not self.interpreted:
            layout = self.judge.layout(self.task, self.reference, case.dims, case.dtype)
            key = self.task.content_hash, case.name
            if key not in self.roster.profiles:
                self.roster.profiles[key] = self._profile(BASELINES["eager"](self.task), layout)
            profiles = [self._profile(self.candidate, layout), self.roster.profiles[key]]
        self.result.classification = found = classify(self.candidate, *profiles)
        self.clockwork.add("classification", begun)
        if found.kind in self.task.forbid:
            self.result.status = Status.forbidden
            self.result.message = f"this task takes no candidate of class {found.kind}, and this one {found.why}"
        return found.kind not in self.task.forbid

    def _profile(self, candidate: Candidate, layout: Layout) -> dict | None:
        """What a fresh instance's profiler says; None where it says nothing, which is no failure of anybody's."""
        limits = self.request.limits
        try:
            player = self.roster.start(candidate, self.task, layout.dtype, limits)
            try:
                calls = min(CALLS, layout.slots)
                self.roster.seat(player, layout, limits, calls)
                found = player.contestant.ask({"op": "profile", "n": calls}, 30 + calls * limits.call_s)
                player.contestant.freeze()
                return found
            finally:
                player.close()
        except Lost:
            return None

    # ------------------------------------------------------------------ time

    def _time(self, cases: list[Case]) -> None:
        begun = time.perf_counter()
        null = self.judge.null(self.task)
        self.clockwork.add("null", begun)
        for case in cases:
            layout = self.judge.layout(self.task, self.reference, case.dims, case.dtype)
            match = Match(self.roster, self.task, case, self.reference, layout, self.candidate, self.request,
                          self.clockwork, null, self.shared.get(case.dtype), self.rng)
            try:
                found = match.play()
            except WrongAnswer as wrong:
                found = self._failed_case(case, match, Status.wrong_output, str(wrong))
                self.result.trials.append(Trial(kind="timed", case=case.name, dims=case.dims, dtype=case.dtype,
                                                status=Status.wrong_output, message=str(wrong),
                                                mismatch=wrong.mismatch))
            except Lost as lost:
                if lost.status == "infra_error":
                    raise MachineFault(str(lost)) from None
                found = self._failed_case(case, match, Status(lost.status), str(lost))
            self.result.cases.append(found)
            if found.status not in (Status.ok, Status.noisy):
                self.result.status, self.result.message = found.status, f"case {case.name}: {found.message}"
                return
        noisy = next((c for c in self.result.cases if c.status == Status.noisy), None)
        if noisy:
            self.result.status, self.result.message = Status.noisy, f"case {noisy.name}: {noisy.message}"
            return
        counted = [c.speedup for c in self.result.cases if c.speedup and not c.launch_bound]
        counted = counted or [c.speedup for c in self.result.cases if c.speedup]
        self.result.speedup = geometric_mean(counted) if counted else None

    def _failed_case(self, case: Case, match: Match, status: Status, message: str) -> CaseResult:
        return CaseResult(name=case.name, dims=case.dims, dtype=case.dtype, status=status, message=message,
                          errors=merge(match.comparisons), calls=match.calls, checked=match.checked,
                          blocks=match.blocks)


def _where(trial: Trial) -> str:
    size = "×".join(str(v) for v in trial.dims.values())
    scale = "" if trial.scale == 1.0 else f", inputs × {trial.scale:g}"
    return f"at {size} {trial.dtype}{scale}"


def _imports(source: str, module: str) -> bool:
    """Whether Python source imports `module` (read, never executed)."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else \
            [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if any(n == module or n.startswith(module + ".") for n in names):
            return True
    return False


__all__ = ["Candidate", "Judge"]
