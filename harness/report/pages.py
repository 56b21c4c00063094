"""What each page of the site says: records turned into the plain values that the templates print."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from harness.report import links, words
from harness.report.board import Board, verdict
from harness.report.figures import Scale
from harness.report.highlight import code_lines
from harness.report.names import one_line
from harness.report.rows import credit_estimate, rank_text, solved_text
from harness.report.template import facts
from harness.runs.record import AttemptRow, CandidateRef, Outcome, Record, portable_name
from harness.score.standings import Standing
from harness.spec.errors import GauntletError
from harness.spec.task import Task
from harness.spec.verdict import Estimate, JudgeResult, Status

SOURCE_LIMIT = 200_000
NAME_LIMIT = 64
NO_ANSWER = "no answer"

Page = dict[str, Any]


def front_page(boards: Sequence[Board], skipped: Sequence[str]) -> Page:
    """Context of index.html: every board with its standings and its agents × tasks."""
    # The board with most agents says most and comes first.
    shown = sorted((_board(b) for b in boards), key=lambda b: -len(b["rows"]))
    return {"root": "", "trail": [], "boards": shown, "skipped": [one_line(s, 400) for s in skipped]}


def _board(board: Board) -> Page:
    rows = board.standings().rows
    scale = Scale([e for row in rows if (e := credit_estimate(row))])
    cells = {row.agent: [_cell(board, row.agent, task) for task in board.tasks] for row in rows}
    shared = Scale([c["speedup"] for line in cells.values() for c in line if c and c["speedup"]])
    for line in cells.values():
        for cell in filter(None, line):
            cell["bar"] = shared.bar(cell["speedup"])
    return {
        "slug": links.board_id(board),
        "title": one_line(board.title, 200),
        "device": one_line(board.device, NAME_LIMIT),
        "runs": len(board.records),
        "newest": when(board.records[-1]),
        "tasks": [{"name": one_line(t, NAME_LIMIT), "href": links.task_page(board, t)} for t in board.tasks],
        "rows": [_standing(board, row, scale) for row in rows],
        "matrix": [{"agent": one_line(agent, NAME_LIMIT), "cells": line} for agent, line in cells.items()],
    }


def _standing(board: Board, row: Standing, scale: Scale) -> Page:
    newest = _runs_of(board, row.agent)[-1]
    estimate = credit_estimate(row)
    return {
        "rank": rank_text(row.rank),
        "agent": one_line(row.agent, NAME_LIMIT),
        "href": links.run_page(newest),
        "unranked": one_line(row.unranked, 300),
        "solved": solved_text(row),
        "credit": estimate,
        "bar": scale.bar(estimate),
        "fast": words.percent(row.fast.get(1.0)) if row.fast else words.DASH,
        "attempts": f"{row.attempts:,}",
        "wall": words.duration(row.wall_s),
    }


def _runs_of(board: Board, agent: str) -> list[Record]:
    return [r for r in board.records if r.run.agent.name == agent]


def _cell(board: Board, agent: str, task: str) -> Page | None:
    """The newest run of an agent on a task; None where there is none."""
    runs = [r for r in _runs_of(board, agent) if any(o.task == task for o in r.run.outcomes)]
    if not runs:
        return None
    record, outcome = runs[-1], runs[-1].outcome(task)
    result = verdict(record, outcome)
    return {
        "href": links.run_page(record) if outcome.index is None else links.attempt_page(record, task, outcome.index),
        "status": result.status if result else NO_ANSWER,
        "speedup": result.speedup if result and outcome.depth == "final" else None,
        "screened": outcome.depth == "screen" and outcome.status == Status.ok,
        "runs": len(runs),
    }


def task_page(board: Board, name: str) -> Page:
    """Context of a task's page: every run's answer to it, case by case, and the question itself."""
    answers = [(r, o) for r in board.records for o in r.run.outcomes if o.task == name]
    rows = [_answer(board, record, outcome) for record, outcome in answers]
    rows.sort(key=lambda row: (-row["speedup"].value if row["speedup"] else 0.0, row["agent"], row["when"]))
    scale = Scale([row["speedup"] for row in rows if row["speedup"]])
    for row in rows:
        row["bar"] = scale.bar(row["speedup"])
    specs = {o.task_hash: t for r, o in answers for t in r.run.tasks if t.name == name}
    newest = specs.get(board.task_hash[name])
    untold = {"title": "", "description": "", "facts": [], "inputs": [], "reference": []}
    return {
        "root": "../",
        "trail": [_board_step(board), (one_line(name, NAME_LIMIT), None)],
        "board": _place(board),
        "task": {
            "name": one_line(name, NAME_LIMIT),
            "differs": len({o.task_hash for _, o in answers}) > 1,
            **(_question(newest) if newest else untold),
        },
        "rows": rows,
        "cases": _cases(rows),
    }


def _place(board: Board) -> Page:
    return {"title": one_line(board.title, 200), "device": one_line(board.device, NAME_LIMIT)}


def _board_step(board: Board) -> tuple[str, str]:
    return one_line(board.title, NAME_LIMIT), f"index.html#{links.board_id(board)}"


def _answer(board: Board, record: Record, outcome: Outcome) -> Page:
    result = verdict(record, outcome)
    final = result is not None and result.depth == "final"
    score = result.speedup if result and final else None
    errors = [c.errors.rel_l2 for c in result.cases if c.errors.rel_l2 is not None] if result else []
    worst = [c.speedup for c in result.cases if c.speedup and not c.launch_bound] if result and score else []
    why = "" if result is None or result.status == Status.ok else _why(result)
    if result is None:
        why = one_line(outcome.message, 200)
    elif result.status == Status.ok and not final:
        why = "only screened: no score"
    return {
        "agent": one_line(record.run.agent.name, NAME_LIMIT),
        "href": None if outcome.index is None else links.attempt_page(record, outcome.task, outcome.index),
        "run_href": links.run_page(record),
        "when": when(record),
        "status": result.status if result else NO_ANSWER,
        "why": why,
        "speedup": score,
        "worst": min(worst, key=lambda e: e.value, default=None),
        "rel_l2": max(errors, default=None),
        "instances": score.n if score else None,
        "task_hash": one_line(outcome.task_hash, 64)[:8],
        "result": result if final else None,
    }


def _why(result: JudgeResult) -> str:
    if found := words.first_mismatch(result.trials):
        return f"{words.shape(found[0].dims)}: {words.mismatch(found[1])}"
    return one_line(result.message, 160)


def _cases(rows: list[Page]) -> list[Page]:
    """The timed cases of all final judgements, each with a row per answer."""
    cases: dict[tuple[str, str, str], list[Page]] = {}
    for row in rows:
        for case in row["result"].cases if row["result"] else []:
            key = (one_line(case.name, NAME_LIMIT), words.shape(case.dims), one_line(case.dtype, NAME_LIMIT))
            cases.setdefault(key, []).append({"agent": row["agent"], "href": row["href"], "case": case})
    described = []
    for (name, shape, dtype), lines in cases.items():
        scale = Scale([line["case"].speedup for line in lines if line["case"].speedup])
        for line in lines:
            line["bar"] = scale.bar(line["case"].speedup)
        notes = any(line["case"].launch_bound or line["case"].status != Status.ok for line in lines)
        described.append({"name": name, "shape": shape, "dtype": dtype, "rows": lines, "notes": notes})
    return described


def _question(task: Task) -> Page:
    shown = {
        "level": task.level,
        "reference": task.reference,
        "arguments": task.args or "none",
        "dynamic dimensions": task.dynamic,
        "tolerance": f"atol {task.tolerance.atol:g}, rtol {task.tolerance.rtol:g}, at most",
        "precision": task.precision,
        "compared as": task.compare,
        "task hash": task.content_hash[:16],
    }
    for dim, (low, high) in task.verify.items():
        shown[f"unseen {dim}"] = f"{low} to {high}"
    for case in task.cases:
        shown[f"case {case.name}"] = f"{words.named_shape(case.dims)} {case.dtype}"
    inputs = [
        {"name": name, "shape": f"[{', '.join(map(str, spec.shape))}]", "dtype": spec.dtype or "the case's",
         "init": ", ".join(f"{kind}({', '.join(f'{k}={v}' for k, v in options.items())})"
                           for kind, options in spec.init.items())}
        for name, spec in task.inputs.items()
    ]
    return {
        "title": one_line(task.title, 200),
        "description": task.description,
        "facts": facts(shown),
        "inputs": inputs,
        "reference": code_lines(task.reference_source[:SOURCE_LIMIT], "python") if task.reference_source else [],
    }


def run_page(board: Board, record: Record) -> Page:
    """Context of a run's page: how its agent ended on every task, every attempt, and how it was run."""
    run = record.run
    results = [(o, verdict(record, o)) for o in run.outcomes]
    scale = Scale([r.speedup for o, r in results if r and r.speedup and o.depth == "final"])
    failed = [r.message for _, r in results if r and r.status == Status.infra_error]
    shown = {"started": run.started, "finished": run.finished, "agent": run.agent.spec, "run": run.run,
             "record": run.id}
    provenance = {"configuration": run.configuration, "agent": run.agent.config, "device": run.device.facts,
                  "provenance": run.provenance}
    return {
        "root": "../",
        "trail": [_board_step(board), (one_line(run.agent.name, NAME_LIMIT), None)],
        "board": _place(board),
        "agent": one_line(run.agent.name, NAME_LIMIT),
        "when": when(record),
        "unranked": one_line(failed[0], 300) if failed else "",
        "others": [{"href": links.run_page(other), "when": when(other)}
                   for other in _runs_of(board, run.agent.name) if other is not record],
        "outcomes": [_outcome(board, record, o, r, scale) for o, r in results],
        "groups": [{"task": one_line(o.task, NAME_LIMIT), "rows": rows} for o in run.outcomes
                   if (rows := _attempts(record, o.task))],
        "facts": facts(shown),
        "details": facts(provenance),
    }


