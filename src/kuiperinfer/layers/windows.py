"""Sliding windows over the last dimensions of an array: what convolution, pooling and unfold look through."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..dtypes import Array
from ..errors import ShapeError
from .base import Ints

Index: TypeAlias = tuple[Any, ...]  # what NumPy takes between brackets


def window_count(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    """Windows along one dimension: floor((size + padding - dilation * (kernel - 1) - 1) / stride) + 1.

    `padding` counts both sides. `ShapeError` where the kernel is larger than the padded input.
    """
    extent = dilation * (kernel - 1) + 1
    if size + padding < extent:
        raise ShapeError(
            f"a kernel of {kernel} with dilation {dilation} covers {extent}, "
            f"but the padded input has only {size + padding} ({size} + {padding})"
        )
    return (size + padding - extent) // stride + 1


def sliding_windows(array: Array, kernel: Ints, stride: Ints, dilation: Ints) -> Array:
    """A view of all windows. (*, *size) -> (*, *count, *kernel)"""
    ndim = len(kernel)
    axes = tuple(range(array.ndim - ndim, array.ndim))
    extents = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    every = np.lib.stride_tricks.sliding_window_view(array, extents, axes)
    steps: Index = (..., *(slice(None, None, step) for step in (*stride, *dilation)))
    return every[steps]


def window_elements(kernel: Ints, stride: Ints, dilation: Ints, counts: Ints) -> Iterator[tuple[Ints, Index]]:
    """For each position within the kernel: the position, and the index that takes this element out of every window."""
    for position in itertools.product(*map(range, kernel)):
        yield position, (..., *map(_element_slice, position, stride, dilation, counts))


def _element_slice(position: int, stride: int, dilation: int, count: int) -> slice:
    start = position * dilation
    return slice(start, start + (count - 1) * stride + 1 if count else start, stride)


def overlap_add(windows: Array, size: Sequence[int], stride: Ints, dilation: Ints) -> Array:
    """Lays windows over each other and adds where they overlap, the transpose of `sliding_windows`.

    (*, *kernel, *count) -> (*, *size)
    """
    ndim = len(size)
    kernel, counts = windows.shape[-2 * ndim : -ndim], windows.shape[-ndim:]
    result = np.zeros((*windows.shape[: -2 * ndim], *size), windows.dtype)
    kernel_first = np.moveaxis(windows, range(-2 * ndim, -ndim), range(ndim))
    for position, elements in window_elements(kernel, stride, dilation, counts):
        result[elements] += kernel_first[position]
    return result
