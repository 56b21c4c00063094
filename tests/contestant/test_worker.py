"""The honest loop, run in this process over arenas of its own: what it accepts, copies and reports."""

import ctypes
import gc
import os
import subprocess
import tarfile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contestant import worker
from harness.contestant.worker import Loop, Refusal
from harness.judge.arena import Arena
from harness.judge.layout import Layout
from harness.spec.task import Case, InputSpec, Task

SIZE = 1 << 20


@pytest.fixture
def arenas():
    both = Arena(SIZE, contestants_may_write=False), Arena(SIZE, contestants_may_write=True)
    yield both
    for arena in both:
        arena.close()


@pytest.fixture
def loop(tmp_path, arenas):
    for name in ("inductor", "triton", "extensions"):
        (tmp_path / "cache" / name).mkdir(parents=True)
    threads = torch.get_num_threads()
    yield Loop(str(tmp_path), arenas[0].fd, arenas[1].fd)
    gc.enable()  # the loop disables it
    torch.set_num_threads(threads)


pytestmark = pytest.mark.filterwarnings("ignore:The given buffer is not writable")


def load(loop, source, entry="kernel", language="python", fds=(), **args):
    return loop.load({"language": language, "source": source, "entry": entry, "args": args, "hash": "ab" * 32},
                     list(fds))


def sit(loop, arenas, shapes, outputs, slots=3, dtype=torch.float32):
    """Layout with inputs `shapes` of `dtype` filled with 0, 1, 2 … per slot; returns the layout."""
    task = Task(schema=1, name="t", reference="t.py:t", inputs={f"x{i}": InputSpec(shape=list(s))
                for i, s in enumerate(shapes)}, cases=[Case(name="c", dims={"n": 5, "m": 7}, dtype="float32")])
    layout = Layout(task, {"n": 5, "m": 7}, "float32", outputs)
    layout.slots, layout.commit_bytes = slots, 4096
    loop.layout(layout.message(), [])
    for index in range(slots):
        for number, tensor in enumerate(layout.slot(arenas[0], index)):
            tensor.copy_(torch.arange(tensor.numel(), dtype=torch.float32).view(tensor.shape) + 100 * index + number)
    return layout


def committed(loop, call, shape, dtype=torch.float32, output=0, width=1):
    """What lies at the committed address of one output of one call."""
    count = torch.Size(shape).numel() * dtype.itemsize
    data = ctypes.string_at(loop.commit_table[call * width + output], count)
    return torch.frombuffer(bytearray(data), dtype=dtype).view(shape)


FLOAT = torch.float32


# Calls


def test_every_slot_is_called_once_and_every_answer_kept(loop, arenas):
    load(loop, "calls = []\ndef kernel(x):\n    calls.append(x.data_ptr())\n    return x * 2\n")
    layout = sit(loop, arenas, [(4,)], [(FLOAT, (4,))])
    assert loop.go(3) == {"done": 3}
    for call in range(3):
        assert committed(loop, call, (4,)).tolist() == [2 * (100 * call + i) for i in range(4)]
    calls = loop.kernel.__globals__["calls"]
    assert len(set(calls)) == 3 and calls[1] - calls[0] == layout.stride


def test_inputs_are_views_of_the_judges_memory_that_cannot_be_written(loop, arenas):
    load(loop, "def kernel(x):\n    return x + 0\n")
    sit(loop, arenas, [(4,)], [(FLOAT, (4,))])
    arenas[0].tensor(FLOAT, (4,), 0).fill_(7)
    loop.go(1)
    assert committed(loop, 0, (4,)).tolist() == [7] * 4
    with open("/proc/self/maps") as maps:
        address = loop.calls[0][0].data_ptr()
        line = next(m for m in maps if int(m.split("-")[0], 16) <= address < int(m.split("-")[1].split()[0], 16))
    assert line.split()[1] == "r--s"


def test_several_outputs_and_inputs_in_order_with_arguments(loop, arenas):
    load(loop, "def kernel(a, b, factor, name):\n    return a * factor, (b > 3)\n", factor=0.5, name="relu")
    sit(loop, arenas, [(2, 3), (4,)], [(FLOAT, (2, 3)), (torch.bool, (4,))])
    assert loop.go(2) == {"done": 2}
    assert committed(loop, 1, (2, 3), width=2).flatten().tolist() == [50 + i / 2 for i in range(6)]
    assert committed(loop, 0, (4,), torch.bool, 1, 2).tolist() == [False, False, False, True]  # 1, 2, 3, 4


