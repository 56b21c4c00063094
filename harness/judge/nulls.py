"""Null answers: what a kernel that does not compute the operation would return (MEASURING section 2).

A task that cannot tell each of them from the right answer by a factor is worth nothing: its figures would be those of
kernels that do not do the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

TOP_SHARE = 0.01


def nulls(answer: torch.Tensor, another: torch.Tensor, inputs: Sequence[tuple[str, torch.Tensor]]
          ) -> Iterator[tuple[str, torch.Tensor]]:
    """(what it is, the output) of every null that applies to an output; each of the answer's shape and dtype.

    answer: the right output, rounded to the output's dtype. another: the right output of other inputs. inputs: the
    call's own, by name. A null that happens to be the right answer, because what it leaves out is zero anyway, is left
    out, and an answer without elements has none.
    """
    if answer.numel() == 0:
        return
    for name, made in _made(answer, another, inputs):
        if made is not None and not same(made, answer):
            yield name, made


def _made(answer: torch.Tensor, another: torch.Tensor, inputs: Sequence[tuple[str, torch.Tensor]]
          ) -> Iterator[tuple[str, torch.Tensor | None]]:
    yield "zeros", torch.zeros_like(answer)
    yield "ones", torch.ones_like(answer)
    yield "the mean of another answer", _filled_with_mean(answer, another)
    yield "the answer to other inputs", another.clone() if another.shape == answer.shape else None
    yield "stale memory", _stale(answer, another)
    for name, given in inputs:
        yield f"an echo of input {name}", _echo(answer, given)
    if answer.ndim >= 2 or (answer.ndim == 1 and len(answer) > 1):
        for axis in range(answer.ndim):
            yield f"the last index of axis {axis} not written", _unwritten(answer, another, axis)
        yield "the smallest row not written", _smallest_row_unwritten(answer, another)
    if answer.numel() > 1 and answer.dtype != torch.bool:
        yield "small entries zeroed", _small_zeroed(answer)
        yield "top entries only", _top_only(answer)


def _filled_with_mean(answer: torch.Tensor, another: torch.Tensor) -> torch.Tensor:
    values = another.to(torch.float64)
    values = values[torch.isfinite(values)]
    mean = values.mean() if values.numel() else torch.zeros((), dtype=torch.float64)
    return torch.full_like(answer, mean.item() if answer.dtype.is_floating_point else round(mean.item()))


def _stale(answer: torch.Tensor, another: torch.Tensor) -> torch.Tensor:
    """What a buffer held before: another answer, a place further on."""
    values = another.flatten()
    if values.numel() != answer.numel():
        values = values.repeat(-(-answer.numel() // max(1, values.numel())))[: answer.numel()]
    return values.roll(1).reshape(answer.shape).clone()


def _echo(answer: torch.Tensor, given: torch.Tensor) -> torch.Tensor | None:
    """An input where the output should be: of its shape, of as many elements, or repeated along it."""
    if given.dtype == torch.bool and answer.dtype != torch.bool:
        given = given.to(torch.uint8)
    if given.numel() == answer.numel():
        given = given.reshape(answer.shape)
    else:
        try:
            given = given.expand(answer.shape)
        except RuntimeError:
            return None
    return given.to(answer.dtype).clone()


def _unwritten(answer: torch.Tensor, another: torch.Tensor, axis: int) -> torch.Tensor | None:
    """The last index along `axis` that is not zero anyway, left as it was."""
    if answer.shape[axis] < 2:
        return None
    others = [a for a in range(answer.ndim) if a != axis]
    used = (answer != 0).sum(dim=others).nonzero() if others else (answer != 0).nonzero()
    if not len(used):
        return None
    made = answer.clone()
    made.select(axis, int(used[-1])).zero_()
    return made


def _smallest_row_unwritten(answer: torch.Tensor, another: torch.Tensor) -> torch.Tensor | None:
    """The row (along the last axis) of the smallest size above zero, left empty."""
    if answer.ndim < 2:
        return None
    rows = answer.reshape(-1, answer.shape[-1]).to(torch.float64)
    size = torch.linalg.vector_norm(rows.nan_to_num(), dim=-1)
    size[size == 0] = torch.inf
    at = int(size.argmin())
    if not torch.isfinite(size[at]):
        return None
    made = answer.reshape(-1, answer.shape[-1]).clone()
    made[at] = 0
    return made.reshape(answer.shape)


def _small_zeroed(answer: torch.Tensor) -> torch.Tensor | None:
    """The smaller half of what is not zero, zeroed."""
    size = answer.to(torch.float64).abs()
    there = size[(size > 0) & torch.isfinite(size)]
    if there.numel() < 2:
        return None
    return torch.where(size <= there.median(), torch.zeros_like(answer), answer)


def _top_only(answer: torch.Tensor) -> torch.Tensor | None:
    """Only the largest hundredth (at least one element)."""
    size = answer.to(torch.float64).abs().nan_to_num(nan=torch.inf).flatten()
    count = max(1, int(TOP_SHARE * size.numel()))
    kept = torch.zeros(size.shape, dtype=torch.bool).index_fill_(0, size.topk(count).indices, True)
    return torch.where(kept.reshape(answer.shape), answer, torch.zeros_like(answer))


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one shape hold the same values, NaN in the same places."""
    return bool(((a == b) | ((a != a) & (b != b))).all())
