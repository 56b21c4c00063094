"""The run loop: order, budgets, duplicates, infrastructure, finals, and resuming at any point of the log."""

from __future__ import annotations

import itertools
import json
import os
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from run_fakes import FACTS, Climbing, Counting, FakeExecutor, candidate, make_task, verdict

from harness.runs import events as ev
from harness.runs.events import EventLog, read_events
from harness.runs.lease import DeviceLease
from harness.runs.plan import AgentEntry, RunConfig
from harness.runs.publish import publish_run
from harness.runs.record import read_record
from harness.runs.replay import Recorded, replay
from harness.runs.run import INFRA_LIMIT, INFRA_RETRIES, Run
from harness.spec.errors import GauntletError
from harness.spec.verdict import Status


class Listener:
    def __init__(self) -> None:
        self.events: list[ev.Event] = []

    def on_event(self, event: ev.Event) -> None:
        self.events.append(event)


def no_content(name: str) -> Path:
    raise FileNotFoundError(name)


def config(tasks=("softmax",), agents=("one",), attempts: int = 8, **more) -> RunConfig:
    return RunConfig(
        tasks=[make_task(name) for name in tasks],
        agents=[AgentEntry(name=name, spec=name, attempts=attempts) for name in agents],
        **more,
    )


def go(folder: Path, what: RunConfig, agents, executor=None, **more) -> Recorded:
    opener = EventLog.open if folder.exists() else EventLog.create
    with opener(folder) as log:
        return Run(log, what, agents, executor or FakeExecutor(), no_content, {"python": "test"}, **more).execute()


def test_every_attempt_then_a_final_of_the_best(tmp_path):
    executor = FakeExecutor()
    recorded = go(tmp_path / "r", config(), {"one": Counting([2, 7, 4])}, executor)
    assert executor.asked == [f"one/softmax/{i}/screen" for i in range(3)] + ["one/softmax/1/final"]
    outcome = recorded.cell("one", "softmax").outcome
    assert (outcome.status, outcome.stop, outcome.depth, outcome.index) == (Status.ok, "done", "final", 1)
    assert outcome.speedup.value == pytest.approx(1.7 * 0.98)  # the final's figure, not the screened one
    assert outcome.candidate == candidate(7).hash


@pytest.mark.parametrize(("settings", "unsafe", "vouched"), [
    ({}, False, False), ({"trusted": True}, False, True), ({}, True, True)])
def test_only_trusted_agents_and_unsafe_runs_answer_for_candidates(tmp_path, settings, unsafe, vouched):
    executor = FakeExecutor()
    what = config(unsafe=unsafe)
    what = what.model_copy(update={"agents": [what.agents[0].model_copy(update={"config": settings})]})
    go(tmp_path / "r", what, {"one": Counting([2])}, executor)
    assert [request.vouched for request in executor.requests] == [vouched] * 2


def test_task_by_task(tmp_path):
    executor = FakeExecutor()
    what = config(("softmax", "matmul"), ("one", "two"))
    go(tmp_path / "r", what, {"one": Counting([1]), "two": Counting([2])}, executor)
    order = [request.split("/")[:2] for request in executor.asked if request.endswith("screen")]
    assert order == [["one", "softmax"], ["two", "softmax"], ["one", "matmul"], ["two", "matmul"]]


def test_a_batch_sees_only_what_was_there_when_it_was_asked(tmp_path):
    seen = []

    class Looking(Counting):
        def propose(self, view, history):
            for one in super().propose(view, history):
                seen.append(len(history))
                yield one

    go(tmp_path / "r", config(), {"one": Looking([1, 2, 3], batch=2)})
    assert seen == [0, 0, 2]


def test_budget_of_attempts(tmp_path):
    recorded = go(tmp_path / "r", config(attempts=3), {"one": Counting(range(50), batch=50)})
    outcome = recorded.cell("one", "softmax").outcome
    assert (outcome.attempts, outcome.stop) == (3, "attempts")


def test_an_agent_is_not_asked_beyond_its_budget(tmp_path):
    asked = []

    class Dear(Counting):
        def propose(self, view, history):
            for number in range(len(history), 50):
                asked.append(number)  # an expensive call would be here
                yield candidate(number)

    go(tmp_path / "r", config(attempts=3), {"one": Dear([])})
    assert asked == [0, 1, 2]


