"""The device lease: one judgement at a time on a device, so that two runs do not disturb each other's clocks.

Held for one judgement, not for a whole run: runs in parallel take turns. A lock whose waiters poll would starve the
second run, because the first takes it back within microseconds; so whoever wants the device first takes its place in
the queue (a second lock), and only the head of the queue waits for the device.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.spec.errors import GauntletError

POLL_S = 0.02
ANNOUNCE_AFTER_S = 0.5


def runtime_folder() -> Path:
    """The per-user folder for locks, created if need be: XDG_RUNTIME_DIR, else one in the temporary folder.

    Raises GauntletError when it cannot be made or belongs to somebody else.
    """
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and os.path.isdir(base) and os.access(base, os.W_OK):
        folder = Path(base) / "kernel-gauntlet"
    else:
        owner = os.getuid() if hasattr(os, "getuid") else "user"
        folder = Path(tempfile.gettempdir()) / f"kernel-gauntlet-{owner}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
    except OSError as error:
        raise GauntletError(f"cannot create the folder for locks {folder}: {error.strerror}; set TMPDIR") from None
    if not stat.S_ISDIR(facts.st_mode) or (hasattr(os, "getuid") and facts.st_uid != os.getuid()):
        raise GauntletError(f"{folder} is not a folder of yours; remove it or set TMPDIR to one that is")
    return folder


class DeviceLease:
    """The right to time on one device, shared by every process of this user.

    device: its name, e.g. "cpu". owner: what others read while they wait, e.g. the run's identifier.
    waited_s: seconds spent waiting so far; a run's own time budget does not pay for them.
    """

    def __init__(self, device: str, owner: str = "", folder: Path | None = None) -> None:
        import filelock

        base = (folder or runtime_folder()) / ("device-" + re.sub(r"[^A-Za-z0-9_-]+", "_", device))
        self.device = device
        self.owner = owner
        self.waited_s = 0.0
        self._queue = filelock.FileLock(f"{base}.queue")
        self._lock = filelock.FileLock(f"{base}.lock")
        self._holder = base.with_suffix(".holder")

    def holder(self) -> str:
        """Who holds the device, as a phrase; "another process" when that cannot be read."""
        try:
            data = json.loads(self._holder.read_text())
            return f"{data['owner'] or 'a process'} (pid {data['pid']})"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"

    @contextmanager
    def hold(self, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
        """Wait for the device, hold it, give it back. `on_wait` is told once, after half a second of waiting."""
        begun = time.monotonic()
        announced = False
        try:
            for lock in (self._queue, self._lock):
                while not self._try(lock):
                    if not announced and on_wait and time.monotonic() - begun > ANNOUNCE_AFTER_S:
                        announced = True
                        on_wait(f"waiting for {self.device}: in use by {self.holder()}")
                    time.sleep(POLL_S)
            self._announce()
            self._queue.release()
            self.waited_s += time.monotonic() - begun
            yield
        finally:
            self._queue.release()
            self._lock.release()

    def _announce(self) -> None:
        try:
            self._holder.write_text(json.dumps({"owner": self.owner, "pid": os.getpid()}))
        except OSError:
            pass  # only decorates the message of those who wait

    @staticmethod
    def _try(lock: object) -> bool:
        import filelock

        try:
            lock.acquire(timeout=0)  # type: ignore[attr-defined]
        except filelock.Timeout:
            return False
        except OSError as error:
            raise GauntletError(f"cannot lock the device: {error}") from None
        return True
