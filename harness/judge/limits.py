"""A bound on a contestant's memory: its own memory cgroup where there is one (v1, or v2 with the controller enabled).

Where there is none, an rlimit on each process' private memory takes its place (`name` says which, in every record).
"""

from __future__ import annotations

from pathlib import Path

from harness.judge import freeze


class MemoryGroup:
    """A memory cgroup of one contestant, or nothing (`path` None)."""

    def __init__(self, path: Path | None, name: str):
        self.path, self.name = path, name

    def procs_files(self) -> list[Path]:
        """The file through which a process joins; empty when there is no group."""
        return [self.path / "cgroup.procs"] if self.path else []

    def close(self) -> None:
        """Remove the group once its processes have ended."""
        if self.path:
            freeze.remove(self.path)


def parents() -> list[Path]:
    """The folders in which `memory_group` may make groups."""
    return [path for path in (freeze.mounted("cgroup", "memory"), freeze.mounted("cgroup2", "")) if path]


def memory_group(label: str, limit: int) -> MemoryGroup:
    """A fresh group bounded to `limit` bytes, or the record that only an rlimit stands in for it."""
    parent = freeze.mounted("cgroup", "memory")
    if parent is not None:
        path = parent / label
        try:
            path.mkdir()
            (path / "memory.limit_in_bytes").write_text(str(limit))
            return MemoryGroup(path, "memory cgroup v1")
        except OSError:
            freeze.remove(path)
    parent = freeze.mounted("cgroup2", "")
    if parent is not None:
        path = parent / f"{label}-memory"
        try:
            path.mkdir()
            (path / "memory.max").write_text(str(limit))
            return MemoryGroup(path, "memory cgroup v2")
        except OSError:
            freeze.remove(path)
    return MemoryGroup(None, "rlimit of each process")
