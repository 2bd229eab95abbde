"""Which input elements make up each output element when one dimension is resized, and how much each of them counts.

The arithmetic is done in the precision in which PyTorch does it, because a rounding error decides which element is the nearest.
Source: aten/src/ATen/native/UpSample.h and cpu/UpSampleKernel.cpp of PyTorch.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..dtypes import Array
from ..records import dataclass

Real: TypeAlias = "type[np.float32] | type[np.float64]"


@dataclass(frozen=True)
class ResizedAxis:
    """One dimension that goes from `size` to `count` elements.

    `factor` is the scale factor that was asked for; None where the size was, and the scale follows from it.
    """

    size: int
    count: int
    factor: float | None = None
    align_corners: bool = False

    def scale(self, real: Real) -> Any:
        """Input elements per output element."""
        if self.align_corners:
            return real(self.size - 1) / real(self.count - 1) if self.count > 1 else real(0)
        return real(1 / self.factor) if self.factor else real(self.size) / real(self.count)

    def sources(self, real: Real) -> Array:
        """Where the middle of each output element lies among the input elements."""
        numbers = np.arange(self.count).astype(real)
        if self.align_corners:
            return numbers * self.scale(real)
        return (numbers + real(0.5)) * self.scale(real) - real(0.5)


@dataclass(frozen=True)
class Taps:
    """The input elements that each output element is made of, and their weights: both (count, taps)."""

    positions: Array
    weights: Array


def nearest_positions(axis: ResizedAxis, real: Real, exact: bool) -> Array:
    """The one input element of each output element; `exact` measures from its middle, not from its start: (count)."""
    starts = np.arange(axis.count).astype(real) + real(0.5 if exact else 0)
    return np.minimum(np.floor(starts * axis.scale(real)).astype(np.int64), axis.size - 1)


def linear_taps(axis: ResizedAxis, real: Real) -> Taps:
    """The two neighbours, in proportion to their distance; beyond the ends the last element counts alone."""
    if axis.size == axis.count:
        same = np.arange(axis.count)
        return Taps(np.stack([same, same], 1), np.stack([np.ones(axis.count, real), np.zeros(axis.count, real)], 1))
    sources = np.maximum(axis.sources(real), real(0))
    first = np.minimum(np.floor(sources).astype(np.int64), axis.size - 1)
    share = np.clip(sources - first.astype(real), 0, 1).astype(real)
    second = np.minimum(first + 1, axis.size - 1)
    return Taps(np.stack([first, second], 1), np.stack([real(1) - share, share], 1))


def cubic_taps(axis: ResizedAxis, real: Real) -> Taps:
    """Four neighbours by cubic convolution; beyond the ends stands the last element."""
    sources = axis.sources(real)
    first = np.minimum(np.floor(sources).astype(np.int64), axis.size - 1)
    share = np.clip(sources - first.astype(real), 0, 1).astype(real)
    positions = np.clip(first[:, None] + np.arange(-1, 3), 0, axis.size - 1)
    return Taps(positions, np.stack(cubic_weights(share), 1))


def cubic_weights(share: Array) -> tuple[Array, Array, Array, Array]:
    """The weights of four elements in a row, for a place that lies by `share` behind the second of them.

    Cubic convolution with a = -0.75, in the dtype of `share`.
    """
    real = share.dtype.type
    a = real(-0.75)

    def near(x: Array) -> Array:
        return ((a + real(2)) * x - (a + real(3))) * x * x + real(1)

    def far(x: Array) -> Array:
        return ((a * x - real(5) * a) * x + real(8) * a) * x - real(4) * a

    rest = real(1) - share
    return far(share + real(1)), near(share), near(rest), far(rest + real(1))


def weighted_sum(array: Array, axis: int, taps: Taps) -> Array:
    """One dimension resized: the weighted sum of each output element's taps, in the array's dtype."""
    behind = (1,) * (array.ndim - axis - 1)
    columns = zip(taps.positions.T, taps.weights.T, strict=True)
    terms = (array.take(positions, axis) * weights.reshape(-1, *behind) for positions, weights in columns)
    total = next(terms)
    for term in terms:
        total = total + term
    return total


def weighted_sum_of_bytes(array: Array, axis: int, taps: Taps) -> Array:
    """The same for uint8, as PyTorch does it: with weights of 16 bits, rounded and cut to 0 ... 255."""
    weights = _merge_equal_positions(taps)
    largest = float(weights.max())
    bits = next(b for b in range(23) if b == 22 or int(0.5 + largest * (1 << (b + 1))) >= 1 << 15)
    whole = np.trunc(weights * (1 << bits) + np.copysign(0.5, weights)).astype(np.int64)
    total = weighted_sum(array.astype(np.int64), axis, Taps(taps.positions, whole))
    return np.clip((total + (1 << (bits - 1))) >> bits, 0, 255).astype(np.uint8)


def _merge_equal_positions(taps: Taps) -> Array:
    """Weights of taps that were moved to the same element, added at the first of them: they are rounded together."""
    weights = taps.weights.copy()
    for later in range(weights.shape[1] - 1, 0, -1):
        same = taps.positions[:, later] == taps.positions[:, later - 1]
        weights[same, later - 1] += weights[same, later]
        weights[same, later] = 0
    return weights
