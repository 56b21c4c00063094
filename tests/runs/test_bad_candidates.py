"""One run of everything that candidates do wrong, before the real judge: each gets its status, and the run goes on."""

import pytest

from harness.runs.events import EventLog
from harness.runs.executor import LocalExecutor
from harness.runs.plan import AgentEntry, RunConfig
from harness.runs.publish import publish_run
from harness.runs.record import read_record
from harness.runs.run import Run
from harness.spec.candidate import Candidate
from harness.spec.task import Case, InputSpec, Task
from harness.spec.verdict import Limits

SOURCE = "def double(x):\n    return x * 2\n"
TASK = Task(schema=1, name="double", reference="d.py:double", reference_source=SOURCE, reference_entry="double",
            inputs={"x": InputSpec(shape=["rows", "cols"], scales=[1.0])},
            cases=[Case(name="only", dims={"rows": 16, "cols": 40})])
LIMITS = Limits(build_s=20, load_s=2, call_s=1.0, memory=400 * 2**20, scratch=2**24)


def python(body, before=""):
    return Candidate(source=f"import os, signal, sys, threading, time\nimport torch\n{before}\ndef kernel(x):\n    {body}\n"
                            "    return x * 2\n")


def cpp(body, before=""):
    source = (f"#include <cstdint>\n#include <cstdlib>\n#include <unistd.h>\n{before}\n"
              "extern \"C\" void kernel(const float* x, int64_t rows, int64_t cols, float* o) {\n"
              f"    {body}\n    for (int64_t i = 0; i < rows * cols; ++i) o[i] = 2 * x[i];\n}}\n")
    return Candidate(source=source, language="cpp")


# what it does, candidate, status (several where the system decides), words of the message
BAD = [
    ("is right", python("pass"), "ok", ""),
    ("is wrong", python("x = x + 1e-3"), "wrong_output", "output 0 wrong at"),
    ("does not parse", Candidate(source="def kernel(x:\n"), "compile_error", "line 1"),
    ("is no text", Candidate(source="\x01\x02\x00 nothing"), "compile_error", ""),
    ("defines nothing", Candidate(source="x = 1\n"), "compile_error", "the source defines no 'kernel'"),
    ("does not compile", cpp("oops;"), "compile_error", "oops"),
    ("includes itself", cpp("", '#include "candidate.cpp"'), "compile_error", "nested"),
    ("includes a device that never ends", cpp("", '#include "/dev/zero"'), "compile_error", ""),
    ("raises", python("raise ValueError('as it happens')"), "runtime_error", "ValueError: as it happens"),
    ("raises at import", Candidate(source="1 / 0\n"), "runtime_error", "ZeroDivisionError"),
    ("exits", python("sys.exit(0)"), "runtime_error", "SystemExit: 0"),
    ("exits at once", python("os._exit(0)"), "runtime_error", "ended with exit code 0"),
    ("crashes", cpp("*(volatile int*)8 = 1;"), "runtime_error", "SIGSEGV"),
    ("aborts", cpp("abort();"), "runtime_error", "SIGABRT"),
    ("hangs", python("time.sleep(999)"), "timeout", "in time"),
    ("spins", cpp("for (volatile int i = 0;; ) { i = 0; }"), "timeout", "in time"),
    ("hangs at import", Candidate(source="import time\ntime.sleep(999)\n"), "timeout", "in time"),
    ("stops itself", python("os.kill(os.getpid(), signal.SIGSTOP)"), "ok", ""),  # pid 1 of a namespace takes no signal
    ("forks for ever", cpp("for (;;) fork();"), "timeout", ""),
    ("starts threads for ever", python("[threading.Thread(target=time.sleep, args=(99,)).start() for _ in range(99999)]"),
     "runtime_error", "thread"),
    ("prints megabytes", python("print('x' * 50_000_000)"), "ok", ""),
    ("prints for ever", python("while True:\n        print('x' * 9999)"), "timeout", "in time"),
    ("eats memory", python("torch.full((2**30,), 1.0)"), "out_of_memory", ""),
    ("eats memory in C++", cpp("for (;;) { volatile char* p = (char*)malloc(1 << 24); for (int i = 0; i < (1 << 24); "
                                 "i += 4096) p[i] = 1; }"), "out_of_memory", ""),
    ("eats the disk", python("open('big', 'wb').write(b'x' * 2**26)"), "runtime_error", "No space left"),
    ("returns nothing", python("return None"), "wrong_output", "NoneType"),
    ("is right again", python("pass  # the last"), "ok", ""),
]


class Listing:
    """Proposes all of them, one after the other."""

    def propose(self, view, history):
        if len(history) < len(BAD):
            yield BAD[len(history)][1]


class Strict(LocalExecutor):
    """The real judge, with limits that tests can wait for."""

    def submit(self, request):
        return super().submit(request.model_copy(update={"limits": LIMITS, "timed": False}))


@pytest.fixture(scope="module")
def attempts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    what = RunConfig(tasks=[TASK], agents=[AgentEntry(name="all", spec="all", attempts=len(BAD))], depth="screen",
                     opponents=["eager"])
    with EventLog.create(folder / "run") as log, Strict(cache_dir=folder / "cache") as executor:
        recorded = Run(log, what, {"all": Listing()}, executor, folder.joinpath, {"python": "test"}).execute()
    path, = publish_run(recorded, "run", folder / "results")
    return read_record(path).attempts


def test_the_run_goes_on_to_the_end(attempts):
    assert [row.index for row in attempts] == list(range(len(BAD)))


@pytest.mark.parametrize("number", range(len(BAD)), ids=[what for what, *_ in BAD])
def test_each_has_its_status_and_one_message(attempts, number):
    _, _, status, words = BAD[number]
    result = attempts[number].result
    assert result.status.value in status.split("|") and words in result.message, (result.status.value, result.message)
    assert len(result.message) < 2000 and len(result.output_tail) < 20_000
    assert (result.message == "") == (status == "ok")
    assert attempts[number].tries == 1  # not one of them was taken for a fault of the machine
