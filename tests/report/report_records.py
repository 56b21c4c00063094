"""Finalised run folders written by hand, for the tests of the report room."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

from harness.runs.record import (
    AgentInfo,
    AttemptRow,
    CandidateRef,
    DeviceInfo,
    Outcome,
    RunFile,
    SuiteInfo,
    candidate_file,
    write_record,
)
from harness.spec.candidate import Candidate
from harness.spec.task import Case, InputSpec, Task
from harness.spec.verdict import Block, CaseResult, Errors, Estimate, JudgeResult, Mismatch, Status, Trial

HOSTILE_SOURCE = (
    'def kernel(x):\n    """</pre><script>alert(1)</script>"""\n'
    "    # \u202ereversed\u202c \u200bzero width \x1b[31mred\n    return x  # <img src=x onerror=alert(2)> {{ 7*7 }}\n"
)
HONEST_SOURCE = "import torch\n\n\ndef kernel(x):\n    # one pass\n    return torch.softmax(x, dim=-1)\n"


def estimate(value: float, spread: float = 0.03, n: int = 8, derived: bool = False) -> Estimate:
    return Estimate(value=value, low=value / (1 + spread), high=value * (1 + spread), n=n, derived=derived)


def case_result(
    name: str = "wide",
    dims: dict[str, int] | None = None,
    speedup: float = 1.84,
    instances: int = 4,
    pairs: int = 6,
    launch_bound: bool = False,
    status: Status = Status.ok,
) -> CaseResult:
    rng = random.Random(f"{name}/{speedup}")
    eager = 2.0e-3
    times = {"candidate": eager / speedup, "eager": eager, "compile": eager * 0.97}
    blocks = []
    for instance in range(instances):
        bias = rng.uniform(0.97, 1.03)
        for pair in range(pairs):
            for side, t in times.items():
                calls = rng.randint(6, 10)
                seconds = 4e-4 + calls * t * bias * rng.uniform(0.98, 1.04)
                blocks.append(Block(instance=instance, pair=pair, side=side, calls=calls, seconds=seconds))
    return CaseResult(
        name=name,
        dims=dims or {"rows": 4096, "cols": 4096},
        dtype="float32",
        status=status,
        errors=Errors(max_abs=3.1e-8, max_rel=4e-6, rel_l2=9e-8, worst_ratio=0.21, reference_rel_l2=8e-8,
                      looks_like="float32"),
        seconds=times,
        vs_eager=estimate(speedup),
        vs_compile=estimate(speedup * 0.97, derived=True),
        speedup=estimate(speedup * 0.97),
        selected=estimate(speedup * 0.98),
        single_call_s=2.3e-3,
        launch_bound=launch_bound,
        fit_intercept_s=1e-5,
        null_s=4e-4,
        calls=2400,
        checked=120,
        skip_detectable=0.0247,
        blocks=blocks,
    )


def result(
    task: str = "softmax",
    status: Status = Status.ok,
    speedup: float | None = 1.84,
    depth: str = "final",
    candidate: Candidate | None = None,
    **changes: object,
) -> JudgeResult:
    candidate = candidate or Candidate(source=HONEST_SOURCE)
    right = dict(case="wide", dtype="float32", worst_ratio=0.2, max_abs=3e-8)
    trials = [
        Trial(kind="case", dims={"rows": 4096, "cols": 4096}, **right),
        Trial(kind="scaled", dims={"rows": 4096, "cols": 4096}, scale=0.01, **right),
    ]
    if status == Status.wrong_output:
        trials.append(
            Trial(kind="small", case="wide", dims={"rows": 3, "cols": 781}, dtype="float32", status=status,
                  worst_ratio=812.0, max_abs=0.25, message="tail",
                  mismatch=Mismatch(index=[2, 768], expected=0.00128, got=0.0, wrong_elements=39, elements=2343))
        )
    ok = status == Status.ok and speedup is not None
    data: dict[str, object] = dict(
        id=f"{task}-{candidate.hash[:8]}-{depth}",
        status=status,
        message="" if status == Status.ok else f"the {status.value} message",
        depth=depth,
        device="cpu",
        task=task,
        task_hash=hashlib.sha256(task.encode()).hexdigest(),
        candidate_hash=candidate.hash,
        speedup=estimate(speedup * 0.97, n=8 if depth == "final" else 1) if ok else None,
        cases=[case_result("wide", speedup=speedup), case_result("odd", {"rows": 1823, "cols": 781}, speedup)]
        if ok
        else [],
        trials=trials,
        containment={"level": "user+pid+net+ipc+mount namespaces", "network": False},
        environment={"torch": "2.13.0", "cpu": "Example CPU", "cores": 2},
        build_log="g++: error: expected ';'" if status == Status.compile_error else "",
        phases={"build": 1.2, "candidate": 3.4},
        wall_s=12.5,
    )
    return JudgeResult.model_validate({**data, **changes})


def write_run(
    results_dir: Path,
    agent: str,
    tasks: dict[str, float | Status],
    *,
    suite: str = "smoke",
    version: str = "1",
    device: str = "cpu-example",
    started: str = "2025-01-02T03:04:05.000Z",
    source: str = HONEST_SOURCE,
    note: str = "one pass",
    duplicate: bool = False,
    stop: str = "done",
    verdict: dict[str, object] | None = None,
) -> Path:
    """Publish one run of `agent`; tasks: task → final speedup over eager, or the status it ended with.

    verdict: fields of every JudgeResult to set otherwise.
    """
    candidates: dict[str, Candidate] = {}
    rows, outcomes, specs = [], [], []
    for task, ended in tasks.items():
        spec = Task(name=task, title=f"Title of {task}", reference="references/x.py:f", reference_entry="f",
                    reference_source="def f(x):\n    return x\n", inputs={"x": InputSpec(shape=["rows", "cols"])},
                    cases=[Case(name="wide", dims={"rows": 4096, "cols": 4096})])
        specs.append(spec)
        candidate = Candidate(source=f"{source}# {task}\n", note=note, parameters={"block": 64}, flags=[])
        candidates[candidate.hash] = candidate
        ref = CandidateRef(hash=candidate.hash, file=candidate_file(candidate), note=note, parameters={"block": 64},
                           language="python", entry="kernel")
        status, value = (ended, None) if isinstance(ended, Status) else (Status.ok, float(ended))
        screened = result(task, status, value, "screen", candidate, **(verdict or {}))
        final = result(task, status, value, "final", candidate, task_hash=spec.content_hash, **(verdict or {}))
        rows.append(AttemptRow(task=task, index=0, depth="screen", candidate=ref, result=screened))
        if status in (Status.ok, Status.infra_error, Status.noisy):
            rows.append(AttemptRow(task=task, index=0, depth="final", candidate=ref, result=final))
        if duplicate:
            rows.append(AttemptRow(task=task, index=1, depth="screen", candidate=ref, duplicate_of=0))
        infra = status == Status.infra_error
        outcomes.append(
            Outcome(task=task, task_hash=spec.content_hash, status=status, stop="infrastructure" if infra else stop,
                    message=final.message, depth=rows[-1].depth if not duplicate else "final",
                    candidate=candidate.hash, index=0, speedup=final.speedup, attempts=1 + duplicate,
                    duplicates=int(duplicate), infra_errors=int(infra), elapsed_s=12.5)
        )
    run = RunFile(
        schema=1, run=f"{started}-run", suite=SuiteInfo(name=suite, version=version),
        agent=AgentInfo(name=agent, spec=agent), device=DeviceInfo(kind="cpu", name=device, facts={"cores": 2}),
        started=started, finished=started, configuration={"seed": 0, "half_width": 0.03}, tasks=specs,
        outcomes=outcomes, containment=[], provenance={"packages": {"torch": "2.13.0"}}, files={},
    )
    return write_record(results_dir, run, rows, candidates)


def competition(results_dir: Path) -> Path:
    """Four agents on three tasks, with a wrong answer, a noisy one and a machine failure among them."""
    write_run(results_dir, "eager", {"matmul": 1.0, "softmax": 1.0, "gelu": 1.0})
    write_run(results_dir, "handwritten", {"matmul": 0.83, "softmax": 1.84, "gelu": 6.2}, duplicate=True)
    write_run(results_dir, "search", {"matmul": Status.wrong_output, "softmax": 2.1, "gelu": Status.noisy})
    write_run(results_dir, "torch-compile", {"matmul": 1.02, "softmax": 1.3, "gelu": Status.infra_error})
    write_run(results_dir, "eager", {"matmul": 1.0}, suite="core", device="cpu-other")
    return results_dir
