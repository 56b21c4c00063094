"""Namespaces: fork straight into new ones, map ids, forbid further ones. Sources: namespaces(7), user_namespaces(7)."""

from __future__ import annotations

import ctypes
import os
import signal
import socket

from harness.containment.system import MACHINE, check, held_syscall, libc, number

CLONE = {"mount": 0x00020000, "cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000,
         "pid": 0x20000000, "net": 0x40000000}
CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x00200000, 0x01000000
PR_GET_TID_ADDRESS = 40
INSIDE_ID = 1000


def _flags(namespaces: list[str]) -> int:
    return sum(CLONE[name] for name in namespaces)


def unshare(namespaces: list[str]) -> None:
    """Leave the named namespaces (keys of CLONE); OSError when refused."""
    check(libc.unshare(_flags(namespaces)), f"unshare {'+'.join(namespaces)}")


def fork_into(namespaces: list[str]) -> int:
    """Fork straight into new namespaces: 0 in the child, which is pid 1 of a new pid namespace, its pid in the parent.

    One copy of a large process instead of the two that fork, unshare, fork take. A raw clone(2), with what glibc's own
    fork sees to: the kernel writes the child's thread id where glibc keeps it, and Python's hooks run. The caller must
    have a single thread. Raises OSError when the system refuses.
    """
    if not namespaces:
        return os.fork()
    where = ctypes.c_void_p()
    check(libc.prctl(PR_GET_TID_ADDRESS, ctypes.byref(where), 0, 0, 0), "prctl PR_GET_TID_ADDRESS")
    flags = ctypes.c_ulong(_flags(namespaces) | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | signal.SIGCHLD)
    stack, parent_tid, tls = (ctypes.c_void_p() for _ in range(3))
    last = (where, tls) if MACHINE == "x86_64" else (tls, where)
    clone = number("clone")
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = held_syscall(clone, flags, stack, parent_tid, *last)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    error = ctypes.get_errno()
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(error, f"clone into {'+'.join(namespaces)}: {os.strerror(error)}")
    return pid


def write_maps(pid: int, outside_id: int) -> None:
    """Map ids of the new user namespace of `pid`. As root: 0→0 for the set-up and INSIDE_ID→outside_id to live under,
    an id that owns nothing; as an ordinary user: INSIDE_ID→that user, the only map the kernel allows."""
    root = os.geteuid() == 0
    lines = f"0 0 1\n{INSIDE_ID} {outside_id} 1\n" if root else f"{INSIDE_ID} {os.geteuid()} 1\n"
    groups = f"0 0 1\n{INSIDE_ID} {outside_id} 1\n" if root else f"{INSIDE_ID} {os.getegid()} 1\n"
    for name, text in (("setgroups", "deny"), ("uid_map", lines), ("gid_map", groups)):
        fd = os.open(f"/proc/{pid}/{name}", os.O_WRONLY)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def forbid_nested() -> None:
    """Forbid further user namespaces inside: there a contestant would regain the right to mount."""
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")


def loopback_is_down() -> bool:
    """True when no connection to 127.0.0.1 can be made: the network namespace is empty."""
    with socket.socket() as sock:
        sock.settimeout(0.1)
        return sock.connect_ex(("127.0.0.1", 9)) in (101, 100, 13)  # ENETUNREACH, ENETDOWN; EACCES of Landlock
