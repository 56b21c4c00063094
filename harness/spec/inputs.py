"""Input generation: shapes and dtypes of a case, and tensors drawn from a task's declared distributions.

Torch and numpy are imported when something is drawn, not before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.spec.data import draw_like, from_file
from harness.spec.errors import SpecError, near
from harness.spec.shapes import evaluate, shape
from harness.spec.task import Case, InputSpec, Task

if TYPE_CHECKING:
    import numpy as np
    import torch

ITEMSIZE = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
FLOATING = ("float64", "float32", "float16", "bfloat16")
INTEGER_RANGE = {"int64": (-(2**63), 2**63), "int32": (-(2**31), 2**31), "int8": (-128, 128), "uint8": (0, 256)}
SHORT_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "i64": "int64", "i32": "int32", "i8": "int8", "u8": "uint8",
}  # fmt: skip

REQUIRED: Any = object()
INITIALISERS: dict[str, dict[str, Any]] = {
    "normal": {"mean": 0.0, "std": 1.0},
    "uniform": {"low": 0.0, "high": 1.0},
    "integers": {"low": 0, "high": REQUIRED},
    "bernoulli": {"p": 0.5},
    "permutation": {},
    "constant": {"value": REQUIRED},
    "file": {"path": REQUIRED, "tensor": ""},
    "like": {"path": REQUIRED, "tensor": ""},
}
# What the loader adds to the options of `file` and `like`; a user does not write it.
DESCRIBED = {"file": ("sha256", "shape"), "like": ("low", "high", "mean", "std")}
SCALED = ("normal", "uniform", "like")


@dataclass(frozen=True)
class ResolvedInput:
    """One input of one case: shape in elements, dtype by name, and the initialiser ``{name: {option: value}}``."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    init: dict[str, dict[str, Any]]

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a 0-d tensor."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of the dense tensor."""
        return self.elements * itemsize(self.dtype)


def itemsize(dtype: str) -> int:
    """Bytes of one element of `dtype` (a name such as "float16"). Raises SpecError for an unknown name."""
    if dtype not in ITEMSIZE:
        raise SpecError(f"unknown dtype {dtype!r}{near(dtype, ITEMSIZE)}")
    return ITEMSIZE[dtype]


def is_floating(dtype: str) -> bool:
    """Whether `dtype` (a name) is a floating type: the ones that scales apply to."""
    return dtype in FLOATING


def torch_dtype(name: str) -> torch.dtype:
    """The torch.dtype called `name`. Raises SpecError for a name no task may use."""
    import torch

    itemsize(name)
    return getattr(torch, name)


def resolve(task: Task, case: Case) -> list[ResolvedInput]:
    """Every input of `case`, in the order in which reference and candidate take them."""
    return [
        ResolvedInput(name, shape(spec.shape, case.dims), spec.dtype or case.dtype, spec.init)
        for name, spec in task.inputs.items()
    ]


def draw(
    spec: InputSpec,
    dims: Mapping[str, int],
    dtype: str,
    generator: np.random.Generator,
    scale: float = 1.0,
    offset_free: bool = True,
) -> torch.Tensor:
    """A fresh contiguous CPU tensor of the distribution of `spec`.

    dtype: the case's dtype, used where `spec` names none. Values are drawn in float32 (float64 for float64), multiplied
    by `scale`, then rounded to the dtype. scale: applies to normal, uniform and floating like; what carries structure (integers,
    bernoulli, permutation, constant) stays as it is.
    offset_free: False lets the data begin 1 to 15 elements into their storage, as a view of a larger buffer would.
    Raises SpecError for a shape or an initialiser that makes no sense.
    """
    import numpy as np
    import torch

    dtype = spec.dtype or dtype
    target = torch_dtype(dtype)
    size = shape(spec.shape, dims)
    (kind, given), *_ = spec.init.items()
    if kind not in INITIALISERS:
        raise SpecError(f"unknown initialiser {kind!r}{near(kind, INITIALISERS)}")
    options = {**INITIALISERS[kind], **given}
    real = np.float64 if dtype == "float64" else np.float32

    if kind == "normal":
        values = generator.standard_normal(size, dtype=real)
        values = (values * real(options["std"]) + real(options["mean"])) * real(scale)
    elif kind == "uniform":
        low, high = options["low"], options["high"]
        values = (generator.random(size, dtype=real) * real(high - low) + real(low)) * real(scale)
    elif kind == "integers":
        low, high = evaluate(options["low"], dims), evaluate(options["high"], dims)
        if low >= high:
            raise SpecError(f"integers: low {low} is not below high {high} (exclusive) at {dict(dims)}")
        values = generator.integers(low, high, size, dtype=np.int64)
    elif kind == "bernoulli":
        values = generator.random(size, dtype=np.float32) < options["p"]
    elif kind == "file":
        return offset_by(from_file(options, size, target), generator, offset_free)
    elif kind == "like":
        values = draw_like(options, lambda: generator.random(size), not is_floating(dtype))
        values = values * scale if is_floating(dtype) else values
    elif kind == "permutation":
        if not size:
            raise SpecError("permutation needs at least one axis")
        values = generator.permuted(np.broadcast_to(np.arange(size[-1]), size), axis=-1)
    else:
        values = np.full(size, options["value"], dtype=np.float64 if is_floating(dtype) else np.int64)

    # A 0-d draw is a Python-like scalar in numpy, hence asarray.
    tensor = torch.from_numpy(np.ascontiguousarray(np.asarray(values)).reshape(size)).to(target)
    return offset_by(tensor, generator, offset_free)


def offset_by(tensor: torch.Tensor, generator: np.random.Generator, offset_free: bool) -> torch.Tensor:
    """`tensor` as it is, or as a view that begins 1 to 15 elements into its storage."""
    import torch

    if offset_free:
        return tensor
    offset = int(generator.integers(1, 16))
    storage = torch.empty(tensor.numel() + offset, dtype=tensor.dtype)
    return storage[offset:].view(tensor.shape).copy_(tensor)


def draw_all(
    task: Task, case: Case, generator: np.random.Generator, scale: float = 1.0, offset_free: bool = True
) -> dict[str, torch.Tensor]:
    """One fresh set of inputs of `case`, by name, in the order of the arguments."""
    return {
        name: draw(spec, case.dims, case.dtype, generator, scale, offset_free) for name, spec in task.inputs.items()
    }
