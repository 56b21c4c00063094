"""What a candidate finds when it looks around: each fact as the kernel tells it to the candidate itself."""

import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from inside_out import MIB, SECRET, load

from harness.containment import namespaces, root, system
from harness.judge import freeze
from harness.judge.contestants import Lost
from harness.judge.visible import cores

ROOT = Path(__file__).resolve().parents[2]
COMMON = """
import ctypes, errno, fcntl, os, resource, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
facts = {}

def tried(function, *arguments):
    "None when it works, else the name of the error"
    try:
        function(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))

def called(name, *arguments):
    ctypes.set_errno(0)
    return errno.errorcode[ctypes.get_errno()] if getattr(libc, name)(*arguments) != 0 else None
"""
LOOK = COMMON + """
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
facts["status"] = {k: status[k].split() for k in
                   ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")}
facts["pids"] = sorted(int(p) for p in os.listdir("/proc") if p.isdigit())
facts["pid"] = os.getpid()
facts["environ"] = dict(os.environ)
facts["environ_files"] = [open(f"/proc/{p}/environ").read() for p in facts["pids"]]
facts["command_lines"] = [open(f"/proc/{p}/cmdline").read() for p in facts["pids"]]
facts["fds"] = [os.readlink(f"/proc/{p}/fd/{fd}") for p in facts["pids"] for fd in os.listdir(f"/proc/{p}/fd")
                if os.path.lexists(f"/proc/{p}/fd/{fd}")]
facts["mounts"] = [(f[1], f[3].split(",")) for f in map(str.split, open("/proc/self/mounts"))]
facts["interfaces"] = [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line]
sock = socket.socket()
answer = fcntl.ioctl(sock, 0x8913, struct.pack("16sH14s", b"lo", 0, b""))
facts["lo_is_up"] = bool(struct.unpack("16sH14s", answer)[1] & 1)
facts["routes"] = open("/proc/net/route").read().splitlines()[1:]
facts["hostname"] = os.uname().nodename
facts["devices"] = sorted(os.listdir("/dev"))
facts["limits"] = {n: resource.getrlimit(getattr(resource, n)) for n in
                   ("RLIMIT_CORE", "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_FSIZE", "RLIMIT_MEMLOCK")}
facts["ids"] = {n: os.readlink(f"/proc/self/ns/{n}") for n in ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")}
facts["cwd"] = os.getcwd()
"""


@pytest.fixture(scope="module")
def facts(zygote, inside):
    zygote.wait()
    return inside(LOOK)


@pytest.fixture(scope="module")
def full(spawn):
    """Skips where this system does not give a contestant all that is asked for (the level says so in every record)."""
    contestant = spawn()
    level = contestant.level
    contestant.close()
    if not (level["fresh_proc"] and level["private_root"] and "user" in level["namespaces"]):
        pytest.skip(f"this system contains less: {level['refused']}")
    return level


# Who it is


def test_it_is_nobody(full, facts):
    assert facts["status"]["Uid"] == facts["status"]["Gid"] == [str(namespaces.INSIDE_ID)] * 4
    assert facts["status"]["Groups"] in ([], ["65534"] * len(facts["status"]["Groups"]))


