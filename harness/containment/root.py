"""A root of read-only binds with bounded, private, writable folders. Sources: mount_namespaces(7), pivot_root(2),
mount_setattr(2).
"""

from __future__ import annotations

import ctypes
import os

from harness.containment.system import check, libc, number

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
AT_RECURSIVE, MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID = 0x8000, 1, 2
DEVICES = ("null", "zero", "full", "random", "urandom")
WRITABLE = ("/dev/shm", "/scratch", "/tmp")
# What of the machine's own /proc is shown where a fresh one cannot be mounted: nothing about other processes.
PROC_FILES = ("cpuinfo", "meminfo", "stat", "version", "filesystems", "uptime")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """mount(2); OSError naming source and target."""
    encode = lambda text: None if text is None else text.encode()  # noqa: E731
    check(libc.mount(encode(source), encode(target), encode(kind), ctypes.c_ulong(flags), encode(options)),
          f"mount {source} on {target}")


def _read_only(target: str) -> None:
    class Attributes(ctypes.Structure):
        _fields_ = [("attr_set", ctypes.c_uint64), ("attr_clr", ctypes.c_uint64),
                    ("propagation", ctypes.c_uint64), ("userns_fd", ctypes.c_uint64)]

    wanted = Attributes(MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, 0)
    done = libc.syscall(number("mount_setattr"), -100, target.encode(), AT_RECURSIVE, ctypes.byref(wanted),
                        ctypes.sizeof(wanted))
    if done != 0:  # before Linux 5.12: only the top mount can be made read-only
        mount("none", target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID)


def build_root(new_root: str, binds: list[str], masks: list[str], scratch_bytes: int, fresh_proc: bool) -> None:
    """Make a root of read-only binds with writable folders of `scratch_bytes` each, and pivot into it.

    binds: absolute paths that appear at the same place, read-only; masks: folders inside them that appear empty.
    fresh_proc False: where the system refuses a /proc of the new pid namespace, only the caller's own entry of the
    outer one is shown, and a few files about the machine.
    """
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", new_root, "tmpfs", MS_NOSUID, "size=4m,mode=755")
    os.makedirs(new_root + "/dev", exist_ok=True)
    for name in DEVICES:
        _bind_file(f"/dev/{name}", f"{new_root}/dev/{name}")
    os.symlink("/proc/self/fd", new_root + "/dev/fd")
    for path in WRITABLE:
        os.makedirs(new_root + path, exist_ok=True)
        mount("tmpfs", new_root + path, "tmpfs", MS_NOSUID | MS_NODEV, f"size={scratch_bytes},mode=1777")
    # After the scratch folders: an interpreter may itself lie under /tmp.
    for path in binds:
        _bind(path, new_root)
    for path in masks:
        if os.path.isdir(new_root + path):
            mount("tmpfs", new_root + path, "tmpfs", MS_NOSUID | MS_NODEV, "size=4k,mode=755")
    os.makedirs(new_root + "/proc", exist_ok=True)
    if fresh_proc:
        mount("proc", new_root + "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    else:
        _own_entry(new_root + "/proc")
    os.makedirs(new_root + "/.outside")
    check(libc.syscall(number("pivot_root"), new_root.encode(), (new_root + "/.outside").encode()), "pivot_root")
    os.chdir("/")
    check(libc.umount2(b"/.outside", MNT_DETACH), "umount of the outer root")
    os.rmdir("/.outside")
    mount("none", "/", None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID)


def _bind(path: str, new_root: str) -> None:
    if os.path.islink(path) and not os.path.isdir(path):
        return
    if os.path.islink(path):  # /lib -> usr/lib on merged systems: the same link, nothing more
        os.symlink(os.readlink(path), new_root + path)
        return
    target = new_root + path
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
        mount(path, target, None, MS_BIND | MS_REC)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _bind_file(path, target)
    _read_only(target)


def _bind_file(path: str, target: str) -> None:
    os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(path, target, None, MS_BIND)


def _own_entry(target: str) -> None:
    mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=755")
    os.mkdir(target + "/self")
    # The link names the reader in the pid namespace of that /proc, which is the outer one.
    mount("/proc/" + os.readlink("/proc/self"), target + "/self", None, MS_BIND)
    for name in PROC_FILES:
        if os.path.exists("/proc/" + name):
            _bind_file("/proc/" + name, f"{target}/{name}")
    os.symlink("self/mounts", target + "/mounts")
    mount("none", target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)
