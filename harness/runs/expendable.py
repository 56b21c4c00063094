"""A function called in a process that may be lost: for what runs a reference outside the judge.

A reference may hang, crash, exit, print or eat memory; whoever asks about its task then gets an answer all the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.runs.environment import judge_environment
from harness.spec.errors import GauntletError

_PR_SET_PDEATHSIG = 1


def call(function: str, argument: dict[str, Any], *, seconds: float, what: str, pythonpath: Sequence[str | Path] = ()
         ) -> Any:
    """``module:name`` called with `argument` in a process of its own; the argument and the result are JSON values.

    seconds: the most it may take. what: its subject in messages, e.g. "task softmax". pythonpath: import folders
    for references. Raises GauntletError: what the function raised, or how its process ended.
    """
    question, answer = (os.memfd_create(name, os.MFD_CLOEXEC) for name in ("question", "answer"))
    try:
        paths = [str(Path(folder).resolve()) for folder in pythonpath] + [folder for folder in sys.path if folder]
        os.write(question, json.dumps({"function": function, "argument": argument,
                                       "parent": os.getpid()}).encode())
        root = Path(__file__).resolve().parents[2]
        code = (f"import sys; sys.path[:] = {paths!r}; "
                f"from harness.runs.expendable import serve; serve({question}, {answer})")
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=judge_environment(), pass_fds=(question, answer), cwd=root,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            ended = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise GauntletError(f"{what}: checking it took longer than {seconds:.0f} s; "
                                "its reference hangs, or its cases are too large") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        reply = _reply(answer)
    finally:
        os.close(question)
        os.close(answer)
    if reply is None:
        how = f"killed by {signal.Signals(-ended).name}" if ended < 0 else f"exit code {ended}"
        raise GauntletError(f"{what}: its reference ended the process that ran it ({how})")
    if "error" in reply:
        raise GauntletError(reply["error"])
    return reply["result"]


def _reply(descriptor: int) -> dict[str, Any] | None:
    size = os.fstat(descriptor).st_size
    try:
        found = json.loads(os.pread(descriptor, size, 0)) if size else None
    except ValueError:
        return None  # killed in the middle of it
    return found if isinstance(found, dict) else None


def serve(question: int, answer: int) -> None:
    """The process' side: answer the question, and end with whoever asked it."""
    asked = json.loads(os.pread(question, os.fstat(question).st_size, 0))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != asked["parent"]:
        return  # it was gone before
    module, _, name = asked["function"].partition(":")
    try:
        reply = {"result": getattr(importlib.import_module(module), name)(**asked["argument"])}
    except GauntletError as error:
        reply = {"error": str(error)}
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        reply = {"error": f"{module}.{name} failed: {type(error).__name__}: {error}"}
    data = json.dumps(reply).encode()
    os.pwrite(answer, data, 0)
    os._exit(0)  # whatever threads the reference has left
