"""The user's own data as input: ``init: {file: {path: x.npy}}`` as it is, ``init: {like: {path: x.npy}}`` drawn alike.

Files are .npy or .safetensors, never pickle. The loader writes into a task what identifies the data (sha256) and, for
``like``, its range and moments; the task's content hash follows the data, not where it lies.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.spec.errors import SpecError, near

if TYPE_CHECKING:
    import numpy as np
    import torch

SUFFIXES = (".npy", ".safetensors")
MAX_BYTES = 1 << 30
_NODES = 1 << 16


def read_tensor(path: Path, name: str = "") -> torch.Tensor:
    """The tensor in a file, on the CPU. name: which one of a .safetensors file of several.

    Raises SpecError when it cannot be read, holds objects, is too large, or does not hold `name`.
    """
    if path.suffix not in SUFFIXES:
        raise SpecError(f"{path.name}: data files end in {' or '.join(SUFFIXES)}; numpy.save writes the first", path)
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise SpecError("is not a regular file", path)
        if size > MAX_BYTES:
            raise SpecError(f"has {size} bytes; one input has at most {MAX_BYTES}", path)
        return _read_npy(path, name) if path.suffix == ".npy" else _read_safetensors(path, name)
    except OSError as error:
        raise SpecError(f"cannot be read: {error.strerror or error}", path) from None


def _read_npy(path: Path, name: str) -> torch.Tensor:
    import numpy as np
    import torch

    if name:
        raise SpecError("holds one array without a name; leave `tensor` out", path)
    try:
        array = np.load(path, allow_pickle=False)
        return torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape))
    except (ValueError, EOFError, TypeError, AttributeError) as error:
        raise SpecError(f"is not an array of numbers: {error}", path) from None


def _read_safetensors(path: Path, name: str) -> torch.Tensor:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise SpecError("reading .safetensors needs a library: pip install 'kernel-gauntlet[data]'", path) from None
    try:
        with safe_open(path, framework="pt") as file:
            known = list(file.keys())
            if not name and len(known) != 1:
                raise SpecError(f"holds {len(known)} tensors; name one with `tensor`{near('', known)}", path)
            if name and name not in known:
                raise SpecError(f"holds no tensor {name!r}{near(name, known)}", path)
            return file.get_tensor(name or known[0])
    except SafetensorError as error:
        raise SpecError(f"is not a safetensors file: {error}", path) from None


def describe(path: Path, name: str, kind: str) -> dict[str, Any]:
    """What the loader adds to the options of ``file`` and ``like``: sha256 and shape, for ``like`` range and moments."""
    tensor = read_tensor(path, name)
    if kind == "file":
        return {"sha256": _digest(tensor), "shape": list(tensor.shape)}
    values = tensor.double().flatten()
    values = values[values.isfinite()]
    if not values.numel():
        raise SpecError("holds no finite number", path)
    low, high = values.min().item(), values.max().item()
    mean, std = values.mean().item(), values.std(correction=0).item()
    if not low < high:
        raise SpecError(f"holds nothing but {low:g}; use constant", path)
    return {"low": low, "high": high, "mean": mean, "std": std}


def _digest(tensor: torch.Tensor) -> str:
    import torch

    data = tensor.contiguous().view(torch.uint8) if tensor.ndim else tensor.contiguous().reshape(1).view(torch.uint8)
    return hashlib.sha256(f"{tensor.dtype} {list(tensor.shape)} ".encode() + data.numpy().tobytes()).hexdigest()


def from_file(options: Mapping[str, Any], size: tuple[int, ...], target: torch.dtype) -> torch.Tensor:
    """A copy of the file's tensor in `target`. Raises SpecError when the file has changed since the task was loaded."""
    tensor = _kept(options["path"], options.get("tensor") or "", options["sha256"])
    if tuple(tensor.shape) != size:
        raise SpecError(f"{options['path']} has shape {list(tensor.shape)}, {list(size)} is asked for")
    return tensor.to(target, copy=True)


@functools.lru_cache(maxsize=8)
def _kept(path: str, name: str, digest: str) -> torch.Tensor:
    tensor = read_tensor(Path(path), name)
    if _digest(tensor) != digest:
        raise SpecError(f"{path} has changed since the task was loaded; load the task again")
    return tensor


def draw_like(options: Mapping[str, Any], uniform: Callable[[], np.ndarray], integral: bool) -> np.ndarray:
    """Random numbers in the range and with the mean and standard deviation of the user's data.

    A beta distribution over [low, high], by its quantiles: the one with the most freedom that keeps a bounded range and
    two moments. uniform: gives numbers in [0, 1), of any shape. integral: round to integers.
    """
    import numpy as np

    table = quantiles(options["low"], options["high"], options["mean"], options["std"])
    u = uniform() * (_NODES - 1)
    index = u.astype(np.int64)
    below = table[index]
    values = below + (u - index) * (table[index + 1] - below)
    return np.rint(values) if integral else values


@functools.lru_cache(maxsize=16)
def quantiles(low: float, high: float, mean: float, std: float) -> np.ndarray:
    """[65536] quantiles, float64, at (i + ½)/65536, of the beta distribution with that range, mean and deviation."""
    import numpy as np
    from scipy.special import betaincinv

    width = high - low
    m, v = (mean - low) / width, (std / width) ** 2
    # v reaches m(1 − m) where all values lie at the two ends
    total = max(m * (1 - m) / v - 1, 1e-3) if v > 0 else 1e9
    p = (np.arange(_NODES) + 0.5) / _NODES
    found = betaincinv(max(m * total, 1e-6), max((1 - m) * total, 1e-6), p)
    return low + width * np.nan_to_num(found, nan=m)


def resolved(path: str, folders: list[Path]) -> Path:
    """The data file `path`, below one of `folders` unless it is absolute. Raises SpecError."""
    given = Path(path)
    if ".." in given.parts:
        raise SpecError(f"{path!r} may not contain '..'; give an absolute path or a file below the task's folder")
    for folder in [Path("/")] if given.is_absolute() else folders:
        if (folder / given).is_file():
            return (folder / given).resolve()
    raise SpecError(f"no data file {path!r} in {', '.join(map(str, folders))}")

