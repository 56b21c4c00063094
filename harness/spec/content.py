"""The content overlay: what ships with the program, and a user's project laid over it (DESIGN section 1).

A project is a folder that holds a ``gauntlet.toml``; its tasks/, suite/ and agents/ add to and override the shipped
ones. No other folder is ever looked into.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from harness.spec.document import read_text
from harness.spec.errors import ContentNotFound, SpecError, near
from harness.spec.load import load_task
from harness.spec.suite import Suite, load_suite
from harness.spec.task import Task

PROJECT_FILE = "gauntlet.toml"
TOP_KINDS = ("tasks", "agents", "leaderboard")
SUITE_KINDS = ("references", "templates", "solutions", "suites")
_PROJECT_KEYS = ("schema", "name", "results")


@dataclass(frozen=True)
class Layer:
    """One folder of content. name: "shipped" or "project"."""

    name: str
    root: Path

    def path(self, relative: str) -> Path:
        """Where `relative` (see `Content.find`) would lie in this layer."""
        first = relative.split("/", 1)[0]
        return self.root / relative if first in TOP_KINDS else self.root / "suite" / relative


@dataclass(frozen=True)
class Project:
    """A user's project. results: the folder for finalised runs, absolute."""

    root: Path
    name: str
    results: Path


@dataclass(frozen=True)
class Content:
    """Everything that can be named, from the layers; a later layer overrides an earlier one.

    base: the project's root, else the working folder; runs and results go below it.
    """

    layers: tuple[Layer, ...]
    base: Path
    project: Project | None = None

    @classmethod
    def discover(cls, root: Path | None = None, cwd: Path | None = None) -> Content:
        """The shipped content, under the project at `root`, or around `cwd` (default: the current folder) if any.

        Raises SpecError when `root` is given and is no project, or when a gauntlet.toml is wrong.
        """
        cwd = Path.cwd() if cwd is None else Path(cwd).resolve()
        if root is not None:
            home: Path | None = Path(root).resolve()
            if not (home / PROJECT_FILE).is_file():  # type: ignore[operator]
                raise SpecError(f"no {PROJECT_FILE} in {home}; make it a project with a file holding: schema = 1")
        else:
            home = next((folder for folder in (cwd, *cwd.parents) if (folder / PROJECT_FILE).is_file()), None)
        shipped = Layer("shipped", shipped_root())
        if home is None:
            return cls((shipped,), cwd)
        project = read_project(home)
        layers = (shipped,) if home == shipped.root else (shipped, Layer("project", home))
        return cls(layers, home, project)

    @property
    def results(self) -> Path:
        """The folder for finalised runs: the project's, else ``results`` in the working folder."""
        return self.project.results if self.project else self.base / "results"

    def find(self, relative: str) -> Path:
        """The file or folder called `relative` in the last layer that has it.

        relative: "templates/softmax.cpp", "references/x.py", "solutions/…", "suites/core.yaml" (all under suite/), or
        "tasks/x.yaml", "agents/x.yaml", "leaderboard/…"; always with '/'.
        Raises ContentNotFound (also a FileNotFoundError) with what exists instead, and SpecError for a path that leaves
        its layer, by ``..`` or through a symlink.
        """
        parts = _parts(relative)
        if parts[0] not in (*TOP_KINDS, *SUITE_KINDS):
            raise ContentNotFound(f"no content is called {relative!r}{near(parts[0], [*TOP_KINDS, *SUITE_KINDS])}")
        for layer in reversed(self.layers):
            path = layer.path(relative)
            if path.exists():
                return _inside(layer, path)
        raise ContentNotFound(f"no content is called {relative!r}{near(relative, self._beside(parts))}")

    def tasks(self) -> dict[str, Path]:
        """Task name → file, by name."""
        return self._listing("tasks")

    def agents(self) -> dict[str, Path]:
        """Agent name → YAML file, by name."""
        return self._listing("agents")

    def suites(self) -> dict[str, Path]:
        """Suite name → file, by name."""
        return self._listing("suites")

    def task(self, name_or_path: str | Path) -> Task:
        """The task of that name, or in that YAML file. Raises SpecError, with near names."""
        text = str(name_or_path)
        if isinstance(name_or_path, Path) or _is_path(text):
            return load_task(Path(name_or_path), self)
        known = self.tasks()
        if text not in known:
            raise ContentNotFound(f"no task is called {text!r}{near(text, known)}")
        task = load_task(known[text], self)
        if task.name != text:
            raise SpecError(f"name: {task.name!r} must be the file's name, {text!r}", known[text])
        return task

    def select(self, patterns: Iterable[str]) -> list[Task]:
        """The tasks matching names, globs or YAML paths, in the order of the patterns and, within one, by name.

        A task matched twice comes once. Raises SpecError for a pattern that matches nothing.
        """
        known = self.tasks()
        chosen: dict[str, Task] = {}
        for pattern in patterns:
            if _is_path(pattern):
                task = self.task(pattern)
                chosen.setdefault(task.name, task)
                continue
            matches = [name for name in known if fnmatch.fnmatchcase(name, pattern)]
            if not matches:
                raise ContentNotFound(f"no task matches {pattern!r}{near(pattern, known)}")
            for name in matches:
                if name not in chosen:
                    chosen[name] = self.task(name)
        return list(chosen.values())

    def suite(self, name: str) -> Suite:
        """The suite of that name. Raises SpecError, with near names."""
        known = self.suites()
        if name not in known:
            raise ContentNotFound(f"no suite is called {name!r}{near(name, known)}")
        return load_suite(known[name])

    def _listing(self, kind: str) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for layer in self.layers:
            for path in layer.path(kind).glob("*.yaml"):
                found[path.stem] = _inside(layer, path)
        return dict(sorted(found.items()))

    def _beside(self, parts: tuple[str, ...]) -> list[str]:
        """What exists in the folder that was asked for, as it would be asked for."""
        folder = "/".join(parts[:-1]) or parts[0]
        found = set()
        for layer in self.layers:
            if layer.path(folder).is_dir():
                found |= {f"{folder}/{path.name}" for path in layer.path(folder).iterdir() if path.is_file()}
        return sorted(found)


