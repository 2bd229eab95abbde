"""Indices of tensors, lists and masks, read and written, as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer import Tensor
from kuiperinfer import tensor as kt
from kuiperinfer.errors import InputError, ShapeError


def pair(*shape: int) -> tuple[Tensor, torch.Tensor]:
    count = int(np.prod(shape, dtype=int))
    return kt.arange(count, dtype="f32").view(shape), torch.arange(count, dtype=torch.float32).view(shape)


def in_torch(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(map(in_torch, index))
    return (
        torch.tensor(index.tolist(), dtype=getattr(torch, index.dtype.torch_names[0]))
        if isinstance(index, Tensor)
        else index
    )


INDICES: list[Any] = [
    [1, 0, 1],
    [],
    kt.tensor([2, -1]),
    kt.tensor([[0, 1], [1, 2]]),
    kt.tensor(1),
    True,
    False,
    (0, slice(None), [1, 2]),
    (slice(None), [0, 2], [1, 3]),
    ([0, 2], slice(None), [1, 3]),
    ([0, 2], None, [1, 1]),
    (Ellipsis, [3, 0]),
    (Ellipsis, kt.tensor([0, 1]), slice(1, None)),
    (slice(None, None, 2), [0, 2]),
    ([[0], [2]], [0, 1, 2]),
    ([0, 1, 2], 1),
    (1, [0, 1, 2]),
    (1, [0, 1, 2], 2),
    (None, [0, 1]),
    ([True, False, True],),
    (slice(None), [True, False, True]),
    (kt.tensor([[True, False, True]] * 3), 2),
    kt.tensor([[[True, False, False, True]] * 3] * 3),
    (kt.tensor([True, False, True]), slice(None), [0, 1]),
    (kt.tensor([False] * 3),),
    np.array([1, 2]),
    kt.tensor([1, 2], dtype="i32"),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_reading_is_that_of_torch(index: Any) -> None:
    ours, theirs = pair(3, 3, 4)
    found, expected = ours[index], theirs[in_torch(index)]
    assert found.shape == tuple(expected.shape) and found.tolist() == expected.tolist()
    if index not in (True, 1) if isinstance(index, (bool, int)) else not (isinstance(index, Tensor) and not index.ndim):
        assert not found.shares_memory_with(ours) and found.is_contiguous()


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_writing_is_that_of_torch(index: Any) -> None:
    ours, theirs = pair(3, 3, 4)
    ours[index] = -1
    theirs[in_torch(index)] = -1
    assert ours.tolist() == theirs.tolist()
    assert ours.storage.version == 1
    shown = tuple(theirs[in_torch(index)].shape)
    values = np.arange(np.prod(shown, dtype=int), dtype=np.int64).reshape(shown)
    ours[index] = kt.tensor(values)
    theirs[in_torch(index)] = torch.tensor(values, dtype=torch.float32)
    assert ours.tolist() == theirs.tolist()
    ours[index] += 100
    theirs[in_torch(index)] += 100
    assert ours.tolist() == theirs.tolist()


@given(st.data())
def test_gathering_from_any_view(data: st.DataObject) -> None:
    ours, theirs = pair(4, 3, 2)
    order = data.draw(st.permutations(range(3)))
    ours, theirs = ours.permute(order), theirs.permute(order)
    lists = st.lists(st.integers(-2, 1), min_size=2, max_size=2)
    items = tuple(
        data.draw(st.lists(st.one_of(lists, st.integers(-2, 1), st.just(slice(None)), st.none()), max_size=3))
    )
    assert ours[items].tolist() == theirs[items].tolist()


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([0, 3], r"index does not fit shape \(3, 4\): index 3 is out of bounds for axis 0 with size 3"),
        (([0, 1], [0, 1, 2]), "could not be broadcast"),
        ([True, False], "boolean index did not match"),
        (([0], [0], [0]), "too many indices: 3 for a tensor of 2 dimensions"),
        ([0.5], r"made of integers, slices, None, ... or bools; found \[0.5\]"),
        ("a", "found 'a'"),
        ([[0], [0, 1]], "lists of equal lengths"),
        (slice(0, 1.5), "a slice is made of integers, found 0, 1.5 and None"),
    ],
)
def test_indices_that_do_not_fit(index: Any, message: str) -> None:
    x = kt.zeros(3, 4)
    with pytest.raises(InputError, match=message):
        x[index]
    with pytest.raises(InputError, match=message):
        x[index] = 1
    assert x.storage.version == 0


def test_values_that_do_not_fit() -> None:
    x = kt.zeros(3, 4)
    with pytest.raises(ShapeError, match=r"values of shape \(3,\) cannot be broadcast to shape \(2, 4\)"):
        x[[0, 1]] = [1.0, 2, 3]
    with pytest.raises(ShapeError, match=r"values of shape \(3,\) cannot be broadcast to shape \(2, 4\)"):
        x[:2] = [1.0, 2, 3]
    assert x.storage.version == 0


@pytest.mark.parametrize("index", [0, (0, 0), [0, 2], (slice(None), 1), ...])
def test_values_may_have_leading_dimensions_of_size_1(index: Any) -> None:
    ours, theirs = kt.zeros(3, 4), torch.zeros(3, 4)
    values = np.arange(1.0, 1 + theirs[index].numel(), dtype=np.float32).reshape(1, 1, *theirs[index].shape)
    ours[index], theirs[index] = values, torch.from_numpy(values)
    assert ours.tolist() == theirs.tolist()
    with pytest.raises(ShapeError, match="cannot be broadcast"):
        ours[index] = np.repeat(values, 2, 1)


def test_an_index_is_what_it_was_when_it_was_used() -> None:
    x = kt.arange(4, dtype="f32").requires_grad_()
    index = kt.tensor([0, 1])
    gathered = x[index]
    index.fill_(3)
    gathered.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 1, 0, 0]
