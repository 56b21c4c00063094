"""Compiled by content, inside the containment, and reaching nothing of the machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tasks import MIB, RIGHT, TIGHT

from harness.judge import builds
from harness.judge.builds import Builds
from harness.judge.contestants import Lost, MachineFault
from harness.spec.candidate import Candidate
from harness.spec.errors import GauntletError

ROOT = Path(__file__).resolve().parents[2]
ANSWER = 'extern "C" int kernel() { return ANSWER; }\n'


@pytest.fixture
def build(judge, tmp_path):
    """build(source, dtype=, flags=) → (path, log, cached), into an empty cache of this test's own."""
    cache = Builds(tmp_path / "cache")

    def one(source, dtype="float32", flags=(), seconds=60):
        return cache.shared_object(Candidate(source=source, language="cpp", flags=list(flags)), dtype, judge.zygote,
                                   judge.roster.inputs, seconds=seconds, scratch=TIGHT.scratch, memory=TIGHT.memory)

    return one


def answer(path):
    """What the built kernel returns, in a process of its own: fast-math changes the arithmetic of whoever loads it."""
    code = f"import ctypes; print(ctypes.CDLL({str(path)!r}).kernel())"
    return int(subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, check=True).stdout)


# By content


def test_a_build_is_kept_and_not_made_again(build, judge, monkeypatch):
    path, _, cached = build(ANSWER, flags=["-DANSWER=42"])
    assert answer(path) == 42 and not cached
    monkeypatch.setattr(judge.zygote, "spawn", lambda *a, **k: pytest.fail("nothing is to be compiled"))
    assert build(ANSWER, flags=["-DANSWER=42"]) == (path, "", True)
    assert os.listdir(path.parent) == [path.name]  # no temporary file is left


def test_source_flags_and_dtype_make_another(build):
    source = ("#ifdef GAUNTLET_FLOAT16\n#define ANSWER 16\n#endif\n#ifdef GAUNTLET_FLOAT32\n#define ANSWER 32\n#endif\n"
              "#ifndef MORE\n#define MORE 0\n#endif\nextern \"C\" int kernel() { return ANSWER + MORE; }\n")
    found = [build(source), build(source, "float16"), build(source, flags=["-DMORE=100"]), build(source + "\n")]
    assert [answer(path) for path, _, _ in found] == [32, 16, 132, 32]
    assert len({path for path, _, _ in found}) == 4 and not any(cached for _, _, cached in found)


def test_the_entry_point_does_not(build, judge):
    """One object serves every entry point of a file."""
    path, _, _ = build(ANSWER, flags=["-DANSWER=1"])
    cache = Builds(path.parents[1])
    other = Candidate(source=ANSWER, language="cpp", entry="other", flags=["-DANSWER=1"])
    assert cache.shared_object(other, "float32", judge.zygote, judge.roster.inputs, seconds=1, scratch=MIB,
                               memory=MIB) == (path, "", True)


def test_two_dtypes_of_a_judgement_are_built_and_used(ask):
    from harness.spec.task import Case
    from small_tasks import make_task

    cases = [Case(name=d, dims={"rows": 3, "cols": 5}, dtype=d) for d in ("float32", "float64")]
    source = """
#include <cstdint>
#ifdef GAUNTLET_FLOAT64
typedef double real;
#else
typedef float real;
#endif
extern "C" void kernel(const real* x, int64_t rows, int64_t cols, real* out) {
    for (int64_t i = 0; i < rows * cols; ++i) out[i] = x[i] * 2 + 1;
}
"""
    result = ask(source, task=make_task(cases=cases), language="cpp")
    assert result.status == "ok", result.message
    assert {t.dtype for t in result.trials} == {"float32", "float64"}
    wrong = ask(source.replace("typedef double", "typedef float"), task=make_task(cases=cases), language="cpp")
    assert wrong.status == "wrong_output" and "float64" in wrong.message


def test_a_cache_that_cannot_be_made_or_written(build, tmp_path, judge):
    (tmp_path / "file").write_text("")
    with pytest.raises(GauntletError, match="cannot be made.*set GAUNTLET_CACHE"):
        Builds(tmp_path / "file" / "cache")
    path, _, _ = build(ANSWER, flags=["-DANSWER=1"])
    path.unlink()
    path.parent.rmdir()
    with pytest.raises(GauntletError, match="cannot be written.*free some space"):
        build(ANSWER, flags=["-DANSWER=1"])


# Flags


@pytest.mark.parametrize("flag", ["-O2", "-Ofast", "-ffast-math", "-funroll-loops", "-fno-math-errno", "-mavx2",
                                  "-mprefer-vector-width=256", "-Wall", "-Wextra", "-Wpedantic", "-Wlogical-op", "-w",
                                  "-DTILE=32", "-DNAME", "-std=c++20", "-fopenmp-simd", "-mtune=native"])
def test_flags_that_are_allowed(build, flag):
    path, _, _ = build(ANSWER, flags=["-DANSWER=7", flag])
    assert answer(path) == 7


