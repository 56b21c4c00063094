"""Containment of a contestant, directly after the fork: namespaces, a root of read-only binds, limits, no privileges.

Linux only; every step is one function, tried in order, and reports what it got: the level in every record comes from
here. Written with ctypes because the process must not exec: it keeps the zygote's imported torch.
Sources: user_namespaces(7), mount_namespaces(7), pivot_root(2), capabilities(7), mount_setattr(2).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS = 0x00020000, 0x02000000, 0x04000000
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
PR_SET_CHILD_SUBREAPER, PR_GET_TID_ADDRESS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 36, 40, 47, 4
CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x00200000, 0x01000000
SYS_PIVOT_ROOT, SYS_CAPSET, SYS_MOUNT_SETATTR, SYS_CLONE = {
    "x86_64": (155, 126, 442, 56),
    "aarch64": (41, 91, 442, 220),
}.get(os.uname().machine, (None, None, 442, None))
AT_RECURSIVE, MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 0x8000, 1, 2, 4
INSIDE_ID = 1000
ABORTED = 6
DEVICES = ("null", "zero", "full", "random", "urandom")

libc = ctypes.CDLL(None, use_errno=True)
_syscall = ctypes.PyDLL(None, use_errno=True).syscall  # keeps the interpreter's lock: the child of a clone needs it held
_syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """mount(2); OSError naming source and target."""
    encode = lambda text: None if text is None else text.encode()  # noqa: E731
    _check(libc.mount(encode(source), encode(target), encode(kind), ctypes.c_ulong(flags), encode(options)),
           f"mount {source} on {target}")


def unshare(namespaces: list[str]) -> None:
    """Leave the named namespaces ("user", "pid", "mount", "net", "ipc", "uts", "cgroup"); OSError when refused."""
    _check(libc.unshare(_flags(namespaces)), f"unshare {'+'.join(namespaces)}")


def _flags(namespaces: list[str]) -> int:
    flags = {"user": CLONE_NEWUSER, "pid": CLONE_NEWPID, "mount": CLONE_NEWNS, "net": CLONE_NEWNET,
             "ipc": CLONE_NEWIPC, "uts": CLONE_NEWUTS, "cgroup": CLONE_NEWCGROUP}
    return sum(flags[name] for name in namespaces)


def fork_into(namespaces: list[str]) -> int:
    """Fork straight into new namespaces: 0 in the child, which is pid 1 of a new pid namespace, its pid in the parent.

    One copy of a large process instead of the two that fork, unshare, fork take. A raw clone(2), with what glibc's own
    fork sees to: the kernel writes the child's thread id where glibc keeps it, and Python's hooks run. The caller must
    have a single thread. Raises OSError when the system refuses.
    """
    if not namespaces:
        return os.fork()
    where = ctypes.c_void_p()
    _check(libc.prctl(PR_GET_TID_ADDRESS, ctypes.byref(where), 0, 0, 0), "prctl PR_GET_TID_ADDRESS")
    flags = ctypes.c_ulong(_flags(namespaces) | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | signal.SIGCHLD)
    stack, parent_tid, tls = (ctypes.c_void_p() for _ in range(3))
    last = (where, tls) if os.uname().machine == "x86_64" else (tls, where)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = _syscall(SYS_CLONE, flags, stack, parent_tid, *last)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    number = ctypes.get_errno()
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(number, f"clone into {'+'.join(namespaces)}: {os.strerror(number)}")
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


def _read_only(target: str) -> None:
    class Attributes(ctypes.Structure):
        _fields_ = [("attr_set", ctypes.c_uint64), ("attr_clr", ctypes.c_uint64),
                    ("propagation", ctypes.c_uint64), ("userns_fd", ctypes.c_uint64)]

    wanted = Attributes(MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, 0)
    done = libc.syscall(SYS_MOUNT_SETATTR, -100, target.encode(), AT_RECURSIVE, ctypes.byref(wanted),
                        ctypes.sizeof(wanted))
    if done != 0:  # before Linux 5.12: only the top mount can be made read-only
        mount("none", target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID)


def build_root(new_root: str, binds: list[str], masks: list[str], scratch_bytes: int, fresh_proc: bool) -> None:
    """Make a root of read-only binds with a bounded writable /scratch, and pivot into it.

    binds: absolute paths that appear at the same place, read-only; masks: folders inside them that appear empty.
    fresh_proc False: the outer /proc is bound read-only instead (where the system refuses a fresh one).
    """
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", new_root, "tmpfs", MS_NOSUID, "size=4m,mode=755")
    os.makedirs(new_root + "/dev", exist_ok=True)
    for name in DEVICES:
        os.close(os.open(f"{new_root}/dev/{name}", os.O_CREAT | os.O_WRONLY, 0o644))
        mount(f"/dev/{name}", f"{new_root}/dev/{name}", None, MS_BIND)
    os.symlink("/proc/self/fd", new_root + "/dev/fd")
    for path, size in (("/dev/shm", scratch_bytes), ("/scratch", scratch_bytes), ("/tmp", scratch_bytes)):
        os.makedirs(new_root + path, exist_ok=True)
        mount("tmpfs", new_root + path, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},mode=1777")
    # After the scratch folders: an interpreter may itself lie under /tmp.
    for path in binds:
        if os.path.islink(path) and not os.path.isdir(path):
            continue
        if os.path.islink(path):  # /lib -> usr/lib on merged systems: the same link, nothing more
            os.symlink(os.readlink(path), new_root + path)
            continue
        target = new_root + path
        if os.path.isdir(path):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        mount(path, target, None, MS_BIND | MS_REC)
        _read_only(target)
    for path in masks:
        if os.path.isdir(new_root + path):
            mount("tmpfs", new_root + path, "tmpfs", MS_NOSUID | MS_NODEV, "size=4k,mode=755")
    os.makedirs(new_root + "/proc", exist_ok=True)
    if fresh_proc:
        mount("proc", new_root + "/proc", "proc", MS_NOSUID | MS_NODEV)
    else:
        mount("/proc", new_root + "/proc", None, MS_BIND | MS_REC)
    os.makedirs(new_root + "/.outside")
    _check(libc.syscall(SYS_PIVOT_ROOT, new_root.encode(), (new_root + "/.outside").encode()), "pivot_root")
    os.chdir("/")
    _check(libc.umount2(b"/.outside", MNT_DETACH), "umount of the outer root")
    os.rmdir("/.outside")
    mount("none", "/", None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID)


def no_nested_namespaces() -> None:
    """Forbid further user namespaces inside: there a contestant would regain the right to mount."""
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")


def drop_privileges(user_namespace: bool) -> None:
    """Become INSIDE_ID (in a user namespace), with no capability and no way to gain one."""
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    if user_namespace:
        for setter in (os.setresgid, os.setresuid):
            setter(INSIDE_ID, INSIDE_ID, INSIDE_ID)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _check(libc.syscall(SYS_CAPSET, header, nothing), "capset")
    _check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    # An ordinary user's judge may read a contestant's answers only while it is dumpable.
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def set_limits(processes: int, data_bytes: int | None, files: int = 1024, file_bytes: int = 2 * 2**30) -> None:
    """rlimits: no core dumps, bounded descriptors, processes and file sizes (inductor needs 512 MB files).

    data_bytes: bound on private memory of each process, where no memory cgroup does it better; None for no bound.
    """
    data = data_bytes if data_bytes is not None else resource.RLIM_INFINITY
    for kind, value in ((resource.RLIMIT_DATA, data), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, files),
                        (resource.RLIMIT_NPROC, processes), (resource.RLIMIT_FSIZE, file_bytes), (resource.RLIMIT_MEMLOCK, 64 * 2**20)):
        hard = resource.getrlimit(kind)[1]
        limit = value if hard == resource.RLIM_INFINITY or value == resource.RLIM_INFINITY else min(value, hard)
        limit = hard if limit == resource.RLIM_INFINITY else limit
        resource.setrlimit(kind, (limit, limit))


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


def loopback_is_down() -> bool:
    """True when no connection to 127.0.0.1 can be made: the network namespace is empty."""
    with socket.socket() as sock:
        sock.settimeout(0.1)
        return sock.connect_ex(("127.0.0.1", 9)) in (101, 100)  # ENETUNREACH, ENETDOWN