def test_budget_of_seconds_counts_judging_and_goes_on_after_a_resume(tmp_path):
    now = itertools.count(0, 1)  # a second per look at the clock
    what = config(seconds=20.0, attempts=1000)
    recorded = go(tmp_path / "r", what, {"one": Counting(range(1000))}, clock=lambda: float(next(now)))
    outcome = recorded.cell("one", "softmax").outcome
    assert outcome.stop == "seconds"
    assert 2 < outcome.attempts < 20
    events = read_events(tmp_path / "r" / ev.FILE_NAME).events
    last = max(e.seq for e in events if e.kind == ev.ATTEMPT and e.data["depth"] == "screen")
    cut(tmp_path / "r", tmp_path / "again", last + 1)
    resumed = go(tmp_path / "again", what, {"one": Counting(range(1000))}, clock=lambda: float(next(now)))
    # Nearly all of the 20 s were used before the cut: a clock that began anew would allow as many attempts again.
    assert resumed.cell("one", "softmax").outcome.attempts <= outcome.attempts + 1


def test_waiting_for_the_device_is_not_charged(tmp_path):
    now = [0.0]

    class Crowded:
        """A lease that is had only after an hour."""

        waited_s = 0.0

        @contextmanager
        def hold(self, on_wait):
            now[0] += 3600.0
            self.waited_s += 3600.0
            on_wait("waiting")
            yield
            now[0] += 2.0  # the judgement itself

    listener = Listener()
    recorded = go(tmp_path / "r", config(seconds=9.0, attempts=50), {"one": Counting(range(50))}, observer=listener,
                  lease=Crowded(), clock=lambda: now[0])
    outcome = recorded.cell("one", "softmax").outcome
    assert (outcome.attempts, outcome.stop, outcome.elapsed_s) == (5, "seconds", 10.0)
    assert any(event.kind == ev.WAITING for event in listener.events)


def test_the_same_candidate_is_judged_once_and_charged_every_time(tmp_path):
    executor = FakeExecutor()
    recorded = go(tmp_path / "r", config(attempts=4), {"one": Counting([5, 3, 5, 5, 3])}, executor)
    cell = recorded.cell("one", "softmax")
    assert len([r for r in executor.asked if r.endswith("screen")]) == 2
    assert [cell.attempts[i, "screen"].duplicate_of for i in range(4)] == [None, None, 0, 0]
    assert (cell.outcome.attempts, cell.outcome.duplicates, cell.outcome.stop) == (4, 2, "attempts")


def test_a_duplicate_shows_the_agent_the_earlier_verdict(tmp_path):
    seen = []

    class Looking(Counting):
        def propose(self, view, history):
            seen[:] = [attempt.result.speedup.value for attempt in history.attempts]
            yield from super().propose(view, history)

    go(tmp_path / "r", config(), {"one": Looking([5, 5])})
    assert seen == [1.5, 1.5]


def test_infra_error_is_retried_and_then_right(tmp_path):
    def script(request):
        if request.depth == "screen" and len(executor.requests) <= INFRA_RETRIES:
            return verdict(request, Status.infra_error)
        return verdict(request, speedup=2.0)

    executor = FakeExecutor(script)
    cell = go(tmp_path / "r", config(), {"one": Counting([1])}, executor).cell("one", "softmax")
    assert cell.attempts[0, "screen"].tries == INFRA_RETRIES + 1
    assert (cell.outcome.status, cell.outcome.infra_errors) == (Status.ok, 0)


def test_infra_error_is_recorded_but_never_charged(tmp_path):
    def script(request):
        broken = request.candidate == candidate(1)
        return verdict(request, Status.infra_error) if broken else verdict(request, speedup=1.2)

    executor = FakeExecutor(script)
    what = config(attempts=2)
    outcome = go(tmp_path / "r", what, {"one": Counting([1, 2, 3, 4])}, executor).cell("one", "softmax").outcome
    assert (outcome.attempts, outcome.infra_errors, outcome.stop) == (3, 1, "attempts")
    assert outcome.status == Status.ok
    assert executor.asked[: INFRA_RETRIES + 1] == ["one/softmax/0/screen"] * (INFRA_RETRIES + 1)


