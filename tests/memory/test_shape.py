"""Shapes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from kuiperinfer.errors import ShapeError
from kuiperinfer.memory import Shape


@pytest.mark.parametrize(
    ("sizes", "dsize", "strides"),
    [
        ((), 1, ()),
        ((5,), 5, (1,)),
        ((2, 3, 4), 24, (12, 4, 1)),
        ((2, 1, 4), 8, (4, 4, 1)),
        ((2, 0, 3), 0, (3, 3, 1)),
    ],
)
def test_products_and_strides(sizes: tuple[int, ...], dsize: int, strides: tuple[int, ...]) -> None:
    shape = Shape(sizes)
    assert shape == sizes and shape.ndim == len(sizes)
    assert shape.dsize == dsize
    assert shape.row_major_strides() == strides
    assert str(shape) == repr(shape) == str(sizes)


def test_subsize_is_the_product_of_some_dimensions() -> None:
    shape = Shape((2, 3, 4, 5))
    assert (shape.subsize(1, 3), shape.subsize(1), shape.subsize(0, 2), shape.subsize(4), shape.subsize(2, 2)) == (
        12,
        60,
        6,
        1,
        1,
    )


def test_no_size_overflows() -> None:
    assert Shape((1 << 40, 1 << 40)).dsize == 1 << 80


def test_dropping_a_dimension() -> None:
    shape = Shape((2, 3, 4))
    assert shape.without(1) == (2, 4) and shape.without(-1) == (2, 3)
    assert isinstance(shape.without(0), Shape)
    with pytest.raises(
        ShapeError, match=r"there is no dimension 3 in shape \(2, 3, 4\); expected a number from -3 to 2"
    ):
        shape.without(3)
    with pytest.raises(ShapeError, match="no dimension -4"):
        shape.without(-4)


def test_dimension_numbers() -> None:
    shape = Shape((2, 3))
    assert [shape.dimension(dim) for dim in (0, 1, -1, -2)] == [0, 1, 1, 0]
    assert shape.dimension(2, extra=1) == 2 and shape.dimension(-1, extra=1) == 2
    assert Shape(()).dimension(-1) == Shape(()).dimension(0) == 0


def test_shapes_compare_hash_and_pickle_as_tuples() -> None:
    shape = Shape((2, 3))
    assert shape == (2, 3) and shape != (3, 2) and shape < Shape((2, 4))
    assert {shape: 1}[(2, 3)] == 1
    again = pickle.loads(pickle.dumps(shape))
    assert again == shape and isinstance(again, Shape)


def test_shapes_from_anything_that_counts() -> None:
    assert Shape.of([np.int64(2), 3]) == (2, 3)
    with pytest.raises(ShapeError, match=r"at least 0, found \(2, -1\)"):
        Shape.of([2, -1])
    with pytest.raises(ShapeError, match=r"as integers, found \[2.5\]"):
        Shape.of([2.5])  # type: ignore[list-item]
