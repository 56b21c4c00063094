"""How far from the float64 oracle an output may lie: one small pure function per formula.

The elementwise bound on |y − o|, with ulp the spacing of the output's dtype:

    T_i = ½·ulp(o_i) + κ·(|o_i| + S_i) + 16·E_i
    S_i = max(2⁻¹⁰·rms(o), min over axes d of rms(o | index i_d))     local scale
    E_i = max over axes d of rms((|r − o| − ½ulp)₊ | index i_d)       what the reference itself cannot do better

and the overall bound ‖y − o‖₂ ≤ λ‖o‖₂ + 4‖(|r − o| − ½ulp)₊‖₂. The constants were fitted on 98 operation × dtype ×
scale cases with 252 honest implementations and 474 wrong ones. o is the oracle, r the reference as PyTorch computes it.

All tensors of one call have the same shape and live on the same device; everything is computed in float64. Axes of
length 1 do not count as axes (their slices say nothing), and an output with fewer than two axes has one scale for all.
Elements that the output's dtype cannot represent (inf, NaN, overflow) take no part in any scale.
"""

from __future__ import annotations

from functools import reduce

import torch

from harness.spec.task import Tolerance

# Stored mantissa bits and smallest normal exponent: together they fix the spacing of every binary format.
_FORMATS = {
    torch.float16: (10, -14),
    torch.bfloat16: (7, -126),
    torch.float32: (23, -126),
    torch.float64: (52, -1022),
}
# The float64 entries are the float32 rule moved to float64's roundoff and doubled: there the oracle errs as well.
_KAPPA = {
    torch.float16: 12 * 2.0**-11,
    torch.bfloat16: 12 * 2.0**-8,
    torch.float32: 2.0**-14,
    torch.float64: 2.0**-42,
}
_LAMBDA = {
    torch.float16: 1.5 * 2.0**-11,
    torch.bfloat16: 1.5 * 2.0**-8,
    torch.float32: 512 * 2.0**-24,
    torch.float64: 1024 * 2.0**-53,
}
_KAPPA_TF32 = 2.0**-8
_LAMBDA_TF32 = 1e-3
_SCALE_FLOOR = 2.0**-10
_EXCESS_FACTOR = 16.0
_L2_EXCESS_FACTOR = 4.0
_L2_ROUNDING_FACTOR = 1.5
_EXPONENT_BITS = 0x7FF0000000000000  # of a float64