def test_a_broken_machine_ends_the_task_as_its_own_failure(tmp_path):
    executor = FakeExecutor(lambda request: verdict(request, Status.infra_error))
    outcome = go(tmp_path / "r", config(), {"one": Counting(range(100))}, executor).cell("one", "softmax").outcome
    assert (outcome.status, outcome.stop, outcome.attempts) == (Status.infra_error, "infrastructure", INFRA_LIMIT)


def test_a_candidate_the_machine_failed_is_judged_again_when_proposed_again(tmp_path):
    def script(request):
        early = len(executor.requests) <= INFRA_RETRIES + 1
        return verdict(request, Status.infra_error) if early else verdict(request, speedup=3.0)

    executor = FakeExecutor(script)
    cell = go(tmp_path / "r", config(), {"one": Counting([1, 1])}, executor).cell("one", "softmax")
    assert cell.attempts[1, "screen"].duplicate_of is None
    assert cell.outcome.status == Status.ok


def test_only_failures_keep_the_nearest_and_get_no_final(tmp_path):
    by_number = {1: Status.compile_error, 2: Status.wrong_output, 3: Status.timeout}
    executor = FakeExecutor(lambda r: verdict(r, by_number[r.candidate.parameters["number"]], message="why"))
    outcome = go(tmp_path / "r", config(), {"one": Counting([1, 2, 3])}, executor).cell("one", "softmax").outcome
    assert (outcome.status, outcome.depth, outcome.index, outcome.message) == (Status.wrong_output, "screen", 1, "why")
    assert outcome.speedup is None
    assert not any(request.endswith("final") for request in executor.asked)


def test_a_final_can_take_the_score_away(tmp_path):
    def script(request):
        return verdict(request, Status.wrong_output) if request.depth == "final" else verdict(request, speedup=9.0)

    outcome = go(tmp_path / "r", config(), {"one": Counting([1])}, FakeExecutor(script)).cell("one", "softmax").outcome
    assert (outcome.status, outcome.depth, outcome.speedup) == (Status.wrong_output, "final", None)


def test_nothing_proposed(tmp_path):
    outcome = go(tmp_path / "r", config(), {"one": Counting([])}).cell("one", "softmax").outcome
    assert (outcome.status, outcome.stop, outcome.candidate, outcome.depth) == (None, "done", None, None)


def test_screen_depth_has_no_finals(tmp_path):
    executor = FakeExecutor()
    recorded = go(tmp_path / "r", config(depth="screen"), {"one": Counting([4])}, executor)
    outcome = recorded.cell("one", "softmax").outcome
    assert (outcome.depth, outcome.status) == ("screen", Status.ok)
    assert executor.asked == ["one/softmax/0/screen"]


def test_an_agents_own_fault_ends_its_task_and_nobody_elses(tmp_path):
    class Broken(Counting):
        def propose(self, view, history):
            yield candidate(6)
            raise ValueError("my own fault")

    class Odd:
        def propose(self, view, history):
            yield "source text"

    what = config(agents=("broken", "odd", "fine"))
    recorded = go(tmp_path / "r", what, {"broken": Broken([]), "odd": Odd(), "fine": Counting([1])})
    broken, odd, fine = (recorded.cell(name, "softmax").outcome for name in ("broken", "odd", "fine"))
    assert (broken.stop, broken.status) == ("agent_error", Status.ok)
    assert broken.message == "ValueError: my own fault"
    assert (odd.stop, odd.status) == ("agent_error", None)
    assert "str" in odd.message
    assert fine.stop == "done"


# -- resuming ------------------------------------------------------------------------------------------------------


def cut(source: Path, target: Path, lines: int, extra: bytes = b"") -> None:
    """A copy of a run folder whose log ends after `lines` lines and `extra` bytes of the next."""
    target.mkdir()
    whole = (source / ev.FILE_NAME).read_bytes().splitlines(keepends=True)
    (target / ev.FILE_NAME).write_bytes(b"".join(whole[:lines]) + extra)