REFUSED = [
    "-fplugin=/tmp/x.so", "-fplugin=x", "-fplugin-arg-x-y", "-include", "-include/etc/passwd", "-I/etc", "-I.",
    "-L/tmp",
    "-lm", "-B/tmp", "-specs=/tmp/x", "-wrapper", "@/etc/passwd", "/etc/passwd", "candidate.cpp", "-o", "-x", "-xc",
    "-imacros", "-isystem", "-iquote", "-idirafter", "-fdump-tree-all=/tmp/x", "-fprofile-use=/tmp/x", "-Wl,-rpath,/x",
    "-Wp,-MD,/tmp/x", "-Wa,-I/etc", "-Xlinker", "-T/tmp/x", "-static", "-nostdlib", "-save-temps",
    "-fsave-optimization", "-fsanitize=address", "-D", "-DX=$(id)", "-DX=`id`", "-DX=a b", "-DX=1;id", "", "-",
    "--sysroot=/tmp", "-pipe",
    "-O2\n-I/etc", "-DX=\"/etc/passwd\"", "-fdebug-prefix-map=/a=/b", "-MD", "-E", "-dumpspecs", "-O9",
    "-fauto-profile=x",
]


@pytest.mark.parametrize("flag", REFUSED)
def test_flags_that_reach_out_are_refused(build, judge, monkeypatch, flag):
    monkeypatch.setattr(judge.zygote, "spawn", lambda *a, **k: pytest.fail("nothing may be compiled"))
    with pytest.raises(Lost, match="is not allowed; -D, -O, -f, -m, -W and -std are") as raised:
        build(ANSWER, flags=["-O2", flag])
    assert raised.value.status == "compile_error" and repr(flag) in str(raised.value)


@given(st.text(st.sampled_from("-DOfmWIxX=/.@,:+\\ \n'\"`$()a1"), max_size=12))
@settings(max_examples=300)
def test_no_flag_with_a_path_or_a_shells_letter_passes(flag):
    allowed = builds._ALLOWED_FLAG.fullmatch(flag) and not builds._REFUSED_FLAG.match(flag)
    assert not (allowed and set(flag) & set("/@ \n'\"`$();\\:"))


# What a source can reach


@pytest.mark.parametrize("source", [
    '#include "/etc/passwd"\n', '#include "{root}/harness/judge/judge.py"\n', '#include "{root}/pyproject.toml"\n',
    'asm(".incbin \\"/etc/passwd\\"");\n', 'asm(".incbin \\"{root}/tasks/softmax.yaml\\"");\n',
    '#include "{home}/.bashrc"\n',
], ids=["include", "judge", "checkout", "incbin", "task", "home"])
def test_no_file_of_the_machine_gets_into_a_build(build, source):
    source = source.format(root=ROOT, home=Path.home())
    with pytest.raises(Lost) as raised:
        build(source + ANSWER, flags=["-DANSWER=1"])
    assert raised.value.status == "compile_error"
    assert "No such file" in str(raised.value) or "file not found" in str(raised.value)
    assert "root:x:0" not in str(raised.value) and "import" not in str(raised.value)


def test_the_environment_of_the_judge_does_not_get_into_a_build(build, monkeypatch):
    monkeypatch.setenv("CPATH", "/etc")
    monkeypatch.setenv("CXXFLAGS", "-DANSWER=13")
    with pytest.raises(Lost, match="ANSWER"):
        build(ANSWER)


# What goes wrong


def test_an_error_shows_the_line(build, ask):
    source = "int a;\nint b;\nint c = undeclared_thing;\n"
    with pytest.raises(Lost, match=r"candidate.cpp:3:9: error: .undeclared_thing. was not declared") as raised:
        build(source)
    assert raised.value.status == "compile_error" and "/scratch" not in str(raised.value)
    result = ask(source, language="cpp")
    assert result.status == "compile_error" and "candidate.cpp:3:9" in result.build_log


def test_warnings_are_kept_in_the_log(build):
    _, log, _ = build("#warning mind the gap\n" + ANSWER, flags=["-DANSWER=1"])
    assert "candidate.cpp:1" in log and "mind the gap" in log


def test_a_source_without_the_entry(ask):
    result = ask('extern "C" void other() {}\n', language="cpp")
    assert result.status == "compile_error" and 'extern "C" function called \'kernel\'' in result.message


def test_an_endless_compilation_ends(build):
    with pytest.raises(Lost, match="ran longer than 1 s") as raised:
        build("constexpr long long g(long long n) { return n < 2 ? n : g(n - 1) + g(n - 2); }\n"
              "constexpr long long k = g(44);\n" + ANSWER,
              flags=["-DANSWER=1", "-fconstexpr-ops-limit=100000000000", "-fconstexpr-cache-depth=1"], seconds=1)
    assert raised.value.status == "compile_error"


def test_a_machine_without_a_compiler_is_not_the_candidates_fault(build, ask, monkeypatch):
    monkeypatch.setattr(builds, "COMPILER", "no-such-compiler")
    with pytest.raises(MachineFault, match="no-such-compiler is not installed"):
        build(ANSWER + "// another\n")
    result = ask('extern "C" void kernel() {}  // never compiled\n', language="cpp")
    assert result.status == "infra_error" and "not installed" in result.message


# Warm caches


def test_a_warm_cache_belongs_to_one_candidate_dtype_and_version(tmp_path):
    cache = Builds(tmp_path)
    one, two = Candidate(source=RIGHT), Candidate(source=RIGHT + "#")
    paths = {cache.warm_path(c, d, v) for c in (one, two) for d in ("float32", "float16") for v in ({}, {"torch": "9"})}
    assert len(paths) == 8
    assert cache.warm_path(one, "float32", {}) == cache.warm_path(Candidate(source=RIGHT), "float32", {})
