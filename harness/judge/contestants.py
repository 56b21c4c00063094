"""The judge's handles on the untrusted side: the zygote that forks contestants, and one contestant.

A contestant is frozen whenever it is not its turn. What it says is data: a wrong message ends the attempt, never the judge.
"""

from __future__ import annotations

import ctypes
import errno
import importlib.util
import itertools
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.contestant import wire
from harness.judge import freeze, limits
from harness.judge.arena import Arena
from harness.judge.gate import Gate
from harness.judge.level import Uncontained, describe, is_contained
from harness.judge.visible import cores, sweep, visible_paths

OUTPUT_TAIL = 16_384
ZYGOTE_START_S = 180.0
SPAWN_S = 30.0
MESSAGE = 8000  # characters of what a contestant reports, a compiler's log at the longest
_LABELS = itertools.count()  # of the process, not of a zygote: one process may hold two judges
_ENVIRONMENT = {
    # CPU.md: without these, glibc returns every large result to the system and page faults are timed instead.
    "MALLOC_MMAP_THRESHOLD_": "268435456", "MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_TOP_PAD_": "67108864",
    "TORCHINDUCTOR_VEC_ISA_OK": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1",  # else each asks a new process
    # Else every contestant precompiles 200 MB of headers anew, even on a hit in its compile cache.
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    "GOMP_SPINCOUNT": "0",  # OpenMP threads that spin after their work would steal from the opponent's block
    "OPENBLAS_NUM_THREADS": "1",  # else numpy starts a thread, and the zygote must have none
    "HOME": "/scratch/home", "TMPDIR": "/scratch/tmp", "TORCHINDUCTOR_CACHE_DIR": "/scratch/cache/inductor",
    "LANG": "C.UTF-8", "USER": "contestant",
    "PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0",
}


class Lost(Exception):
    """The contestant ended, fell silent or broke the protocol. status: the verdict; message: for people."""

    def __init__(self, status: str, message: str):
        super().__init__(message)
        self.status = status


class MachineFault(Exception):
    """Something of ours or of the machine's failed; never charged to a candidate (infra_error)."""


class OpponentLost(MachineFault):
    """A baseline failed in a block that was timed beside a candidate: the machine's fault, or that candidate's doing."""


