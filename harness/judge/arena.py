"""Memory the judge owns and contestants see: sealed memfds. See memfd_create(2), fcntl(2) F_ADD_SEALS.

Inputs are sealed against future writes: after the judge has mapped them, nobody can map or write them anew, so a
contestant cannot change what it was given (nor what its opponent gets). Both arenas are sealed against shrinking,
which would kill the judge by SIGBUS, and growing.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path

F_ADD_SEALS = 1033
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_FUTURE_WRITE = 1, 2, 4, 8, 16
ALIGNMENT = 64


def align(offset: int, to: int = ALIGNMENT) -> int:
    """`offset` rounded up to a multiple of `to` bytes."""
    return -(-offset // to) * to


class Arena:
    """`size` bytes (rounded up to whole pages) shared by descriptor; `view` is the judge's own mapping."""

    def __init__(self, size: int, *, contestants_may_write: bool, name: str = "gauntlet"):
        self.size = align(max(size, 1), mmap.PAGESIZE)
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.size)
        self.map = mmap.mmap(self.fd, self.size)
        self.view = memoryview(self.map)
        self.seal(contestants_may_write)

    def seal(self, contestants_may_write: bool) -> None:
        """Seal the size for good, and the content against everyone but this mapping unless contestants may write."""
        seals = F_SEAL_SHRINK | F_SEAL_GROW
        if not contestants_may_write:
            seals |= F_SEAL_FUTURE_WRITE
        fcntl.fcntl(self.fd, F_ADD_SEALS, seals)
        fcntl.fcntl(self.fd, F_ADD_SEALS, F_SEAL_SEAL)

    def tensor(self, dtype, shape, offset: int):
        """A torch tensor over this arena (no copy): `dtype` a torch dtype, `shape` a tuple, `offset` in bytes."""
        import math

        import torch

        count = math.prod(shape)
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(self.map, dtype=dtype, count=count, offset=offset).view(shape)

    def close(self) -> None:
        """Give the descriptor back, once; the mapping goes when the last view of it does."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            self.view.release()


def sealed_copy(path: Path) -> int:
    """A descriptor of a copy of a file that nobody can change: it leads to no folder, and back to no cache."""
    fd = os.memfd_create("candidate", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(fd, "wb", closefd=False) as file:
        file.write(path.read_bytes())
    fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)
    return fd
