"""What the validity gate says of a task (MEASURING section 2); `harness.judge.validity` finds it out."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

GATE_VERSION = 1  # part of what a verdict is found by: raise it when verdicts may change

Probe = Literal["reference", "random", "constant", "cancellation", "influence", "null", "spread", "precision"]


class Finding(BaseModel):
    """One probe that a task does not pass. found and needed: in units of the bound T, unless the message says else."""

    model_config = ConfigDict(extra="forbid")

    probe: Probe
    what: str = ""
    output: int | None = None
    case: str = ""
    dims: dict[str, int] = {}
    dtype: str = ""
    scale: float = 1.0
    seed: int | None = None
    found: float | None = None
    needed: float | None = None
    message: str

    @property
    def place(self) -> str:
        """Where it was found, e.g. ``at 16×64 float32, inputs scaled by 0.01``."""
        size = "×".join(map(str, self.dims.values()))
        scaled = f", inputs scaled by {self.scale:g}" if self.scale != 1.0 else ""
        return f"at {size} {self.dtype}{scaled}" if self.dims else f"in {self.dtype}{scaled}"


class Validity(BaseModel):
    """The gate's verdict on a task: valid without refusals.

    margins: null answer → by how often the bound it misses, at the least. reference_ratio: the most of the bound that
    the reference itself uses. torch: the version that ran. seconds: wall-clock.
    """

    model_config = ConfigDict(extra="forbid")

    task: str
    task_hash: str
    device: str = "cpu"
    gate: int = GATE_VERSION
    torch: str = ""
    refusals: list[Finding] = []
    warnings: list[Finding] = []
    margins: dict[str, float] = {}
    reference_ratio: float | None = None
    seconds: float = 0.0

    @property
    def valid(self) -> bool:
        """Whether answers to the task may be scored."""
        return not self.refusals

    @property
    def weakest(self) -> tuple[str, float] | None:
        """The null answer that comes nearest to passing, and its margin."""
        return min(self.margins.items(), key=lambda item: item[1], default=None)
