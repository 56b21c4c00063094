"""That the judge is inside the reference, written where the executor sees it even when the judge is gone.

A reference is trusted code, but code: it may hang, crash or exit, and takes the judge's process with it. The executor
then finds the page marked, and says that it was the task's doing, not the machine's.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
from collections.abc import Iterator

REFERENCE_S = 120.0  # of one call: the largest that fits into the judge's slots takes far less, in float64 too
_page: mmap.mmap | None = None
_seconds = REFERENCE_S


def make_page() -> tuple[int, mmap.mmap]:
    """For the executor: (descriptor to hand to the judge's process, the page it will mark)."""
    descriptor = os.memfd_create("gauntlet-watch", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, mmap.PAGESIZE)
    return descriptor, mmap.mmap(descriptor, mmap.PAGESIZE)


def attach(descriptor: int, seconds: float = REFERENCE_S) -> None:
    """For the judge's process: mark this page from now on, and end where a call of the reference exceeds `seconds`."""
    global _page, _seconds
    _seconds = seconds
    _page = mmap.mmap(descriptor, mmap.PAGESIZE)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process also in the middle of a call into C


@contextlib.contextmanager
def inside_reference() -> Iterator[None]:
    """Around every execution of a reference's code. In processes without a page it does nothing."""
    if _page is None:
        yield
        return
    _page[0] = 1
    signal.setitimer(signal.ITIMER_REAL, _seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _page[0] = 0


def was_inside_reference(page: mmap.mmap) -> bool:
    """Whether the judge's process ended inside a reference."""
    return page[0] == 1
