"""``harness judge``: the kernel author's verb. One kernel, one task, one verdict."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.exit_codes import FAILED_BAR, INFRASTRUCTURE, OK
from harness.cli.options import (
    Above,
    Near,
    Span,
    color_on,
    device_option,
    discover,
    format_option,
    make_executor,
    root_option,
    split_names,
    terminal_width,
)

if TYPE_CHECKING:
    from harness.runs.executor_protocol import Executor
    from harness.spec.content import Content
    from harness.spec.task import Task
    from harness.spec.verdict import JudgeRequest, JudgeResult

POLL_S = 0.3
TIE_S = 120.0  # for some 2^8 runs of the reference at 48 and less along every axis


@click.command()
@click.argument("kernel", metavar="KERNEL")
@click.option("--task", metavar="NAME", help="The task: a name, or a YAML file.")
@click.option("--reference", metavar="FILE.py:NAME", help="Instead of a task: a PyTorch function or nn.Module class.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=SHAPE[:DTYPE]",
              help="With --reference, once per argument in order: x=4096x781:f16.")
@click.option("--arg", "args", multiple=True, metavar="NAME=VALUE",
              help="With --reference: a keyword argument, eps=1e-6.")
@click.option("--pythonpath", multiple=True, type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Folder the reference may import from.")
@click.option("--case", "cases", multiple=True, metavar="NAME", help="Only this case of the task; may be repeated.")
@click.option("--depth", type=Near(("final", "screen")), default="final", show_default=True,
              help="final: the full protocol. screen: a quick look.")
@click.option("--half-width", type=Above(0, 1), default=0.03, show_default=True,
              help="95 % interval aimed at, ± relative.")
@click.option("--instances", type=Span(2), default="8:24", show_default=True, metavar="FIRST[:MOST]",
              help="Fresh processes of each side in a final: at least FIRST, more until the interval is as narrow.")
@click.option("--speedup", "bar", type=Above(0), metavar="X",
              help="Fail (exit code 1) unless the speedup is surely above X: the lower end of its interval decides.")
@click.option("--no-compile-opponent", is_flag=True, help="Time against eager only, not torch.compile.")
@click.option("--unsafe", is_flag=True, help="Judge it even where this system contains nothing: for what you trust.")
@device_option
@click.option("--watch", is_flag=True, help="Judge again whenever the file changes; Ctrl-C ends.")
@click.option("--no-validate", is_flag=True,
              help="Judge on a task of your own without checking first that it can tell right from wrong.")
@click.option("--save-task", type=click.Path(path_type=Path, dir_okay=False), help="Write the task as YAML, to keep.")
@root_option
@format_option("table", "json")
def judge(kernel: str, task: str | None, reference: str | None, inputs: tuple[str, ...], args: tuple[str, ...],
          pythonpath: tuple[Path, ...], cases: tuple[str, ...], depth: str, half_width: float,
          instances: tuple[int, int], bar: float | None, no_compile_opponent: bool, unsafe: bool, device: str, watch: bool,
          no_validate: bool, save_task: Path | None, root: Path | None, form: str) -> int:
    """Judge one kernel: is it right, and how fast is it?

    KERNEL is file.py, file.py:name, file.cpp or file.cpp:name; without a name it is `kernel`, or `ModelNew`.

    \b
    harness judge kernel.py --task softmax
    harness judge k.py:mine --reference ops.py:softmax --input x=4096x4096:f32
    """
    from harness.cli.kernel import load_kernel, split_kernel
    from harness.spec.verdict import JudgeRequest

    content = discover(root)
    asked = find_task(content, task, reference, inputs, args)
    selected = check_cases(asked, cases)

    def request() -> JudgeRequest:
        return JudgeRequest(
            id="judge",
            task=asked,
            candidate=load_kernel(kernel),
            depth=depth,
            device=device,
            cases=selected,
            opponents=["eager"] if no_compile_opponent else ["eager", "compile"],
            half_width=half_width,
            instances=instances,
            vouched=unsafe,
        )

    first = request()  # a typing error shows before the judge is started
    with make_executor(device, pythonpath) as executor:
        executor.start()
        if reference is not None:  # while the judge starts
            asked = tied(asked, content, inputs, args, pythonpath)
            first = request()
        if not no_validate:
            check_task(asked, device, pythonpath)
        if save_task is not None:
            save(asked, save_task, pythonpath)
        if not watch:
            return _once(executor, first, form, bar)
        return _watch(executor, first, request, split_kernel(kernel)[0], form, bar)


def find_task(content: Content, task: str | None, reference: str | None, inputs: tuple[str, ...],
              args: tuple[str, ...]) -> Task:
    """The task that the options name or describe. Raises GauntletError."""
    from harness.spec.errors import GauntletError, near

    if task is not None and reference is not None:
        raise GauntletError("--task and --reference exclude each other: a task has its reference. Leave one out")
    if task is not None:
        if inputs or args:
            raise GauntletError(f"--{'input' if inputs else 'arg'} goes with --reference; a task has its own")
        return content.task(task)
    if reference is None:
        known = near("", content.tasks())
        raise GauntletError(f"say what to judge it on, --task NAME or --reference FILE.py:NAME{known}")
    from harness.spec.adhoc import task_from_parts

    return task_from_parts(reference, inputs, args, content=content, together={})


def tied(asked: Task, content: Content, inputs: tuple[str, ...], args: tuple[str, ...], pythonpath: tuple[Path, ...]
         ) -> Task:
    """The task of --reference with its true dimensions and outputs, which only running the reference tells."""
    from harness.runs.expendable import call
    from harness.spec.adhoc import task_from_parts

    found = call("harness.judge.axes:tie_json", {"task": asked.model_dump(mode="json", by_alias=True)}, seconds=TIE_S,
                 what=f"the reference {asked.reference}", pythonpath=pythonpath)
    together = {(name, axis): [(other, index) for other, index in others] for (name, axis), others in found["together"]}
    return task_from_parts(asked.reference, inputs, args, content=content, together=together,
                           outputs=found["outputs"] or 1)


def check_task(task: Task, device: str, pythonpath: tuple[Path, ...]) -> None:
    """Once for each new task: whether verdicts on it mean anything. Raises GauntletError."""
    from harness.cli.progress import working
    from harness.runs.environment import default_cache
    from harness.runs.lease import DeviceLease
    from harness.runs.validation import InvalidTask, ensure_valid

    def tell(text: str) -> None:
        print(text, file=sys.stderr)

    try:
        with working(f"checking task {task.name}"):
            ensure_valid([task], default_cache(), device=device, pythonpath=pythonpath, tell=tell,
                         lease=DeviceLease(device, "harness judge"))
    except InvalidTask as error:
        raise InvalidTask(f"{error}\nto judge on it all the same: --no-validate") from None


def check_cases(task: Task, names: tuple[str, ...]) -> list[str] | None:
    """The cases asked for; None means the task's own choice. Raises GauntletError with near names."""
    from harness.spec.errors import GauntletError, near

    known = [case.name for case in task.cases]
    chosen = list(dict.fromkeys(split_names(names)))
    for name in chosen:
        if name not in known:
            raise GauntletError(f"task {task.name} has no case '{name}'{near(name, known)}")
    return chosen or None


