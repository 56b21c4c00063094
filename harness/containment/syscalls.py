"""Two seccomp filters, see seccomp(2) and seccomp_unotify(2). Both are inherited by all children and cannot be removed.

`refuse_syscalls` refuses what a contestant never needs. `supervise_processes` asks a supervisor, who holds a descriptor,
about every new process and program; once that descriptor is closed, the kernel itself refuses them, and nothing that
runs in the contestant can change that. Threads are nobody's business.
"""

from __future__ import annotations

import ctypes
import os

from harness.containment.system import MACHINE, check, libc, number

PR_SET_SECCOMP, SECCOMP_MODE_FILTER, SECCOMP_SET_MODE_FILTER = 22, 2, 1
ALL_THREADS, NEW_LISTENER = 1 << 0, 1 << 3
ALLOW, NOTIFY, ERRNO = 0x7FFF0000, 0x7FC00000, 0x00050000
EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF: ld [k]; jeq, jge, jset #k; ret #k
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, SECOND_ARGUMENT = 0, 4, 16, 24  # offsets in struct seccomp_data; low halves
CLONE_THREAD, NAMESPACES = 0x00010000, 0x7E020000
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# name: (x86_64, aarch64), None where a machine does not have it. Why: async: the kernel works on, or memory answers, for a
# process that is frozen; others: it reaches into other processes; system: it changes or reads the system; clock: it sets it.
_REFUSED = {
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),  # async
    "userfaultfd": (323, 282), "io_setup": (206, 0), "io_submit": (209, 2), "vmsplice": (278, 75),
    "sendmsg": (46, 211), "sendmmsg": (307, 269),  # async: descriptors sent in a circle are collected by the kernel later
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),  # others
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "move_pages": (279, 239), "migrate_pages": (256, 238), "perf_event_open": (298, 241),
    "bpf": (321, 280), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "mount": (165, 40),  # system
    "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "swapon": (167, 224), "swapoff": (168, 225), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "syslog": (103, 116), "vhangup": (153, 58),
    "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
    "modify_ldt": (154, None), "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "memfd_secret": (447, 447),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),  # clock
    # Its flags lie in memory, where no filter can look: the C library then uses clone.
    "clone3": (435, 435),
}
_CALLS = {"execve": (59, 221), "execveat": (322, 281), "fork": (57, None), "vfork": (58, None), "clone": (56, 220),
          "socket": (41, 198)}


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction))]


def refused_numbers() -> dict[str, int]:
    """Name → number of every call that is refused on this machine; OSError(ENOSYS) for a machine that is not known."""
    return {name: pair[_machine()] for name, pair in _REFUSED.items() if pair[_machine()] is not None}


def refuse_syscalls(network: bool) -> None:
    """Install the first filter: refused calls answer ENOSYS, as an older kernel would; so does another architecture's
    ABI. Of sockets only local ones may be made, and, with `network`, those of IP: in a namespace without interfaces they
    lead nowhere, and programs that only look for a network keep working.

    Needs no_new_privs. OSError where the system knows no seccomp, or for a machine without a table.
    """
    families = [AF_UNIX, AF_INET, AF_INET6] if network else [AF_UNIX]
    program = _heading(ERRNO | ENOSYS)
    if MACHINE == "x86_64":  # the x32 ABI numbers the same calls from 2^30
        program += [_Instruction(AT_LEAST, 0, 1, 0x40000000), _Instruction(RETURN, 0, 0, ERRNO | ENOSYS)]
    for refused in sorted(set(refused_numbers().values())):
        program += [_Instruction(EQUAL, 0, 1, refused), _Instruction(RETURN, 0, 0, ERRNO | ENOSYS)]
    program += [_Instruction(EQUAL, 0, 3, _call("clone")), _Instruction(LOAD, 0, 0, FIRST_ARGUMENT),
                _Instruction(ANY_BIT, 0, 1, NAMESPACES), _Instruction(RETURN, 0, 0, ERRNO | EPERM),
                _Instruction(LOAD, 0, 0, NUMBER)]
    # A filter of the contestant's own, with a listener of its own, would be asked in the place of the judge's: it is newer.
    program += [_Instruction(EQUAL, 0, 3, number("seccomp")), _Instruction(LOAD, 0, 0, SECOND_ARGUMENT),
                _Instruction(ANY_BIT, 0, 1, NEW_LISTENER), _Instruction(RETURN, 0, 0, ERRNO | EPERM),
                _Instruction(LOAD, 0, 0, NUMBER)]
    program += [_Instruction(EQUAL, 0, len(families) + 2, _call("socket")), _Instruction(LOAD, 0, 0, FIRST_ARGUMENT)]
    program += [_Instruction(EQUAL, len(families) - place, 0, family) for place, family in enumerate(families)]
    program += [_Instruction(RETURN, 0, 0, ERRNO | EAFNOSUPPORT), _Instruction(RETURN, 0, 0, ALLOW)]
    _install(program, 0)


def supervise_processes() -> int:
    """Install the second filter; returns the descriptor through which each new process or program is asked for, to be
    held by somebody else. OSError where the system has no such thing. Needs no_new_privs."""
    return _install(_new_processes(NOTIFY), NEW_LISTENER)


def refuse_processes() -> None:
    """The second filter where it cannot be supervised: from now on no thread of this process starts another one."""
    _install(_new_processes(ERRNO | EPERM), ALL_THREADS)


def _new_processes(verdict: int) -> list:
    program = _heading(ALLOW)
    for name in ("execve", "execveat", "fork", "vfork"):
        if _CALLS[name][_machine()] is not None:
            program += [_Instruction(EQUAL, 0, 1, _call(name)), _Instruction(RETURN, 0, 0, verdict)]
    return [*program, _Instruction(EQUAL, 0, 3, _call("clone")), _Instruction(LOAD, 0, 0, FIRST_ARGUMENT),
            _Instruction(ANY_BIT, 1, 0, CLONE_THREAD), _Instruction(RETURN, 0, 0, verdict),
            _Instruction(RETURN, 0, 0, ALLOW)]


def _heading(other_architecture: int) -> list:
    return [_Instruction(LOAD, 0, 0, ARCHITECTURE), _Instruction(EQUAL, 1, 0, _AUDIT[MACHINE] if _machine() >= 0 else 0),
            _Instruction(RETURN, 0, 0, other_architecture), _Instruction(LOAD, 0, 0, NUMBER)]


def _install(program: list, flags: int) -> int:
    array = (_Instruction * len(program))(*program)
    wanted = _Program(len(program), ctypes.cast(array, ctypes.POINTER(_Instruction)))
    done = check(libc.syscall(number("seccomp"), SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(wanted)), "seccomp")
    if flags & NEW_LISTENER:
        os.set_inheritable(done, False)
    return done


def _machine() -> int:
    if MACHINE not in _AUDIT:
        raise OSError(ENOSYS, f"no system call table for {MACHINE}")
    return list(_AUDIT).index(MACHINE)


def _call(name: str) -> int:
    return _CALLS[name][_machine()]
