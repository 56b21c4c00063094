"""Where a figure comes from: code state, versions, interpreter, platform. No user, host or path names."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "triton", "numpy", "scipy", "pydantic", "kernel-gauntlet")


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def git_state(root: Path) -> dict[str, Any] | None:
    """``{"commit", "dirty"}`` of the checkout at `root`; None where there is none. commit is None before the first."""
    status = _git(root, "status", "--porcelain", "--untracked-files=normal")
    if status is None:
        return None
    return {"commit": _git(root, "rev-parse", "--verify", "HEAD"), "dirty": bool(status)}


def package_versions(names: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """Installed versions by distribution name, read from metadata: nothing is imported. Absent ones are left out."""
    import harness

    versions = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    versions["kernel-gauntlet"] = harness.__version__
    return versions


def provenance(root: Path) -> dict[str, Any]:
    """Everything of the above for a run started in the project at `root`.

    git: of the project; harness_git: of this program where it runs from its own checkout, else None (then its version
    says which it is).
    """
    import harness

    checkout = Path(harness.__file__).resolve().parent.parent
    return {
        "git": git_state(root),
        "harness_git": git_state(checkout) if (checkout / "pyproject.toml").is_file() else None,
        "packages": package_versions(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": {"system": platform.system(), "release": platform.release(), "machine": platform.machine()},
        "byteorder": sys.byteorder,
    }