def test_a_model_class_is_made_once_and_evaluated(loop, arenas):
    load(loop, "import torch\nclass ModelNew(torch.nn.Module):\n"
               "    def forward(self, x):\n        assert not self.training\n        return x + 1\n", "ModelNew")
    sit(loop, arenas, [(2,)], [(FLOAT, (2,))])
    loop.go(1)
    assert committed(loop, 0, (2,)).tolist() == [1, 2]


def test_an_output_of_no_elements_and_a_scalar(loop, arenas):
    load(loop, "def kernel(x):\n    return x[:0], x.sum()\n")
    sit(loop, arenas, [(3,)], [(FLOAT, (0,)), (FLOAT, ())])
    assert loop.go(2) == {"done": 2}
    assert committed(loop, 1, (), output=1, width=2).item() == 100 + 101 + 102


def test_a_transposed_answer_is_made_contiguous(loop, arenas):
    load(loop, "def kernel(x):\n    return x.t()\n")
    sit(loop, arenas, [(2, 3)], [(FLOAT, (3, 2))])
    loop.go(1)
    assert committed(loop, 0, (3, 2)).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_buffer_returned_again_and_again_is_copied(loop, arenas):
    load(loop, "import torch\nbuffer = torch.empty(2)\ndef kernel(x):\n    return torch.add(x, 1, out=buffer)\n")
    sit(loop, arenas, [(2,)], [(FLOAT, (2,))])
    loop.warm({"n": 2}, [])
    loop.go(3)
    assert [committed(loop, call, (2,)).tolist() for call in range(3)] == [[1, 2], [101, 102], [201, 202]]


def test_answers_that_are_new_each_time_are_not_copied(loop, arenas):
    load(loop, "import torch\nlast = []\ndef kernel(x):\n    last.append(x + 1)\n    return last[-1]\n")
    sit(loop, arenas, [(2,)], [(FLOAT, (2,))])
    loop.warm({"n": 2}, [])
    loop.go(1)
    assert loop.commit_table[0] == loop.kernel.__globals__["last"][-1].data_ptr()


# Refusals


@pytest.mark.parametrize("answer, words", [
    ("None", "output 0 is a NoneType, not a plain torch.Tensor"),
    ("x.tolist()", "output 0 is a list"),
    ("x.numpy().copy()", "output 0 is a ndarray"),
    ("torch.nn.Parameter(x.clone())", "output 0 is a Parameter"),
    ("x.double()", "output 0 has dtype float64, expected float32"),
    ("x.half()", "output 0 has dtype float16, expected float32"),
    ("x[:1] + 0", r"output 0 has shape \[1, 3\], expected \[2, 3\]"),
    ("x.flatten() + 0", r"output 0 has shape \[6\], expected \[2, 3\]"),
    ("x.to_sparse()", "not a plain dense tensor"),
    ("torch.empty(2, 3, device='meta')", "not a plain dense tensor"),
    ("torch._neg_view(x + 0)", "not a plain dense tensor"),
    ("(x + 0, x + 1)", "output 0 is a tuple"),
])
def test_an_answer_that_is_no_answer(loop, arenas, answer, words):
    load(loop, f"import torch\ndef kernel(x):\n    return {answer}\n")
    sit(loop, arenas, [(2, 3)], [(FLOAT, (2, 3))])
    with pytest.raises(Refusal, match=words) as raised:
        loop.go(1)
    assert raised.value.status == "wrong_output"


def test_a_tuple_of_the_one_answer_is_taken(loop, arenas):
    load(loop, "def kernel(x):\n    return (x + 1,)\n")
    sit(loop, arenas, [(2,)], [(FLOAT, (2,))])
    loop.go(1)
    assert committed(loop, 0, (2,)).tolist() == [1, 2]


