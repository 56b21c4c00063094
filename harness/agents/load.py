"""From a name on the command line to an agent ready to propose."""

from __future__ import annotations

import hashlib
import inspect
import keyword
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from harness.agents.config import AgentConfig, AgentError, AgentSpec, parse_spec, read_config, split_specs
from harness.agents.protocol import Agent
from harness.spec.document import MAX_BYTES, read_regular
from harness.spec.errors import GauntletError, near

__all__ = ["LoadedAgent", "load_agent", "load_agents", "parse_spec", "split_specs"]

ENTRY_POINTS = "kernel_gauntlet.agents"


class ContentLike(Protocol):
    """What is needed of `harness.spec.content.Content`."""

    def find(self, relative: str) -> Path: ...

    def agents(self) -> dict[str, Path]: ...


@dataclass(frozen=True)
class LoadedAgent:
    """An agent under the name it competes with.

    config: as it was built: name, strategy, parameters and budget after the command line's changes.
    attempts: its budget on one task; None leaves it to the run. source: the strategy's file, None if not from a file.
    """

    name: str
    agent: Agent
    config: AgentConfig
    attempts: int | None
    source: Path | None = None


def load_agent(spec: str, content: ContentLike) -> LoadedAgent:
    """The agent named by `spec`.

    spec: ``search``, ``search:sampler=random,as=NAME,attempts=8``, ``path/to/agent.yaml[:…]``,
        ``path/file.py:Class[:…]``, or the name of an entry point of the group ``kernel_gauntlet.agents``.
    Raises AgentError or SpecError: unknown agent, strategy or parameter (naming the valid ones), code that fails.
    """
    parsed = parse_spec(spec)
    config, folder = _config(parsed, content)
    config = config.model_copy(
        update={
            "name": parsed.name or config.name,
            "parameters": {**config.parameters, **parsed.parameters},
            "attempts": parsed.attempts if parsed.attempts is not None else config.attempts,
        }
    )
    strategy, source = _strategy(config.strategy, folder, content)
    return LoadedAgent(config.name, _build(strategy, config), config, config.attempts, source)


def load_agents(texts: Iterable[str], content: ContentLike) -> list[LoadedAgent]:
    """Every agent of comma lists such as those of ``--agent``. Raises AgentError when two would share a name."""
    loaded: dict[str, LoadedAgent] = {}
    for text in texts:
        for spec in split_specs(text):
            agent = load_agent(spec, content)
            if agent.name in loaded:
                raise AgentError(f"two agents are called {agent.name!r}; give one another name, e.g. {_renamed(spec)}")
            loaded[agent.name] = agent
    return list(loaded.values())


def _renamed(spec: str) -> str:
    parsed = parse_spec(spec)
    return f"{spec},as=NAME" if parsed.parameters or parsed.attempts or parsed.name else f"{spec}:as=NAME"


def _config(spec: AgentSpec, content: ContentLike) -> tuple[AgentConfig, Path | None]:
    """The configuration and the folder in which its strategy's file is looked for first."""
    base = spec.base
    if base.endswith((".yaml", ".yml")):
        return read_config(base), Path(base).absolute().parent
    if ".py:" in base:
        name = spec.name or Path(base.partition(":")[0]).stem.lower().replace(" ", "-")
        return AgentConfig(name=name, strategy=base), Path.cwd()
    known = content.agents()
    if base in known:
        config = read_config(known[base])
        if config.name != base:
            raise AgentError(f"{known[base]}: name: {config.name!r} must be the file's name, {base!r}")
        return config, known[base].absolute().parent
    installed = sorted(point.name for point in _entry_points())
    if base in installed:
        return AgentConfig(name=spec.name or base.lower(), strategy=base), None
    if base.endswith(".py"):
        raise AgentError(f"agent {base!r} is a file: name its class too, {base}:Class")
    raise AgentError(f"no agent is called {base!r}{near(base, [*known, *installed])}")