def ulp(o: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Spacing of `dtype` at |o|: from |o| rounded down to `dtype` to the next larger value; float64, o's shape.

    o: float64, any shape. Subnormals have the format's constant smallest spacing; above the largest finite value the
    spacing goes on as if the exponent had no end; inf and NaN give inf. Raises KeyError for integers and booleans.
    """
    bits, smallest_exponent = _FORMATS[dtype]
    power = (o.view(torch.int64) & _EXPONENT_BITS).view(torch.float64)  # 2^⌊log2|o|⌋, exactly
    return power.clamp_(min=2.0**smallest_exponent).mul_(2.0**-bits)


def kappa(dtype: torch.dtype, precision: str = "ieee") -> float:
    """κ, the relative part of the elementwise bound; with `precision` "tf32" at least 2⁻⁸."""
    return max(_KAPPA[dtype], _KAPPA_TF32) if precision == "tf32" else _KAPPA[dtype]


def lambda_l2(dtype: torch.dtype, precision: str = "ieee") -> float:
    """λ, the relative part of the bound on ‖y − o‖₂; with `precision` "tf32" at least 1e-3."""
    return max(_LAMBDA[dtype], _LAMBDA_TF32) if precision == "tf32" else _LAMBDA[dtype]


def is_capped(dtype: torch.dtype, precision: str = "ieee") -> bool:
    """Whether the task's atol + rtol·|o| limits this output: half types and tf32 cannot be held to it."""
    return dtype in (torch.float32, torch.float64) and precision == "ieee"


def representable(o: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Which elements of o (float64) stay finite when rounded to `dtype`; bool, o's shape."""
    largest = torch.tensor(torch.finfo(dtype).max, dtype=torch.float64)
    return o.abs() < (largest + 0.5 * ulp(largest, dtype)).item()


def local_scale(o: torch.Tensor) -> torch.Tensor:
    """S: the size of each element's surroundings, so that a small row is judged at its own size; float64, o's shape.

    The smallest rms of the slices through the element (one per axis), never below 2⁻¹⁰ of the rms of the whole.
    """
    rows = torch.atleast_1d(o)
    return _scale_block(_Slices(rows), 0, len(rows)).expand(rows.shape).reshape(o.shape)


def reference_excess(r: torch.Tensor, o: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """(|r − o| − ½ulp)₊: the reference's error beyond the rounding that nobody can avoid; float64, o's shape.

    Zero where either is not finite: a reference that overflows must not widen the bound of its whole row.
    """
    excess = (r.to(torch.float64) - o).abs_().sub_(ulp(o, dtype), alpha=0.5).clamp_(min=0)
    return excess.nan_to_num_(nan=0.0, posinf=0.0)


def excess_scale(e: torch.Tensor) -> torch.Tensor:
    """E: the largest rms, over the slices through each element, of the reference's excess e; float64, e's shape."""
    rows = torch.atleast_1d(e)
    return _excess_block(_Slices(rows), 0, len(rows)).expand(rows.shape).reshape(e.shape)


def cap(
    t: torch.Tensor,
    o: torch.Tensor,
    dtype: torch.dtype,
    tolerance: Tolerance,
    reference: torch.Tensor | None = None,
    half_ulp: torch.Tensor | None = None,
) -> torch.Tensor:
    """t limited to atol + rtol·|o|, except where the reference lies outside that limit too; float64, o's shape.

    Never below ½ulp, the rounding of the exact answer; half_ulp: where the caller has it at hand. For the declared input
    scale (1) only: the caller decides.
    """
    half_ulp = ulp(o, dtype).mul_(0.5) if half_ulp is None else half_ulp
    limit = o.abs().mul_(tolerance.rtol).add_(tolerance.atol)
    if reference is not None:
        outside = (reference.to(torch.float64) - o).abs_() > limit
        limit.masked_fill_(outside, torch.inf)
    return torch.minimum(t, torch.maximum(limit, half_ulp))


def bound(
    o: torch.Tensor,
    dtype: torch.dtype,
    *,
    reference: torch.Tensor | None = None,
    tolerance: Tolerance | None = None,
    precision: str = "ieee",
) -> torch.Tensor:
    """T: the largest allowed |y − o| of each element; float64, o's shape.

    o: float64 oracle. dtype: of the judged output. reference: PyTorch's own result, which can only widen the bound.
    tolerance: the cap, applied where `is_capped`; None leaves it out. Where o is inf or NaN the result means nothing.
    """
    rule = ElementBound(o, dtype, reference=reference, tolerance=tolerance, precision=precision)
    return rule.block(0, rule.rows)[0].reshape(o.shape)


def l2_bound(
    o: torch.Tensor, dtype: torch.dtype, *, reference: torch.Tensor | None = None, precision: str = "ieee"
) -> float:
    """The largest allowed ‖y − o‖₂ over the representable elements. Arguments as in `bound`."""
    if not _all_representable(o, dtype):
        o = torch.where(representable(o, dtype), o, 0.0)
    excess = 0.0 if reference is None else _norm(reference_excess(reference, o, dtype))
    return l2_limit(_norm(o), 0.5 * _norm(ulp(o, dtype)), excess, dtype, precision)


def l2_limit(
    oracle_norm: float, half_ulp_norm: float, excess_norm: float, dtype: torch.dtype, precision: str = "ieee"
) -> float:
    """λ‖o‖ + 4‖excess‖ from the norms over the representable elements.

    λ‖o‖ is held to at least 1.5·‖½ulp‖: no more than λ‖o‖ for normal values (λ of the half types is 1.5 roundoffs), and
    what keeps the correctly rounded answer right where the output is subnormal.
    """
    allowed = max(lambda_l2(dtype, precision) * oracle_norm, _L2_ROUNDING_FACTOR * half_ulp_norm)
    return allowed + _L2_EXCESS_FACTOR * excess_norm


class ElementBound:
    """T computed a block of leading indices at a time, so that a large output needs no temporaries of its own size.

    The scales, which need all of o, are computed once. Arguments as in `bound`; a 0-d o has one leading index.
    """

    def __init__(
        self,
        o: torch.Tensor,
        dtype: torch.dtype,
        *,
        reference: torch.Tensor | None = None,
        tolerance: Tolerance | None = None,
        precision: str = "ieee",
    ) -> None:
        o = torch.atleast_1d(o)
        reference = None if reference is None else torch.atleast_1d(reference)
        self.rows = len(o)
        self._o, self._dtype, self._reference = o, dtype, reference
        self._kappa = kappa(dtype, precision)
        self._tolerance = tolerance if is_capped(dtype, precision) else None
        self.all_representable = _all_representable(o, dtype)
        valid = None if self.all_representable else representable(o, dtype)
        self._scale = _Slices(o, valid)
        self._excess = None
        self.excess_norm = 0.0
        if reference is not None:
            excess = reference_excess(reference, o, dtype)
            if valid is not None:
                excess.masked_fill_(~valid, 0.0)
            self.excess_norm = _norm(excess)
            self._excess = _Slices(excess, valid)

    def block(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(T, ½ulp) of o[start:stop], both float64 and of that shape."""
        o = self._o[start:stop]
        half_ulp = ulp(o, self._dtype).mul_(0.5)
        t = o.abs().add_(_scale_block(self._scale, start, stop)).mul_(self._kappa).add_(half_ulp)
        if self._excess is not None:
            t.add_(_excess_block(self._excess, start, stop), alpha=_EXCESS_FACTOR)
        if self._tolerance is not None:
            r = None if self._reference is None else self._reference[start:stop]
            t = cap(t, o, self._dtype, self._tolerance, r, half_ulp)
        return t, half_ulp


class _Slices:
    """rms of a tensor as a whole and over the slices of every axis longer than 1 (`axes`: kept dimensions)."""

    def __init__(self, values: torch.Tensor, valid: torch.Tensor | None = None) -> None:
        if valid is None and not bool(torch.isfinite(torch.linalg.vector_norm(values))):
            valid = torch.isfinite(values)
        if valid is not None:
            values = torch.where(valid, values, 0.0)
        long = [d for d, length in enumerate(values.shape) if length > 1]
        self.overall = _rms(values, list(range(values.ndim)), valid)
        self.axes = []
        if len(long) > 1:
            self.axes = [_rms(values, [d for d in range(values.ndim) if d != keep], valid) for keep in long]

    def block(self, start: int, stop: int) -> list[torch.Tensor]:
        """The slices' rms, each broadcastable to the values' [start:stop]; the overall rms if there are no axes."""
        return [a[start:stop] if a.shape[0] > 1 else a for a in self.axes] or [self.overall]


def _scale_block(slices: _Slices, start: int, stop: int) -> torch.Tensor:
    return torch.maximum(reduce(torch.minimum, slices.block(start, stop)), slices.overall * _SCALE_FLOOR)


def _excess_block(slices: _Slices, start: int, stop: int) -> torch.Tensor:
    return reduce(torch.maximum, slices.block(start, stop))


def _rms(values: torch.Tensor, axes: list[int], valid: torch.Tensor | None) -> torch.Tensor:
    total = torch.linalg.vector_norm(values, dim=axes, keepdim=True)
    if valid is None:
        count = torch.tensor(values.numel() // max(total.numel(), 1), dtype=torch.float64, device=values.device)
    else:
        count = valid.sum(dim=axes, keepdim=True).to(torch.float64)
    return total / count.clamp_(min=1).sqrt_()


def _norm(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values))


def _all_representable(o: torch.Tensor, dtype: torch.dtype) -> bool:
    # One cheap reduction settles nearly every case: no element is larger than the norm.
    return _norm(o) <= torch.finfo(dtype).max or bool(representable(o, dtype).all())
