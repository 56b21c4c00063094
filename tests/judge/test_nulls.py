"""Null answers: each is what it is called, and none is the right answer by another name."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.nulls import nulls

X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, 0.0]])
ANOTHER = torch.tensor([[6.0, 5.0, 4.0], [3.0, 2.0, 10.0]])


def made(answer, another, **inputs):
    return dict(nulls(answer, another, list(inputs.items())))


def test_what_each_of_them_is():
    found = made(X, ANOTHER, x=X * 2, row=torch.tensor([7.0, 8.0, 9.0]), flag=torch.tensor(True))
    assert {name: y.tolist() for name, y in found.items()} == {
        "zeros": [[0, 0, 0], [0, 0, 0]],
        "ones": [[1, 1, 1], [1, 1, 1]],
        "the mean of another answer": [[5, 5, 5], [5, 5, 5]],
        "the answer to other inputs": [[6, 5, 4], [3, 2, 10]],
        "stale memory": [[10, 6, 5], [4, 3, 2]],
        "an echo of input x": [[2, -4, 6], [1, 0.5, 0]],
        "an echo of input row": [[7, 8, 9], [7, 8, 9]],
        "an echo of input flag": [[1, 1, 1], [1, 1, 1]],
        "the last index of axis 0 not written": [[1, -2, 3], [0, 0, 0]],
        "the last index of axis 1 not written": [[1, -2, 0], [0.5, 0.25, 0]],
        "the smallest row not written": [[1, -2, 3], [0, 0, 0]],
        "small entries zeroed": [[0, -2, 3], [0, 0, 0]],
        "top entries only": [[0, 0, 3], [0, 0, 0]],
    }


def test_an_echo_that_cannot_be_of_the_answers_shape_is_none():
    found = made(X, ANOTHER, long=torch.ones(4), turned=torch.arange(6.0).reshape(3, 2))
    assert "an echo of input long" not in found
    assert found["an echo of input turned"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_where_the_answer_is_zero_anyway_the_place_before_is_left_out():
    answer = torch.tensor([[1.0, 2.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    found = made(answer, answer + 1)
    assert found["the last index of axis 1 not written"].tolist() == [[1, 0, 0], [3, 0, 0], [0, 0, 0]]
    assert found["the smallest row not written"].tolist() == [[0, 0, 0], [3, 4, 0], [0, 0, 0]]


@given(st.integers(0, 2**31), st.sampled_from([(), (1,), (5,), (2, 3), (2, 1, 4), (0, 3)]),
       st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool]), st.booleans())
def test_all_fit_and_none_is_right(seed, shape, dtype, empty_answer):
    generator = torch.Generator().manual_seed(seed)
    answer, another = ((torch.randn(shape, generator=generator) * 3).to(dtype) for _ in range(2))
    if empty_answer:
        answer = torch.zeros_like(answer)
    before = answer.clone()
    for name, y in nulls(answer, another, [("x", another.float()), ("mask", torch.ones(shape, dtype=torch.bool))]):
        assert y.shape == answer.shape and y.dtype == answer.dtype, name
        assert not torch.equal(y, answer), name
        assert y.untyped_storage().data_ptr() not in (answer.untyped_storage().data_ptr(),
                                                      another.untyped_storage().data_ptr()), name
    assert torch.equal(answer, before)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_no_obstacle(value):
    answer = X.clone()
    answer[0, 0] = value
    found = made(answer, torch.full_like(X, value))
    assert found["the mean of another answer"].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert found["small entries zeroed"].isfinite().sum() == answer.isfinite().sum()
