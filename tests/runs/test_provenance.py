"""What a record says of where it comes from."""

from __future__ import annotations

import getpass
import json
import shutil
import socket
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from harness.runs.provenance import git_state, package_versions, provenance


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_state(tmp_path):
    assert git_state(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert git_state(tmp_path) == {"commit": None, "dirty": False}
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-q", "-m", "a")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert git_state(tmp_path) == {"commit": head, "dirty": False}
    (tmp_path / "a").write_text("2")
    assert git_state(tmp_path) == {"commit": head, "dirty": True}


def test_git_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) is None


def test_versions():
    found = package_versions(("numpy", "no-such-distribution"))
    assert found["numpy"] == metadata.version("numpy")
    assert "no-such-distribution" not in found and "kernel-gauntlet" in found


def test_no_names_of_people_hosts_or_folders(tmp_path):
    folder = tmp_path / "a-telling-name"
    folder.mkdir()
    text = json.dumps(provenance(folder))
    assert "a-telling-name" not in text and str(Path.home()) + "/" not in text
    for name in (socket.gethostname(), getpass.getuser()):
        if len(name) > 5:
            assert name not in text
