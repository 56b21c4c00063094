"""Landlock: which files may be read and which written, whatever the mounts say. See landlock(7).

Where there is a private root this is a second wall behind it; where there is none it is the wall.
"""

from __future__ import annotations

import ctypes
import os

from harness.containment.system import check, libc, number

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
_FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15}  # rights known to each version of the interface; 16 from the fifth on
_BIND_AND_CONNECT_TCP = 0b11  # from the fourth version on
_UNIX_SOCKETS_AND_SIGNALS = 0b11  # from the sixth version on: none that lead outside
_OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """The version of Landlock this kernel has; OSError where it has none, or where it is switched off."""
    return check(libc.syscall(number("landlock_create_ruleset"), None, 0, 1), "landlock")


def restrict(readable: list[str], writable: list[str], devices: list[str]) -> int:
    """From now on only these: files below `readable` may be read and executed, those below `writable` also written,
    `devices` read and written. No TCP and no signals to the outside, where this version knows of them.

    Returns the version; OSError where the system has no Landlock. Needs no_new_privs. Paths that are not there are left
    out. Descriptors that are open stay usable.
    """
    abi = version()
    all_fs = (1 << _FS_BITS.get(abi, 16)) - 1
    rules = _Ruleset(all_fs, _BIND_AND_CONNECT_TCP if abi >= 4 else 0, _UNIX_SOCKETS_AND_SIGNALS if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = check(libc.syscall(number("landlock_create_ruleset"), ctypes.byref(rules), size, 0), "landlock ruleset")
    try:
        for paths, access in ((readable, READ), (writable, all_fs),
                              (devices, READ_FILE | WRITE_FILE | TRUNCATE)):
            for path in paths:
                _allow(ruleset, path, access & all_fs)
        check(libc.syscall(number("landlock_restrict_self"), ruleset, 0), "landlock restriction")
    finally:
        os.close(ruleset)
    return abi


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            access &= _OF_A_FILE
        rule = _Beneath(access, fd)
        check(libc.syscall(number("landlock_add_rule"), ruleset, 1, ctypes.byref(rule), 0), f"landlock rule for {path}")
    finally:
        os.close(fd)