class Zygote:
    """The exec'd process that imports torch once. Starts on creation; `wait` blocks until it can fork.

    pythonpath: extra folders on sys.path of contestants. containment: auto, full (refuse less), none (tests only).
    worker: the module with the contestant's loop; another one only to see what a takeover, or a weaker judge, would do.
    """

    def __init__(self, containment: str = "auto", pythonpath: list[str] = (), preload: list[str] = (),
                 worker: str = "harness.contestant.worker"):
        self.containment = containment
        self.strict = False  # whether nobody vouches for what is run next
        self.kind, self.parent, self.freezer_reason = freeze.best_available()
        for parent in {self.parent, *limits.parents()} - {None}:
            freeze.sweep(parent)
        sweep(Path(tempfile.gettempdir()))
        self._new_root = tempfile.mkdtemp(prefix=f"gauntlet-root-{os.getpid()}-")
        ours, theirs = socket.socketpair()
        package = Path(__file__).resolve().parents[1]
        paths = [str(p) for p in pythonpath] + [p for p in sys.path if p and os.path.exists(p)]
        code = (f"import sys; sys.path[:] = {[str(package.parent), *paths]!r}; "
                f"from harness.contestant.zygote import main; main({theirs.fileno()})")
        environment = dict(_ENVIRONMENT, OMP_NUM_THREADS=str(cores()), TRITON_INTERPRET="1")
        self.process = subprocess.Popen([sys.executable, "-I", "-c", code], env=environment, pass_fds=(theirs.fileno(),),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        theirs.close()
        self.control = ours
        binds, masks = visible_paths(package, paths, list(pythonpath))
        self.facts: dict = {}
        self._closed: list[int] = []
        wire.send(ours, {"binds": binds, "masks": masks, "new_root": self._new_root, "root": os.geteuid() == 0,
                         "import_triton": importlib.util.find_spec("triton") is not None, "preload": list(preload),
                         "worker": worker})

    def wait(self) -> None:
        """Block until the zygote has imported everything; MachineFault with its last words when it could not."""
        if self.facts:
            return
        try:
            self.facts = wire.receive(self.control, time.monotonic() + ZYGOTE_START_S)
        except wire.WireError as error:
            self.process.kill()
            self.process.wait()
            words = self.process.stderr.read().decode(errors="replace").strip().splitlines()[-5:]
            raise MachineFault(f"the zygote did not start ({error}): {' | '.join(words)}") from None

    def spawn(self, inputs: Arena, outputs: Arena, *, memory: int, scratch: int) -> Contestant:
        """A fresh contained contestant over these arenas, running (not frozen) and waiting for its first message."""
        self.wait()
        label = next(_LABELS)
        freezer = freeze.make(self.kind, self.parent, f"gauntlet-{os.getpid()}-{label}")
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # before the hello is sent, else it names nobody
        read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(write_end, True)
        # Threads count too: every thread of Python's that calls torch has a team of OpenMP's, one for each core.
        processes = 256 + 16 * cores()
        bound = limits.bind(f"gauntlet-{os.getpid()}-{label}", freezer, memory, processes)
        # Without a cgroup what is reserved is bounded loosely, for stacks and arenas of threads count whether they are touched
        # or not; the watchdog counts what is in use.
        data_bytes = None if bound.has("memory") else memory + (cores() << 27)
        procs = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in [*freezer.procs_files(), *bound.procs_files()]]
        try:
            wire.send(self.control, {"scratch": scratch, "processes": processes, "data_bytes": data_bytes,
                                     "containment": self.containment,
                                     "outside_id": 1_600_000_000 + random.SystemRandom().randrange(10**8),
                                     "closed": self._closed},
                      [theirs.fileno(), inputs.fd, outputs.fd, write_end, *procs])
            reply, gate = wire.receive_with_fds(self.control, deadline=time.monotonic() + SPAWN_S)
            self._closed = []
        except (wire.WireError, OSError) as error:
            self.process.kill()  # a late answer would be taken for that to the next request
            self.process.wait()
            reply, gate = {"error": f"the zygote does not answer: {error}"}, []
        finally:
            theirs.close()
            wire.close_all([write_end, *procs])
        if "error" in reply:
            freezer.close()
            bound.close()
            ours.close()
            os.close(read_end)
            raise MachineFault(f"no contestant could be started: {reply['error']}")
        level = dict(reply["level"], memory_limit=bound.names["memory"], process_limit=bound.names["pids"])
        watchdog = None if bound.has("memory") else limits.Watchdog(reply["init"], memory, inputs.size + outputs.size)
        contestant = Contestant(ours, read_end, reply["init"], freezer, bound, level, self,
                                gate=Gate(gate[0]) if gate else None, watchdog=watchdog)
        if self.strict and not is_contained(contestant.level):
            contestant.close()
            raise Uncontained(contestant.level)
        return contestant

    def how_it_ended(self, init: int) -> str:
        """How the first process of a contestant ended, in words; empty when it did not, or nobody knows."""
        try:
            wire.send(self.control, {"ended": init})
            return _text(wire.receive(self.control, time.monotonic() + SPAWN_S).get("how"))
        except (wire.WireError, OSError):
            self.process.kill()  # a late answer would be taken for that to the next request
            self.process.wait()
            return ""

    def reap(self, init: int) -> None:
        """Remember a killed contestant; the zygote takes its remains from the process table at the next spawn."""
        self._closed.append(init)

    def close(self) -> None:
        """End the zygote and with it every contestant."""
        self.control.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()
        shutil.rmtree(self._new_root, ignore_errors=True)


