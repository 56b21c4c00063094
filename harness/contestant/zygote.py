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
    living: set[int] = set()
    while True:
        try:
            request, fds = wire.receive_with_fds(control)
        except wire.WireError:
            break  # the judge is gone: nothing of its contestants may outlive it
        if "ended" in request:
            reply = {"how": _how_it_ended(request["ended"])}
            living.discard(request["ended"])
        else:
            try:
                reply = spawn(request, fds, config)
                living.add(reply["init"])
            except OSError as error:
                reply = {"error": f"{error}"}
            finally:
                wire.close_all(fds)
            for pid in request["closed"]:
                _how_it_ended(pid)
                living.discard(pid)
        wire.send(control, reply)
    for pid in living:
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


def _how_it_ended(pid: int, seconds: float = 1.0) -> str:
    """Reap a contestant's first process and say in words how it ended; empty when it lives on."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        try:
            found, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return "it ended"  # reaped before
        if found:
            code = os.waitstatus_to_exitcode(status)
            if code == contain.ABORTED:
                return "aborted (SIGABRT)"
            return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        time.sleep(0.001)
    return ""


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
    """Fork into the namespaces, map ids, wait until the child is contained: (its pid, whether system calls are filtered)."""
    mine, theirs = socket.socketpair()
    # Not yet into a cgroup namespace: its root is to be the contestant's own group.
    init = contain.fork_into([n for n in namespaces if n != "cgroup"])
    if init == 0:
        mine.close()
        _init(theirs, request, fds, config, namespaces, fresh_proc, own_root)
    theirs.close()
    try:
        mine.settimeout(20)
        for fd in fds[4:]:
            os.write(fd, str(init).encode())
        if "user" in namespaces:
            contain.write_maps(init, request["outside_id"])
        wire.send(mine, {"mapped": True})
        answer = wire.receive(mine)
        if "error" in answer:
            raise OSError(answer["error"])
        return init, answer["seccomp"]
    except (wire.WireError, TimeoutError, OSError) as error:
        os.kill(init, signal.SIGKILL)  # not yet reaped: the pid is still its own
        os.waitpid(init, 0)
        raise OSError(str(error)) from None
    finally:
        mine.close()


def _init(report: socket.socket, request, fds, config, namespaces, fresh_proc, own_root) -> None:
    """The contestant's first process: builds its root, drops privileges, and is the worker. Never returns.

    In a pid namespace it is pid 1, and whatever it starts ends with it. Without one its offspring has to be watched by a
    process that no candidate runs in: then the worker is a child of it.
    """
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.close(config["control_fd"])
        wire.close_all(fds[4:])
        fds = fds[:4]
        os.setsid()
        wire.receive(report)  # in its cgroups, ids mapped
        contain.die_with_parent(signal.SIGKILL)
        contain.adopt_orphans()
        if "cgroup" in namespaces:
            contain.unshare(["cgroup"])
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
        contain.exit_on_abort()
        try:
            syscalls.refuse_syscalls()
            filtered = "yes"
        except OSError as error:
            filtered = f"no: {error.strerror}"
        wire.send(report, {"contained": True, "seccomp": filtered})
        report.close()
        if "pid" not in namespaces:
            _watch(fds)
        _worker(fds, own_root, sys.modules[config["worker"]])
    except BaseException as error:
        _tell(report, error)
        os._exit(1)


def _watch(fds: list[int]) -> None:
    """Fork: the child returns; the parent adopts orphans until the child ends, and ends as it did."""
    worker = os.fork()
    if worker == 0:
        contain.die_with_parent(signal.SIGKILL)
        return
    wire.close_all(fds)
    while True:
        pid, status = os.wait()
        if pid == worker:
            code = os.waitstatus_to_exitcode(status)
            if code < 0:
                signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
                os.kill(os.getpid(), -code)
            os._exit(code & 0xFF)


def _worker(fds: list[int], own_root: bool, worker) -> None:
    code = 1
    try:
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
