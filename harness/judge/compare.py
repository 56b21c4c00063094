"""One output against the oracle: is it right, how far off is it, and which element is the first wrong one.

The bounds are those of `harness.judge.tolerance`. The oracle decides; the reference, costly to compute, is asked for
only when the bound without it is not met: it can widen the bound, and its own error belongs in the report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from harness.judge import tolerance as bounds
from harness.spec.task import Tolerance
from harness.spec.verdict import Errors, Mismatch

MAX_RATIO = 1e30  # stands for "no bound would allow this": keeps records free of infinities
# A block and its temporaries stay in the cache, and PyTorch runs it on one thread: as fast as on two whose threads sleep
# between operations, and on a busy machine threads that wait for each other cost ten times more.
_BLOCK_ELEMENTS = 1 << 15
_QUANTISED_SHARE = 1e-3

# Relative L2 error up to which an output looks like each class. Operands rounded to 10 mantissa bits (tf32; float16
# operands are the same) leave about 3e-4 in a matmul; past 0.25 no number format explains the error.
_CLASSES = ((512 * 2.0**-24, "float32"), (1e-3, "tf32"), (0.25, "half"))
_REFERENCE_CLASS_FACTOR = 4.0


class UnsupportedComparison(ValueError):
    """The task asks for a kind of comparison that this version cannot do."""


@dataclass(frozen=True)
class Comparison:
    """The verdict on one output of one call.

    worst_ratio: largest |y − o| / T, above 1 is wrong. T without the reference where that sufficed, so an upper bound.
    l2_ratio: ‖y − o‖ over its bound. Both ratios end at MAX_RATIO. max_abs, max_rel: over the pairs of values that the
    dtype can represent, max_rel where o ≠ 0. rel_l2: ‖y − o‖/‖o‖. reference_rel_l2: the same of the reference, None if
    it was not computed.
    looks_like: "float32", "tf32" (or float16 operands), "half", or None when no number format explains the error.
    message: empty when ok.
    """

    ok: bool
    worst_ratio: float = 0.0
    l2_ratio: float = 0.0
    max_abs: float | None = None
    max_rel: float | None = None
    rel_l2: float | None = None
    reference_rel_l2: float | None = None
    looks_like: str | None = None
    mismatch: Mismatch | None = None
    message: str = ""


def compare(
    y: torch.Tensor,
    o: torch.Tensor,
    *,
    dtype: torch.dtype,
    reference: Callable[[], torch.Tensor] | None = None,
    tolerance: Tolerance | None = None,
    precision: str = "ieee",
    kind: str = "values",
    cap: bool = True,
    output: int = 0,
) -> Comparison:
    """Judge output y against the oracle o.

    y: the candidate's output, a plain dense tensor of `dtype`. o: same shape; float64, or integers and booleans, which
    are always compared exactly. reference: computes PyTorch's own result (o's shape, any dtype); called at most once,
    and only if y does not pass without it. tolerance: the task's; used where `cap` is true (the declared input scale)
    and the dtype can be held to it. kind: values, exact or quantised. output: its number, for the message.

    A wrong shape or dtype is a wrong output. Raises UnsupportedComparison for another kind.
    """
    if kind not in ("values", "exact", "quantised"):
        raise UnsupportedComparison(f"compare: {kind} is not a comparison of values; use values, exact or quantised")
    if y.shape != o.shape or y.dtype != dtype:
        return _unlike(y, o, dtype, output)
    if y.numel() == 0:
        return Comparison(ok=True)
    if kind == "quantised":
        return _compare_quantised(y, o, reference, output)
    if kind == "exact" or not dtype.is_floating_point:
        return _compare_exact(y, o, output)
    o = o.to(torch.float64)
    limit = tolerance if cap else None
    scan = _scan(y, o, bounds.ElementBound(o, dtype, tolerance=limit, precision=precision))
    l2_ratio = scan.l2_ratio(dtype, precision)
    r = None
    if reference is not None and (scan.worst > 1 or l2_ratio > 1):
        r = reference()
        scan = _scan(y, o, bounds.ElementBound(o, dtype, reference=r, tolerance=limit, precision=precision))
        l2_ratio = scan.l2_ratio(dtype, precision)
    return _verdict(y, o, dtype, scan, l2_ratio, r, output)


def merge(comparisons: Iterable[Comparison]) -> Errors:
    """The largest of each error over several comparisons; looks_like of the one with the largest relative L2 error."""
    found = list(comparisons)

    def largest(name: str) -> float | None:
        return max((v for c in found if (v := getattr(c, name)) is not None), default=None)

    measured = [c for c in found if c.rel_l2 is not None]
    return Errors(
        max_abs=largest("max_abs"),
        max_rel=largest("max_rel"),
        rel_l2=largest("rel_l2"),
        worst_ratio=largest("worst_ratio"),
        reference_rel_l2=largest("reference_rel_l2"),
        looks_like=max(measured, key=lambda c: c.rel_l2).looks_like if measured else None,
    )


@dataclass
class _Scan:
    """Sums of squares and extremes of one pass over an output; the sums over the pairs of representable values."""

    worst: float = 0.0
    worst_at: int = 0
    first: int | None = None  # flat index of the first wrong element
    wrong: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    square: float = 0.0
    excess_square: float = 0.0
    oracle_square: float = 0.0
    half_ulp_square: float = 0.0
    reference_excess: float = 0.0

    def l2_ratio(self, dtype: torch.dtype, precision: str) -> float:
        """‖y − o‖ over its bound."""
        oracle, half_ulp = math.sqrt(self.oracle_square), math.sqrt(self.half_ulp_square)
        allowed = bounds.l2_limit(oracle, half_ulp, self.reference_excess, dtype, precision)
        return _ratio(math.sqrt(self.square), allowed)


def _scan(y: torch.Tensor, o: torch.Tensor, bound: bounds.ElementBound) -> _Scan:
    scan = _Scan(reference_excess=bound.excess_norm)
    y, o = torch.atleast_1d(y), torch.atleast_1d(o)
    row = y[0].numel()
    step = max(1, _BLOCK_ELEMENTS // row)
    for start in range(0, bound.rows, step):
        stop = min(start + step, bound.rows)
        t, half_ulp = bound.block(start, stop)
        _scan_block(scan, y[start:stop], o[start:stop], t, half_ulp, start * row, bound.all_representable)
    return scan


def _scan_block(
    scan: _Scan,
    y: torch.Tensor,
    o: torch.Tensor,
    t: torch.Tensor,
    half_ulp: torch.Tensor,
    offset: int,
    all_representable: bool,
) -> None:
    size = o.abs()
    d = (y.to(torch.float64) - o).abs_()
    norm = float(torch.linalg.vector_norm(d))
    if all_representable and math.isfinite(norm):
        ratio = d / t
    else:
        ratio = ratio_with_non_finite(y, o, d, t)
        measured = torch.isfinite(y) & bounds.representable(o, y.dtype)
        d, size = torch.where(measured, d, 0.0), torch.where(measured, size, 0.0)
        norm = float(torch.linalg.vector_norm(d))
    worst, at = (float(v) for v in ratio.flatten().max(0))
    if worst > scan.worst:
        scan.worst, scan.worst_at = worst, offset + int(at)
    if worst > 1:
        wrong = (ratio > 1).flatten()
        scan.wrong += int(wrong.sum())
        if scan.first is None:
            scan.first = offset + int(wrong.to(torch.uint8).argmax())
    scan.square += norm**2
    scan.oracle_square += float(torch.linalg.vector_norm(size)) ** 2
    scan.max_abs = max(scan.max_abs, float(d.max()))
    scan.max_rel = max(scan.max_rel, float(torch.div(d, size.masked_fill_(size == 0, torch.inf), out=t).max()))
    if not all_representable:
        half_ulp.masked_fill_(~bounds.representable(o, y.dtype), 0.0)
    scan.half_ulp_square += float(torch.linalg.vector_norm(half_ulp)) ** 2
    scan.excess_square += float(torch.linalg.vector_norm(d.sub_(half_ulp).clamp_(min=0))) ** 2


def ratio_with_non_finite(y: torch.Tensor, o: torch.Tensor, d: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """|y − o|/T where inf or NaN occur: patterns must agree, except within T of the dtype's largest value.

    A pair that is not finite on both sides counts as 0 or MAX_RATIO.
    """
    y64 = y.to(torch.float64)
    finite = torch.isfinite(y64) & torch.isfinite(o)
    largest = torch.finfo(y.dtype).max
    overflow_allowed = torch.isinf(y64) & torch.isfinite(o) & (y64.sign() == o.sign()) & (o.abs() + t >= largest)
    agrees = (torch.isnan(y64) & torch.isnan(o)) | (y64 == o) | overflow_allowed
    return torch.where(finite, d / t, torch.where(agrees, 0.0, MAX_RATIO))


def _verdict(
    y: torch.Tensor,
    o: torch.Tensor,
    dtype: torch.dtype,
    scan: _Scan,
    l2_ratio: float,
    r: torch.Tensor | None,
    output: int,
) -> Comparison:
    rel_l2 = _ratio(math.sqrt(scan.square), math.sqrt(scan.oracle_square))
    reference_rel_l2 = None if r is None else _relative_error(r, o)
    ok = scan.worst <= 1 and l2_ratio <= 1
    excess = _ratio(math.sqrt(scan.excess_square), math.sqrt(scan.oracle_square))
    mismatch, message = None, ""
    if not ok:
        at = scan.worst_at if scan.first is None else scan.first
        mismatch = _mismatch(y, o.flatten()[at].to(dtype).item(), at, scan.wrong, output)
        message = (
            _describe(mismatch, scan.worst)
            if scan.wrong
            else f"output {output} wrong overall: relative L2 error {rel_l2:.3g}, {_times(l2_ratio)}× the bound "
            f"(no single element outside its own bound)"
        )
    return Comparison(
        ok=ok,
        worst_ratio=min(scan.worst, MAX_RATIO),
        l2_ratio=l2_ratio,
        max_abs=scan.max_abs,
        max_rel=scan.max_rel,
        rel_l2=rel_l2,
        reference_rel_l2=reference_rel_l2,
        looks_like=None if scan.worst >= MAX_RATIO else _class_of(dtype, excess, rel_l2, reference_rel_l2),
        mismatch=mismatch,
        message=message,
    )


def _compare_exact(y: torch.Tensor, o: torch.Tensor, output: int) -> Comparison:
    equal = (y == o) | ((y != y) & (o != o))
    wrong = (~equal).flatten()
    count = int(wrong.sum())
    if not count:
        return Comparison(ok=True, max_abs=0.0)
    first = int(wrong.to(torch.uint8).argmax())
    mismatch = _mismatch(y, o.flatten()[first].item(), first, count, output)
    return Comparison(
        ok=False, worst_ratio=MAX_RATIO, max_abs=_largest_difference(y, o), mismatch=mismatch,
        message=_describe(mismatch, None),
    )  # fmt: skip


def _compare_quantised(
    y: torch.Tensor, o: torch.Tensor, reference: Callable[[], torch.Tensor] | None, output: int
) -> Comparison:
    """Steps of the quantiser: none off by more than 1, and off at all at most 1e-3 + 2 × the reference's share."""
    d = (y.to(torch.float64) - o.to(torch.float64)).abs_().flatten()
    largest, off = float(d.max()), int((d > 0).sum())
    allowed = _QUANTISED_SHARE
    if largest <= 1 and off > allowed * d.numel() and reference is not None:
        allowed += 2 * float((reference().to(torch.float64) != o.to(torch.float64)).double().mean())
    share_ratio = off / d.numel() / allowed
    worst = max(largest, share_ratio)
    if worst <= 1:
        return Comparison(ok=True, worst_ratio=worst, max_abs=largest)
    far = d > 1 if largest > 1 else d > 0
    first = int(far.to(torch.uint8).argmax())
    mismatch = _mismatch(y, o.flatten()[first].item(), first, int(far.sum()), output)
    what = "off by more than one step" if largest > 1 else f"off by one step, {_times(share_ratio)}× the allowed share"
    message = f"{_describe(mismatch, None)}: {what}"
    return Comparison(ok=False, worst_ratio=worst, max_abs=largest, mismatch=mismatch, message=message)


