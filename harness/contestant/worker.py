"""The contestant's own loop: builds, loads and calls one candidate. Everything here belongs to the attacker.

The judge believes nothing this process says: it times from outside, chooses afterwards which answers to read, and reads
them from memory while the process is frozen. This file is only the honest way to play, for honest candidates.

Messages (judge → contestant, each answered by one message): load, build, layout, warm, touch, prepare, go, export, exit.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import io
import mmap
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import warnings

import torch

from harness.containment import syscalls
from harness.contestant import wire
from harness.contestant.profile import profile

_REPORT_CHARACTERS = 6000
_TURNS, _TURNS_SECONDS = 64, 0.5  # more calls, and time for them, to find out how many buffers a candidate uses in turn


class Refusal(Exception):
    """A failure with its verdict: status word and message, sent to the judge instead of an answer."""

    def __init__(self, status: str, message: str):
        super().__init__(message)
        self.status = status


def main(sock: socket.socket, inputs_fd: int, outputs_fd: int, scratch: str) -> None:
    prepare_scratch(scratch)
    loop = Loop(scratch, inputs_fd, outputs_fd)
    own = os.getpid()
    wire.send(sock, {"hello": own})
    while True:
        try:
            message, fds = wire.receive_with_fds(sock)
        except wire.WireClosed:
            return
        operation = message.get("op")
        if operation == "exit":
            return
        if operation == "go":
            # The timed path: nothing between here and the answer but the calls themselves.
            try:
                reply = loop.go(message["n"])
            except BaseException as error:  # SystemExit too: it says more than a process that is gone
                reply = failure(error, own)
        else:
            try:
                reply = getattr(loop, operation)(message, fds)
            except BaseException as error:
                reply = failure(error, own)
        wire.send(sock, reply)


def prepare_scratch(scratch: str) -> None:
    """Point every cache and home of this process into its private scratch folder."""
    os.chdir(scratch)
    for variable, name in (("HOME", "home"), ("TMPDIR", "tmp"), ("TORCHINDUCTOR_CACHE_DIR", "cache/inductor"),
                           ("TRITON_CACHE_DIR", "cache/triton"), ("TORCH_EXTENSIONS_DIR", "cache/extensions"),
                           ("XDG_CACHE_HOME", "cache/xdg")):
        path = os.path.join(scratch, name)
        os.makedirs(path, exist_ok=True)
        os.environ[variable] = path
    tempfile.tempdir = None
    sys.stdout.reconfigure(line_buffering=True)
    warnings.filterwarnings("ignore", message="The given buffer is not writable")
    torch.set_grad_enabled(False)


def failure(error: BaseException, own: int) -> dict:
    """The message that reports `error`, with the status it looks like. own: the process that may answer.

    A process forked by the candidate that gets here, by sys.exit as a rule, ends silently.
    """
    if os.getpid() != own:
        os._exit(1)
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))[-_REPORT_CHARACTERS:]
    if isinstance(error, Refusal):
        return {"error": error.status, "message": str(error)}
    if isinstance(error, SyntaxError):
        return {"error": "compile_error", "message": f"{error}", "trace": text}
    memory = isinstance(error, MemoryError) or "can't allocate memory" in str(error)
    return {"error": "out_of_memory" if memory else "runtime_error",
            "message": f"{type(error).__name__}: {error}"[:1000], "trace": text}


def shortened(log: str) -> str:
    """A compiler's log of at most _REPORT_CHARACTERS: mostly its beginning, for the first error explains the others.

    The chains of includes that lead to each error are the first to go.
    """
    if len(log) > _REPORT_CHARACTERS:
        log = "\n".join(line for line in log.split("\n") if not line.startswith("          "))
    if len(log) <= _REPORT_CHARACTERS:
        return log
    return f"{log[:_REPORT_CHARACTERS - 1000]}\n[{len(log) - _REPORT_CHARACTERS} characters left out]\n{log[-900:]}"


def unpack(archive: tarfile.TarFile, folder: str) -> None:
    """Extract below `folder`. Raises TarError for a member that would lie elsewhere or is no plain file or folder."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
        return
    for member in archive.getmembers():  # Python before 3.10.12 and 3.11.4 has no filters
        parts = member.name.split("/")
        if not (member.isfile() or member.isdir()) or parts[0] == "" or ".." in parts:
            raise tarfile.TarError(f"{member.name!r} does not belong into a cache")
    archive.extractall(folder)


