"""The two seccomp filters alone."""

import os
import select
import socket
import subprocess
import sys
import time

import pytest

from harness.containment import syscalls
from harness.contestant import wire
from harness.judge.gate import Gate

pytestmark = pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="no table for this machine")


def test_every_call_of_the_table_is_refused_and_others_are_not(alone):
    facts = alone("""
privileges.no_new_privileges()
syscalls.refuse_syscalls(network=True)
for name, number in syscalls.refused_numbers().items():
    system.libc.syscall(number, -1, 0, 0, 0, 0, 0)
    import ctypes
    facts[name] = errno.errorcode[ctypes.get_errno()]
facts["threads"] = tried(threading.Thread(target=print).start)
facts["fork"] = os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1]
facts["pair"] = tried(socket.socketpair)
""")
    threads, fork, pair = facts.pop("threads"), facts.pop("fork"), facts.pop("pair")
    assert threads is None and fork == 0 and pair is None
    assert len(facts) > 50 and set(facts.values()) == {"ENOSYS"}, {k: v for k, v in facts.items() if v != "ENOSYS"}


@pytest.mark.parametrize("network", [True, False])
def test_sockets_are_local_or_of_ip(alone, network):
    facts = alone(f"""
privileges.no_new_privileges()
syscalls.refuse_syscalls(network={network})
families = {{"unix": 1, "inet": 2, "inet6": 10, "netlink": 16, "packet": 17, "alg": 38, "vsock": 40}}
facts.update((name, tried(socket.socket, family)) for name, family in families.items())
""")
    allowed = {"unix", "inet", "inet6"} if network else {"unix"}
    assert {name for name, found in facts.items() if found != "EAFNOSUPPORT"} == allowed


def test_no_child_gets_namespaces_of_its_own(alone):
    facts = alone("""
import ctypes
privileges.no_new_privileges()
syscalls.refuse_syscalls(network=True)
for name, flag in namespaces.CLONE.items():
    ctypes.set_errno(0)
    if system.libc.syscall(system.number("clone"), flag | 17, 0, 0, 0, 0) == 0:
        os._exit(1)
    facts[name] = errno.errorcode[ctypes.get_errno()]
""")
    assert set(facts.values()) == {"EPERM"} and len(facts) == 7


def test_there_is_no_other_way_in(alone):
    """The x32 numbers of the same calls."""
    if os.uname().machine != "x86_64":
        pytest.skip("x86_64 only")
    facts = alone("""
import ctypes
privileges.no_new_privileges()
syscalls.refuse_syscalls(network=True)
system.libc.syscall(0x40000000 | 165, 0, 0, 0, 0, 0)
facts["x32"] = errno.errorcode[ctypes.get_errno()]
""")
    assert facts["x32"] == "ENOSYS"


def test_it_needs_no_new_privileges(alone):
    if os.geteuid() == 0:
        pytest.skip("root needs none")
    assert alone("facts['error'] = tried(syscalls.refuse_syscalls, True)")["error"] == "EACCES"


OWN_LISTENER = """
import select
privileges.no_new_privileges()
try:
    judges = syscalls.supervise_processes()
except OSError as error:
    facts["unsupported"] = str(error)
    print("FACTS" + json.dumps(facts))
    sys.exit()
GUARD
os.close(judges)  # the gate is closed
facts["fork"] = tried(os.fork)
try:
    own = syscalls.supervise_processes()
except OSError as error:
    facts["listener"] = errno.errorcode[error.errno]
else:
    facts["listener"] = None
    from harness.judge.gate import Gate
    gate = Gate(own)
    def serve():
        poll = select.poll()
        poll.register(own, select.POLLIN)
        poll.poll(5000)
        gate.let_through()
    threading.Thread(target=serve).start()
    pid = system.libc.fork()  # without the interpreter's lock, which the thread that answers needs
    if pid == 0:
        system.libc._exit(0)
    facts["forked all the same"] = os.waitpid(pid, 0)[1] == 0
"""


def test_nobody_can_be_asked_in_the_judges_place(alone):
    """Of two filters that ask, the newer one is asked: a contestant that adds its own would let itself through."""
    guarded = alone(OWN_LISTENER.replace("GUARD", "syscalls.refuse_syscalls(network=True)"))
    assert guarded == {"fork": "ENOSYS", "listener": "EPERM"}
    unguarded = alone(OWN_LISTENER.replace("GUARD", ""))
    assert unguarded == {"fork": "ENOSYS", "listener": None, "forked all the same": True}


