"""The standings: one row per agent, from its final judgements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.score import metrics, ranking
from harness.spec.verdict import JudgeResult, Status


@dataclass(frozen=True)
class Finish:
    """How one agent ended on one task. Several of the same agent and task are repeated runs of it.

    result: the final judgement of its best candidate (or the verdict that ended the search), None if nothing was
    proposed. attempts: judged candidates. wall_s: wall-clock seconds the agent had the task.
    """

    agent: str
    task: str
    result: JudgeResult | None
    attempts: int = 0
    wall_s: float = 0.0


@dataclass(frozen=True)
class Standing:
    """One agent's figures over all tasks of the board.

    tasks: judged, `missing` and infrastructure failures apart. solved: number of tasks solved (a mean over repeated
    runs, hence a float). credit: geometric mean of C with credit_low, credit_high, a t interval over tasks
    (approximate; None for fewer than two tasks). capped, median: the 10×-capped geometric mean and the median of C.
    leave_one_out: range of `credit` with one task left out. unclamped: geometric mean of S over the tasks solved and
    timed, None without any. fast: p → share of tasks faster than p by the lower bound. rank: None while unranked, then
    `unranked` says why. attempts, wall_s: totals. runs: the fewest repetitions of a task.
    """

    agent: str
    tasks: int
    solved: float
    credit: float | None = None
    credit_low: float | None = None
    credit_high: float | None = None
    capped: float | None = None
    median: float | None = None
    leave_one_out: tuple[float, float] | None = None
    unclamped: float | None = None
    fast: dict[float, float] | None = None
    rank: ranking.Rank | None = None
    unranked: str = ""
    infra_errors: int = 0
    attempts: int = 0
    wall_s: float = 0.0
    runs: int = 1


@dataclass(frozen=True)
class Standings:
    """rows: ranked agents first, best first. pairs: every pair of ranked agents. tasks: of the board, sorted."""

    rows: list[Standing]
    pairs: list[ranking.Pair]
    tasks: list[str]
    log_credits: dict[str, list[float]]  # ranked agent → ln C in the order of `tasks`

    def tasks_to_separate(self, first: str, second: str) -> int | None:
        """About how many tasks would tell two ranked agents apart (see `ranking.tasks_to_separate`); KeyError else."""
        gaps = [a - b for a, b in zip(self.log_credits[first], self.log_credits[second])]
        return ranking.tasks_to_separate(gaps, comparisons=max(1, len(self.pairs)))


FAST = (1.0, 1.5, 2.0)


def standings(finishes: Sequence[Finish], *, seed: int = 0) -> Standings:
    """The board from every agent's finishes; the board's tasks are those that any agent finished.

    Repeated runs of an agent on a task are averaged first (ln C, ln S, solved, fast). An agent with an infrastructure
    failure, or without a task that others have, is unranked until it is redone: it is compared with nobody.
    Raises metrics.ScoreError where a result that should count is not a final.
    """
    tasks = sorted({f.task for f in finishes})
    by_agent: dict[str, dict[str, list[Finish]]] = {}
    for f in finishes:
        by_agent.setdefault(f.agent, {}).setdefault(f.task, []).append(f)
    rows = {agent: _standing(agent, done, tasks) for agent, done in by_agent.items()}
    log_credits = {
        agent: [_mean_log_credit(by_agent[agent][task]) for task in tasks]
        for agent, row in rows.items()
        if not row.unranked
    }
    pairs = ranking.compare_all(log_credits, seed=seed)
    places = ranking.ranks(list(log_credits), pairs)
    ranked = [replace(row, rank=places.get(agent)) for agent, row in rows.items()]
    return Standings(
        rows=sorted(ranked, key=_order),
        pairs=pairs,
        tasks=tasks,
        log_credits=log_credits,
    )


def _order(row: Standing) -> tuple[float, float, float, str]:
    place = row.rank.low if row.rank else math.inf
    return place, -(row.credit or 0.0), -row.solved, row.agent


def _standing(agent: str, done: dict[str, list[Finish]], tasks: list[str]) -> Standing:
    everything = [f for runs in done.values() for f in runs]
    infra = sum(_is_infra(f) for f in everything)
    judged = {task: kept for task, runs in done.items() if (kept := [f for f in runs if not _is_infra(f)])}
    row = Standing(
        agent=agent,
        tasks=len(judged),
        solved=math.fsum(_mean(metrics.is_solved(f.result) for f in runs) for runs in judged.values()),
        unranked=_why_unranked(infra, [t for t in tasks if t not in done]),
        infra_errors=infra,
        attempts=sum(f.attempts for f in everything),
        wall_s=math.fsum(f.wall_s for f in everything),
        runs=min(len(runs) for runs in done.values()),
    )
    return _with_figures(row, list(judged.values())) if judged else row


def _with_figures(row: Standing, judged: list[list[Finish]]) -> Standing:
    scores = [[metrics.score_of(f.result) for f in runs] for runs in judged]
    credits = [math.exp(_mean_log_credit(runs)) for runs in judged]
    per_task = [metrics.geomean(known) for runs in scores if (known := [s.value for s in runs if s is not None])]
    credit, low, high = metrics.geomean_interval(credits)
    return replace(
        row,
        credit=credit,
        credit_low=low if len(credits) > 1 else None,
        credit_high=high if len(credits) > 1 else None,
        capped=metrics.capped_geomean(credits),
        median=metrics.median(credits),
        leave_one_out=metrics.leave_one_out(credits),
        unclamped=metrics.geomean(per_task) if per_task else None,
        fast={p: _mean(metrics.fast_p(runs, p) for runs in scores) for p in FAST},
    )


def _mean_log_credit(runs: list[Finish]) -> float:
    return _mean(math.log(metrics.credit(metrics.score_of(f.result))) for f in runs)


def _is_infra(finish: Finish) -> bool:
    return finish.result is not None and finish.result.status == Status.infra_error


def _why_unranked(infra: int, missing: list[str]) -> str:
    reasons = []
    if infra:
        reasons.append(f"{infra} infrastructure error{'s' if infra > 1 else ''}: run again")
    if missing:
        reasons.append(f"not run on {', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}")
    return "; ".join(reasons)


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(float(v) for v in values)
