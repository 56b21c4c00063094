"""The zygote: exec'd by the judge with a clean environment, imports torch once, forks one contained contestant per spawn.

It runs no tensor operation and keeps one thread: a process forked after either may hang in libgomp. It never sees a
candidate: those are loaded by the contestant, after containment. Its only peer is the judge, on one inherited socket.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys
import time
import traceback

from harness.contestant import contain, syscalls, wire

FULL = ["user", "pid", "mount", "net", "ipc", "uts", "cgroup"]


def main(control_fd: int) -> None:
    control = socket.socket(fileno=control_fd)
    config, _ = wire.receive_with_fds(control)
    config["control_fd"] = control_fd
    facts = _import_everything(config)
    contain.adopt_orphans()  # contestants' inits are ours to reap
    gc.collect()
    gc.freeze()  # keeps the shared pages of imported modules shared
    wire.send(control, {"ready": True, **facts})
    inits: set[int] = set()
    while True:
        try:
            request, fds = wire.receive_with_fds(control)
        except wire.WireError:
            break  # the judge is gone: nothing of its contestants may outlive it
        try:
            reply = spawn(request, fds, config)
            inits.add(reply["init"])
        except OSError as error:
            reply = {"error": f"{error}"}
        finally:
            wire.close_all(fds)
        inits -= _reap()
        wire.send(control, reply)
    for pid in inits:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _import_everything(config: dict) -> dict:
    started = time.perf_counter()
    import torch

    versions = {"torch": torch.__version__, "python": sys.version.split()[0]}
    if config.get("import_triton"):
        try:
            import triton

            versions["triton"] = triton.__version__
        except ImportError:
            versions["triton"] = None
    for name in config.get("preload", []):
        __import__(name)
    if "torch._inductor.codecache" in sys.modules:
        sys.modules["torch._inductor.codecache"].torch_key()  # hashes torch's own sources: 0.7 s, once for all
    importlib.import_module(config["worker"])  # in memory before the root changes

    threads = len(os.listdir("/proc/self/task"))
    return {"versions": versions, "import_s": time.perf_counter() - started, "threads": threads}


def _reap() -> set[int]:
    gone = set()
    while True:
        try:
            pid, _status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return gone
        if pid == 0:
            return gone
        gone.add(pid)


def spawn(request: dict, fds: list[int], config: dict) -> dict:
    """Fork a contestant. fds: its socket, input arena, output arena, output pipe, then one per cgroup.procs file.

    Returns {"init": pid of its first process, "level": what containment it got}; raises OSError when even the weakest
    wanted level cannot be had.
    """
    refusals = []
    for namespaces, fresh_proc, own_root in levels(request.get("containment", "auto")):
        try:
            init, filtered = _try_spawn(request, fds, config, namespaces, fresh_proc, own_root)
        except OSError as error:
            refusals.append(f"{'+'.join(namespaces) or 'no namespaces'}: {error}")
            continue
        level = {"namespaces": namespaces, "private_root": own_root, "fresh_proc": fresh_proc,
                 "uid": "mapped" if "user" in namespaces else "unchanged", "refused": refusals,
                 "seccomp": filtered}
        return {"init": init, "level": level}
    raise OSError("no contestant could be started: " + "; ".join(refusals))


def levels(wanted: str) -> list[tuple[list[str], bool, bool]]:
    """(namespaces, fresh /proc, private root) from strongest to weakest. "none" is for tests of the judge alone."""
    without_user = [n for n in FULL if n != "user"]
    ladder = [(FULL, True, True), (FULL, False, True)]
    if os.geteuid() == 0:
        ladder += [(without_user, True, True)]
    ladder += [(["user", "pid", "net", "ipc"], False, False), ([], False, False)]
    if wanted == "full":
        return ladder[:1]
    return ladder[-1:] if wanted == "none" else ladder


def _try_spawn(request, fds, config, namespaces, fresh_proc, own_root) -> tuple[int, str]:
    """Two forks: the first leaves the namespaces (the second is then pid 1 of the new pid namespace)."""
    mine, theirs = socket.socketpair()
    outer = os.fork()
    if outer == 0:
        mine.close()
        _outer(theirs, request, fds, config, namespaces, fresh_proc, own_root)
    theirs.close()
    try:
        mine.settimeout(20)
        answer = wire.receive(mine)
        if "unshared" in answer:
            if "user" in namespaces:
                contain.write_maps(outer, request["outside_id"])
            wire.send(mine, {"mapped": True})
            answer = wire.receive(mine)
        os.waitpid(outer, 0)
        if "init" not in answer:
            raise OSError(answer.get("error", "no answer"))
        init = answer["init"]
        wire.send(mine, {"adopted": True})  # from now on its parent is the zygote
        answer = wire.receive(mine)
        if "error" in answer:
            raise OSError(answer["error"])
        return init, answer["seccomp"]
    except (wire.WireError, TimeoutError, OSError) as error:
        try:
            os.kill(outer, signal.SIGKILL)
            os.waitpid(outer, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # it had ended by itself
        raise OSError(str(error)) from None
    finally:
        mine.close()


def _outer(report: socket.socket, request, fds, config, namespaces, fresh_proc, own_root) -> None:
    """First child: joins its cgroups, leaves the namespaces, forks pid 1, ends. Never returns."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.close(config["control_fd"])
        os.setsid()
        for fd in fds[4:]:
            os.write(fd, b"0")
            os.close(fd)
        if namespaces:
            contain.unshare(namespaces)
            wire.send(report, {"unshared": True})
            wire.receive(report)
        init = os.fork()
        if init == 0:
            _init(report, request, fds[:4], config, namespaces, fresh_proc, own_root)
        wire.send(report, {"init": init})
        os._exit(0)
    except BaseException as error:
        _tell(report, error)
        os._exit(1)


