"""Shapes: a tuple of sizes that knows how many elements it stands for."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable
from typing import SupportsIndex

from ..errors import ShapeError


class Shape(tuple[int, ...]):
    """The sizes of a tensor's dimensions; equal to the plain tuple of the same sizes, and printed like it."""

    __slots__ = ()

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self)

    @property
    def dsize(self) -> int:
        """Number of elements: the product of all sizes, which is 1 where there are no dimensions."""
        return math.prod(self)

    def subsize(self, start: int, stop: int | None = None) -> int:
        """Number of elements of the dimensions `start` up to `stop` (exclusive; the end if not given)."""
        return math.prod(self[start:stop])

    def without(self, dim: int) -> Shape:
        """The shape with one dimension dropped; `ShapeError` where there is no such dimension."""
        dim = self.dimension(dim)
        return Shape(self[:dim] + self[dim + 1 :])

    def dimension(self, dim: SupportsIndex, extra: int = 0) -> int:
        """The number of a dimension, counted from the end if negative, as one that counts from the start.

        `extra` dimensions more than there are may be named, as where one is put in. A shape without dimensions takes 0 and
        -1, as PyTorch has it.
        """
        count = len(self) + extra or 1
        try:
            number = operator.index(dim)
        except TypeError:
            raise ShapeError(f"expected the number of a dimension of shape {self!r}, found {dim!r}") from None
        if not -count <= number < count:
            raise ShapeError(
                f"there is no dimension {number} in shape {self!r}; expected a number from {-count} to {count - 1}"
            )
        return number % count

    def row_major_strides(self) -> tuple[int, ...]:
        """How many elements lie between neighbours along each dimension when the last one runs fastest."""
        return _row_major_strides(self)

    def __repr__(self) -> str:
        return tuple.__repr__(self)

    @staticmethod
    def of(sizes: Iterable[SupportsIndex]) -> Shape:
        """A shape from any integers; `ShapeError` for what is not one or is negative."""
        try:
            shape = Shape(map(operator.index, sizes))
        except TypeError:
            raise ShapeError(f"expected the sizes of a shape as integers, found {sizes!r}") from None
        if shape and min(shape) < 0:
            raise ShapeError(f"expected sizes of at least 0, found {shape!r}")
        return shape


@functools.lru_cache(maxsize=4096)
def _row_major_strides(shape: Shape) -> tuple[int, ...]:
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
