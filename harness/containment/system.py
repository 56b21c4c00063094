"""The C library and the system calls it has no function for. With ctypes, because a contestant must not exec: it keeps
the zygote's imported torch.
"""

from __future__ import annotations

import ctypes
import os

MACHINE = os.uname().machine

# name: (x86_64, aarch64); calls newer than Linux 5.0 have one number everywhere
_NUMBERS = {"pivot_root": (155, 41), "capset": (126, 91), "clone": (56, 220), "seccomp": (317, 277),
            "mount_setattr": (442, 442), "landlock_create_ruleset": (444, 444), "landlock_add_rule": (445, 445),
            "landlock_restrict_self": (446, 446)}

libc = ctypes.CDLL(None, use_errno=True)
held_syscall = ctypes.PyDLL(None, use_errno=True).syscall  # keeps the interpreter's lock: the child of a clone needs it held
libc.syscall.restype = held_syscall.restype = ctypes.c_long


def number(name: str) -> int:
    """The number of a system call on this machine; OSError(ENOSYS) for a machine that is not known."""
    try:
        return _NUMBERS[name][("x86_64", "aarch64").index(MACHINE)]
    except ValueError:
        raise OSError(38, f"{name}: no system call table for {MACHINE}") from None


def check(result: int, what: str) -> int:
    """`result` of a call to libc, or OSError naming `what` when it is negative."""
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result
