"""Dropping every privilege, and ending with one's parent. Sources: capabilities(7), prctl(2)."""

from __future__ import annotations

import ctypes
import os
import signal

from harness.containment.system import check, libc, number

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 1, 4, 24, 36
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
ABORTED = 6


def drop_privileges(become: int | None) -> None:
    """Keep no capability and no way to gain one. become: the user and group to live as; None keeps the present ones."""
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    if become is not None:
        try:
            os.setgroups([])
        except PermissionError:
            pass  # a user namespace with setgroups denied: the groups there are nobody's
        for setter in (os.setresgid, os.setresuid):
            setter(become, become, become)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    check(libc.syscall(number("capset"), header, nothing), "capset")
    no_new_privileges()
    # An ordinary user's judge may read a contestant's answers only while it is dumpable.
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def no_new_privileges() -> None:
    """No program started from here gains anything by being set-user-id; Landlock and seccomp ask for it."""
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended, so that nothing leaves this process' tree."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send `signal_number` when the parent ends."""
    libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0)


def exit_on_abort() -> None:
    """Let abort() end this process with exit code ABORTED: a pid 1 does not receive its own SIGABRT otherwise."""
    assert ABORTED == signal.SIGABRT  # _exit is its own signal handler: its argument, the signal, is the exit code
    libc.signal(signal.SIGABRT, libc._exit)