def without_times(recorded: Recorded, folder: Path) -> list:
    """The published records of a run as plain data, times and everything derived from them blanked."""
    out = []
    for path in publish_run(recorded, "run", folder):
        record = read_record(path)
        run = json.loads((path / "run.json").read_text())
        for key in ("id", "started", "finished", "resumed"):
            run.pop(key)
        run["files"].pop("attempts.jsonl")
        for outcome in run["outcomes"]:
            outcome.pop("elapsed_s")
        rows = [{**row.model_dump(mode="json"), "time": ""} for row in record.attempts]
        sources = {row.candidate.file: record.source(row.candidate) for row in record.attempts}
        out.append((run, rows, sources))
    return out


AGENTS = {"count": Counting([3, 8, 3, 5], batch=3), "climb": Climbing()}
WHAT = config(("softmax", "matmul"), ("count", "climb"), finals=2, attempts=4)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, list, int]:
    """One run from beginning to end: its folder, its records, and how many judgements it took."""
    base = tmp_path_factory.mktemp("whole")
    executor = FakeExecutor()
    recorded = go(base / "run", WHAT, AGENTS, executor)
    return base / "run", without_times(recorded, base / "results"), len(executor.requests)


def test_resume_at_every_event_boundary_and_within_lines(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # hundreds of runs, and no power cut to survive
    source, expected, judgements = whole
    lines = (source / ev.FILE_NAME).read_bytes().splitlines(keepends=True)
    assert len(lines) > 30
    for kept in range(len(lines) + 1):
        cut_line = lines[kept] if kept < len(lines) else b""
        # Within the line: at one place a run, from its first byte to all but its newline.
        extras = {b""}
        if cut_line:
            extras.add(cut_line[: 1 + kept * 997 % (len(cut_line) - 1)] if kept % 2 else cut_line[:-1])
        for number, extra in enumerate(extras):
            folder = tmp_path / f"run-{kept}-{number}"
            cut(source, folder, kept, extra)
            executor = FakeExecutor()
            recorded = go(folder, WHAT, AGENTS, executor)
            assert without_times(recorded, tmp_path / f"results-{kept}-{number}") == expected, (kept, extra)
            judged = sum(b'"kind":"attempt"' in line and b'"duplicate_of":null' in line for line in lines[:kept])
            assert len(executor.requests) == judgements - judged, (kept, extra)


def test_resuming_a_finished_run_judges_nothing_and_publishes_the_same_bytes(whole, tmp_path):
    source, _, _ = whole
    cut(source, tmp_path / "run", 10**6)
    before = (tmp_path / "run" / ev.FILE_NAME).read_bytes()
    executor = FakeExecutor()
    first = publish_run(go(tmp_path / "run", WHAT, AGENTS, executor), "run", tmp_path / "results")
    content = {path: path.read_bytes() for path in (tmp_path / "results").rglob("*") if path.is_file()}
    again = publish_run(go(tmp_path / "run", WHAT, AGENTS, executor), "run", tmp_path / "results")
    assert first == again and executor.requests == []
    assert {path: path.read_bytes() for path in (tmp_path / "results").rglob("*") if path.is_file()} == content
    assert (tmp_path / "run" / ev.FILE_NAME).read_bytes() == before


def test_a_strategy_that_answers_otherwise_continues_from_its_record(tmp_path):
    listener = Listener()
    what = config(attempts=4)
    go(tmp_path / "r", what, {"one": Counting([1, 2, 3, 4], batch=4)})
    cut(tmp_path / "r", tmp_path / "again", 5)  # started, two proposals, two attempts
    executor = FakeExecutor()
    recorded = go(tmp_path / "again", what, {"one": Counting([9, 8, 7, 6], batch=4)}, executor, observer=listener)
    cell = recorded.cell("one", "softmax")
    assert [cell.proposals[i].parameters["number"] for i in range(4)] == [1, 2, 7, 6]
    assert any("otherwise" in event.data.get("message", "") for event in listener.events)


def test_a_strategy_that_now_fails_keeps_its_recorded_attempts(tmp_path):
    class Failing:
        def propose(self, view, history):
            raise RuntimeError("no longer there")

    go(tmp_path / "r", config(), {"one": Counting([1, 2])})
    cut(tmp_path / "r", tmp_path / "again", 5)
    outcome = go(tmp_path / "again", config(), {"one": Failing()}).cell("one", "softmax").outcome
    assert (outcome.stop, outcome.attempts, outcome.status) == ("agent_error", 2, Status.ok)


def test_a_clock_that_jumps_back_and_forth_changes_nothing_but_times(whole, tmp_path, monkeypatch):
    """Order is that of the log's numbers, budgets are of the monotonic clock."""
    source, expected, judgements = whole
    now = itertools.cycle(["2031-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z", "2026-06-01T12:00:00.000Z"])
    monkeypatch.setattr(ev, "utc_now", lambda: next(now))
    cut(source, tmp_path / "run", 9)
    executor = FakeExecutor()
    recorded = go(tmp_path / "run", WHAT, AGENTS, executor)
    assert without_times(recorded, tmp_path / "results") == expected and len(executor.requests) < judgements
    again = go(tmp_path / "run", WHAT, AGENTS, FakeExecutor())
    assert without_times(again, tmp_path / "again") == expected


def test_resume_with_other_options_says_which(tmp_path):
    go(tmp_path / "r", config(), {"one": Counting([1])})
    with pytest.raises(GauntletError, match=r"seed was 0, now 7.*--resume r"):
        go(tmp_path / "r", config(seed=7), {"one": Counting([1])})
    with pytest.raises(GauntletError, match="tasks was softmax, now matmul"):
        go(tmp_path / "r", config(("matmul",)), {"one": Counting([1])})


def test_resume_on_another_device_is_refused(tmp_path):
    go(tmp_path / "r", config(), {"one": Counting([1])})
    cut(tmp_path / "r", tmp_path / "again", 2)

    class Elsewhere(FakeExecutor):
        def facts(self):
            return {**FACTS, "name": "Other CPU"}

    with pytest.raises(GauntletError, match="Test CPU.*Other CPU"):
        go(tmp_path / "again", config(), {"one": Counting([1])}, Elsewhere())


def test_an_interrupted_judgement_is_the_only_one_redone(tmp_path):
    def script(request):
        if request.id == "one/softmax/2/screen" and not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        return FakeExecutor.by_number(request)

    interrupted: list[bool] = []
    executor = FakeExecutor(script)
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "r", config(), {"one": Counting([1, 2, 3])}, executor)
    go(tmp_path / "r", config(), {"one": Counting([1, 2, 3])}, executor)
    expected = [0, 1, 2, 2]
    assert executor.asked == [f"one/softmax/{i}/screen" for i in expected] + ["one/softmax/2/final"]


