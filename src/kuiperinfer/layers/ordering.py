"""Sorting, and picking by rank, along one dimension; NaN counts as larger than all numbers.

Values come with their indices, as i64. Of equal elements the first one comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ..dtypes import Array, Scalar, TensorSpec, i64
from ..errors import DTypeError, ModelFileError, ShapeError
from ..records import dataclass
from .base import Layer, known_int, normalize_dim, register
from .reduction import expect_elements, expect_ordered, reduced_axes, reduced_shape


def sorting_order(input: Array, axis: int, descending: bool) -> Array:
    """The indices that sort an array along an axis, equal elements in their old order. A 0-d array counts as one element."""
    if not input.ndim:
        return np.zeros((), np.int64)
    if not descending:
        return np.argsort(input, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(input, axis), axis=axis, kind="stable")
    return input.shape[axis] - 1 - np.flip(backwards, axis)


def _take(input: Array, order: Array, axis: int) -> Array:
    return np.take_along_axis(input, order, axis) if input.ndim else input


@register("torch.sort", "aten::sort")
@dataclass(frozen=True, kw_only=True)
class Sort(Layer):
    """Two outputs: the elements in order, and their old indices. (*) -> (*), (*). torch.sort"""

    schemas: ClassVar[Mapping[int, str]] = {3: "input dim descending", 4: "input stable dim descending"}

    dim: int = -1
    descending: bool = False
    stable: bool | None = None  # it always is

    def infer(self, input: TensorSpec) -> TensorSpec | tuple[TensorSpec, ...]:
        normalize_dim(self.dim, input.ndim)
        expect_ordered(input.dtype, "the order")
        return input.like(), input.like(dtype=i64)

    def forward(self, input: Array) -> Array | tuple[Array, ...]:
        axis = normalize_dim(self.dim, input.ndim)
        order = sorting_order(input, axis, self.descending)
        return _take(input, order, axis), order


@register("torch.argsort", "aten::argsort")
@dataclass(frozen=True, kw_only=True)
class ArgSort(Sort):
    """The indices that sort the elements. (*) -> (*). torch.argsort"""

    def infer(self, input: TensorSpec) -> TensorSpec:
        normalize_dim(self.dim, input.ndim)
        expect_ordered(input.dtype, "the order")
        return input.like(dtype=i64)

    def forward(self, input: Array) -> Array:
        return sorting_order(input, normalize_dim(self.dim, input.ndim), self.descending)


@register("torch.topk")
@dataclass(frozen=True, kw_only=True)
class TopK(Layer):
    """Two outputs: the `k` largest or smallest elements, and their indices. (..., N, ...) -> (..., k, ...). torch.topk

    Without `sorted` they come in the order in which PyTorch happens to find them, which models are compared by.
    """

    dim: int = -1
    largest: bool = True
    sorted: bool = True

    def infer(self, input: TensorSpec, k: TensorSpec | Scalar) -> tuple[TensorSpec, ...]:
        axis = normalize_dim(self.dim, input.ndim)
        expect_ordered(input.dtype, "the order")
        if input.dtype.kind == "bool":
            raise DTypeError("expected numbers, found bool")
        count, size = known_int(k, "k"), input.shape[axis] if input.ndim else 1
        if not 0 <= count <= size:
            raise ShapeError(f"k: expected 0 to {size}, the size of dimension {self.dim}, found {count}")
        values = input.like((*input.shape[:axis], count, *input.shape[axis + 1 :]) if input.ndim else ())
        return values, values.like(dtype=i64)

    def forward(self, input: Array, k: Array | Scalar) -> tuple[Array, ...]:
        axis, count = normalize_dim(self.dim, input.ndim), known_int(k, "k")
        if not input.ndim:
            return input, np.zeros((), np.int64)
        order = sorting_order(input, axis, self.largest)
        size = input.shape[axis]
        if not self.sorted and input.size and size < 64 * count:
            order = np.apply_along_axis(_selection_order, axis, _ranks(input, order, axis), count)
        chosen = np.take(order, range(count), axis=axis)
        return _take(input, chosen, axis), chosen


def _ranks(input: Array, order: Array, axis: int) -> Array:
    """Each element's place among the distinct values of its row, in the given order; NaN equals NaN."""
    ordered = np.take_along_axis(input, order, axis)
    before, after = np.delete(ordered, -1, axis), np.delete(ordered, 0, axis)
    rises = (before != after) & ~(np.isnan(before) & np.isnan(after))
    first = np.zeros([1 if d == axis else size for d, size in enumerate(input.shape)], np.int64)
    places = np.concatenate([first, np.cumsum(rises, axis=axis)], axis=axis)
    ranks = np.empty_like(places)
    np.put_along_axis(ranks, order, places, axis)
    return ranks


def _selection_order(ranks: Array, count: int) -> Array:
    """The order in which introselect leaves a row whose `count` lowest ranks it brings to the front.

    This is `std::nth_element` of libstdc++: quickselect with the median of three as pivot, and insertion sort of the last few.
    """
    row = [(int(rank), index) for index, rank in enumerate(ranks)]
    first, last = 0, len(row)
    while last - first > 3:
        cut = _partition(row, first, last)
        if cut < count:
            first = cut
        else:
            last = cut
    row[first:last] = sorted(row[first:last], key=lambda pair: pair[0])
    return np.array([index for _, index in row], np.int64)


