"""Write a folder all or nothing: a half-built site never replaces a good one."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness.spec.errors import GauntletError

MARKER = ".kernel-gauntlet-site"
MARKER_TEXT = "Built by `harness leaderboard build`; the whole folder is replaced by the next build.\n"


class SiteError(GauntletError):
    """The site cannot be built; the message says what, where and what to do next."""


def publish(out_dir: Path, write: Callable[[Path], None]) -> Path:
    """Call `write(folder)` on a fresh temporary folder, then put that folder in the place of `out_dir`.

    Replaces nothing but an empty folder or an earlier site of ours (it holds the marker file). When `write` raises,
    `out_dir` is as before and the temporary folder is gone. Returns `out_dir`.

    Raises SiteError when `out_dir` is anything else, or cannot be written.
    """
    check_replaceable(out_dir)
    try:
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{out_dir.name}.new-", dir=out_dir.parent))
    except OSError as error:
        raise SiteError(f"{out_dir}: cannot write beside it ({error.strerror}); choose another folder") from error
    try:
        write(fresh)
        (fresh / MARKER).write_text(MARKER_TEXT, encoding="utf-8")
        fresh.chmod(0o755)  # mkdtemp's 0700 would hide the site from a web server
        check_replaceable(out_dir)
        _swap(fresh, out_dir)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return out_dir


def check_replaceable(out_dir: Path) -> None:
    """Raise SiteError unless `out_dir` is absent, an empty folder, or an earlier site of ours."""
    if out_dir.is_symlink():
        raise SiteError(f"{out_dir}: is a symbolic link; name the folder itself")
    if not out_dir.exists():
        return
    if not out_dir.is_dir():
        raise SiteError(f"{out_dir}: is a file, and a site is a folder; choose another name")
    if any(out_dir.iterdir()) and not (out_dir / MARKER).is_file():
        raise SiteError(
            f"{out_dir}: is not empty and not a leaderboard built by this program (no {MARKER} in it), "
            f"so it is not overwritten; choose an empty or new folder"
        )


def _swap(fresh: Path, out_dir: Path) -> None:
    if not out_dir.exists():
        os.rename(fresh, out_dir)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{out_dir.name}.old-", dir=out_dir.parent))
    kept = old / "site"
    os.rename(out_dir, kept)
    try:
        os.rename(fresh, out_dir)
    except OSError:
        os.rename(kept, out_dir)
        raise
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(old)
