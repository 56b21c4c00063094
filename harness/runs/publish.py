"""From a finished log to published records, one per agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.runs.canonical import canonical_json
from harness.runs.record import (
    AgentInfo,
    AttemptRow,
    CandidateRef,
    DeviceInfo,
    RunFile,
    SuiteInfo,
    candidate_file,
    device_folder,
    write_record,
)
from harness.runs.replay import Recorded
from harness.spec.candidate import Candidate
from harness.spec.errors import GauntletError


def publish_run(recorded: Recorded, run_id: str, results: Path) -> list[Path]:
    """Publish a finished run under `results`; returns one folder per agent, in the run's order.

    Publishing again changes nothing. Raises GauntletError for an unfinished run and when the disk refuses.
    """
    if not recorded.finished:
        raise GauntletError(f"run {run_id} is not finished; finish it with: harness run --resume {run_id}")
    return [_publish_agent(recorded, run_id, entry.name, results) for entry in recorded.config.agents]


def _publish_agent(recorded: Recorded, run_id: str, agent: str, results: Path) -> Path:
    config = recorded.config
    entry = next(one for one in config.agents if one.name == agent)
    rows: list[AttemptRow] = []
    candidates: dict[str, Candidate] = {}
    outcomes = []
    containment: dict[str, dict[str, Any]] = {}
    finished = recorded.started
    for task in config.tasks:
        cell = recorded.cell(agent, task.name)
        if cell.outcome is None:
            raise GauntletError(f"run {run_id}: {agent} on {task.name} has no outcome; the log is not of a whole run")
        outcomes.append(cell.outcome)
        finished = max(finished, cell.done_at)
        for index, depth in sorted(cell.attempts, key=lambda key: (key[0], key[1] == "final")):
            judged = cell.attempts[index, depth]
            candidate = cell.proposals[index]
            candidates[candidate.hash] = candidate
            rows.append(
                AttemptRow(
                    task=task.name,
                    index=index,
                    depth=depth,
                    candidate=_reference(candidate),
                    result=judged.result,
                    duplicate_of=judged.duplicate_of,
                    tries=judged.tries,
                    time=judged.time,
                )
            )
            if judged.result and judged.result.containment:
                containment.setdefault(canonical_json(judged.result.containment), judged.result.containment)
    run = RunFile(
        schema_version=1,
        run=run_id,
        suite=SuiteInfo(name=config.suite, version=config.suite_version),
        agent=AgentInfo(name=entry.name, spec=entry.spec, config=entry.config),
        device=DeviceInfo(
            kind=config.device, name=device_folder(config.device, recorded.device), facts=recorded.device
        ),
        started=recorded.started,
        finished=finished,
        configuration={
            **config.model_dump(mode="json", exclude={"tasks", "agents", "suite", "suite_version", "device"}),
            "attempts": entry.attempts,
            "agents": [one.name for one in config.agents],
        },
        # Where a task was found on this machine is nobody's business and would differ from one machine to the next.
        tasks=[task.anywhere() for task in config.tasks],
        outcomes=outcomes,
        containment=[containment[key] for key in sorted(containment)],
        provenance=recorded.provenance,
        resumed=recorded.resumed,
        files={},
    )
    return write_record(results, run, rows, candidates)


def _reference(candidate: Candidate) -> CandidateRef:
    return CandidateRef(
        hash=candidate.hash,
        file=candidate_file(candidate),
        language=candidate.language,
        entry=candidate.entry,
        flags=candidate.flags,
        parameters=candidate.parameters,
        note=candidate.note,
    )
