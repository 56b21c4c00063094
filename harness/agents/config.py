"""What an agent is: its YAML file, and how the command line names and varies one.

    schema: 1
    name: search
    strategy: search.py:Search        # a file beside this one or among the agents, or an entry point's name
    parameters: {sampler: hill_climb} # keyword arguments of the strategy's class
    attempts: 16                      # budget on one task, unless the command line sets one
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from harness.spec.document import parse_yaml, read_text
from harness.spec.errors import GauntletError
from harness.spec.explain import validate
from harness.spec.task import Model

NAME = r"^[a-z0-9][a-z0-9_.\-]{0,63}$"
_PAIR = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_INTEGER = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


class AgentError(GauntletError):
    """An agent cannot be found, understood or built."""


class AgentConfig(Model):
    """A contestant: a strategy with parameters and a name.

    strategy: ``file.py:Class``, or the name of an entry point of the group ``kernel_gauntlet.agents``.
    attempts: default budget of judged candidates on one task; None leaves it to the run.
    trusted: its candidates may be judged where the system contains nothing; for agents whose every kernel you know.
    """

    name: Annotated[str, Field(pattern=NAME)]
    strategy: Annotated[str, Field(min_length=1)]
    parameters: dict[str, Any] = Field(default_factory=dict)
    attempts: Annotated[int, Field(ge=1)] | None = None
    description: str = ""
    trusted: bool = False


@dataclass(frozen=True)
class AgentSpec:
    """One agent as written on the command line: ``base[:key=value,…]``.

    base: an agent's name, a path to its YAML, or ``path/file.py:Class``.
    parameters: keyword arguments for the strategy. name, attempts: the values of ``as=`` and ``attempts=``.
    """

    base: str
    parameters: dict[str, Any] = field(default_factory=dict)
    name: str | None = None
    attempts: int | None = None


def read_config(path: Path | str) -> AgentConfig:
    """The agent in a YAML file. Raises SpecError listing everything that is wrong, with file and line."""
    return validate(AgentConfig, parse_yaml(read_text(Path(path)), str(path)))


def split_specs(text: str) -> list[str]:
    """A comma list of agents, one text each: ``key=value`` belongs to the agent before it, all else starts one.

    ``"eager,search:sampler=random,seed=3,as=x,handwritten"`` gives ``["eager", "search:sampler=random,seed=3,as=x",
    "handwritten"]``. Raises AgentError for an empty item, and for a ``key=value`` that belongs to no agent.
    """
    agents: list[str] = []
    for part in (p.strip() for p in text.split(",")):
        if not part:
            raise AgentError(f"agents {text!r}: there is an empty item between commas")
        if not _PAIR.fullmatch(part):
            agents.append(part)
        elif agents and _has_parameters(agents[-1]):
            agents[-1] += f",{part}"
        elif agents:
            raise AgentError(f"agents {text!r}: parameters follow a colon; write {agents[-1]}:{part}")
        else:
            raise AgentError(f"agents {text!r}: {part!r} belongs to no agent; write AGENT:{part}")
    return agents


def parse_spec(text: str) -> AgentSpec:
    """``base[:key=value,…]`` taken apart; values are read as YAML would: integers, numbers, true/false, null, text.

    Raises AgentError for a malformed pair, a key given twice, or a bad ``as=`` or ``attempts=``.
    """
    base, colon, rest = text.strip().partition(":")
    if colon and base.endswith(".py") and not _PAIR.match(rest):  # path/file.py:Class[:key=value,…]
        cls, colon, rest = rest.partition(":")
        base = f"{base}:{cls}"
    if not base:
        raise AgentError(f"agent {text!r} has no name; write e.g. search:sampler=random,as=mine")
    values: dict[str, Any] = {}
    for part in rest.split(",") if colon else []:
        pair = _PAIR.fullmatch(part.strip())
        if not pair:
            raise AgentError(f"agent {text!r}: {part.strip()!r} must be key=value, e.g. sampler=random")
        key, value = pair.groups()
        if key in values:
            raise AgentError(f"agent {text!r}: {key!r} is given twice")
        values[key] = value if key == "as" else _scalar(value)
    name, attempts = values.pop("as", None), values.pop("attempts", None)
    if name is not None and not re.fullmatch(NAME, name):
        raise AgentError(f"agent {text!r}: as={name} must match {NAME}")
    if attempts is not None and (type(attempts) is not int or attempts < 1):
        raise AgentError(f"agent {text!r}: attempts={attempts} must be an integer of at least 1")
    return AgentSpec(base, values, name, attempts)


def _has_parameters(agent: str) -> bool:
    last = agent.rpartition(":")[2]
    return ":" in agent and _PAIR.match(last) is not None


def _scalar(text: str) -> Any:
    words = {"true": True, "false": False, "null": None, "~": None, "": None}
    if text.lower() in words:
        return words[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