def _outcome(board: Board, record: Record, outcome: Outcome, result: JudgeResult | None, scale: Scale) -> Page:
    score: Estimate | None = result.speedup if result and outcome.depth == "final" else None
    return {
        "task": one_line(outcome.task, NAME_LIMIT),
        "task_href": links.task_page(board, outcome.task),
        "href": None if outcome.index is None else links.attempt_page(record, outcome.task, outcome.index),
        "status": result.status if result else NO_ANSWER,
        "why": one_line(outcome.message, 200) if result is None or result.status != Status.ok else "",
        "speedup": score,
        "bar": scale.bar(score),
        "attempts": f"{outcome.attempts:,}",
        "wall": words.duration(outcome.elapsed_s),
        "stop": STOPS.get(outcome.stop, outcome.stop),
    }


STOPS = {"done": "the agent", "attempts": "its budget of attempts", "seconds": "its budget of time",
         "agent_error": "an error of the agent's", "infrastructure": "failures of the machine"}


def _attempts(record: Record, task: str) -> list[Page]:
    rows = []
    for index, judged in attempts_of(record, task).items():
        candidate = next(iter(judged.values())).candidate
        screen, final = judged.get("screen"), judged.get("final")
        rows.append({
            "index": index,
            "href": links.attempt_page(record, task, index),
            "duplicate_of": screen.duplicate_of if screen and not final else None,
            "screen": screen.result if screen else None,
            "final": final.result if final else None,
            "note": one_line(candidate.note, 120) or _parameters(candidate),
        })
    return rows