def _init(report: socket.socket, request, fds, config, namespaces, fresh_proc, own_root) -> None:
    """pid 1 of the contestant: builds the root, drops privileges, forks the worker, reaps, and dies with it."""
    try:
        wire.receive(report)  # adopted: the outer process is gone, the zygote is the parent
        contain.die_with_parent(signal.SIGKILL)
        contain.adopt_orphans()
        os.dup2(fds[3], 2)
        if own_root:
            if "user" in namespaces and config["root"]:
                os.setresgid(0, 0, 0)
                os.setresuid(0, 0, 0)
            contain.build_root(config["new_root"], config["binds"], config["masks"], request["scratch"], fresh_proc)
            if "user" in namespaces:
                try:
                    contain.no_nested_namespaces()
                except OSError:
                    pass  # /proc/sys is read-only in some containers; capabilities are dropped all the same
        contain.set_limits(request["processes"], request["data_bytes"])
        contain.drop_privileges("user" in namespaces)
        contain.die_with_parent(signal.SIGKILL)  # changing ids clears it
        try:
            syscalls.refuse_syscalls()
            filtered = "yes"
        except OSError as error:
            filtered = f"no: {error.strerror}"
        wire.send(report, {"contained": True, "seccomp": filtered})
        report.close()
        worker = os.fork()
        if worker == 0:
            _worker(fds, own_root, sys.modules[config["worker"]])
        wire.close_all(fds[:3])
        while True:
            pid, status = os.wait()
            if pid == worker:
                code = os.waitstatus_to_exitcode(status)
                how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
                os.write(fds[3], f"\n[contestant] {how}\n".encode())  # for people; the judge believes none of it
                os._exit(code & 0xFF)
    except BaseException as error:
        _tell(report, error)
        os._exit(1)


def _worker(fds: list[int], own_root: bool, worker) -> None:
    code = 1
    try:
        contain.die_with_parent(signal.SIGKILL)
        sock, inputs, outputs, pipe = fds
        os.dup2(pipe, 1)
        os.dup2(pipe, 2)
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.close(pipe)
        worker.main(socket.socket(fileno=sock), inputs, outputs, own_root)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
        finally:
            os._exit(code)


def _tell(report: socket.socket, error: BaseException) -> None:
    try:
        wire.send(report, {"error": f"{type(error).__name__}: {error}"})
    except OSError:
        os._exit(1)