def test_two_runs_at_once_do_not_mix(tmp_path):
    """Both logs end whole and their own; on the device they never overlap."""
    inside, overlaps = [], []

    def script(request):
        inside.append(request)
        if len(inside) > 1:
            overlaps.append(request)
        pause.wait(0.005)
        inside.pop()
        return FakeExecutor.by_number(request)

    pause = threading.Event()
    results: dict[str, Recorded] = {}

    def one(name: str, numbers: list[int]) -> None:
        lease = DeviceLease("cpu", name, folder=tmp_path)
        results[name] = go(tmp_path / name, config(), {"one": Counting(numbers)}, FakeExecutor(script), lease=lease)

    runs = (("a", [1, 2, 3, 4]), ("b", [5, 6, 7]))
    threads = [threading.Thread(target=one, args=run) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert overlaps == []
    for name, numbers in runs:
        state = replay(read_events(tmp_path / name / ev.FILE_NAME).events, name)
        proposals = state.cell("one", "softmax").proposals
        assert [proposals[i].parameters["number"] for i in sorted(proposals)] == numbers


def test_one_run_is_written_by_one_process(tmp_path):
    with EventLog.create(tmp_path / "r"):
        with pytest.raises(GauntletError, match="another process"):
            EventLog.open(tmp_path / "r")


def test_names_are_unique_and_there_is_at_least_one(tmp_path):
    with pytest.raises(GauntletError, match="agent one is named twice.*as="):
        config(agents=("one", "one")).checked()
    with pytest.raises(GauntletError, match="at least one task"):
        config(tasks=()).checked()