def _strategy(strategy: str, folder: Path | None, content: ContentLike) -> tuple[Any, Path | None]:
    """The strategy's class, and the file it came from."""
    file, colon, cls = strategy.rpartition(":")
    if not colon:
        points = {point.name: point for point in _entry_points()}
        if strategy not in points:
            hint = "; a file needs its class, file.py:Class" if strategy.endswith(".py") else near(strategy, points)
            raise AgentError(f"strategy {strategy!r} is no entry point of the group {ENTRY_POINTS}{hint}")
        try:
            return points[strategy].load(), None
        except Exception as error:
            raise AgentError(f"entry point {strategy!r} could not be loaded: {_reason(error)}") from error
    path = _strategy_file(file, folder, content)
    module = _import(path)
    found = getattr(module, cls, None)
    if not inspect.isclass(found):
        classes = [n for n, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module.__name__]
        raise AgentError(f"{path} has no class {cls!r}{near(cls, classes)}")
    return found, path


def _strategy_file(file: str, folder: Path | None, content: ContentLike) -> Path:
    if folder is not None and (folder / file).is_file():
        return folder / file
    if "/" not in file:
        try:
            return content.find(f"agents/{file}")
        except FileNotFoundError:
            pass
    raise AgentError(f"there is no strategy file {file!r}{f' in {folder}' if folder else ''} nor among the agents")


def _import(path: Path) -> ModuleType:
    """The module in `path`, under a name of its own (two files called search.py do not meet), once per content."""
    path = path.resolve()
    try:
        source = read_regular(path, MAX_BYTES)
    except OSError as error:
        raise AgentError(f"{path} cannot be read: {error.strerror or error}") from None
    digest = hashlib.sha256(str(path).encode() + b"\0" + source).hexdigest()[:12]
    name = f"kernel_gauntlet_agent_{path.stem.replace('-', '_')}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # before it runs: dataclasses look their module up
    try:
        code = compile(source, str(path), "exec", dont_inherit=True)
        exec(code, module.__dict__)  # rather than an import, which would leave bytecode files among the content
    except GauntletError:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise AgentError(f"{_place(error, path)}: the strategy could not be loaded: {_reason(error)}") from error
    return module


def _build(strategy: Any, config: AgentConfig) -> Agent:
    """An instance of the strategy. A parameter named like a Python keyword (``from``) is passed as ``from_``."""
    arguments = {f"{k}_" if keyword.iskeyword(k) else k: v for k, v in config.parameters.items()}
    signature = inspect.signature(strategy)
    kinds = {p.kind for p in signature.parameters.values()}
    valid = [
        name
        for name, p in signature.parameters.items()
        if p.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    ]
    for name in arguments:
        if name not in valid and inspect.Parameter.VAR_KEYWORD not in kinds:
            shown = [_plain(n) for n in valid]
            if not shown:
                raise AgentError(f"agent {config.name!r} takes no parameters, {_plain(name)!r} was given")
            raise AgentError(f"agent {config.name!r} has no parameter {_plain(name)!r}{near(_plain(name), shown)}")
    for name in valid:
        if signature.parameters[name].default is inspect.Parameter.empty and name not in arguments:
            raise AgentError(f"agent {config.name!r} needs {_plain(name)}=…, e.g. {config.name}:{_plain(name)}=VALUE")
    try:
        agent = strategy(**arguments)
    except GauntletError:
        raise
    except Exception as error:
        raise AgentError(f"agent {config.name!r} could not be built: {_reason(error)}") from error
    if not callable(getattr(agent, "propose", None)):
        raise AgentError(f"agent {config.name!r}: {strategy.__name__} has no method propose(view, history)")
    return agent


def _plain(name: str) -> str:
    return name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name


def _entry_points() -> Iterable[metadata.EntryPoint]:
    return metadata.entry_points(group=ENTRY_POINTS)


def _place(error: BaseException, path: Path) -> str:
    """``file:line`` of the last step of `error` inside `path`."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno}"
    steps = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}:{steps[-1]}" if steps else str(path)


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
