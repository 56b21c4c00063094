"""Limits of each process: setrlimit(2). What binds a whole tree is the judge's (harness.judge.limits)."""

from __future__ import annotations

import resource


def set_limits(processes: int, data_bytes: int | None, files: int = 1024, file_bytes: int = 2 * 2**30) -> None:
    """rlimits: no core dumps, bounded descriptors, processes and file sizes (inductor needs 512 MB files).

    data_bytes: bound on private memory of each process, where no memory cgroup does it better; None for no bound.
    """
    data = data_bytes if data_bytes is not None else resource.RLIM_INFINITY
    for kind, value in ((resource.RLIMIT_DATA, data), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, files),
                        (resource.RLIMIT_NPROC, processes), (resource.RLIMIT_FSIZE, file_bytes),
                        (resource.RLIMIT_MEMLOCK, 64 * 2**20), (resource.RLIMIT_MSGQUEUE, 2**20),
                        (resource.RLIMIT_SIGPENDING, 4096)):
        hard = resource.getrlimit(kind)[1]
        limit = value if hard == resource.RLIM_INFINITY or value == resource.RLIM_INFINITY else min(value, hard)
        limit = hard if limit == resource.RLIM_INFINITY else limit
        resource.setrlimit(kind, (limit, limit))