def save(task: Task, path: Path, pythonpath: tuple[Path, ...] = ()) -> None:
    """Write `task` to a new YAML file. Raises GauntletError rather than overwriting one."""
    from harness.spec.adhoc import dump_task
    from harness.spec.errors import GauntletError

    try:
        text = dump_task(task, beside=path.resolve().parent, pythonpath=[str(p) for p in pythonpath])
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise GauntletError(f"--save-task: {path} exists already; name a new file, or use it: --task {path}") from None
    except OSError as error:
        raise GauntletError(f"--save-task: cannot write {path}: {error.strerror}") from None
    print(f"task saved: {path}", file=sys.stderr)


def _submit(executor: Executor, request: JudgeRequest) -> JudgeResult:
    from harness.cli.progress import working
    from harness.runs.lease import DeviceLease

    lease = DeviceLease(request.device, "harness judge")
    with working(f"judging {request.candidate.note} on {request.task.name}"):
        with lease.hold(lambda text: print(text, file=sys.stderr)):
            return executor.submit(request)


def _once(executor: Executor, request: JudgeRequest, form: str, bar: float | None, one_line: bool = False) -> int:
    """Judge and print; returns the exit code."""
    result = _submit(executor, request)
    code, why = grade(result, bar)
    if form == "json":
        print(json.dumps(as_json(result, bar, code), indent=None if one_line else 1, ensure_ascii=False), flush=True)
    else:
        from harness.report.verdict import render_verdict

        print(render_verdict(result, terminal_width(), color_on(sys.stdout)), end="", flush=True)
        if why:
            print(why, flush=True)
    return code