@pytest.mark.parametrize("answer, number", [("x + 1", 1), ("(x + 1,)", 1), ("(x, x, x)", 3), ("None", 1), ("[]", 0)])
def test_the_wrong_number_of_answers(loop, arenas, answer, number):
    load(loop, f"def kernel(x):\n    return {answer}\n")
    sit(loop, arenas, [(2,)], [(FLOAT, (2,)), (FLOAT, (2,))])
    with pytest.raises(Refusal, match=f"2 outputs are asked for, the kernel returned {number}") as raised:
        loop.go(1)
    assert raised.value.status == "wrong_output"


@pytest.mark.parametrize("source, status, words", [
    ("def kernel(x:\n    pass\n", "compile_error", "line 1"),
    ("x = 1\n\nx ==== 2\n", "compile_error", "line 3"),
    ("def kernal(x):\n    return x\n", "compile_error", "defines no 'kernel'; it defines kernal"),
    ("pass\n", "compile_error", "it defines nothing callable"),
    ("kernel = 3\n", "compile_error", "'kernel' is a int, not a function"),
    ("import nowhere_to_be_found\n", "runtime_error", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
    ("1 / 0\n", "runtime_error", "ZeroDivisionError"),
    ("raise MemoryError\n", "out_of_memory", "MemoryError"),
    ("class kernel:\n    def __init__(self):\n        raise ValueError('no')\n", "runtime_error", "ValueError: no"),
])
def test_a_source_that_does_not_load(loop, source, status, words):
    with pytest.raises(Exception) as raised:
        load(loop, source)
    report = worker.failure(raised.value, os.getpid())
    assert report["error"] == status and words in report["message"]


def test_a_failure_carries_its_trace():
    try:
        {}["key"]
    except KeyError as error:
        report = worker.failure(error, os.getpid())
    assert report["message"] == "KeyError: 'key'" and "test_worker.py" in report["trace"]


@given(st.integers(1, 5), st.integers(1, 5), st.permutations(range(3)))
@settings(max_examples=25)
def test_normalise_gives_the_values_in_order_whatever_the_strides(rows, columns, order):
    loop = Loop.__new__(Loop)
    loop.copy_each = False
    tensor = torch.arange(rows * columns * 2, dtype=torch.float32).view(rows, columns, 2).permute(order)
    loop.expected = [(torch.float32, tensor.shape)]
    found = loop.normalise(tensor, 0)
    assert found.is_contiguous() and found.tolist() == tensor.tolist()


# C++


CPP = """
#include <cstdint>
extern "C" void kernel(const float* a, const float* b, int64_t n, int64_t m, double eps, int64_t causal,
                       float* out, int32_t* count) {
    for (int i = 0; i < 4; ++i) out[i] = a[i] + 10 * b[0] + eps + causal;
    *count = n * 1000 + m;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cpp")
    (folder / "k.cpp").write_text(CPP)
    subprocess.run(["g++", "-shared", "-fPIC", "k.cpp", "-o", "k.so"], cwd=folder, check=True)
    return folder / "k.so"


def test_a_cpp_kernel_takes_inputs_sizes_scalars_and_outputs(loop, arenas, library):
    fd = os.open(library, os.O_RDONLY)
    load(loop, "", language="cpp", fds=[fd], eps=0.25, mode="words are left out", causal=True)
    os.close(fd)
    layout = sit(loop, arenas, [(4,), (1,)], [(FLOAT, (4,)), (torch.int32, (1,))])
    assert loop.go(2) == {"done": 2}
    base = layout.commit_bytes + layout.out_stride
    assert arenas[1].tensor(FLOAT, (4,), base).tolist() == [100 + i + 10 * 101 + 1.25 for i in range(4)]
    assert arenas[1].tensor(torch.int32, (1,), base + layout.out_offsets[1]).item() == 5007


def test_a_cpp_source_without_the_entry(loop, library):
    fd = os.open(library, os.O_RDONLY)
    with pytest.raises(Refusal, match='no extern "C" function called \'softmax\'; declare it as') as raised:
        load(loop, "", "softmax", "cpp", fds=[fd])
    os.close(fd)
    assert raised.value.status == "compile_error"


def test_what_is_no_shared_object(loop, tmp_path):
    (tmp_path / "k.so").write_bytes(b"not a library")
    fd = os.open(tmp_path / "k.so", os.O_RDONLY)
    with pytest.raises(Refusal, match="does not load"):
        load(loop, "", language="cpp", fds=[fd])
    os.close(fd)


def test_touching_reaches_the_pages_of_a_block(loop, arenas, library):
    """Pages of a sparse file exist once they are touched."""
    fd = os.open(library, os.O_RDONLY)
    load(loop, "", language="cpp", fds=[fd], eps=0.0, causal=False)
    os.close(fd)
    layout = sit(loop, arenas, [(4,), (1,)], [(FLOAT, (40_000,)), (torch.int32, (1,))])
    before = os.fstat(arenas[1].fd).st_blocks * 512
    assert loop.touch({**layout.message(), "slots": 3}, []) == {"touched": 3}
    assert before < 8192 and os.fstat(arenas[1].fd).st_blocks * 512 >= 3 * 160_000


# Building and caches


def test_build_reports_the_compilers_words(loop, arenas):
    ask = {"compiler": "g++", "flags": ["-shared", "-fPIC"], "seconds": 60}
    with pytest.raises(Refusal, match="candidate.cpp:2:.*nonsense") as raised:
        loop.build({**ask, "source": "int a;\nnonsense b;\n"}, [])
    assert raised.value.status == "compile_error" and loop.scratch not in str(raised.value)
    done = loop.build({**ask, "source": "#warning look here\nint a;\n"}, [])
    assert bytes(arenas[1].view[:4]) == b"\x7fELF" and done["built"] > 1000 and "look here" in done["log"]


def test_build_without_a_compiler_and_without_end(loop):
    assert loop.build({"compiler": "no-such-compiler", "flags": [], "seconds": 9, "source": ""}, []) == {
        "missing": "no-such-compiler"}
    with pytest.raises(Refusal, match="longer than 0 s"):
        loop.build({"compiler": "sh", "flags": ["-c", "exec sleep 20"], "seconds": 0.1, "source": ""}, [])


def test_a_build_that_is_too_large(loop, monkeypatch):
    source = "char big[2 << 20] = {1};\n"
    with pytest.raises(Refusal, match="1048576 is the limit"):
        loop.build({"compiler": "g++", "flags": ["-shared", "-fPIC"], "seconds": 60, "source": source}, [])


def test_caches_travel_to_the_next_instance(loop, arenas, tmp_path):
    (tmp_path / "cache" / "inductor" / "deep").mkdir()
    (tmp_path / "cache" / "inductor" / "deep" / "kernel.so").write_bytes(b"compiled")
    size = loop.export({}, [])["exported"]
    kept = tmp_path / "kept.tar"
    kept.write_bytes(bytes(arenas[1].view[:size]))
    other = tmp_path / "other"
    (other / "cache").mkdir(parents=True)
    heir = Loop(str(other), arenas[0].fd, arenas[1].fd)
    load(heir, "def kernel(x):\n    return x\n", fds=[os.open(kept, os.O_RDONLY)])
    assert (other / "cache" / "inductor" / "deep" / "kernel.so").read_bytes() == b"compiled"


def test_a_long_log_keeps_its_first_error():
    log = "first error\n" + "note\n" * 10_000 + "the last line\n"
    found = worker.shortened(log)
    assert found.startswith("first error\n") and found.endswith("the last line\n") and "characters left out" in found
    assert len(found) <= worker._REPORT_CHARACTERS and worker.shortened("short") == "short"


@pytest.mark.parametrize("old", [False, True])
def test_a_cache_that_reaches_outside_is_refused(loop, tmp_path, monkeypatch, old):
    if old:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    (tmp_path / "payload").write_bytes(b"x")
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        archive.add(tmp_path / "payload", arcname="../../outside")
    with pytest.raises(tarfile.TarError):
        load(loop, "def kernel(x):\n    return x\n", fds=[os.open(tmp_path / "evil.tar", os.O_RDONLY)])
    assert not (tmp_path / "outside").exists() and not (tmp_path.parent / "outside").exists()


def test_threads_and_preparing(loop, arenas):
    loop.load({"language": "python", "source": "def kernel(x):\n    return x + 1\n", "entry": "kernel", "args": {},
               "hash": "cd" * 32, "threads": 1}, [])
    assert torch.get_num_threads() == 1
    sit(loop, arenas, [(2,)], [(FLOAT, (2,))])
    loop.go(2)
    assert len(loop.keep) == 2
    assert loop.prepare({}, []) == {"ready": True} and loop.keep == []