class Loop:
    """State of one contestant: the candidate's callable and the slots of the present layout."""

    def __init__(self, scratch: str, inputs_fd: int, outputs_fd: int):
        self.scratch = scratch
        self.inputs = mmap.mmap(inputs_fd, os.fstat(inputs_fd).st_size, mmap.MAP_SHARED, mmap.PROT_READ)
        self.outputs = mmap.mmap(outputs_fd, os.fstat(outputs_fd).st_size, mmap.MAP_SHARED)
        self.outputs_address = ctypes.addressof(ctypes.c_char.from_buffer(self.outputs))
        self.commit = memoryview(self.outputs).cast("B")
        self.kernel = None
        self.language = ""
        self.keep: list = []
        self.copy_each = False

    # ------------------------------------------------------------------ building and loading

    def build(self, message: dict, fds: list[int]) -> dict:
        """Compile a C++ candidate; the shared object's bytes go into the output arena."""
        source, target = os.path.join(self.scratch, "candidate.cpp"), os.path.join(self.scratch, "candidate.so")
        with open(source, "w") as file:
            file.write(message["source"])
        try:
            done = subprocess.run([message["compiler"], *message["flags"], source, "-o", target], text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  errors="replace", timeout=message["seconds"])
        except subprocess.TimeoutExpired:
            raise Refusal("compile_error", f"the compiler ran longer than {message['seconds']:.0f} s") from None
        except FileNotFoundError:
            return {"missing": message["compiler"]}
        log = shortened(done.stdout.replace(self.scratch + "/", ""))
        if done.returncode != 0:
            raise Refusal("compile_error", log or f"the compiler ended with code {done.returncode}")
        with open(target, "rb") as file:
            data = file.read()
        if len(data) > len(self.outputs):
            raise Refusal("compile_error", f"the shared object has {len(data)} bytes; {len(self.outputs)} is the limit")
        self.outputs[: len(data)] = data
        return {"built": len(data), "log": log}

    def load(self, message: dict, fds: list[int]) -> dict:
        """Make the candidate callable. fds: the shared object (cpp), or a tar of warm compile caches (python)."""
        self.language, self.args = message["language"], message["args"]
        if message.get("threads"):
            torch.set_num_threads(message["threads"])
            _set_openmp_threads(message["threads"])
        if self.language == "cpp":
            self.kernel = self._load_cpp(message, fds[0])
        else:
            if fds:
                with os.fdopen(fds[0], "rb") as file, tarfile.open(fileobj=file) as archive:
                    unpack(archive, os.path.join(self.scratch, "cache"))
            self.kernel = self._load_python(message)
        gc.disable()
        return {"loaded": True}

    def _load_cpp(self, message: dict, fd: int):
        try:
            library = ctypes.CDLL(f"/proc/self/fd/{fd}")
        except OSError as error:
            raise Refusal("runtime_error", f"the shared object does not load: {error}") from None
        try:
            function = getattr(library, message["entry"])
        except AttributeError:
            raise Refusal("compile_error", f'the source defines no extern "C" function called {message["entry"]!r}; '
                                           f'declare it as: extern "C" void {message["entry"]}(…)') from None
        function.restype = None
        return function

    def _load_python(self, message: dict):
        if "\0" in message["source"]:  # a ValueError to some versions of Python, a SyntaxError to others
            raise Refusal("compile_error", "the source holds a null byte; it is not Python")
        name = f"candidate_{message['hash'][:12]}"
        path = os.path.join(self.scratch, name + ".py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(message["source"])
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        try:
            entry = getattr(module, message["entry"])
        except AttributeError:
            names = sorted(k for k, v in vars(module).items() if callable(v) and not k.startswith("_"))[:12]
            raise Refusal("compile_error", f"the source defines no {message['entry']!r}; it defines "
                                           f"{', '.join(names) or 'nothing callable'}") from None
        if isinstance(entry, type):
            entry = entry(*getattr(module, "get_init_inputs", list)())
            if isinstance(entry, torch.nn.Module):
                entry.eval()
        if not callable(entry):
            raise Refusal("compile_error", f"{message['entry']!r} is a {type(entry).__name__}, not a function")
        return entry

    def export(self, message: dict, fds: list[int]) -> dict:
        """A tar of this contestant's compile caches, into the output arena; 0 bytes when it does not fit."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name in ("inductor", "triton", "extensions"):
                archive.add(os.path.join(self.scratch, "cache", name), arcname=name)
        data = buffer.getvalue()
        if len(data) > len(self.outputs):
            return {"exported": 0}
        self.outputs[: len(data)] = data
        return {"exported": len(data)}

    # ------------------------------------------------------------------ slots

    def layout(self, message: dict, fds: list[int]) -> dict:
        """Describe the slots: where each call's inputs lie and what its outputs must look like."""
        self.keep.clear()
        gc.collect()
        self.expected = [(getattr(torch, o["dtype"]), torch.Size(o["shape"])) for o in message["outputs"]]
        if self.language == "cpp":
            self._layout_cpp(message)
        else:
            self._layout_python(message)
        self.commit_table = self.commit[: message["commit_bytes"]].cast("q")
        return {"slots": message["slots"]}

    def _layout_python(self, message: dict) -> None:
        self.calls = []
        inputs = [(getattr(torch, i["dtype"]), i["shape"], i["offset"], i["count"]) for i in message["inputs"]]
        for slot in range(message["slots"]):
            base = slot * message["stride"]
            self.calls.append(tuple(
                torch.frombuffer(self.inputs, dtype=dtype, count=count, offset=base + offset).view(shape)
                if count else torch.empty(shape, dtype=dtype)
                for dtype, shape, offset, count in inputs))

    def _layout_cpp(self, message: dict) -> None:
        # frombuffer of a read-only map: the address of the input arena, without a writable export
        base = torch.frombuffer(self.inputs, dtype=torch.uint8).data_ptr()
        sizes = [ctypes.c_int64(v) for v in message["dims"].values()]
        scalars = [ctypes.c_double(v) if isinstance(v, float) else ctypes.c_int64(int(v))
                   for v in self.args.values() if not isinstance(v, str)]
        self.calls = []
        for slot in range(message["slots"]):
            ins = [ctypes.c_void_p(base + slot * message["stride"] + i["offset"]) for i in message["inputs"]]
            first = self.outputs_address + message["commit_bytes"] + slot * message["out_stride"]
            outs = [ctypes.c_void_p(first + o["offset"]) for o in message["outputs"]]
            self.calls.append((*ins, *sizes, *scalars, *outs))

    def warm(self, message: dict, fds: list[int]) -> dict:
        """Unscored calls on slots of their own; finds out whether the candidate returns one buffer again and again."""
        self.copy_each = False
        started = time.perf_counter()
        self.go(message["n"])
        seconds = time.perf_counter() - started
        if self.language == "python":
            self.copy_each = self._returns_a_buffer_again(message["n"])
        self.keep.clear()
        gc.collect()
        gc.freeze()  # what compiling has left is not looked through again between blocks: 54 ms each, after torch.compile
        return {"warm": seconds}

    def _returns_a_buffer_again(self, calls: int) -> bool:
        """Whether an answer comes to lie where an earlier one lies, which is still held.

        Two calls show it of one buffer. Of several used in turn more are needed, but only where the candidate has kept
        hold of what it returned.
        """
        pointers = [self.commit_table[i] for i in range(calls * len(self.expected))]
        seen = set(pointers)
        if len(seen) < len(pointers) or not _held_elsewhere(self.keep):
            return len(seen) < len(pointers)
        limit = time.monotonic() + _TURNS_SECONDS
        for turn in range(_TURNS):
            outputs = self.kernel(*self.calls[turn % calls], **self.args)
            outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
            for index, output in enumerate(outputs):
                output = self.normalise(output, index)
                if output.data_ptr() in seen:
                    return True
                seen.add(output.data_ptr())
                self.keep.append(output)
            if time.monotonic() > limit:
                break
        return False

    def touch(self, message: dict, fds: list[int]) -> dict:
        """Map and touch all memory that a block of `slots` calls will use, so that no block times page faults.

        Heap, for answers in Python: freed again at once, which the malloc settings of the zygote keep; somewhat more than
        the outputs' size, because intermediate results and aligned allocations leave gaps.
        """
        slots = min(message["slots"], len(self.calls))
        page = mmap.PAGESIZE
        self.inputs[0: slots * message["stride"]: page]
        first = message["commit_bytes"]
        if self.language == "cpp":
            end = first + slots * message["out_stride"]
            region = self.commit[:end]
            region[0:end:page] = bytes(len(region[0:end:page]))
            return {"touched": slots}
        piece = 64 * 2**20
        wanted = (5 * slots // 4 + 4) * message["out_stride"]
        pieces = [torch.zeros(piece, dtype=torch.uint8) for _ in range(-(-wanted // piece))]
        del pieces
        return {"touched": slots}

    def profile(self, message: dict, fds: list[int]) -> dict:
        """What the candidate calls of PyTorch's; for classification only."""
        return profile(self.kernel, self.calls[: message["n"]], self.args)

    def settle_down(self, message: dict, fds: list[int]) -> dict:
        """Give up starting processes, where the judge has no means to see to that itself."""
        try:
            syscalls.refuse_processes()
        except OSError:
            return {"settled": False}
        return {"settled": True}

    def prepare(self, message: dict, fds: list[int]) -> dict:
        """Between blocks: let go of the last block's answers."""
        self.keep.clear()
        gc.collect()
        return {"ready": True}

    def go(self, n: int) -> dict:
        """The timed block: call the candidate once per slot, keep every answer alive, say where each lies."""
        if self.language == "cpp":
            kernel = self.kernel
            for arguments in self.calls[:n]:
                kernel(*arguments)
            return {"done": n}
        kernel, args, keep, table, calls = self.kernel, self.args, self.keep, self.commit_table, self.calls
        if len(self.expected) == 1:
            (dtype, shape), = self.expected
            for i in range(n):
                output = kernel(*calls[i], **args)
                if type(output) is not torch.Tensor or output.dtype != dtype or output.shape != shape \
                        or not output.is_contiguous() or not output.is_cpu or output.is_neg() or self.copy_each:
                    output = self.normalise(output, 0)
                keep.append(output)
                table[i] = output.data_ptr()
            return {"done": n}
        width = len(self.expected)
        for i in range(n):
            outputs = kernel(*calls[i], **args)
            if not isinstance(outputs, (tuple, list)) or len(outputs) != width:
                raise Refusal("wrong_output", f"{width} outputs are asked for, the kernel returned "
                                              f"{len(outputs) if isinstance(outputs, (tuple, list)) else 1}")
            for j, output in enumerate(outputs):
                output = self.normalise(output, j)
                keep.append(output)
                table[i * width + j] = output.data_ptr()
        return {"done": n}

    def normalise(self, output, index: int) -> torch.Tensor:
        """A plain dense tensor of the right dtype and shape, or a Refusal; strides are made contiguous, on the clock."""
        if isinstance(output, (tuple, list)) and len(output) == 1:
            output = output[0]
        dtype, shape = self.expected[index]
        if type(output) is not torch.Tensor:
            raise Refusal("wrong_output", f"output {index} is a {type(output).__name__}, not a plain torch.Tensor")
        if output.layout is not torch.strided or output.device.type != "cpu" or output.is_conj() or output.is_neg():
            raise Refusal("wrong_output", f"output {index} is not a plain dense tensor on the cpu")
        if output.dtype != dtype:
            raise Refusal("wrong_output", f"output {index} has dtype {_name(output.dtype)}, expected {_name(dtype)}")
        if output.shape != shape:
            raise Refusal("wrong_output", f"output {index} has shape {list(output.shape)}, expected {list(shape)}")
        if self.copy_each:
            return output.clone(memory_format=torch.contiguous_format)
        return output if output.is_contiguous() else output.contiguous()


def _held_elsewhere(answers: list[torch.Tensor]) -> bool:
    """Whether others than this list hold one of its tensors, or its memory."""
    alone, = map(_holders, [torch.empty(1)])  # what this very way of asking holds
    return any(references > alone[0] or uses > alone[1] for references, uses in map(_holders, answers))


def _holders(tensor: torch.Tensor) -> tuple[int, int]:
    count = getattr(torch._C, "_storage_Use_Count", lambda storage: 1)  # where it is not to be known, nobody holds it
    return sys.getrefcount(tensor), count(tensor.untyped_storage()._cdata)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _set_openmp_threads(count: int) -> None:
    try:
        ctypes.CDLL("libgomp.so.1").omp_set_num_threads(count)
    except OSError:
        return  # no OpenMP runtime: nothing to set
