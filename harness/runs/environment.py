"""The environment of the processes that run references and candidates: what they need, and no keys."""

from __future__ import annotations

import os
from pathlib import Path

_SET = {
    "OPENBLAS_NUM_THREADS": "1", "GOMP_SPINCOUNT": "0", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0",
    "MALLOC_MMAP_THRESHOLD_": "268435456", "MALLOC_TRIM_THRESHOLD_": "268435456",
}
_KEPT = ("PATH", "HOME", "TMPDIR", "OPENBLAS_CORETYPE", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")


def judge_environment() -> dict[str, str]:
    """A fresh dictionary of all variables that such a process gets."""
    return {**{name: os.environ[name] for name in _KEPT if name in os.environ}, **_SET}


def default_cache() -> Path:
    """Where compiled candidates and verdicts on tasks are kept.

    GAUNTLET_CACHE, else kernel-gauntlet in the user's cache folder.
    """
    given = os.environ.get("GAUNTLET_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else base / "kernel-gauntlet"
