"""Selections (top-k, argmax): judged by what was selected, for where scores tie no order of indices is the right one.

MEASURING section 1: right are any distinct valid indices whose oracle score reaches the k-th best within its bound T,
as long as everything that beats the k-th by more than T is among them; values must be the scores of their indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from harness.judge import tolerance as bounds
from harness.judge.compare import MAX_RATIO, Comparison, compare
from harness.spec.task import Tolerance
from harness.spec.verdict import Mismatch


def compare_selection(
    answers: Sequence[torch.Tensor],
    scores: torch.Tensor,
    expected: Sequence[tuple[torch.dtype, tuple[int, ...]]],
    *,
    score_dtype: torch.dtype,
    reference: Callable[[], torch.Tensor] | None = None,
    tolerance: Tolerance | None = None,
    precision: str = "ieee",
    cap: bool = True,
) -> list[Comparison]:
    """Judge indices, and the values selected where the task returns them; one Comparison per answer, in their order.

    answers: the indices [..., k], or [...] for one per row; before or after them, optionally, the values. scores:
    float64 [..., n], the oracle's. expected: (dtype, shape) of each answer. score_dtype: in which a candidate works.
    reference: the scores as PyTorch computes them in that dtype; called only if the answer does not pass without them.
    """
    for number, (answer, (dtype, shape)) in enumerate(zip(answers, expected, strict=True)):
        if answer.dtype != dtype or tuple(answer.shape) != tuple(shape):
            wrong = compare(answer, torch.empty(shape, dtype=torch.float64), dtype=dtype, output=number)
            return [wrong if j == number else Comparison(ok=True) for j in range(len(answers))]
    place = next(j for j, answer in enumerate(answers) if not answer.dtype.is_floating_point)
    indices = answers[place].to(torch.int64)
    single = indices.ndim == scores.ndim - 1
    picked = indices.unsqueeze(-1) if single else indices
    found = _compare_indices(picked, scores, None, score_dtype, tolerance if cap else None, precision, place)
    if not found.ok and reference is not None:
        found = _compare_indices(picked, scores, reference(), score_dtype, tolerance if cap else None, precision, place)
    results = [found] * len(answers)
    if len(answers) == 2:
        other = 1 - place
        if not found.ok:  # there is nothing that values of wrong indices could be compared with
            results[other] = Comparison(ok=True)
        else:
            values = answers[other].unsqueeze(-1) if single else answers[other]
            results[other] = compare(
                values, scores.gather(-1, picked), dtype=score_dtype, tolerance=tolerance, precision=precision, cap=cap,
                reference=None if reference is None else lambda: reference().gather(-1, picked), output=other)
    return results


def _compare_indices(picked: torch.Tensor, scores: torch.Tensor, r: torch.Tensor | None, dtype: torch.dtype,
                     tolerance: Tolerance | None, precision: str, output: int) -> Comparison:
    n, k = scores.shape[-1], picked.shape[-1]
    invalid = (picked < 0) | (picked >= n)
    if invalid.any():
        return _wrong(picked, invalid, f"no index into {n} scores", output)
    ordered, order = picked.sort(dim=-1)
    twice = torch.zeros_like(invalid)
    twice.scatter_(-1, order[..., 1:], ordered[..., 1:] == ordered[..., :-1])
    if twice.any():
        return _wrong(picked, twice, "selected twice", output)
    bound = bounds.bound(scores, dtype, reference=r, tolerance=tolerance, precision=precision)
    best, where = scores.topk(k, dim=-1)
    kth, allowed = best[..., -1:], bound.gather(-1, where[..., -1:])
    chosen = scores.gather(-1, picked)
    shortfall = (kth - chosen).clamp_(min=0)
    ratio = torch.where(shortfall > 0, shortfall / allowed, 0.0)
    worst = min(float(ratio.max()), MAX_RATIO)
    if worst > 1:
        at = ratio > 1
        return _wrong(picked, at, "its score is below the k-th best", output, worst, expected=where)
    due = scores > kth + allowed
    selected = torch.zeros_like(due).scatter_(-1, picked, True)
    missed = due & ~selected
    if missed.any():
        row = missed.any(dim=-1, keepdim=True).expand_as(picked)
        return _wrong(picked, row, "a better score of its row is left out", output, expected=where)
    return Comparison(ok=True, worst_ratio=worst, max_abs=float(shortfall.max()))


def _wrong(picked: torch.Tensor, at: torch.Tensor, why: str, output: int, worst: float = MAX_RATIO,
           expected: torch.Tensor | None = None) -> Comparison:
    first = at.nonzero()[0].tolist()
    got, count = int(picked[tuple(first)]), int(at.sum())
    right = None if expected is None else int(expected[tuple(first)])
    mismatch = Mismatch(output=output, index=first, expected=right, got=got, wrong_elements=count, elements=picked.numel())
    instead = "" if right is None else f", e.g. {right} is right there"
    return Comparison(ok=False, worst_ratio=worst, mismatch=mismatch,
                      message=f"output {output} wrong at {first}: index {got} {why}{instead} "
                              f"({count} of {picked.numel()} selected wrongly)")
