"""The wheel: everything that belongs in it, nothing else, and it works from an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CONTENT = ("tasks", "suite", "agents", "leaderboard")

pytest.importorskip("hatchling", reason="the wheel is built with hatchling: pip install 'kernel-gauntlet[test]'")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True,
                   stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def files(folder: str) -> set[str]:
    """The files of a folder of the checkout, as paths from its root; what tools leave behind is not one."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.parametrize("folder", CONTENT)
def test_content_is_in_the_package(names, folder):
    expected = files(folder)
    assert expected
    inside = f"harness/_content/{folder}/"
    assert {f"{folder}/{name.removeprefix(inside)}" for name in names if name.startswith(inside)} == expected


def test_every_module_is_in_the_wheel(names):
    assert {name for name in names if name.startswith("harness/") and "_content" not in name} == files("harness")


def test_nothing_else_is_in_the_wheel(names):
    assert {name.partition("/")[0] for name in names} == {"harness", name_of_metadata(names)}
    assert {name.split("/")[2] for name in names if name.startswith("harness/_content/")} == set(CONTENT)


def name_of_metadata(names: set[str]) -> str:
    (found,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
    return found


def test_metadata(wheel, names):
    import harness

    folder = name_of_metadata(names)
    assert folder == f"kernel_gauntlet-{harness.__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        assert "harness = harness.cli.main:main" in archive.read(f"{folder}/entry_points.txt").decode()
        metadata = archive.read(f"{folder}/METADATA").decode()
    assert f"{folder}/licenses/LICENSE" in names
    assert re.search(r"^License-Expression: Apache-2\.0$", metadata, re.M)
    assert re.search(r"^Requires-Python: >=3\.10$", metadata, re.M)
    assert not re.search(r"^Requires-Dist: pytest[^;]*$", metadata, re.M)


def test_constraints_cover_what_is_installed():
    """Every package that `make env` installs by name has a tested version."""
    text = (ROOT / "pyproject.toml").read_text()
    patterns = (r"^dependencies = \[(.*?)^\]", r"^test = \[(.*?)\]$")
    lists = [re.search(pattern, text, re.M | re.S)[1] for pattern in patterns]
    wanted = {name.lower() for name in re.findall(r'"([A-Za-z0-9-]+)', "".join(lists))}
    pinned = {name.lower() for name in re.findall(r"^([\w-]+)==", (ROOT / "constraints.txt").read_text(), re.M)}
    assert wanted and wanted <= pinned, sorted(wanted - pinned)


@pytest.fixture
def installed(wheel, tmp_path):
    """Runs `harness` from the unpacked wheel (a pure one: unpacking is installing) in an empty folder."""
    site = tmp_path / "lib" / "site-packages"
    zipfile.ZipFile(wheel).extractall(site)
    empty = tmp_path / "empty"
    empty.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(site), "GAUNTLET_CACHE": str(tmp_path / "cache"), "COLUMNS": "100"}

    def harness(*arguments: str) -> str:
        where = subprocess.run([sys.executable, "-c", "import harness; print(harness.__file__)"], cwd=empty, text=True,
                               env=environment, capture_output=True, check=True).stdout
        assert Path(where.strip()).is_relative_to(site), "this would test the checkout"
        done = subprocess.run([sys.executable, "-m", "harness", *arguments], cwd=empty, env=environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return harness


def test_an_installed_wheel_lists_its_content(installed):
    assert {"matmul", "softmax"} <= set(installed("list", "tasks", "--format", "csv").replace("\n", ",").split(","))
    assert {"eager", "search"} <= set(installed("list", "agents", "--format", "csv").replace("\n", ",").split(","))


def test_an_installed_wheel_runs_in_an_empty_folder(installed, tmp_path):
    out = installed("run", "--agent", "eager", "--tasks", "softmax", "--depth", "screen", "--no-compile-opponent")
    assert "Records" in out
    assert len(list((tmp_path / "empty" / "results").rglob("run.json"))) == 1
    assert (tmp_path / "empty" / ".harness" / "leaderboard" / "index.html").is_file()
