"""A candidate: source, language and entry point (DESIGN section 6). Data only; nothing here is ever executed."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_SOURCE_BYTES = 2_000_000
Language = Literal["python", "cpp"]


class Candidate(BaseModel):
    """One answer of an agent.

    language: ``python`` (a file defining `entry`, or KernelBench's class ModelNew) or ``cpp`` (a file with one
        ``extern "C"`` launcher called `entry`; see docs/candidates.md for its arguments).
    entry: name of the function or class inside the source.
    flags: extra compiler flags for cpp (``-D`` and ``-O``/``-f``/``-m`` options; checked by the judge).
    parameters: what a template was filled with, for the record; decides nothing.
    note: one line from the agent about what this is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Annotated[str, Field(max_length=MAX_SOURCE_BYTES)]
    language: Language = "python"
    entry: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")] = "kernel"
    flags: list[str] = Field(default_factory=list)
    parameters: dict[str, Any] = Field(default_factory=dict)
    note: str = ""

    @property
    def hash(self) -> str:
        """sha256 (hex) of what is executed: source, language, entry, flags."""
        text = json.dumps([self.source, self.language, self.entry, self.flags])
        return hashlib.sha256(text.encode()).hexdigest()