def attempts_of(record: Record, task: str) -> dict[int, dict[str, AttemptRow]]:
    """Attempts of a record on `task`: index → depth → row, in order of the index."""
    found: dict[int, dict[str, AttemptRow]] = {}
    for row in record.attempts:
        if row.task == task:
            found.setdefault(row.index, {})[row.depth] = row
    return dict(sorted(found.items()))


def _parameters(candidate: CandidateRef) -> str:
    return one_line(" ".join(f"{k}={v}" for k, v in candidate.parameters.items()), 160)


def attempt_page(board: Board, record: Record, task: str, index: int, figure: str | None) -> Page:
    """Context of an attempt's page: its judgements, final first, and its code. figure: file of the block times."""
    judged = attempts_of(record, task)[index]
    ref = next(iter(judged.values())).candidate
    judgements = [
        _judgement(row.result, figure if depth == "final" else None)
        for depth in ("final", "screen") if (row := judged.get(depth)) and row.result
    ]
    original = judged["screen"].duplicate_of if "screen" in judged else None
    try:
        text, source_error = record.source(ref), ""
    except (GauntletError, OSError, UnicodeDecodeError) as error:
        text, source_error = "", f"The source {ref.file} cannot be read: {error}"
    agent = record.run.agent.name
    return {
        "root": "../",
        "trail": [_board_step(board), (one_line(agent, NAME_LIMIT), links.run_page(record)),
                  (one_line(task, NAME_LIMIT), links.task_page(board, task)), (f"attempt {index}", None)],
        "board": _place(board),
        "agent": one_line(agent, NAME_LIMIT),
        "task": one_line(task, NAME_LIMIT),
        "index": index,
        "duplicate_of": original,
        "original": None if original is None else links.attempt_page(record, task, original),
        "note": one_line(ref.note, 300),
        "judgements": judgements,
        "candidate": _candidate_facts(ref),
        "source": code_lines(text[:SOURCE_LIMIT], ref.language),
        "source_error": source_error,
        "cut": f"{SOURCE_LIMIT:,}" if len(text) > SOURCE_LIMIT else "",
        "command": _command(record, ref, task),
        "flags": one_line(" ".join(ref.flags), 400),
    }


