"""What a compiled candidate is kept under: source, flags, compiler and processor. Imports nothing heavy."""

from __future__ import annotations

import hashlib
import json
import subprocess
from functools import lru_cache
from pathlib import Path

from harness.spec.candidate import Candidate

COMPILER = "g++"
FLAGS = ["-std=c++17", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"]


def compile_flags(candidate: Candidate, dtype: str) -> list[str]:
    """All flags of a C++ candidate built for the cases of one dtype."""
    return [*FLAGS, f"-DGAUNTLET_{dtype.upper()}=1", *candidate.flags]


def built_path(root: Path, candidate: Candidate, dtype: str) -> Path:
    """Where the shared object lies in the cache folder `root`, or would."""
    return root / "so" / f"{key('so', candidate.source, compile_flags(candidate, dtype), compiler_identity())}.so"


@lru_cache
def compiler_identity() -> str:
    """Version line of the C++ compiler and the CPU it compiles for; "none" where there is no compiler."""
    try:
        done = subprocess.run([COMPILER, "-march=native", "-Q", "--help=target"], capture_output=True, text=True,
                              timeout=30)
        version = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "none"
    return version.partition("\n")[0] + " " + hashlib.sha256(done.stdout.encode()).hexdigest()[:16]


def key(*parts: object) -> str:
    """A file name for plain values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:40]