def shipped_root() -> Path:
    """Where the shipped content lies: inside an installed package, else the checkout around it. Raises SpecError."""
    package = Path(__file__).resolve().parent.parent
    if (package / "_content").is_dir():
        return package / "_content"
    checkout = package.parent
    if (checkout / "tasks").is_dir() and (checkout / "pyproject.toml").is_file():
        return checkout
    raise SpecError(f"the shipped content is missing from {package}; reinstall kernel-gauntlet")


def read_project(root: Path) -> Project:
    """The project at `root`, from its gauntlet.toml: schema = 1 and, optionally, name and results (a path).

    Raises SpecError for unknown keys and wrong values.
    """
    file = root / PROJECT_FILE
    text = read_text(file)
    data = _toml(text, file)

    def line(key: str) -> int:
        hit = re.search(rf"^\s*[\"']?{re.escape(key)}\b|^\s*\[\[?\s*{re.escape(key)}\b", text, re.MULTILINE)
        return text.count("\n", 0, hit.start()) + 1 + hit.group().count("\n") if hit else 1

    problems = [
        SpecError(f"{key}: unknown key{near(key, _PROJECT_KEYS)}", file, line(key))
        for key in data
        if key not in _PROJECT_KEYS
    ]
    if data.get("schema", 1) != 1 or isinstance(data.get("schema", 1), bool):
        problems.append(SpecError(f"schema: must be 1, not {data['schema']!r}", file, line("schema")))
    for key in ("name", "results"):
        if key in data and (not isinstance(data[key], str) or not data[key].strip()):
            problems.append(SpecError(f"{key}: must be text, not {data[key]!r}", file, line(key)))
    if problems:
        raise SpecError.of(problems)
    return Project(root, data.get("name", root.name), (root / data.get("results", "results")).resolve())


def _toml(text: str, file: Path) -> dict[str, Any]:
    try:
        try:
            import tomllib
        except ModuleNotFoundError:  # Python 3.10
            import tomli as tomllib  # type: ignore[no-redef]
    except ModuleNotFoundError:
        return _plain_toml(text, file)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+)", str(error))
        raise SpecError(f"not valid TOML: {error}", file, int(place[1]) if place else None) from None


def _plain_toml(text: str, file: Path) -> dict[str, Any]:
    """``key = 1`` and ``key = "text"`` lines: all that a gauntlet.toml needs, where Python brings no TOML parser."""
    data: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = re.fullmatch(r"\s*([A-Za-z0-9_-]+)\s*=\s*(?:(\d+)|\"([^\"\\]*)\"|'([^']*)')\s*(?:#.*)?", line)
        if not match:
            raise SpecError('must be key = 1 or key = "text" (pip install tomli for all of TOML)', file, number)
        key, integer, double, single = match.groups()
        if key in data:
            raise SpecError(f"{key}: given twice", file, number)
        data[key] = int(integer) if integer is not None else double if double is not None else single
    return data


def _is_path(text: str) -> bool:
    return text.endswith((".yaml", ".yml")) or "/" in text or "\\" in text


def _parts(relative: str) -> tuple[str, ...]:
    path = PurePosixPath(relative)
    if not path.parts or path.is_absolute() or ".." in path.parts or re.search(r"[\\:\0]", relative):
        raise SpecError(f"content path {relative!r} must be plain and relative, e.g. templates/softmax.cpp")
    return path.parts


def _inside(layer: Layer, path: Path) -> Path:
    real = path.resolve()
    if not real.is_relative_to(layer.root.resolve()):
        raise SpecError(f"leads out of {layer.root} (to {real}); put a copy there instead of a link", path)
    return path
