"""The judge's process: requests in, results out, one JSON object a line, over the socket it was started with.

A process of its own, so that neither an LLM client's threads nor a table being drawn disturb its clock, and so that it
holds no key: it is exec'd by the executor with only what it needs in its environment.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path


class _Ended(BaseException):
    """The process is to end. Not SystemExit, which a reference may raise."""


def _end_with(sock: socket.socket) -> None:
    """End as soon as the executor's end is closed, in the middle of a judgement too: it may have been killed."""

    def watch() -> None:
        poll = select.poll()
        poll.register(sock, select.POLLRDHUP)
        poll.poll()
        os.kill(os.getpid(), signal.SIGTERM)

    def end(_number: int, _frame: object) -> None:
        raise _Ended

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=watch, daemon=True).start()


def main(descriptor: int, page: int | None = None, reference_s: float = 120.0) -> None:
    """Serve until the executor closes its end. page, reference_s: as for `harness.judge.watch.attach`."""
    sock = socket.socket(fileno=descriptor)
    try:
        _end_with(sock)
        _serve(sock, page, reference_s)
    except (BrokenPipeError, ConnectionResetError, _Ended):
        return  # the executor is gone, interrupted perhaps, while we imported even: nobody is left to answer


def _serve(sock: socket.socket, page: int | None, reference_s: float) -> None:
    from harness.judge import watch
    from harness.judge.judge import Judge
    from harness.spec.errors import GauntletError
    from harness.spec.verdict import JudgeRequest

    if page is not None:
        watch.attach(page, reference_s)
    lines = sock.makefile("r", encoding="utf-8")
    config = json.loads(lines.readline())
    sys.path[:0] = config["pythonpath"]
    judge = None
    try:
        judge = Judge(Path(config["cache"]), config["containment"], config["pythonpath"])
        for line in lines:
            try:
                reply = {"result": judge.judge(JudgeRequest.model_validate_json(line)).model_dump(mode="json")}
            except GauntletError as error:
                reply = {"usage": str(error)}
            except (Exception, KeyboardInterrupt) as error:
                reply = {"fault": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
            sock.sendall((json.dumps(reply) + "\n").encode())
    except GauntletError as error:
        sock.sendall((json.dumps({"usage": str(error)}) + "\n").encode())
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # nothing interrupts clearing away
        if judge is not None:
            judge.close()
