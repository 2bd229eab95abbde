"""Sums over dimensions, as fast as they can be."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..dtypes import Array, dtype_of, narrow, widen


def sum_over(array: Array, axes: Sequence[int]) -> Array:
    """The sum over some dimensions, which stay with size 1; float32 sums of rows go through BLAS, others through float64."""
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(array.shape))
    if not array.size:
        return np.zeros(kept, array.dtype)
    first = len(axes)
    if (
        array.dtype == np.float32
        and tuple(axes) == tuple(range(first))
        and array.flags.c_contiguous
        and first < array.ndim
    ):
        rows = math.prod(array.shape[:first])
        with np.errstate(all="ignore"):
            return (_ones(rows) @ array.reshape(rows, -1)).reshape(kept)
    wide = widen(array)
    accumulator = np.result_type(wide.dtype, np.float64) if wide.dtype.kind in "fc" else wide.dtype
    with np.errstate(all="ignore"):  # infinities and NaN are results like others
        return narrow(np.asarray(wide.sum(tuple(axes), accumulator, keepdims=True)), dtype_of(array))


def _ones(count: int) -> Array:
    return np.ones(count, np.float32)
