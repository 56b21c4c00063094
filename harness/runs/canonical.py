"""One spelling for every JSON document we write, so that equal content has equal bytes (and equal sha256)."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any


def finite(value: Any) -> Any:
    """`value` with non-finite floats as the strings "Infinity", "-Infinity", "NaN": strict JSON has no such numbers.

    pydantic reads the strings back into float fields as the floats they name.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def canonical_json(value: Any, indent: int | None = None) -> str:
    """JSON in the order of its keys, ASCII only, strictly standard; on one line unless `indent` is given.

    Keys are not sorted: models dump their fields in one fixed order, and the order of a task's inputs and dimensions is
    the order of a kernel's arguments. Raises TypeError for what JSON cannot hold (dump models to plain values first).
    """
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(finite(value), allow_nan=False, separators=separators, indent=indent)


def sha256_hex(data: bytes) -> str:
    """sha256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
