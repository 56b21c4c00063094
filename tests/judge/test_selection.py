"""Selections against scores whose order is known by construction."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.selection import compare_selection
from harness.spec.task import Tolerance

F32, I64 = torch.float32, torch.int64


def judge(answers, scores, **options):
    expected = [(a.dtype, tuple(a.shape)) for a in answers]
    return compare_selection(answers, scores.double(), expected, score_dtype=F32, tolerance=Tolerance(), **options)


def ladder(rows=4, n=50):
    """Scores 0 … n−1 in a shuffled order, the same values in every row."""
    return torch.stack([torch.randperm(n, generator=torch.Generator().manual_seed(row)) for row in range(rows)]).float()


@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 2**31))
def test_torchs_own_answer_is_right_in_any_order(rows, n, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, n, generator=generator)
    k = int(torch.randint(1, n + 1, (), generator=generator))
    values, indices = torch.topk(x, k)
    assert all(c.ok for c in judge([values, indices], x))
    order = torch.randperm(k, generator=generator)
    assert all(c.ok for c in judge([values[:, order], indices[:, order]], x))
    assert all(c.ok for c in judge([indices, values], x))


def test_ties_may_be_broken_either_way():
    scores = torch.tensor([[1.0, 5.0, 5.0, 5.0, 0.0]])
    for picked in ([1, 2], [1, 3], [2, 3], [3, 1]):
        assert judge([torch.tensor([picked])], scores)[0].ok


def test_scores_closer_than_the_bound_count_as_tied_and_no_others():
    scores = torch.tensor([[1.0, 1.0 + 1e-6, 0.0, 0.9]])
    assert judge([torch.tensor([[0]])], scores)[0].ok
    wrong = judge([torch.tensor([[3]])], scores)[0]
    assert not wrong.ok and wrong.worst_ratio > 100 and "index 3 its score is below the k-th best" in wrong.message


def test_a_better_one_left_out_is_found_although_what_was_taken_is_tied_with_the_kth():
    scores = torch.tensor([[9.0, 5.0, 5.0, 5.0]])
    found = judge([torch.tensor([[1, 2]])], scores)[0]
    assert not found.ok and "a better score of its row is left out" in found.message
    assert judge([torch.tensor([[0, 2]])], scores)[0].ok


@pytest.mark.parametrize("change, words", [
    (lambda i: i[:, 1:2].expand_as(i), "selected twice"),
    (lambda i: i + 50, "no index into 50 scores"),
    (lambda i: i - 51, "no index into 50 scores"),
    (lambda i: i.flip(0), "below the k-th best"),
    (torch.zeros_like, "selected twice"),
])
def test_wrong_indices_are_told_with_their_place(change, words):
    scores = ladder()
    values, indices = torch.topk(scores, 3)
    found = judge([values, change(indices).contiguous()], scores)
    assert found[0].ok and not found[1].ok and words in found[1].message and found[1].mismatch.output == 1
    assert found[1].worst_ratio > 1


def test_values_must_be_those_of_the_indices():
    scores = ladder()
    values, indices = torch.topk(scores, 3)
    values[2, 1] += 1
    found = judge([values, indices], scores)
    assert found[1].ok and not found[0].ok and found[0].mismatch.index == [2, 1]


def test_argmax_is_a_selection_of_one_without_an_axis():
    scores = ladder()
    assert judge([scores.argmax(-1)], scores)[0].ok
    assert not judge([scores.argmin(-1)], scores)[0].ok
    values, indices = scores.max(-1)
    assert all(c.ok for c in judge([values, indices], scores))


def test_what_the_reference_cannot_tell_apart_is_not_asked_of_anyone():
    """Scores that PyTorch itself gets wrong by 0.5 are tied within 0.5; it is asked only where that matters."""
    scores = torch.tensor([[1.0, 1.2, 0.0, 0.1]]).double()
    asked = []

    def reference():
        asked.append(1)
        return scores.float() + 0.5

    assert compare_selection([torch.tensor([[1]])], scores, [(I64, (1, 1))], score_dtype=F32, reference=reference)[0].ok
    assert asked == []
    assert compare_selection([torch.tensor([[0]])], scores, [(I64, (1, 1))], score_dtype=F32, reference=reference)[0].ok
    assert asked == [1]


def test_another_shape_or_dtype_is_wrong():
    scores = ladder()
    values, indices = torch.topk(scores, 3)
    expected = [(F32, (4, 3)), (I64, (4, 3))]
    for answers in ([values, indices.int()], [values[:, :2], indices], [values.double(), indices]):
        found = compare_selection(answers, scores.double(), expected, score_dtype=F32)
        assert [c.ok for c in found].count(False) == 1
        assert "must be" in next(c for c in found if not c.ok).message