def _partition(row: list[tuple[int, int]], first: int, last: int) -> int:
    """Moves a pivot to `first`, what ranks lower before the returned place, and what ranks higher behind it."""
    median = _median_of_three(row, first + 1, first + (last - first) // 2, last - 1)
    row[first], row[median] = row[median], row[first]
    pivot = row[first][0]
    low, high = first + 1, last
    while True:
        while row[low][0] < pivot:
            low += 1
        high -= 1
        while pivot < row[high][0]:
            high -= 1
        if low >= high:
            return low
        row[low], row[high] = row[high], row[low]
        low += 1


def _median_of_three(row: list[tuple[int, int]], a: int, b: int, c: int) -> int:
    """Which of three places holds the middle rank; with equal ranks, the one that libstdc++ takes."""
    if row[a][0] < row[b][0]:
        return b if row[b][0] < row[c][0] else c if row[a][0] < row[c][0] else a
    return a if row[a][0] < row[c][0] else c if row[b][0] < row[c][0] else b


@dataclass(frozen=True, kw_only=True)
class _ByRank(Layer):
    """The element of a given rank along one dimension, and its index."""

    keepdim: bool = False

    def values(self, input: TensorSpec, dim: int | None) -> TensorSpec:
        """The spec of the elements picked."""
        expect_ordered(input.dtype, "the order")
        if input.dtype.kind == "bool":
            raise DTypeError("expected numbers, found bool")
        axes = reduced_axes(dim, input.ndim)
        return input.like(reduced_shape(input.shape, axes, self.keepdim))

    def pick(self, input: Array, dim: int, rank: int) -> tuple[Array, Array]:
        """The elements of a rank, counted from 0, and their indices."""
        axis = normalize_dim(dim, input.ndim)
        shape = reduced_shape(input.shape, reduced_axes(dim, input.ndim), self.keepdim)
        order = sorting_order(input, axis, descending=False)
        index = np.take(order, [rank], axis=axis) if input.ndim else order
        return _take(input, index, axis).reshape(shape), index.reshape(shape)


@register("torch.kthvalue", "aten::kthvalue")
@dataclass(frozen=True, kw_only=True)
class KthValue(_ByRank):
    """Two outputs: the k-th smallest element along `dim`, `k` counted from 1, and its index. torch.kthvalue"""

    schemas: ClassVar[Mapping[int, str]] = {4: "input k dim keepdim"}

    dim: int = -1

    def infer(self, input: TensorSpec, k: TensorSpec | Scalar) -> tuple[TensorSpec, ...]:
        values = self.values(input, self.dim)
        size = input.shape[normalize_dim(self.dim, input.ndim)] if input.ndim else 1
        rank = known_int(k, "k")
        if not 1 <= rank <= size:
            raise ShapeError(f"k: expected 1 to {size}, the size of dimension {self.dim}, found {rank}")
        return values, values.like(dtype=i64)

    def forward(self, input: Array, k: Array | Scalar) -> tuple[Array, ...]:
        return self.pick(input, self.dim, known_int(k, "k") - 1)


@register("torch.median", "aten::median")
@dataclass(frozen=True, kw_only=True)
class Median(_ByRank):
    """The median, of two middle elements the lower one; NaN if there is one. torch.median

    Without `dim` one output, the median of all elements; with it two, the medians along it and their indices.
    """

    schemas: ClassVar[Mapping[int, str]] = {3: "input dim keepdim"}

    dim: int | None = None

    def __post_init__(self) -> None:
        if (self.dim is None) != (self.output_count == 1):
            raise ModelFileError(f"dim={self.dim} does not go with {self.output_count} outputs")

    def infer(self, input: TensorSpec) -> TensorSpec | tuple[TensorSpec, ...]:
        values = self.values(input, self.dim)
        if self.dim is None:
            return values
        expect_elements(input.shape, reduced_axes(self.dim, input.ndim), "the median")
        return values, values.like(dtype=i64)

    def forward(self, input: Array) -> Array | tuple[Array, ...]:
        if self.dim is None:
            return self._of_all(input.reshape(-1))
        axis = normalize_dim(self.dim, input.ndim)
        size = input.shape[axis] if input.ndim else 1
        values, index = self.pick(input, self.dim, (size - 1) // 2)
        missing = np.isnan(input)
        if not missing.any():
            return values, index
        has_nan = missing.any(axis=axis).reshape(values.shape)
        first_nan = missing.argmax(axis=axis).reshape(values.shape)
        return np.where(has_nan, np.nan, values), np.where(has_nan, first_nan, index)

    def _of_all(self, flat: Array) -> Array:
        if not flat.size:  # PyTorch's answers to a question without one
            return np.asarray(np.nan if flat.dtype.kind == "f" else np.iinfo(flat.dtype).min, flat.dtype)
        if np.isnan(flat).any():
            return np.asarray(np.nan, flat.dtype)
        return np.asarray(np.sort(flat)[(flat.size - 1) // 2])