def grade(result: JudgeResult, bar: float | None) -> tuple[int, str]:
    """Exit code for a verdict, and a line about the bar when there is one."""
    from harness.report import words
    from harness.spec.verdict import Status

    if result.status == Status.infra_error:
        return INFRASTRUCTURE, ""
    asked = f"{words.number(bar)}×"
    if result.status != Status.ok:
        unsure = bar is not None and result.status == Status.noisy
        return FAILED_BAR, f"bar of {asked}: not surely reached" if unsure else ""
    if bar is None:
        return OK, ""
    if result.speedup is None:
        return FAILED_BAR, f"bar of {asked}: failed, there is no speed to compare"
    if result.speedup.low >= bar:
        return OK, f"bar of {asked}: passed"
    shown = "not surely reached" if result.speedup.value >= bar else "failed"
    return FAILED_BAR, f"bar of {asked}: {shown}, the speedup is {words.speedup(result.speedup)}"


def as_json(result: JudgeResult, bar: float | None, code: int) -> dict[str, Any]:
    """The verdict for programs: status, speedup ({value, low, high} or null), cases; raw block times are left out."""
    from harness.report.words import first_mismatch
    from harness.runs.canonical import finite

    def short(estimate: dict[str, Any] | None) -> dict[str, Any] | None:
        return estimate and {key: estimate[key] for key in ("value", "low", "high")}

    data = result.model_dump(mode="json")
    cases = []
    for case in data["cases"]:
        case = {key: value for key, value in case.items() if key not in ("blocks", "selected")}
        case.update({key: short(case[key]) for key in ("speedup", "vs_eager", "vs_compile")})
        cases.append(case)
    wrong = first_mismatch(result.trials)
    out = {
        "status": data["status"],
        "speedup": short(data["speedup"]),
        "cases": cases,
        "message": data["message"],
        "task": data["task"],
        "device": data["device"],
        "depth": data["depth"],
        "bar": bar,
        "passed": code == OK,
        "first_mismatch": None if wrong is None else {
            "case": wrong[0].case, "dims": wrong[0].dims, "dtype": wrong[0].dtype, **wrong[1].model_dump(mode="json"),
        },
        **{key: data[key] for key in (
            "trials", "build_log", "output_tail", "candidate_hash", "task_hash", "containment", "environment", "phases",
            "wall_s",
        )},
    }
    plain: dict[str, Any] = finite(out)
    return plain


def _watch(executor: Executor, request: JudgeRequest, again: Callable[[], JudgeRequest], path: Path, form: str,
           bar: float | None) -> int:
    """Judge now and whenever the content of `path` changes, until Ctrl-C, which is how this ends well."""
    from harness.spec.errors import GauntletError

    current: JudgeRequest | None = request
    seen = request.candidate.source
    try:
        while True:
            if current is not None:
                _once(executor, current, form, bar, one_line=True)
                print(f"watching {path}; Ctrl-C ends", file=sys.stderr, flush=True)
                current = None
            time.sleep(POLL_S)
            text = _peek(path)
            if text is None or text == seen:
                continue
            seen = text
            try:
                current = again()
                seen = current.candidate.source
            except GauntletError as error:  # half-saved, or being renamed by an editor: say so and keep watching
                print(f"harness: {error}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return OK


def _peek(path: Path) -> str | None:
    """The file's text as far as it can be read; None while there is nothing."""
    try:
        return path.read_bytes().decode("utf-8", "replace") or None
    except OSError:
        return None