class Contestant:
    """One contained process tree. Created running; `freeze` and `thaw` are the judge's."""

    def __init__(self, sock: socket.socket, pipe: int, init: int, freezer, bound, level: dict,
                 zygote: Zygote, gate: Gate | None = None, watchdog: limits.Watchdog | None = None):
        self.zygote, self.ended, self.gate, self.watchdog = zygote, "", gate, watchdog
        self.sock, self.pipe, self.init, self.freezer, self.bound = sock, pipe, init, freezer, bound
        self.level = dict(level, freezer=freezer.name)
        self.level["level"] = describe(self.level)
        self.tail = b""
        self.frozen = self.closed = False
        self.buffer = bytearray()
        sock.setblocking(False)
        self.pid = init
        try:
            self._join()
            self.pid = self._hello()
            self._try_reading()
        except BaseException:
            self.close()
            raise

    def _join(self) -> None:
        try:
            self.freezer.attach(self.init)
        except OSError as error:
            raise MachineFault(f"a contestant escapes its freezer: {error.strerror}") from None

    def _hello(self) -> int:
        """The worker's pid as the judge sees it: the kernel translates credentials into the reader's namespace."""
        deadline = time.monotonic() + SPAWN_S
        try:
            self._await_data(deadline)
        except wire.WireTimeout:
            raise MachineFault("a new contestant did not say hello") from None
        data, ancillary, _flags, _ = self.sock.recvmsg(4096, socket.CMSG_SPACE(12))
        self.buffer += data
        pid = 0
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                pid = int.from_bytes(payload[:4], sys.byteorder)
        if "hello" not in self.receive(deadline) or not pid:
            raise MachineFault("a new contestant did not say hello")
        return pid

    def _try_reading(self) -> None:
        """MachineFault where the system forbids `read`: asked before any code of a candidate's could forbid it."""
        try:
            self.read(0, 1)  # nothing lies there, so that permission is all this can find out
        except Lost:
            if ctypes.get_errno() == errno.EPERM:
                raise MachineFault("this system does not let the judge read its contestants' memory "
                                   "(process_vm_readv: EPERM; see kernel.yama.ptrace_scope)") from None

    # ---------------------------------------------------------------- messages

    def ask(self, message: dict, seconds: float, fds: list[int] = (), what: str = "") -> dict:
        """Send a message and wait for its answer; thaws if needed and leaves the contestant running.

        Raises Lost: timeout, an end of the process, a broken message, or the failure the contestant reports.
        """
        self.thaw()
        self.post(message, fds)
        return self.answer(time.monotonic() + seconds, what or message["op"])

    def post(self, message: dict, fds: list[int] = ()) -> None:
        """Put a message into the contestant's socket; it may be frozen."""
        try:
            self.sock.setblocking(True)
            wire.send(self.sock, message, fds, time.monotonic() + 30)
        except (wire.WireError, OSError):
            raise self._gone("before the judge's next message") from None
        finally:
            self.sock.setblocking(False)

    def answer(self, deadline: float, what: str) -> dict:
        """The answer to the message posted last, its reported failures raised as Lost."""
        try:
            reply = self.receive(deadline)
        except wire.WireTimeout:
            raise Lost("timeout", f"no answer to {what!r} in time") from None
        except wire.WireClosed:
            raise self._gone(f"during {what!r}") from None
        except wire.WireError as error:
            raise Lost("tampered", f"broken message during {what!r}: {error}") from None
        if "error" in reply:
            status = _text(reply["error"])
            lost = Lost(status if status in _REPORTABLE else "runtime_error",
                        _text(reply.get("message"))[:MESSAGE] or "no message")
            lost.trace = _text(reply.get("trace"))[-8000:]
            raise lost
        return reply

    def receive(self, deadline: float) -> dict:
        """The next message; drains what the candidate prints meanwhile, so that no print can block it."""
        while True:
            message = self._complete()
            if message is not None:
                return message
            self._await_data(deadline)
            try:
                data = self.sock.recv(1 << 20)
            except BlockingIOError:
                continue
            except ConnectionError:
                data = b""
            if not data:
                raise wire.WireClosed("closed") if not self.buffer else wire.WireError("closed in mid-message")
            self.buffer += data

    def _await_data(self, deadline: float) -> None:
        """Return once the socket can be read; meanwhile serve what else it waits for: its output, its gate."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        poll.register(self.pipe, select.POLLIN)
        if self.gate is not None and self.gate.fileno() >= 0:
            poll.register(self.gate.fileno(), select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise wire.WireTimeout("no answer before the deadline")
            ready = dict(poll.poll(1e3 * (left if self.watchdog is None else min(left, limits.WATCH_SECONDS))))
            if self.pipe in ready and not self.drain():
                poll.unregister(self.pipe)
            if self.gate is not None and (event := ready.get(self.gate.fileno())) is not None:
                if event & select.POLLHUP:  # nobody is left who could ask
                    poll.unregister(self.gate.fileno())
                else:
                    self.gate.let_through()
            if self.watchdog is not None and (used := self.watchdog.over()):
                raise Lost("out_of_memory", f"the candidate's processes together hold {used >> 20} MiB; "
                                            f"the limit is {self.watchdog.limit >> 20} MiB")
            if self.sock.fileno() in ready:
                return

    def _complete(self) -> dict | None:
        if len(self.buffer) < 4:
            return None
        length = int.from_bytes(self.buffer[:4], "big")
        if length > wire.MAX_MESSAGE:
            raise wire.WireError(f"a message of {length} bytes is announced")
        if len(self.buffer) < 4 + length:
            return None
        body = bytes(self.buffer[4: 4 + length])
        del self.buffer[: 4 + length]
        return wire.decode(body)

    def unasked(self) -> bool:
        """True when the contestant has sent more than it was asked for."""
        try:
            return bool(self.buffer) or bool(self.sock.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False
        except ConnectionError:
            return False

    def drain(self) -> bool:
        """Read what was printed, keep the tail; False at the end of the pipe."""
        try:
            data = os.read(self.pipe, 1 << 16)
        except BlockingIOError:
            return True
        self.tail = (self.tail + data)[-OUTPUT_TAIL:]
        return bool(data)

    def _gone(self, when: str) -> Lost:
        """What the end of the process means; its parent, the zygote, knows how it came."""
        if not self.ended:
            self.ended = self.zygote.how_it_ended(self.init)
        self.drain()
        reason = self.ended or "it closed its connection"
        if "SIGSEGV" in reason or "SIGBUS" in reason:
            reason += "; inputs are read-only: a kernel must not write into them, nor read or write out of bounds"
        status = "out_of_memory" if "SIGKILL" in reason else "runtime_error"
        return Lost(status, f"the process ended {when}: {reason}")

    # ---------------------------------------------------------------- freezing, reading, ending

    def no_new_processes(self) -> None:
        """From now on it can start threads, but neither processes nor programs: asked for before its first timed block.

        Where the kernel knows no gate the contestant itself is asked to give them up, which binds the honest only.
        """
        if self.gate is not None:
            self.gate.let_all_through()
            self.gate.close()
        else:
            self.ask({"op": "settle_down"}, SPAWN_S)
            self.freeze()

    def freeze(self) -> None:
        """Stop the whole tree and know that it has stopped. Lost("tampered") when it does not come to rest."""
        if self.frozen:
            return
        try:
            self.freezer.freeze()
        except freeze.FreezeError as error:
            raise Lost("tampered", str(error)) from None
        self.frozen = True

    def thaw(self) -> None:
        """Let it run."""
        if self.frozen:
            self.freezer.thaw()
            self.frozen = False

    def read(self, address: int, count: int) -> bytearray:
        """`count` bytes of the frozen contestant's memory, copied into private memory. Lost when they are not there."""
        target = bytearray(count)
        if count == 0:
            return target
        buffer = (ctypes.c_char * count).from_buffer(target)
        done = 0
        while done < count:
            local = _IoVec(ctypes.addressof(buffer) + done, count - done)
            remote = _IoVec((address + done) % 2**64, count - done)
            got = _process_vm_readv(self.pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
            if got <= 0:
                if ctypes.get_errno() == errno.EPERM:  # it could be read when it started
                    raise Lost("tampered", "the candidate has closed its process' memory to the judge")
                raise Lost("tampered", f"the committed answer at {address:#x} is not in the contestant's memory")
            done += got
        return target

    def close(self) -> None:
        """End everything of it; nothing is left afterwards."""
        if self.closed:
            return
        self.closed = True
        if "pid" not in self.level["namespaces"]:  # else all of it dies with its init
            try:
                self.freezer.freeze()
            except freeze.FreezeError:
                pass  # what could be reached is killed all the same
            self.freezer.kill()
        if not self.ended:  # else it is reaped, and its pid may be another's
            try:
                os.kill(self.init, signal.SIGKILL)
            except ProcessLookupError:
                pass  # the zygote has ended, and its children with it
            self.zygote.reap(self.init)
        self.freezer.kill()
        self.sock.close()
        os.close(self.pipe)
        self.freezer.close()
        self.bound.close()
        if self.gate is not None:
            self.gate.close()
        if not self.level["private_root"]:
            shutil.rmtree(self.level["scratch"], ignore_errors=True)


# Not infra_error: what a candidate's process says about the machine is never believed.
_REPORTABLE = {"wrong_output", "compile_error", "runtime_error", "out_of_memory", "unsupported"}


def _text(value: object) -> str:
    """A contestant's `value` as text that any file takes (no lone surrogates); empty for anything but a string."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


class _IoVec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


_process_vm_readv = ctypes.CDLL(None, use_errno=True).process_vm_readv
_process_vm_readv.restype = ctypes.c_ssize_t
_process_vm_readv.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong,
                              ctypes.c_ulong]
