"""Adaptive pooling: as many windows as the output has elements, spread evenly over the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec, i64
from ..errors import ShapeError
from ..records import dataclass
from .base import Gradients, Ints, Layer, Spec, Value, expect_rank, known_ints, register
from .checks import expect_kind, per_dimension, set_field
from .pooling import lowest, max_with_indices, pair_outputs, scatter_planes


def adaptive_positions(size: int, count: int) -> Array:
    """The positions that belong to each window, from floor(i * size / count) up to ceil((i + 1) * size / count): one row
    a window, filled up with -1."""
    numbers = np.arange(count)
    starts = numbers * size // count
    ends = -(-(numbers + 1) * size // count)
    positions = starts[:, None] + np.arange(int((ends - starts).max()))
    return np.where(positions < ends[:, None], positions, -1)


@dataclass(frozen=True, kw_only=True)
class _AdaptivePool(Layer):
    """What both have in common: an element of `output_size` that is 0 or None keeps the input's size."""

    schemas: ClassVar[Mapping[int, str]] = {2: "input output_size"}

    ndim: int
    output_size: Ints | None = None

    def __post_init__(self) -> None:
        if self.output_size is not None:
            set_field(self, "output_size", per_dimension(self.output_size, self.ndim, "output_size", at_least=0))

    def counts(self, shape: Ints, output_size: Value) -> Ints:
        """The number of windows along each of the last `ndim` dimensions."""
        given = self.output_size
        if output_size is not None:
            kept = (
                [0 if size is None else size for size in output_size] if isinstance(output_size, list) else output_size
            )
            given = per_dimension(known_ints(kept, "output_size"), self.ndim, "output_size", at_least=0)
        if given is None:
            raise ShapeError("output_size: neither a parameter nor an input")
        return tuple(wanted or size for wanted, size in zip(given, shape[-self.ndim :], strict=True))

    def _pooled(self, input: TensorSpec, output_size: Spec) -> TensorSpec:
        expect_kind(input, "float")
        expect_rank(input, self.ndim + 1, self.ndim + 2)
        if 0 in input.shape[-self.ndim :]:
            raise ShapeError(f"input: only the batch may be empty, found shape {input.shape}")
        return input.like((*input.shape[: -self.ndim], *self.counts(input.shape, output_size)))

    def _positions(self, shape: Ints, output_size: Value) -> tuple[Array, ...]:
        counts = self.counts(shape, output_size)
        return tuple(map(adaptive_positions, shape[-self.ndim :], counts))


@register("nn.AdaptiveAvgPool1d", "F.adaptive_avg_pool1d", "aten::adaptive_avg_pool1d", ndim=1)
@register("nn.AdaptiveAvgPool2d", "F.adaptive_avg_pool2d", "aten::adaptive_avg_pool2d", ndim=2)
@register("nn.AdaptiveAvgPool3d", "F.adaptive_avg_pool3d", "aten::adaptive_avg_pool3d", ndim=3)
@dataclass(frozen=True, kw_only=True)
class AdaptiveAvgPool(_AdaptivePool):
    """The average of each window. (N, C, *size) or (C, *size) -> (N, C, *output_size). torch.nn.AdaptiveAvgPool2d"""

    def infer(self, input: TensorSpec, output_size: Spec = None) -> TensorSpec:
        return self._pooled(input, output_size)

    def forward(self, input: Array, output_size: Value = None) -> Array:
        return average_adaptively(input, self._positions(input.shape, output_size))

    def derivative(
        self, gradient: Array, output: Array, needs: Sequence[bool], input: Array, output_size: Value = None
    ) -> Gradients:
        for axis, along in enumerate(self._positions(input.shape, output_size), start=input.ndim - self.ndim):
            shares = np.zeros((len(along), input.shape[axis]), gradient.dtype)
            for row, positions in zip(shares, along, strict=True):
                inside = positions[positions >= 0]
                row[inside] = 1 / len(inside)
            gradient = np.moveaxis(np.tensordot(gradient, shares, (axis, 0)), -1, axis)
        return [gradient, None]


def average_adaptively(array: Array, positions: tuple[Array, ...]) -> Array:
    """The average over the positions of each window, one dimension after the other, in double precision."""
    result = array.astype(np.float64)
    for axis, along in enumerate(positions, start=array.ndim - len(positions)):
        inside = (along >= 0).reshape(*along.shape, *(1,) * (array.ndim - axis - 1))
        result = np.where(inside, result.take(along, axis), 0).sum(axis + 1) / inside.sum(1)
    return result.astype(array.dtype)


@register("nn.AdaptiveMaxPool1d", "F.adaptive_max_pool1d", ndim=1)
@register("nn.AdaptiveMaxPool2d", "F.adaptive_max_pool2d", ndim=2)
@register("nn.AdaptiveMaxPool3d", "F.adaptive_max_pool3d", ndim=3)
@register("aten::adaptive_max_pool1d", ndim=1, return_indices=True)
@register("aten::adaptive_max_pool2d", ndim=2, return_indices=True)
@register("aten::adaptive_max_pool3d", ndim=3, return_indices=True)
@dataclass(frozen=True, kw_only=True)
class AdaptiveMaxPool(_AdaptivePool):
    """The largest element of each window, and with `return_indices` its position in the flattened input plane.

    (N, C, *size) or (C, *size) -> (N, C, *output_size), once or twice. torch.nn.AdaptiveMaxPool2d
    """

    return_indices: bool = False

    def infer(self, input: TensorSpec, output_size: Spec = None) -> Any:
        pooled = self._pooled(input, output_size)
        if 0 in input.shape[1:]:
            raise ShapeError(f"input: only the batch may be empty, found shape {input.shape}")
        return pair_outputs(self, pooled, pooled.like(dtype=i64)) if self.return_indices else pooled

    def forward(self, input: Array, output_size: Value = None) -> Any:
        positions = self._positions(input.shape, output_size)
        if self.return_indices:
            return pair_outputs(self, *max_with_indices(input, positions))
        for axis, along in enumerate(positions, start=input.ndim - self.ndim):
            inside = (along >= 0).reshape(*along.shape, *(1,) * (input.ndim - axis - 1))
            input = np.where(inside, input.take(along, axis), lowest(input.dtype)).max(axis + 1)
        return input

    def derivative(
        self, gradient: Array, output: Array, needs: Sequence[bool], input: Array, output_size: Value = None
    ) -> Gradients:
        _, places = max_with_indices(input, self._positions(input.shape, output_size))
        return [scatter_planes(gradient, places, input.shape, self.ndim), None]
