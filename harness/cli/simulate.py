"""``harness simulate``: samplers compared on a recorded space, without measuring anything."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.exit_codes import OK
from harness.cli.options import discover, format_option, plural, root_option, split_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.runs.record import Record
    from harness.search.baseline import Baseline
    from harness.search.recording import Recording
    from harness.search.simulate import Outcome
    from harness.spec.content import Content


@click.command()
@click.argument("recorded", nargs=-1, required=True, metavar="RECORDED...", type=click.Path(path_type=Path))
@click.option("--task", metavar="NAME", help="Which task's space, where the records hold several.")
@click.option("--space", metavar="FILE.space.yaml", type=click.Path(path_type=Path),
              help="The space that was searched. Default: the task's own.")
@click.option("--samplers", metavar="A,B", multiple=True, help="Default: all.")
@click.option("--replays", type=click.IntRange(1), default=200, show_default=True, help="Searches for each sampler.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the replays.")
@click.option("--jobs", type=click.IntRange(1), help="Processes at once. Default: the cores.")
@click.option("--partial", is_flag=True, help="Make do with the configurations that were recorded.")
@click.option("--save", type=click.Path(path_type=Path, dir_okay=False), help="Keep the recording in one JSON file.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw the searches as an SVG file.")
@root_option
@format_option("table", "json", "csv", "md")
def simulate(recorded: tuple[Path, ...], task: str | None, space: Path | None, samplers: tuple[str, ...], replays: int,
             seed: int, jobs: int | None, partial: bool, save: Path | None, plot: Path | None, root: Path | None,
             form: str) -> int:
    """Compare samplers on a recorded space.

    RECORDED is a file that --save wrote, or folders of published records of an exhaustive search; of several records of
    one space the first is replayed and the others time its best configurations again.

    \b
    harness run --agent search:sampler=exhaustive --tasks softmax --depth screen --budget attempts=200
    harness simulate results/ --task softmax --save softmax.json --plot softmax.svg
    """
    from harness.search.recording import dump
    from harness.search.samplers import SAMPLERS
    from harness.search.simulate import simulate as run

    recording = _recording(recorded, task, space, partial, discover(root))
    if save is not None:
        _write(save, dump(recording).encode())
    chance, outcomes = run(recording, split_names(samplers) or SAMPLERS, replays=replays, seed=seed,
                           jobs=jobs or os.cpu_count() or 1, tell=lambda text: print(text, file=sys.stderr))
    if plot is not None:
        from harness.report.search_figure import search_curves

        _write(plot, search_curves(chance, outcomes, recording.unit))
    _print(recording, chance, outcomes, replays, form)
    return OK


def _recording(paths: Sequence[Path], task: str | None, space: Path | None, partial: bool, content: Content
               ) -> Recording:
    from harness.search.recording import from_attempts, load
    from harness.search.space import load_space
    from harness.spec.errors import GauntletError, near

    files = [path for path in paths if not path.is_dir()]
    if files:
        if len(paths) > 1 or task or space:
            raise GauntletError("a recording in a file is whole: give it alone, without --task and --space")
        return load(files[0])
    runs = [record for path in paths for record in _records(path)]
    found: dict[str, list[Record]] = {}
    for record in sorted(runs, key=lambda one: one.run.started):
        for name in {row.task for row in record.attempts if row.candidate.parameters}:
            found.setdefault(name, []).append(record)
    if not found:
        raise GauntletError(f"no search is recorded under {', '.join(map(str, paths))}; make one with harness run "
                            "--agent search:sampler=exhaustive --tasks NAME --depth screen --budget attempts=N")
    if task is None and len(found) > 1:
        raise GauntletError(f"searches on {', '.join(sorted(found))} are recorded; choose one with --task")
    name = task or next(iter(found))
    if name not in found:
        raise GauntletError(f"no search on {name!r} is recorded{near(name, found)}")
    try:
        known = load_space(space or content.find(f"templates/{name}.space.yaml"))
    except FileNotFoundError:
        raise GauntletError(f"task {name} has no space of its own; give the one that was searched with --space") from None
    devices = {record.run.device.name for record in found[name]}
    if len(devices) > 1:
        raise GauntletError(f"recorded on several devices ({', '.join(sorted(devices))}); give the folder of one")
    return from_attempts(known, [_attempts(record, name) for record in found[name]], device=devices.pop(),
                         partial=partial)


def _records(folder: Path) -> list[Record]:
    from harness.runs.record import read_record, read_results

    if (folder / "run.json").is_file():
        return [read_record(folder)]
    return read_results(folder, lambda path, why: print(f"skipped: {why}", file=sys.stderr))


def _attempts(record: Record, task: str) -> list[tuple[Mapping[str, Any], float | None]]:
    """Parameters and screened speedup, None where it got none; what the machine failed is as if never tried."""
    found = []
    for row in record.attempts:
        if row.task != task or row.depth != "screen" or row.result is None or row.result.status == "infra_error":
            continue
        ok = row.result.status == "ok" and row.result.speedup
        found.append((row.candidate.parameters, row.result.speedup.value if ok else None))
    return found


def _write(path: Path, data: bytes) -> None:
    from harness.spec.errors import GauntletError

    try:
        path.write_bytes(data)
    except OSError as error:
        raise GauntletError(f"cannot write {path}: {error.strerror}") from None


def rows(chance: Baseline, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """A row per sampler; final: mean best at the horizon over the optimum."""
    return [{"sampler": one.sampler, "score": one.score, "low": one.low, "high": one.high,
             "final": float(one.mean[-1]) / chance.optimum, "to_near": one.to_near} for one in outcomes]


def _print(recording: Recording, chance: Baseline, outcomes: Sequence[Outcome], replays: int, form: str) -> None:
    import json

    from harness.cli.tables import print_rows, print_text
    from harness.report import words

    table = rows(chance, outcomes)
    valid = sum(time is not None for time in recording.times.values())
    facts = {"task": recording.space.task, "device": recording.device, "unit": recording.unit,
             "configurations": len(recording.times), "valid": valid, "optimum": chance.optimum,
             "optimum_retimed": recording.optimum is not None, "median": chance.median, "horizon": chance.horizon,
             "near": chance.near, "chance_of_near": chance.chance_of_near(chance.horizon), "replays": replays}
    if form == "json":
        print(json.dumps({**facts, "samplers": table}, indent=1))
        return
    if form == "csv":
        print_rows(table, form)
        return
    print_rows([{"sampler": row["sampler"],
                 "score": f"{row['score']:.2f} [{row['low']:.2f}, {row['high']:.2f}]",
                 "best at the end": f"{words.number(row['final'])} × optimum",
                 "to 95 % of it": f"{row['to_near']:.0f}" if row["to_near"] else f"over {chance.horizon}"}
                for row in table], form)
    print()
    how = ("the best timed again" if recording.optimum is not None else
           "the least recorded: too good by the luck of one measurement, record the space again to time its best again")
    print_text(f"{recording.space.task} on {recording.device}: {plural(len(recording.times), 'configuration')}, {valid} "
               f"valid; {recording.unit}: optimum {words.number(chance.optimum)} ({how}), median "
               f"{words.number(chance.median)}.")
    print_text(f"{plural(replays, 'replay')} of {plural(chance.horizon, 'evaluation')} each: by then chance is expected "
               f"within 5 % of the way from the optimum to the median. {words.percent(chance.near)} of the configurations "
               f"reach 95 % of the optimum; chance has met one after {chance.horizon} with "
               f"{words.percent(chance.chance_of_near(chance.horizon))}.")
    print_text("Score: 0 is random search in its closed form, 1 the optimum at once; 95 % intervals by bootstrap over the "
               "replays. To 95 %: evaluations of the median replay.")
