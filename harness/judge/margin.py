"""By what factor answers miss the bound of one output: prepared once, for many answers to the same call."""

from __future__ import annotations

import torch

from harness.judge import tolerance as bounds
from harness.judge.compare import MAX_RATIO, ratio_with_non_finite
from harness.spec.task import Tolerance


class Margin:
    """The bounds of `harness.judge.compare` for floating outputs, reference included, as one number per answer.

    o: float64 oracle, any shape with elements. dtype: of the answers. reference: PyTorch's own, o's shape. tolerance:
    the cap, None leaves it out.
    """

    def __init__(self, o: torch.Tensor, dtype: torch.dtype, *, reference: torch.Tensor,
                 tolerance: Tolerance | None = None, precision: str = "ieee") -> None:
        rule = bounds.ElementBound(o, dtype, reference=reference, tolerance=tolerance, precision=precision)
        self._o, self._shape = torch.atleast_1d(o), o.shape
        self._t, half_ulp = rule.block(0, rule.rows)
        self._valid = None if rule.all_representable else bounds.representable(self._o, dtype)

        def norm(values: torch.Tensor) -> float:
            return float(torch.linalg.vector_norm(
                values if self._valid is None else torch.where(self._valid, values, 0.0)))

        self._l2 = bounds.l2_limit(norm(self._o), norm(half_ulp), rule.excess_norm, dtype, precision)

    def miss(self, y: torch.Tensor) -> float:
        """The larger of max |y − o|/T and ‖y − o‖ over its bound: above 1 y is rejected; at most MAX_RATIO.

        y: a tensor of the dtype and shape given to the constructor.
        """
        y = torch.atleast_1d(y)
        d = (y.to(torch.float64) - self._o).abs_()
        whole = float(torch.linalg.vector_norm(d))
        if self._valid is None and whole < torch.inf:
            worst = float((d / self._t).max())
        else:
            worst = float(ratio_with_non_finite(y, self._o, d, self._t).max())
            measured = torch.isfinite(y) if self._valid is None else torch.isfinite(y) & self._valid
            whole = float(torch.linalg.vector_norm(torch.where(measured, d, 0.0)))
        overall = 0.0 if whole == 0 else whole / self._l2 if self._l2 > 0 else MAX_RATIO
        return min(max(worst, overall), MAX_RATIO)