def _unlike(y: torch.Tensor, o: torch.Tensor, dtype: torch.dtype, output: int) -> Comparison:
    def say(shape: torch.Size, of: torch.dtype) -> str:
        return f"{str(of).removeprefix('torch.')}{list(shape)}"

    expected, got = say(o.shape, dtype), say(y.shape, y.dtype)
    return Comparison(
        ok=False,
        worst_ratio=MAX_RATIO,
        mismatch=Mismatch(output=output, expected=expected, got=got, wrong_elements=o.numel(), elements=o.numel()),
        message=f"output {output} must be {expected}, got {got}",
    )


def _mismatch(y: torch.Tensor, expected: float | int, at: int, wrong: int, output: int) -> Mismatch:
    index, rest = [], at
    for length in reversed(y.shape):
        rest, position = divmod(rest, length)
        index.insert(0, position)
    got = y.flatten()[at].item()
    return Mismatch(
        output=output,
        index=index,
        expected=_plain(expected),
        got=_plain(got),
        wrong_elements=wrong,
        elements=y.numel(),
    )


def _describe(m: Mismatch, worst: float | None) -> str:
    expected, got = _tell_apart(m.expected, m.got)
    size = "" if worst is None or worst >= MAX_RATIO else f", worst {_times(worst)}× the bound"
    return (
        f"output {m.output} wrong at {m.index}: expected {expected}, got {got} "
        f"({m.wrong_elements} of {m.elements} elements wrong{size})"
    )


