"""Landlock alone, without namespaces or a root of one's own."""

import os


def test_only_what_is_named_can_be_read_and_written(alone, tmp_path):
    for name in ("read", "write", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    (tmp_path / "write" / "link").symlink_to(tmp_path / "other" / "file")
    facts = alone(f"""
base = {str(tmp_path)!r}
privileges.no_new_privileges()
held = os.open(base + "/other/file", os.O_RDONLY)
try:
    facts["version"] = landlock.restrict([base + "/read", base + "/missing"], [base + "/write"], ["/dev/null"])
except OSError as error:
    facts["unsupported"] = str(error)
else:
    facts["read"] = [tried(open, f"{{base}}/{{name}}/file") for name in ("read", "write", "other")]
    facts["list"] = [tried(os.listdir, f"{{base}}/{{name}}") for name in ("read", "write", "other", ".")]
    facts["write"] = [tried(open, f"{{base}}/{{name}}/file", "r+") for name in ("read", "write", "other")]
    facts["make"] = [tried(open, f"{{base}}/{{name}}/new", "w") for name in ("read", "write", "other")]
    facts["through a link"] = tried(open, base + "/write/link")
    facts["hard link"] = tried(os.link, base + "/read/file", base + "/write/linked")
    facts["rename out"] = tried(os.rename, base + "/write/new", base + "/other/new")
    facts["rename within"] = tried(os.rename, base + "/write/new", base + "/write/renamed")
    facts["truncate"] = tried(os.truncate, base + "/read/file", 0)
    facts["null"] = tried(open, "/dev/null", "w")
    facts["zero"] = tried(open, "/dev/zero")
    facts["passwd"] = tried(open, "/etc/passwd")
    facts["program"] = tried(os.execv, "/bin/true", ["true"])
    facts["held"] = os.read(held, 9).decode()
    facts["memfd"] = tried(open, f"/proc/self/fd/{{os.memfd_create('x')}}")
""")
    refused = {"EACCES", "EXDEV"}
    assert facts["read"] == [None, None, "EACCES"] and facts["list"] == [None, None, "EACCES", "EACCES"]
    assert facts["write"] == ["EACCES", None, "EACCES"] and facts["make"] == ["EACCES", None, "EACCES"]
    assert facts["through a link"] == facts["zero"] == facts["passwd"] == facts["program"] == "EACCES"
    assert {facts["hard link"], facts["rename out"]} <= refused and facts["rename within"] is None
    assert facts["null"] is None and facts["held"] == "other"
    assert facts["truncate"] == ("EACCES" if facts["version"] >= 3 else None)
    assert (tmp_path / "other" / "file").read_text() == "other" and os.listdir(tmp_path / "other") == ["file"]


def test_no_tcp_and_no_signals_to_the_outside(alone):
    facts = alone("""
server = socket.create_server(("127.0.0.1", 0))
outside = os.getppid()
facts["before"] = [tried(socket.create_connection, server.getsockname()), tried(os.kill, outside, 0)]
privileges.no_new_privileges()
try:
    facts["version"] = landlock.restrict(["/"], [], [])
except OSError as error:
    facts["unsupported"] = str(error)
facts["after"] = [tried(socket.create_connection, server.getsockname()), tried(os.kill, outside, 0)]
facts["itself"] = tried(os.kill, os.getpid(), 0)
""")
    assert facts["before"] == [None, None] and facts["itself"] is None
    assert facts["after"] == ["EACCES" if facts["version"] >= 4 else None, "EPERM" if facts["version"] >= 6 else None]


def test_children_inherit_it_and_cannot_widen_it(alone, tmp_path):
    (tmp_path / "file").write_text("x")
    facts = alone(f"""
import subprocess
privileges.no_new_privileges()
try:
    landlock.restrict([sys.prefix, sys.base_prefix, "/usr", "/lib", "/lib64", "/bin"], [], ["/dev/null"])
except OSError as error:
    facts["unsupported"] = str(error)
else:
    facts["child"] = subprocess.run(["cat", {str(tmp_path / "file")!r}], stderr=subprocess.DEVNULL).returncode
    landlock.restrict(["/"], ["/"], [])
    facts["wider"] = tried(open, {str(tmp_path / "file")!r})
""")
    assert facts["child"] == 1 and facts["wider"] == "EACCES"
