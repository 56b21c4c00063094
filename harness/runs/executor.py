"""LocalExecutor: one judge process for one device of this machine (DESIGN section 8: the only way to the judge)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from harness.judge import watch
from harness.runs.environment import default_cache, judge_environment
from harness.spec.errors import GauntletError
from harness.spec.verdict import JudgeRequest, JudgeResult, Status

__all__ = ["LocalExecutor", "default_cache"]


class LocalExecutor:
    """Starts the judge on the first request, restarts it after a crash; a context manager.

    device: only "cpu" in this version. pythonpath: import folders for references. containment: auto, full or none.
    reference_s: seconds that one call of a reference may take before its task is refused.
    """

    def __init__(self, device: str = "cpu", cache_dir: Path | None = None, containment: str = "auto",
                 pythonpath: list[str] = (), reference_s: float = watch.REFERENCE_S):
        if device != "cpu":
            raise GauntletError(f"device {device!r} cannot be judged on by this version; use --device cpu")
        if sys.platform != "linux":
            raise GauntletError("judging needs Linux (namespaces, sealed memory); on other systems use a Linux "
                                "container or virtual machine")
        self.device, self.containment, self.reference_s = device, containment, reference_s
        self.cache = Path(cache_dir) if cache_dir else default_cache()
        self.pythonpath = [str(Path(p).resolve()) for p in pythonpath]
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *_exc) -> None:
        self.close()

    def start(self) -> None:
        """Start the judge without waiting for it: its imports overlap with whatever comes next."""
        if self._process is not None and self._process.poll() is None:
            return
        ours, theirs = socket.socketpair()
        page, self._page = watch.make_page()
        code = (f"import sys; sys.path[:] = {[p for p in sys.path if p]!r}; "
                f"from harness.judge.server import main; main({theirs.fileno()}, {page}, {self.reference_s})")
        root = str(Path(__file__).resolve().parents[2])
        self._process = subprocess.Popen([sys.executable, "-c", code], env=judge_environment(),
                                         pass_fds=(theirs.fileno(), page), stdin=subprocess.DEVNULL, cwd=root,
                                         start_new_session=True)
        theirs.close()
        os.close(page)
        self._socket = ours
        self._lines = ours.makefile("r", encoding="utf-8")
        config = {"cache": str(self.cache), "containment": self.containment, "pythonpath": self.pythonpath}
        try:
            ours.sendall((json.dumps(config) + "\n").encode())
        except BrokenPipeError:
            return  # it has ended already; `submit` says so

    def submit(self, request: JudgeRequest) -> JudgeResult:
        """Judge one candidate; blocks. GauntletError when the task cannot be judged; a crash is an infra_error."""
        self.start()
        try:
            self._socket.sendall((request.model_dump_json() + "\n").encode())
            line = self._lines.readline()
        except OSError:
            line = ""
        except BaseException:
            self._stop()  # interrupted: its answer would be taken for that to the next request
            raise
        if not line.endswith("\n"):
            code = self._process.wait()
            self._stop()
            if watch.was_inside_reference(self._page):
                raise GauntletError(_reference_failed(request, code, self.reference_s))
            return self._fault(request, f"the judge's process ended unexpectedly (exit code {code})")
        reply = json.loads(line)
        if "usage" in reply:
            raise GauntletError(reply["usage"])
        if "fault" in reply:
            return self._fault(request, f"the judge failed: {reply['fault']}", reply.get("trace", ""))
        return JudgeResult.model_validate(reply["result"])

    def facts(self) -> dict:
        """Device facts for agents and records."""
        from harness.devices import cpu

        return cpu.facts()

    def close(self) -> None:
        """End the judge and everything it has started."""
        if self._process is None:
            return
        self._stop()

    def _stop(self) -> None:
        self._lines.close()
        self._socket.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _fault(self, request: JudgeRequest, message: str, trace: str = "") -> JudgeResult:
        return JudgeResult(id=request.id, status=Status.infra_error, message=message, depth=request.depth,
                           device=request.device, task=request.task.name, task_hash=request.task.content_hash,
                           candidate_hash=request.candidate.hash, output_tail=trace[-8000:])


def _reference_failed(request: JudgeRequest, code: int, seconds: float) -> str:
    """What to say of a reference in which the judge's process ended with `code`."""
    if code == -signal.SIGALRM:
        what = f"did not return within {seconds:g} s"
    elif code < 0:
        what = f"ended the judge's process (killed by {signal.Signals(-code).name})"
    else:
        what = f"ended the judge's process (exit code {code})"
    task = request.task
    return f"task {task.name}: the reference {task.reference} {what}; it must return tensors, or raise"
