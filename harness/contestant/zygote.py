"""The zygote: exec'd by the judge with a clean environment, imports torch once, forks one contained contestant per spawn.

It runs no tensor operation and keeps one thread: a process forked after either may hang in libgomp. It never sees a
candidate: those are loaded by the contestant, after containment. Its only peer is the judge, on one inherited socket.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

from harness.containment import landlock, limits, namespaces as spaces, privileges, root, syscalls
from harness.contestant import wire

FULL = ["user", "pid", "mount", "net", "ipc", "uts", "cgroup"]


def main(control_fd: int) -> None:
    control = socket.socket(fileno=control_fd)
    config, _ = wire.receive_with_fds(control)
    config["control_fd"] = control_fd
    facts = _import_everything(config)
    privileges.adopt_orphans()  # contestants' inits are ours to reap
    gc.collect()
    gc.freeze()  # keeps the shared pages of imported modules shared
    wire.send(control, {"ready": True, **facts})
    living: set[int] = set()
    while True:
        try:
            request, fds = wire.receive_with_fds(control)
        except wire.WireError:
            break  # the judge is gone: nothing of its contestants may outlive it
        gate: list[int] = []
        if "ended" in request:
            reply = {"how": _how_it_ended(request["ended"])}
            living.discard(request["ended"])
        else:
            try:
                reply, gate = spawn(request, fds, config)
                living.add(reply["init"])
            except OSError as error:
                reply = {"error": f"{error}"}
            finally:
                wire.close_all(fds)
            for pid in request["closed"]:
                _how_it_ended(pid)
                living.discard(pid)
        wire.send(control, reply, gate)
        wire.close_all(gate)
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
            if code == privileges.ABORTED:
                return "aborted (SIGABRT)"
            return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        time.sleep(0.001)
    return ""


def spawn(request: dict, fds: list[int], config: dict) -> tuple[dict, list[int]]:
    """Fork a contestant. fds: its socket, input arena, output arena, output pipe, then one per cgroup.procs file.

    Returns {"init": pid of its first process, "level": what containment it got}, and the descriptor of the gate through
    which it asks for new processes, if there is one; raises OSError when even the weakest wanted level cannot be had.
    """
    refusals = []
    for rung in levels(request.get("containment", "auto")):
        try:
            init, layers, gate = _try_spawn(request, fds, config, rung)
        except OSError as error:
            refusals.append(f"{'+'.join(rung.namespaces) or 'no namespaces'}: {error}")
            continue
        level = {"namespaces": rung.namespaces, "private_root": rung.own_root, "fresh_proc": rung.fresh_proc,
                 "refused": refusals, **layers}
        return {"init": init, "level": level}, gate
    raise OSError("no contestant could be started: " + "; ".join(refusals))


class Rung(NamedTuple):
    """One step of the ladder of containment. landlock: whether it is asked for; it may be refused all the same."""

    namespaces: list[str]
    fresh_proc: bool
    own_root: bool
    landlock: bool = True


def levels(wanted: str) -> list[Rung]:
    """From strongest to weakest. "none", and "rung N" for the N-th step alone, are for tests."""
    without_user = [n for n in FULL if n != "user"]
    ladder = [Rung(FULL, True, True), Rung(FULL, False, True)]
    if os.geteuid() == 0:
        ladder += [Rung(without_user, True, True), Rung(without_user, False, True)]
    ladder += [Rung(["user", "pid", "net", "ipc"], False, False), Rung([], False, False)]
    if wanted == "full":
        return ladder[:1]
    if wanted.startswith("rung "):
        return [ladder[int(wanted.removeprefix("rung "))]]
    return [Rung([], False, False, landlock=False)] if wanted == "none" else ladder


def _try_spawn(request, fds, config, rung: Rung) -> tuple[int, dict, list[int]]:
    """Fork into the namespaces, map ids, wait until the child is contained: (its pid, its layers, its gate)."""
    mine, theirs = socket.socketpair()
    scratch = "/scratch" if rung.own_root else tempfile.mkdtemp(prefix=f"gauntlet-scratch-{os.getpid()}-", dir="/tmp")
    # Not yet into a cgroup namespace: its root is to be the contestant's own group.
    init = spaces.fork_into([n for n in rung.namespaces if n != "cgroup"])
    if init == 0:
        mine.close()
        _init(theirs, request, fds, config, rung, scratch)
    theirs.close()
    gate: list[int] = []
    try:
        mine.settimeout(20)
        for fd in fds[4:]:
            os.write(fd, str(init).encode())
        if "user" in rung.namespaces:
            spaces.write_maps(init, request["outside_id"])
            if not rung.own_root and config["root"]:
                os.chown(scratch, request["outside_id"], request["outside_id"])
        wire.send(mine, {"mapped": True})
        answer, gate = wire.receive_with_fds(mine)
        layers = answer if "error" in answer else wire.receive(mine)
        if "error" in layers:
            raise OSError(layers["error"])
        return init, {**layers, "scratch": scratch}, gate
    except (wire.WireError, TimeoutError, OSError) as error:
        os.kill(init, signal.SIGKILL)  # not yet reaped: the pid is still its own
        os.waitpid(init, 0)
        wire.close_all(gate)
        if not rung.own_root:
            shutil.rmtree(scratch, ignore_errors=True)
        raise OSError(str(error)) from None
    finally:
        mine.close()


def _init(report: socket.socket, request, fds, config, rung: Rung, scratch: str) -> None:
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
        privileges.die_with_parent(signal.SIGKILL)
        privileges.adopt_orphans()
        if "cgroup" in rung.namespaces:
            spaces.unshare(["cgroup"])
        os.dup2(fds[3], 2)
        if rung.own_root:
            if "user" in rung.namespaces and config["root"]:
                os.setresgid(0, 0, 0)
                os.setresuid(0, 0, 0)
            root.build_root(config["new_root"], config["binds"], config["masks"], request["scratch"], rung.fresh_proc)
            if "user" in rung.namespaces:
                try:
                    spaces.forbid_nested()
                except OSError:
                    pass  # /proc/sys is read-only in some containers; capabilities are dropped all the same
        limits.set_limits(request["processes"], request["data_bytes"])
        layers = _irrevocably(report, request, config, rung, scratch)
        wire.send(report, layers)
        report.close()
        if "pid" not in rung.namespaces:
            _watch(fds)
        _worker(fds, scratch, sys.modules[config["worker"]])
    except BaseException as error:
        _tell(report, error)
        os._exit(1)


def _irrevocably(report: socket.socket, request, config, rung: Rung, scratch: str) -> dict:
    """Drop privileges, files and system calls for good; what came of each layer, in words for the record.

    The gate is handed over in a message of its own: afterwards no descriptor can be sent from here.
    """
    become, uid = spaces.INSIDE_ID, "mapped"
    closed = "" if rung.own_root else _closed_to_others(sys.prefix, sys.base_prefix)
    if "user" not in rung.namespaces:
        become, uid = None, "unchanged" + (f": others may not enter {closed}" if closed else "")
        if config["root"] and (rung.landlock or rung.own_root) and not closed:
            become, uid = request["outside_id"], "an unused one"
            os.chown(scratch, become, become)
    elif config["root"] and closed:
        raise PermissionError(errno.EACCES, f"others than root may not enter {closed}")
    privileges.drop_privileges(become)
    privileges.die_with_parent(signal.SIGKILL)  # changing ids clears it
    privileges.exit_on_abort()
    own = ["/proc", "/dev"] if rung.own_root else ["/proc/self", *(f"/proc/{name}" for name in root.PROC_FILES)]
    files = ([*config["binds"], *own], root.WRITABLE if rung.own_root else [scratch],
             [f"/dev/{name}" for name in root.DEVICES])
    layers = {"uid": uid, "landlock": "no: not asked for"}
    if rung.landlock:
        layers["landlock"] = _layer(lambda: f"yes, version {landlock.restrict(*files)}")
    gate: list[int] = []
    layers["gate"] = _layer(lambda: gate.append(syscalls.supervise_processes()) or "yes")
    wire.send(report, {"contained": True}, gate)
    wire.close_all(gate)
    layers["seccomp"] = _layer(lambda: syscalls.refuse_syscalls("net" in rung.namespaces) or "yes")
    return layers


def _layer(install) -> str:
    """What came of a layer, in words: what `install` returns, or why it was refused."""
    try:
        return install()
    except OSError as error:
        return f"no: {error.strerror}"


def _closed_to_others(*paths: str) -> str:
    """The first folder on the way to `paths` that a stranger may not enter; empty when there is none."""
    ways = [folder for path in paths for folder in (*reversed(Path(path).resolve().parents), Path(path))]
    return next((str(folder) for folder in ways if not os.stat(folder).st_mode & 1), "")


def _watch(fds: list[int]) -> None:
    """Fork: the child returns; the parent adopts orphans until the child ends, and ends as it did."""
    worker = os.fork()
    if worker == 0:
        privileges.die_with_parent(signal.SIGKILL)
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


def _worker(fds: list[int], scratch: str, worker) -> None:
    code = 1
    try:
        sock, inputs, outputs, pipe = fds
        os.dup2(pipe, 1)
        os.dup2(pipe, 2)
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.close(pipe)
        worker.main(socket.socket(fileno=sock), inputs, outputs, scratch)
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