# New processes

GATED = """
import os, socket, subprocess, sys, threading
from harness.containment import privileges, syscalls
from harness.contestant import wire
sock = socket.socket(fileno=int(sys.argv[1]))
privileges.no_new_privileges()
try:
    gate = syscalls.supervise_processes()
except OSError as error:
    wire.send(sock, {"unsupported": str(error)})
    sys.exit()
wire.send(sock, {"gate": True}, [gate])
os.close(gate)

def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

def thread():
    worker = threading.Thread(target=int)
    worker.start()
    worker.join()

WAYS = {"fork": fork, "spawn": lambda: subprocess.run(["/bin/true"], check=True),
        "posix_spawn": lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0), "thread": thread,
        "exec": lambda: os.execv("/bin/true", ["true"])}
while True:
    message = wire.receive(sock)
    try:
        WAYS[message["way"]]()
        wire.send(sock, {"error": None})
    except OSError as error:
        wire.send(sock, {"error": error.errno})
"""


@pytest.fixture
def gated():
    ours, theirs = socket.socketpair()
    child = subprocess.Popen([sys.executable, "-c", GATED, str(theirs.fileno())], pass_fds=[theirs.fileno()],
                             cwd=os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    theirs.close()
    message, fds = wire.receive_with_fds(ours, deadline=time.monotonic() + 30)
    if "unsupported" in message:
        pytest.skip(message["unsupported"])
    yield ours, Gate(fds[0])
    ours.close()
    child.kill()
    child.wait()


def ask(sock, gate, way):
    """The errno of trying `way`, or None; the gate answers as long as it is open."""
    wire.send(sock, {"way": way})
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    if gate.fileno() >= 0:
        poll.register(gate.fileno(), select.POLLIN)
    while True:
        ready = dict(poll.poll(20_000))
        assert ready, "no answer"
        if gate.fileno() in ready:
            gate.let_through()
        if sock.fileno() in ready:
            return wire.receive(sock)["error"]


def test_new_processes_pass_an_open_gate_and_no_closed_one(gated):
    sock, gate = gated
    assert [ask(sock, gate, way) for way in ("fork", "spawn", "posix_spawn", "thread")] == [None] * 4
    asked = gate.asked
    assert asked >= 3
    gate.close()
    assert [ask(sock, gate, way) for way in ("fork", "spawn", "posix_spawn", "exec")] == [syscalls.ENOSYS] * 4
    assert ask(sock, gate, "thread") is None and gate.asked == asked
    gate.close()


def test_whoever_waits_at_the_gate_is_refused_when_it_closes(gated):
    sock, gate = gated
    wire.send(sock, {"way": "fork"})
    poll = select.poll()
    poll.register(gate.fileno(), select.POLLIN)
    assert poll.poll(20_000)
    gate.close()
    assert wire.receive(sock, time.monotonic() + 20)["error"] == syscalls.ENOSYS


def test_a_gate_whose_asker_has_ended_says_so(gated):
    sock, gate = gated
    wire.send(sock, {"way": "exit"})  # a KeyError: it ends
    deadline = time.monotonic() + 20
    poll = select.poll()
    poll.register(gate.fileno(), select.POLLIN)
    while not any(event & select.POLLHUP for _, event in poll.poll(100)):
        assert time.monotonic() < deadline
    gate.let_through()
    gate.let_all_through()
    assert gate.asked == 0


def test_where_nobody_supervises_a_process_can_give_them_up_itself(alone):
    facts = alone("""
privileges.no_new_privileges()
go = threading.Event()
def later():
    go.wait()
    facts["other thread"] = tried(os.fork)
worker = threading.Thread(target=later)
worker.start()
syscalls.refuse_processes()
go.set()
worker.join()
facts["fork"] = tried(os.fork)
facts["spawn"] = tried(os.posix_spawn, "/bin/true", ["true"], {})
facts["thread"] = tried(threading.Thread(target=int).start)
""")
    assert facts == {"other thread": "EPERM", "fork": "EPERM", "spawn": "EPERM", "thread": None}