def _times(factor: float) -> str:
    return f"{factor:.3g}" if factor < 1000 else f"{factor:.0f}" if factor < 1e6 else f"{factor:.1e}"


def _tell_apart(expected: float | int | str | None, got: float | int | str | None) -> tuple[str, str]:
    """Both as text, with as many digits as it takes to see the difference."""
    if not (isinstance(expected, float) and isinstance(got, float)):
        return str(expected), str(got)
    texts = f"{expected:.4g}", f"{got:.4g}"
    for digits in (6, 9, 17):
        if texts[0] != texts[1]:
            break
        texts = f"{expected:.{digits}g}", f"{got:.{digits}g}"
    return texts


def _plain(value: float | int | bool) -> float | int | str:
    """Fit for JSON: inf and NaN as text, booleans as 0 and 1."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return int(value)


def _largest_difference(y: torch.Tensor, o: torch.Tensor) -> float:
    return float((y.to(torch.float64) - o.to(torch.float64)).abs_().nan_to_num_(nan=0.0, posinf=0.0).max())


def _relative_error(r: torch.Tensor, o: torch.Tensor) -> float:
    d = r.to(torch.float64) - o
    finite = torch.isfinite(d)
    return _ratio(
        float(torch.linalg.vector_norm(torch.where(finite, d, 0.0))),
        float(torch.linalg.vector_norm(torch.where(finite, o, 0.0))),
    )


def _ratio(value: float, allowed: float) -> float:
    if value == 0:
        return 0.0
    return min(value / allowed, MAX_RATIO) if allowed > 0 else MAX_RATIO


def _class_of(dtype: torch.dtype, excess: float, rel_l2: float, reference_rel_l2: float | None) -> str | None:
    """The arithmetic an error looks like; `excess` is the relative L2 error beyond the output's own rounding."""
    if dtype == torch.float64 and excess <= 1e-10:
        return "float64"
    if reference_rel_l2 is not None and rel_l2 <= _REFERENCE_CLASS_FACTOR * reference_rel_l2:
        return "float32"  # an ill-conditioned operation: the reference's own arithmetic does no better
    return next((name for limit, name in _CLASSES if excess <= limit), None)
