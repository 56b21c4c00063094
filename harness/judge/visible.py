"""What a contestant may see of this machine, and what killed judges have left on it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path


def sweep(folder: Path) -> None:
    """Remove what killed judges have left in `folder`: empty mount points, and scratch folders of the weakest levels."""
    for path in [*folder.glob("gauntlet-root-*-*"), *folder.glob("gauntlet-scratch-*-*")]:
        owner = path.name.split("-")[2]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            try:
                path.rmdir()
            except OSError:
                if path.name.startswith("gauntlet-scratch-"):
                    shutil.rmtree(path, ignore_errors=True)  # another user's stays: not ours to remove


def cores() -> int:
    """CPU cores this process may use."""
    return len(os.sched_getaffinity(0))


def visible_paths(package: Path, paths: list[str], extra: list[str]) -> tuple[list[str], list[str]]:
    """(read-only binds, masked folders): the interpreter, its packages, the toolchain and our contestant room; nothing
    of the user's, no task, solution, result or archive."""
    system = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/etc/alternatives", "/etc/ld.so.cache",
              "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/opt/rocm"]
    python = [sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable))]
    # Only folders of packages: the judge's sys.path may also hold the checkout or the folder it was started in.
    packages = [p for p in paths if os.path.isdir(p) and p.rstrip("/").endswith(("site-packages", "dist-packages"))]
    torch_spec = importlib.util.find_spec("torch")
    if torch_spec and torch_spec.origin:
        packages.append(str(Path(torch_spec.origin).parents[1]))
    binds: list[str] = []
    for path in [*system, *python, *packages, *extra, str(package / "contestant")]:
        path = os.path.abspath(path)
        if os.path.lexists(path) and not any(path == b or path.startswith(b + "/") for b in binds):
            binds.append(path)
    masks = [str(p) for p in (package,) if any(str(p).startswith(b + "/") for b in binds)]
    return binds, masks
