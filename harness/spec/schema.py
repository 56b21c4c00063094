"""JSON Schemas of the YAML files people write, so that an editor completes and checks them while they type."""

from __future__ import annotations

from typing import Any, get_args

from harness.spec.inputs import INITIALISERS, REQUIRED
from harness.spec.load import LOADER_FIELDS
from harness.spec.task import DType, Task

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS = ("task", "suite", "agent")


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a kind of file: "task", "suite" or "agent". KeyError for another."""
    return {"task": _task, "suite": _suite, "agent": _agent}[kind]()


def _task() -> dict[str, Any]:
    found = _of(Task, "A task of Kernel Gauntlet")
    for name in LOADER_FIELDS:
        found["properties"].pop(name)
    # In the file cases are a mapping by name, of dimensions and a dtype side by side.
    found["$defs"].pop("Case")
    size = {"type": "integer", "minimum": 1, "exclusiveMaximum": 2**31}
    found["properties"]["cases"] = {
        "type": "object", "minProperties": 1,
        "description": "name: {dimension: size, …, dtype: of the floating inputs and outputs}",
        "additionalProperties": {
            "type": "object", "additionalProperties": size,
            "properties": {"dtype": {"enum": list(get_args(DType)), "default": "float32"}},
        },
    }
    found["$defs"]["InputSpec"]["properties"]["init"] = _initialiser()
    return found


def _initialiser() -> dict[str, Any]:
    kinds = {}
    for kind, options in INITIALISERS.items():
        value = {"type": ["integer", "string"]} if kind == "integers" else {"type": ["number", "boolean"]}
        kinds[kind] = {
            "type": "object", "additionalProperties": False,
            "properties": {name: value if default is REQUIRED else {**value, "default": default}
                           for name, default in options.items()},
            "required": [name for name, default in options.items() if default is REQUIRED],
        }
    return {"type": "object", "properties": kinds, "additionalProperties": False, "minProperties": 1, "maxProperties": 1,
            "description": "How the input is drawn: exactly one of the names, with its options"}


def _suite() -> dict[str, Any]:
    from harness.spec.suite import Suite

    return _of(Suite, "A suite of Kernel Gauntlet")


def _agent() -> dict[str, Any]:
    from harness.agents.config import AgentConfig

    found = _of(AgentConfig, "An agent of Kernel Gauntlet")
    found["properties"] = {"schema": {"const": 1, "default": 1}, **found["properties"]}
    return found


def _of(model: type, title: str) -> dict[str, Any]:
    found = model.model_json_schema(by_alias=True)
    return {"$schema": DIALECT, **found, "title": title}