@pytest.mark.parametrize("kind", ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
def test_it_has_no_capability_and_can_gain_none(facts, kind):
    assert int(facts["status"][kind][0], 16) == 0


def test_it_can_gain_no_privileges(facts):
    assert facts["status"]["NoNewPrivs"] == ["1"]


def test_on_the_outside_it_owns_nothing(spawn):
    contestant = spawn()
    owner = os.stat(f"/proc/{contestant.pid}").st_uid
    contestant.close()
    assert owner > 1_000_000_000 if os.geteuid() == 0 else owner == os.geteuid()


# Whom it sees


def test_its_pid_namespace_is_its_own(facts):
    assert facts["pids"] == [1] == [facts["pid"]]


def test_its_namespaces_are_its_own(full, facts):
    assert set(full["namespaces"]) == {"user", "pid", "mount", "net", "ipc", "uts", "cgroup"}
    for name, link in facts["ids"].items():
        assert link != os.readlink(f"/proc/self/ns/{name}"), name


def test_the_environment_holds_nothing_of_the_judges(facts):
    text = repr(facts["environ"]) + "".join(facts["environ_files"]) + "".join(facts["command_lines"])
    assert os.environ["GAUNTLET_TEST_SECRET"] == SECRET and SECRET not in text and "GAUNTLET_TEST" not in text
    assert str(Path.home()) not in facts["environ"]["PATH"] and facts["environ"]["HOME"] == "/scratch/home"


def test_its_descriptors_are_its_own(facts):
    kinds = {link.partition(":")[0] for link in facts["fds"]}
    assert kinds <= {"/dev/null", "pipe", "socket", "/memfd", f"/proc/{facts['pid']}/fd", "/proc/1/fd"}, facts["fds"]
    assert sum(link.startswith("socket") for link in facts["fds"]) <= 2  # its own, and for a while the probing one


def test_it_cannot_signal_the_judge(inside):
    pids = [os.getpid(), os.getppid()]
    found = inside(COMMON + f"facts['signals'] = [tried(os.kill, pid, 0) for pid in {pids}]")
    assert found["signals"] == ["ESRCH", "ESRCH"]


# The network


def test_it_has_no_network(facts):
    assert facts["interfaces"] == ["lo"] and not facts["lo_is_up"] and facts["routes"] == []


def test_it_reaches_no_server_of_this_machine(inside):
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as local:
        name = f"gauntlet-test-{os.getpid()}"
        local.bind("\0" + name)  # the abstract namespace of Unix sockets belongs to the network namespace
        local.listen()
        port = tcp.getsockname()[1]
        source = COMMON + f"""
facts["tcp"] = tried(socket.socket().connect, ("127.0.0.1", {port}))
facts["outside"] = tried(socket.socket().connect, ("192.0.2.1", 80))
facts["unix"] = tried(socket.socket(socket.AF_UNIX).connect, "\\0{name}")
facts["down"] = __import__("harness.containment.namespaces").containment.namespaces.loopback_is_down()
"""
        found = inside(source)
        assert socket.create_connection(("127.0.0.1", port)) and not namespaces.loopback_is_down()
    assert found["down"] and {found["tcp"], found["outside"]} <= {"ENETUNREACH", "EACCES"}, found
    assert found["unix"] in ("ECONNREFUSED", "EPERM")


def test_shared_memory_of_other_processes_is_out_of_reach(inside):
    """System V segments belong to the ipc namespace."""
    libc = system.libc
    segment = libc.shmget(0x6A756467, 4096, 0o1666)
    try:
        found = inside(COMMON + "facts['id'] = libc.shmget(0x6a756467, 4096, 0)")
    finally:
        libc.shmctl(segment, 0, None)
    assert segment >= 0 and found["id"] == -1


# Files


def test_it_cannot_read_what_is_not_its_business(full, inside, tmp_path):
    (tmp_path / "key").write_text("secret")
    paths = ["/etc/passwd", "/etc/shadow", "/etc/hostname", str(tmp_path / "key"), str(Path.home() / ".bashrc"),
             str(Path.home() / ".ssh"), "/home", "/var", "/sys", "/run", "/srv", "/boot", "/.outside",
             *(str(ROOT / name) for name in ("tasks", "suite", "suite/solutions", "results", "agents", "tests", ".git",
                                             "pyproject.toml", "harness/judge", "harness/spec", ".harness"))]
    found = inside(COMMON + f"facts['opened'] = {{p: tried(os.stat, p) for p in {paths!r}}}")
    assert {p: e for p, e in found["opened"].items() if e not in ("ENOENT", "EACCES")} == {}
    assert os.path.exists("/etc/passwd") and os.path.exists(ROOT / "tasks")  # so that there is something to hide


def test_folders_on_the_way_to_the_interpreter_hold_nothing_else(full, inside):
    """A home folder may have to appear, because Python is installed below it: with no other entry."""
    home = str(Path.home())
    found = inside(COMMON + f"""
try:
    facts["home"] = os.listdir({home!r})
except (FileNotFoundError, PermissionError):  # Landlock does not even let it be listed
    facts["home"] = []
""")
    needed = {Path(p).resolve().relative_to(home).parts[0] for p in (sys.prefix, sys.base_prefix)
              if Path(p).resolve().is_relative_to(home)}
    assert set(found["home"]) <= needed


def test_only_its_scratch_can_be_written(full, facts, inside):
    import torch

    places = ["/", "/usr", "/usr/bin", "/etc", "/dev", "/lib", "/proc", "/proc/sys", sys.prefix, sys.base_prefix,
              os.path.dirname(torch.__file__), str(ROOT / "harness" / "contestant")]
    source = COMMON + f"""
def make(folder):
    path = folder + "/gauntlet-was-here"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    os.unlink(path)
facts["refused"] = {{p: tried(make, p) for p in {places!r}}}
facts["allowed"] = {{p: tried(make, p) for p in ("/scratch", "/scratch/tmp", "/tmp", "/dev/shm")}}
"""
    found = inside(source)
    assert set(found["refused"].values()) <= {"EROFS", "EACCES", "ENOENT", "EPERM"}, found["refused"]
    assert set(found["allowed"].values()) == {None}
    # The same from the list of mounts: devices of /dev are files of their own.
    writable = {place for place, options in facts["mounts"] if "rw" in options and not place.startswith("/dev/")}
    assert writable <= {"/scratch", "/tmp", "/proc"}
    assert facts["cwd"] == "/scratch"


def test_there_are_five_devices(full, facts):
    assert facts["devices"] == sorted([*root.DEVICES, "fd", "shm"])


@pytest.mark.parametrize("folder", ["/scratch", "/tmp", "/dev/shm"])
def test_scratch_is_bounded(full, inside, folder):
    source = COMMON + f"""
def fill():
    with open("{folder}/big", "wb", buffering=0) as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
            facts["written"] = facts.get("written", 0) + 1
facts["error"] = tried(fill)
"""
    found = inside(source, scratch=8 * MIB)
    assert found["error"] == "ENOSPC" and 6 <= found["written"] <= 8


# Ways out


def test_there_is_no_way_up(full, inside):
    source = COMMON + """
flags = {"user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "net": 0x40000000}
facts["unshare"] = {name: called("unshare", flag) for name, flag in flags.items()}
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
facts["clone"] = called("syscall", number, flags["user"] | 17, 0, 0, 0, 0)  # 17: SIGCHLD
facts["mount"] = called("mount", b"none", b"/tmp", b"tmpfs", 0, None)
facts["umount"] = called("umount2", b"/scratch", 2)
facts["chroot"] = called("chroot", b"/tmp")
facts["setns"] = [called("setns", os.open(f"/proc/1/ns/{n}", os.O_RDONLY), 0) for n in ("mnt", "pid")]
facts["setuid"] = tried(os.setuid, 0)
facts["mknod"] = tried(os.mknod, "/scratch/disk", 0o60600, os.makedev(254, 0))
facts["hostname"] = called("sethostname", b"x", 1)
facts["priority"] = tried(os.setpriority, os.PRIO_PROCESS, 0, -5)
facts["sysctl"] = tried(open, "/proc/sys/user/max_user_namespaces", "w")
facts["limit"] = tried(lambda: resource.prlimit(0, resource.RLIMIT_CORE, (1, 1)))
"""
    found = inside(source)
    allowed = {"EPERM", "EACCES", "ENOSPC", "EROFS", "ENOSYS"}
    flat = {**{f"unshare {k}": v for k, v in found.pop("unshare").items()},
            **{f"setns {k}": v for k, v in enumerate(found.pop("setns"))}, **found}
    assert {k: v for k, v in flat.items() if v not in allowed} == {}


def test_system_calls_that_nobody_needs_are_refused(full, facts, inside):
    """Above all those that have the kernel go on working for a process that is frozen."""
    if full["seccomp"] != "yes":
        pytest.skip(f"no seccomp here: {full['seccomp']}")
    names = ("io_uring_setup", "userfaultfd", "bpf", "process_vm_writev", "mount")
    numbers = {"x86_64": dict(zip(names, (425, 323, 321, 311, 165))),
               "aarch64": dict(zip(names, (425, 282, 280, 271, 40)))}
    source = COMMON + f"""
numbers = {numbers!r}[os.uname().machine]
facts["refused"] = {{name: called("syscall", number, 0, 0, 0, 0, 0, 0) for name, number in numbers.items()}}
facts["ptrace"] = called("ptrace", 0, 0, 0, 0)
"""
    found = inside(source)
    assert set(found["refused"].values()) == {"ENOSYS"} and found["ptrace"] == "ENOSYS"
    assert facts["status"]["Seccomp"] == ["2"]


def test_a_set_user_id_program_gives_nothing(inside):
    """no_new_privs and nosuid: su would be root, were its bit honoured."""
    setuid = next((p for p in ("/usr/bin/su", "/bin/su", "/usr/bin/passwd", "/usr/bin/mount")
                   if os.path.exists(p) and os.stat(p).st_mode & stat.S_ISUID), None)
    if setuid is None:
        pytest.skip("no set-user-id program here")
    found = inside(COMMON + f"""
import subprocess, shutil
facts["exists"] = os.path.exists({setuid!r})
child = subprocess.Popen([{setuid!r}], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    status = dict(line.split(":", 1) for line in open(f"/proc/{{child.pid}}/status"))
    facts["uids"] = status["Uid"].split()
except OSError:
    facts["uids"] = []  # it has already given up
child.kill()
""")
    assert set(found["uids"]) <= {str(namespaces.INSIDE_ID)}


def test_limits_are_set(facts):
    assert facts["limits"]["RLIMIT_CORE"] == [0, 0]
    for name, most in (("RLIMIT_NOFILE", 1024), ("RLIMIT_NPROC", 256 + 16 * cores()), ("RLIMIT_FSIZE", 2 * 2**30),
                       ("RLIMIT_MEMLOCK", 64 * 2**20)):
        soft, hard = facts["limits"][name]
        assert 0 < soft <= most and soft == hard, name


def test_a_fork_bomb_is_bounded(full, inside):
    source = COMMON + """
def bomb():
    for _ in range(1000):
        os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
        facts["children"] = facts.get("children", 0) + 1
facts["error"] = tried(bomb)
"""
    found = inside(source)
    assert found["error"] == "EAGAIN" and found["children"] < 256 + 16 * cores()


def test_limits_hold_where_there_is_no_cgroup():
    """set_limits alone, in a process of its own."""
    code = ("from harness.containment.limits import set_limits\n"
            "set_limits(100, 400 * 2**20)\n"
            "try:\n    bytearray(600 * 2**20)\nexcept MemoryError:\n    print('bounded')\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "bounded\n", done.stderr


# Its end


def test_nothing_is_left_of_it(zygote, spawn):
    """Daemons that have left session, parent and terminal end too, and the cgroups go."""
    contestant = spawn()
    load(contestant, COMMON + """
import time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            libc.prctl(15, b"gauntlet-stray")  # PR_SET_NAME
            for number in range(1, 32):
                try:
                    __import__("signal").signal(number, __import__("signal").SIG_IGN)
                except OSError:
                    pass
            libc.prctl(1, 0)  # no signal when its parent ends
            while True:
                time.sleep(1)
        os._exit(0)
    os.wait()
time.sleep(0.2)
""")
    assert len(processes_called("gauntlet-stray")) == 3
    tree = freeze.descendants(contestant.init)
    assert len(tree) == 4  # the worker, three strays
    contestant.freeze()
    contestant.close()
    assert gone(lambda: processes_called("gauntlet-stray") == [])
    assert all(gone(lambda pid=pid: dead(pid)) for pid in tree)
    assert groups_of(contestant) == []


@pytest.mark.parametrize("kind", ["signals", "cgroup-v1", "cgroup-v2"])
def test_nothing_is_left_where_there_are_no_namespaces(zygote, spawn, monkeypatch, kind):
    parent = freeze.mounted("cgroup", "freezer") if kind == "cgroup-v1" else freeze.mounted("cgroup2", "")
    if kind != "signals" and (parent is None or not os.access(parent, os.W_OK)):
        pytest.skip(f"no {kind} here")
    zygote.wait()
    monkeypatch.setattr(zygote, "containment", "none")
    monkeypatch.setattr(zygote, "kind", kind)
    monkeypatch.setattr(zygote, "parent", parent)
    contestant = spawn()
    assert contestant.level["namespaces"] == [] and contestant.level["freezer"] == kind
    load(contestant, COMMON + """
import time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            libc.prctl(15, b"gauntlet-stray")
            libc.prctl(1, 0)
            while True:
                if os.fork() == 0:  # always a new one
                    time.sleep(0.01)
                    os._exit(0)
                time.sleep(0.001)
                try:
                    os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    pass
        os._exit(0)
    os.wait()
time.sleep(0.1)
""")
    assert processes_called("gauntlet-stray")
    kill = os.kill

    def slow(pid, number):
        kill(pid, number)
        time.sleep(0.02)  # what is killed is gone before anything else is done: so are the traces of its children

    monkeypatch.setattr(os, "kill", slow)
    contestant.close()
    assert gone(lambda: processes_called("gauntlet-stray") == [])


def processes_called(name):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path(f"/proc/{pid}/comm").read_text().strip() == name and not dead(int(pid)):
                found.append(int(pid))
        except OSError:
            continue
    return found


def dead(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def gone(condition, seconds=5.0):
    limit = time.monotonic() + seconds
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    return condition()


def groups_of(contestant):
    files = [*contestant.freezer.procs_files(), *contestant.bound.procs_files()]
    return [path for path in files if path.parent.exists()]


# The steps


def test_a_refused_step_says_what_was_refused():
    with pytest.raises(OSError, match="mount nowhere on /nowhere"):
        root.mount("nowhere", "/nowhere", "tmpfs", 0)


def test_the_parents_end_ends_it():
    code = ("import os, signal, time\nfrom harness.containment.privileges import die_with_parent\n"
            "r, w = os.pipe()\n"
            "if os.fork() == 0:\n"
            "    die_with_parent(signal.SIGKILL)\n    os.write(w, b'x')\n    time.sleep(60)\n"
            "os.read(r, 1)\n")
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)  # waits for every holder
    assert done.returncode == 0 and time.monotonic() - begun < 50


def test_orphans_are_adopted():
    code = """
import os, time
from harness.containment.privileges import adopt_orphans
adopt_orphans()
read, write = os.pipe()
me = os.getpid()
if os.fork() == 0:
    if os.fork() == 0:
        limit = time.monotonic() + 20
        while os.getppid() != me and time.monotonic() < limit:
            time.sleep(0.001)
        os.write(write, str(os.getppid() == me).encode())
    os._exit(0)
print(os.read(read, 9).decode())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout == "True\n", done.stderr


def test_out_of_memory_ends_only_the_one(spawn):
    greedy, other = spawn(memory=300 * MIB), spawn()
    with pytest.raises(Lost) as raised:
        load(greedy, "hold = []\nwhile True:\n    hold.append(bytearray(b'x') * (16 << 20))\n")
    assert raised.value.status == "out_of_memory"
    assert load(other, "") == {"loaded": True}
    greedy.close()
    other.close()
