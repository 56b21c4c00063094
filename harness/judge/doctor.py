"""What containment this system gives, layer by layer: what was set up, and what a probe in there could still do.

The probe is our own code, so its findings are believed; a candidate's never are.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

from harness.judge.arena import Arena
from harness.judge.contestants import Zygote
from harness.judge.level import is_contained

MIB = 2**20
NAMESPACES = {
    "user": "its own user ids: no privilege outside", "pid": "sees and signals its own processes only",
    "mount": "its own view of the files", "net": "no network, not even loopback",
    "ipc": "no shared memory of others", "uts": "its own host name", "cgroup": "sees no group but its own",
}
PROBE = '''
import json, os, socket, subprocess
def works(function):
    try:
        function()
        return True
    except OSError:
        return False
def write(folder):
    path = os.path.join(folder, "gauntlet-probe")
    with open(path, "w"):
        os.unlink(path)
found = {
    "file": works(lambda: open(SECRET_FILE)),
    "home": works(lambda: os.listdir(HOME)),
    "write": works(lambda: write(OUTSIDE)),
    "signal": works(lambda: os.kill(JUDGE, 0)),
    "environment": works(lambda: open(f"/proc/{JUDGE}/environ").read()),
    "network": works(lambda: socket.create_connection(("127.0.0.1", PORT), 1)),
    "key": "GAUNTLET_DOCTOR" in os.environ,
    "scratch": works(lambda: write(os.environ["TMPDIR"])),
    "compiler": works(lambda: subprocess.run(["g++", "--version"], capture_output=True, check=True)),
}
print("PROBE" + json.dumps(found), flush=True)
def kernel():
    pass
'''
_ATTEMPTS = {
    "file": "read a file of the user who judges", "home": "list that user's home folder",
    "write": "write outside its scratch folder", "signal": "signal the judge", "environment": "read the judge's environment",
    "network": "connect to this machine", "key": "find the judge's variables in its own environment",
}


class Finding(NamedTuple):
    """One layer: whether it is there, and what it gives or why it is missing."""

    layer: str
    there: bool
    why: str


def examine() -> tuple[list[Finding], dict]:
    """Start one contestant and look: (findings, level). Raises MachineFault when none can be started at all."""
    os.environ["GAUNTLET_DOCTOR"] = "a variable of the judge's"
    zygote = Zygote()
    inputs, outputs = Arena(MIB, contestants_may_write=False), Arena(MIB, contestants_may_write=True)
    try:
        contestant = zygote.spawn(inputs, outputs, memory=2**30, scratch=16 * MIB)
        try:
            found = _probe(contestant)
            contestant.freeze()
            findings = _layers(contestant.level, zygote.freezer_reason) + _attempts(found)
            return findings, contestant.level
        finally:
            contestant.close()
    finally:
        zygote.close()
        inputs.close()
        outputs.close()
        del os.environ["GAUNTLET_DOCTOR"]


def _probe(contestant) -> dict[str, bool]:
    import socket

    with tempfile.TemporaryDirectory() as outside, socket.create_server(("127.0.0.1", 0)) as server:
        secret = Path(outside) / "secret"
        secret.write_text("secret")
        os.chmod(outside, 0o755)
        values = {"SECRET_FILE": str(secret), "HOME": str(Path.home()), "OUTSIDE": outside, "JUDGE": os.getpid(),
                  "PORT": server.getsockname()[1]}
        source = "".join(f"{name} = {value!r}\n" for name, value in values.items()) + PROBE
        contestant.ask({"op": "load", "language": "python", "entry": "kernel", "args": {}, "hash": "0" * 64,
                        "source": source}, 60)
        while contestant.drain() and b"PROBE" not in contestant.tail:
            continue
    return json.loads(contestant.tail.decode().rpartition("PROBE")[2])


def _layers(level: dict, freezer_reason: str) -> list[Finding]:
    refused = "; ".join(level["refused"]) or "not asked for"
    findings = [Finding(f"{name} namespace", name in level["namespaces"],
                        what if name in level["namespaces"] else refused) for name, what in NAMESPACES.items()]
    findings += [
        Finding("private root", level["private_root"],
                "read-only: interpreter, libraries, compiler; bounded scratch" if level["private_root"] else refused),
        Finding("private /proc", level["fresh_proc"],
                "of its own pid namespace" if level["fresh_proc"] else
                "its own entry only" if level["private_root"] else refused),
        Finding("identity", level["uid"] != "unchanged" and not level["uid"].startswith("unchanged:"),
                f"user id: {level['uid']}"),
    ]
    for layer, key, what in (("Landlock", "landlock", "files and TCP, whatever the mounts say"),
                             ("seccomp", "seccomp", "system calls that nobody needs are refused"),
                             ("gate", "gate", "no new processes while it is timed")):
        there = str(level[key]).startswith("yes")
        findings.append(Finding(layer, there, what + str(level[key]).removeprefix("yes") if there else str(level[key])))
    findings += [
        Finding("freezer", level["freezer"] != "signals",
                level["freezer"] if level["freezer"] != "signals" else f"SIGSTOP to a fixpoint instead ({freezer_reason})"),
        Finding("memory bound", "cgroup" in level["memory_limit"], level["memory_limit"]),
        Finding("process bound", "cgroup" in level["process_limit"], level["process_limit"]),
    ]
    return findings


def _attempts(found: dict[str, bool]) -> list[Finding]:
    findings = [Finding(f"cannot {what}", not found[key], "tried from inside: refused" if not found[key]
                        else "tried from inside: it works") for key, what in _ATTEMPTS.items()]
    return [*findings,
            Finding("can write its scratch", found["scratch"], "tried from inside"),
            Finding("can compile C++", found["compiler"], "tried from inside" if found["compiler"] else "no g++ in there")]


__all__ = ["Finding", "examine", "is_contained"]
