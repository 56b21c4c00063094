"""The task model: what is asked (DESIGN: task, case, reference).

Pure data, validated by pydantic; unknown keys are refused. Loading from YAML with file:line errors is
`harness.spec.load`; shape expressions are evaluated by `harness.spec.shapes`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Scalar = int | float | bool | str
DType = Literal["float32", "float16", "bfloat16", "float64", "int64", "int32", "int8", "uint8", "bool"]


class Model(BaseModel):
    """Base of every spec model: unknown keys are an error, values do not change after validation."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class InputSpec(Model):
    """One tensor argument of the operation.

    shape: list of arithmetic expressions over the declared dimensions, e.g. ``["rows", "2*cols"]``; ``[]`` is 0-d.
    dtype: None means the case's dtype.
    init: exactly one initialiser, ``{name: {option: value}}``: normal(mean, std), uniform(low, high),
        integers(low, high; high exclusive, may be an expression), bernoulli(p), permutation, constant(value),
        file(path, tensor), like(path, tensor). The loader adds to the last two what it found in the file.
    scales: factors by which the judge may multiply floating inputs; the reference must pass at each of them.
    """

    shape: list[str | int]
    dtype: DType | None = None
    init: dict[str, dict[str, Any]] = Field(default_factory=lambda: {"normal": {"mean": 0.0, "std": 1.0}})
    scales: list[float] = Field(default_factory=lambda: [1.0, 0.01])


class Tolerance(Model):
    """The user-facing cap: for float32 an element passes only within atol + rtol·|oracle| (or where torch does not)."""

    atol: Annotated[float, Field(gt=0)] = 1e-3
    rtol: Annotated[float, Field(gt=0)] = 1e-3


class HardwareSpec(Model):
    """What is timed on one kind of device: the names of the cases."""

    cases: list[str] = Field(default_factory=list)
    min_capability: str | None = None


class CostSpec(Model):
    """Expressions over dimensions and ``itemsize``: floating operations and bytes of one call."""

    flops: str | int | None = None
    bytes: str | int | None = None


class Case(Model):
    """One workload: a value for every dimension, and the dtype of the floating inputs and outputs."""

    name: str
    dims: dict[str, int]
    dtype: DType = "float32"


class Task(Model):
    """One operation asked of contestants.

    reference: ``path/inside/content.py:function`` (or an absolute path); resolved by the loader into
        `reference_source` (the file's text), `reference_entry`.
    args: keyword arguments passed to reference and candidate alike, fixed for the task (scalars only).
    verify: dimension → (low, high), inclusive: the range from which the judge draws unseen shapes.
    dynamic: dimensions a solution must accept without being rebuilt.
    cost: what the reference computes and moves, for the roofline; a rewriting may well need less.
    forbid: classes of candidates (who does the work) that this task does not take; they get status forbidden.
    floor: what every solution must compute and move, provably; one that is faster has every answer looked at.
    """

    schema_version: Literal[1] = Field(1, alias="schema")
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.\-]{0,63}$")]
    title: str = ""
    level: Literal["op", "fused", "model"] = "op"
    reference: str
    inputs: dict[str, InputSpec]
    outputs: Annotated[int, Field(ge=1, le=16)] = 1
    args: dict[str, Scalar] = Field(default_factory=dict)
    cases: list[Case]
    verify: dict[str, tuple[int, int]] = Field(default_factory=dict)
    dynamic: list[str] = Field(default_factory=list)
    tolerance: Tolerance = Field(default_factory=Tolerance)
    hardware: dict[str, HardwareSpec] = Field(default_factory=dict)
    precision: Literal["ieee", "tf32"] = "ieee"
    compare: Literal["values", "exact", "selection", "quantised"] = "values"
    cost: CostSpec | None = None
    floor: CostSpec | None = None
    forbid: list[Literal["mixed", "library", "reference"]] = Field(default_factory=list)
    tags: list[str] = Field(default_factory=list)
    description: str = ""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    # Filled in by the loader, never written in YAML:
    reference_source: str = ""
    reference_entry: str = ""
    source_file: str = ""

    @property
    def content_hash(self) -> str:
        """sha256 (hex) over everything that decides what is asked: the spec without its location, and the reference."""
        import hashlib
        import json

        # Unsorted: the order of inputs and dimensions is the order of a kernel's arguments.
        data = self.model_dump(mode="json", by_alias=True,
                               exclude={"source_file", "reference", "title", "description", "tags"})
        for newer in ("floor", "forbid"):  # tasks from before these existed keep their hash
            if not data[newer]:
                del data[newer]
        for spec in data["inputs"].values():
            for kind in ("file", "like"):
                spec["init"].get(kind, {}).pop("path", None)  # what is in it counts, not where it lies
        return hashlib.sha256(json.dumps(data).encode()).hexdigest()

    def anywhere(self) -> Task:
        """The same without where it was found on this machine: no folders, data files by their names."""
        def named(spec: InputSpec) -> InputSpec:
            ((kind, options),) = spec.init.items()
            name = str(options.get("path", "")).replace("\\", "/").rpartition("/")[2]
            return spec.model_copy(update={"init": {kind: {**options, "path": name}}}) if name else spec

        return self.model_copy(update={"source_file": "", "inputs": {n: named(spec) for n, spec in self.inputs.items()}})

    def case(self, name: str) -> Case:
        """The case called `name`; KeyError if there is none."""
        for case in self.cases:
            if case.name == name:
                return case
        raise KeyError(name)

    def timed_cases(self, device: str) -> list[Case]:
        """The cases timed on a kind of device ("cpu", "cuda"): those its hardware entry names, else all."""
        entry = self.hardware.get(device)
        return [self.case(n) for n in entry.cases] if entry and entry.cases else list(self.cases)
