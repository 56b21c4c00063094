"""``harness validate``: can these tasks tell right from wrong?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.exit_codes import FAILED_BAR, OK
from harness.cli.options import (
    color_on,
    device_option,
    discover,
    format_option,
    plural,
    root_option,
    split_names,
    terminal_width,
)

if TYPE_CHECKING:
    from harness.spec.task import Task
    from harness.spec.validity import Validity

MOST_AT_ONCE = 8
BEYOND = 1e9


@click.command()
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@click.option("--seeds", type=click.IntRange(1), help="A quick look with fewer than the 20 seeds of a verdict.")
@click.option("--fresh", is_flag=True, help="Try again what is known.")
@click.option("--pythonpath", multiple=True, type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Folder the references may import from.")
@click.option("--record", type=click.Path(path_type=Path, dir_okay=False),
              help="Write the hashes of the valid ones to this file, as shipped in suite/validated.json.")
@device_option
@root_option
@format_option("table", "json")
def validate(tasks: tuple[str, ...], seeds: int | None, fresh: bool, pythonpath: tuple[Path, ...], record: Path | None,
             device: str, root: Path | None, form: str) -> int:
    """Check that tasks can tell right from wrong.

    Answers that took no work (zeros, an echo, an answer to other inputs, a row left out, …) must miss the bound by a
    factor of 10, and PyTorch's own answer must pass with room. TASK is a name, a pattern or a YAML file; without any,
    all tasks are checked. What is known of a task is kept until it changes.

    \b
    harness validate
    harness validate mytask.yaml 'soft*'
    """
    from harness.runs.validation import record_text
    from harness.spec.errors import GauntletError

    content = discover(root)
    names = split_names(tasks) or list(content.tasks())
    if record is not None and seeds is not None:
        raise GauntletError("--record takes verdicts on all seeds; leave --seeds out")
    found: list[Validity] = []
    broken: list[str] = []
    for verdict in _verdicts(content.select(names), device, seeds, pythonpath, fresh, form == "table"):
        (broken if isinstance(verdict, str) else found).append(verdict)  # type: ignore[arg-type]
    if form == "json":
        _print_json(found, broken)
    else:
        print(render(found, broken, terminal_width(), color_on(sys.stdout)), end="")
    if record is not None:
        try:
            record.write_text(record_text(found), encoding="utf-8")
        except OSError as error:
            raise GauntletError(f"--record: cannot write {record}: {error.strerror}") from None
    return OK if not broken and all(one.valid for one in found) else FAILED_BAR


def _verdicts(tasks: list[Task], device: str, seeds: int | None, pythonpath: tuple[Path, ...], fresh: bool,
              show: bool) -> Iterator[Validity | str]:
    """In the tasks' order, several tried at once; what is wrong with one that cannot be tried is a string."""
    from concurrent.futures import ThreadPoolExecutor

    from harness.cli.progress import working
    from harness.runs.environment import default_cache
    from harness.runs.lease import DeviceLease
    from harness.runs.validation import validate_task
    from harness.spec.errors import GauntletError

    def tried(task: Task) -> Validity | str:
        try:
            return validate_task(task, default_cache(), device=device, seeds=seeds, pythonpath=pythonpath, fresh=fresh)
        except GauntletError as error:
            return str(error)

    def tell(text: str) -> None:
        print(text, file=sys.stderr)

    lease = DeviceLease(device, "harness validate")
    with working(f"checking {plural(len(tasks), 'task')}"), lease.hold(tell), \
            ThreadPoolExecutor(min(MOST_AT_ONCE, os.cpu_count() or 1)) as pool:
        try:
            for task, verdict in zip(tasks, pool.map(tried, tasks), strict=True):
                if show and not sys.stderr.isatty():
                    tell(f"{task.name}: {_word(verdict)}")
                yield verdict
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _word(verdict: Validity | str) -> str:
    return "cannot be tried" if isinstance(verdict, str) else "valid" if verdict.valid else "not valid"


def _margin(margin: float | None) -> str:
    from harness.report import words

    if margin is None:
        return ""
    return f"≥ {words.number(margin)}×" if margin < BEYOND else "any"  # what is compared exactly misses by any factor


def render(found: list[Validity], broken: list[str], width: int, color: bool) -> str:
    """A table of the verdicts, then what is wrong with those that are not valid, then the warnings."""
    from harness.report import words
    from harness.report.canvas import Canvas

    canvas = Canvas(width, color)
    if found:
        table = canvas.new_table(["task", "verdict", "nulls miss by", "nearest null", "reference"],
                                 right={"nulls miss by", "reference"}, keep={"task", "verdict"})
        for one in found:
            name, margin = one.weakest or ("", None)
            canvas.row(table, [one.task, _word(one), _margin(margin), name,
                               words.number(one.reference_ratio) if one.reference_ratio is not None else ""],
                       bad=not one.valid)
        canvas.table(table)
    for one in found:
        for finding in (*one.refusals, *one.warnings):
            canvas.blank()
            refused = finding in one.refusals
            canvas.line(f"{one.task}: {'not valid' if refused else 'warning'} ({finding.probe})", "bold")
            canvas.line(f"  {finding.message}")
            canvas.line(f"  found {finding.place}" + (f", seed {finding.seed}" if finding.seed is not None else ""))
    for message in broken:
        canvas.blank()
        canvas.line(message)
    return canvas.text()


def _print_json(found: list[Validity], broken: list[str]) -> None:
    from harness.runs.canonical import canonical_json

    rows: list[dict[str, Any]] = [{**one.model_dump(mode="json"), "valid": one.valid} for one in found]
    print(canonical_json({"tasks": rows, "errors": broken}, indent=1))
