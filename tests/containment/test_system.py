"""Numbers of system calls, and how a refused one is reported."""

import pytest

from harness.containment import system


def test_numbers_are_those_of_this_machine(alone):
    """getpid's neighbours are not asked: clone with bad flags, and landlock's version, are told apart by their errors."""
    facts = alone("""
import ctypes
system.libc.syscall(system.number("capset"), 0, 0)
facts["capset"] = errno.errorcode[ctypes.get_errno()]
system.libc.syscall(system.number("pivot_root"), b"/nowhere", b"/nowhere")
facts["pivot_root"] = errno.errorcode[ctypes.get_errno()]
""")
    assert facts["capset"] == "EFAULT" and facts["pivot_root"] in ("ENOENT", "EPERM")


def test_an_unknown_machine_is_an_error_and_no_guess(monkeypatch):
    monkeypatch.setattr(system, "MACHINE", "vax")
    with pytest.raises(OSError, match="no system call table for vax"):
        system.number("clone")


def test_a_refused_call_says_what_was_refused():
    with pytest.raises(OSError, match="a thing: "):
        system.check(-1, "a thing")
    assert system.check(3, "a thing") == 3