def _judgement(result: JudgeResult, figure: str | None) -> Page:
    right = words.right_and_wrong(result.trials)
    found = words.first_mismatch(result.trials)
    return {
        "title": "Final judgement" if result.depth == "final" else "Screening",
        "result": result,
        "right": right[:1].upper() + right[1:],
        "mismatch": f"{words.named_shape(found[0].dims)} {found[0].dtype}: {words.mismatch(found[1])}" if found else "",
        "notes": [f"{one_line(c.name, NAME_LIMIT)}: {note}" for c in result.cases for note in words.case_notes(c)],
        "figure": figure,
        "classification": words.classification(result.classification),
        "containment": words.containment_level(result.containment),
        "facts": facts({"containment": result.containment, "seconds spent": result.phases}, result.environment),
    }


def _candidate_facts(ref: CandidateRef) -> list[tuple[str, str]]:
    shown: dict[str, Any] = {"language": ref.language, "entry point": ref.entry}
    if ref.flags:
        shown["compiler flags"] = " ".join(ref.flags)
    if ref.parameters:
        shown["parameters"] = ref.parameters
    return facts({**shown, "sha256": ref.hash})


def _command(record: Record, ref: CandidateRef, task: str) -> str:
    """The command that judges the published file again, from a folder that holds results/."""
    run = record.run
    names = (f"{run.suite.name}@{run.suite.version}", run.device.name, run.agent.name, run.id)
    folder = "/".join(("results", *map(portable_name, names)))
    parts = ["harness", "judge", f"{folder}/{ref.file}:{ref.entry}", "--task", task, "--device", run.device.kind]
    return " ".join(shlex.quote(one_line(part, 1000)) for part in parts)


def when(record: Record) -> str:
    """Start of a run, to the minute: ``2025-01-02 03:04 UTC``."""
    return f"{one_line(record.run.started, 40)[:16].replace('T', ' ')} UTC"
