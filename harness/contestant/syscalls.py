"""System calls a contestant never needs, refused by a seccomp filter: those that have the kernel work, or memory answer,
on its behalf while it is frozen (io_uring's workers, userfaultfd), and those that reach into other processes or the
kernel. See seccomp(2); the filter is inherited by all children and cannot be removed.
"""

from __future__ import annotations

import ctypes
import os

from harness.contestant.contain import libc

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
ENOSYS, EPERM = 38, 1
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF: ld [k]; jeq #k; ret #k
NUMBER, ARCHITECTURE = 0, 4  # offsets in struct seccomp_data

# machine: (AUDIT_ARCH, {name: number})
_TABLES = {
    "x86_64": (0xC000003E, {
        "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "userfaultfd": 323, "io_setup": 206,
        "io_submit": 209, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "bpf": 321,
        "perf_event_open": 298, "keyctl": 250, "add_key": 248, "request_key": 249, "kcmp": 312, "pidfd_getfd": 438,
        "mount": 165, "umount2": 166, "pivot_root": 155, "unshare": 272, "setns": 308, "open_tree": 428,
        "move_mount": 429, "fsopen": 430, "mount_setattr": 442, "swapon": 167, "init_module": 175, "finit_module": 313,
        "kexec_load": 246, "quotactl": 179, "fanotify_init": 300, "open_by_handle_at": 304, "vmsplice": 278}),
    "aarch64": (0xC00000B7, {
        "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "userfaultfd": 282, "io_setup": 0,
        "io_submit": 2, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "bpf": 280,
        "perf_event_open": 241, "keyctl": 219, "add_key": 217, "request_key": 218, "kcmp": 272, "pidfd_getfd": 438,
        "mount": 40, "umount2": 39, "pivot_root": 41, "unshare": 97, "setns": 268, "open_tree": 428,
        "move_mount": 429, "fsopen": 430, "mount_setattr": 442, "swapon": 224, "init_module": 105, "finit_module": 273,
        "kexec_load": 104, "quotactl": 60, "fanotify_init": 262, "open_by_handle_at": 265, "vmsplice": 75}),
}


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction))]


def refuse_syscalls() -> None:
    """Install the filter: the calls above answer ENOSYS, as an older kernel would; so does another architecture's ABI.

    Needs no_new_privs. OSError where the system knows no seccomp, or for a machine without a table.
    """
    machine = os.uname().machine
    if machine not in _TABLES:
        raise OSError(ENOSYS, f"no system call table for {machine}")
    architecture, numbers = _TABLES[machine]
    refused = sorted(set(numbers.values()))
    program = [_Instruction(LOAD, 0, 0, ARCHITECTURE), _Instruction(EQUAL, 1, 0, architecture),
               _Instruction(RETURN, 0, 0, ERRNO | ENOSYS), _Instruction(LOAD, 0, 0, NUMBER)]
    if machine == "x86_64":  # the x32 ABI numbers the same calls from 2^30
        program += [_Instruction(0x35, 0, 1, 0x40000000), _Instruction(RETURN, 0, 0, ERRNO | ENOSYS)]
    for number in refused:
        program += [_Instruction(EQUAL, 0, 1, number), _Instruction(RETURN, 0, 0, ERRNO | ENOSYS)]
    program.append(_Instruction(RETURN, 0, 0, ALLOW))
    array = (_Instruction * len(program))(*program)
    wanted = _Program(len(program), ctypes.cast(array, ctypes.POINTER(_Instruction)))
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(wanted), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp is not available")
