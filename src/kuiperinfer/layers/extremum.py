"""The largest and the smallest element, and where they stand.

NaN counts as both, and of equal elements the first one wins. Indices are i64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec, i64
from ..errors import DTypeError, ModelFileError
from ..records import dataclass
from .base import Ints, Layer, register
from .reduction import expect_elements, expect_ordered, reduced_axes, reduced_shape


def extreme_index(input: Array, dim: int | None, keepdim: bool, largest: bool) -> Array:
    """Indices of the extremes along a dimension; with None one index into the flattened array."""
    axes = reduced_axes(dim, input.ndim)
    find = np.argmax if largest else np.argmin
    index = find(input) if dim is None or not input.ndim else find(input, axis=axes[0])
    return np.asarray(index).reshape(reduced_shape(input.shape, axes, keepdim))


@dataclass(frozen=True, kw_only=True)
class _Extremum(Layer):
    dim: int | None = None
    keepdim: bool = False

    def axes(self, ndim: int) -> Ints:
        """The dimensions to reduce: `dim`, or all."""
        return reduced_axes(self.dim, ndim)

    def reduced(self, input: TensorSpec) -> TensorSpec:
        """The spec of the extremes."""
        expect_ordered(input.dtype, "an extreme")
        axes = self.axes(input.ndim)
        expect_elements(input.shape, axes, "an extreme")
        return input.like(reduced_shape(input.shape, axes, self.keepdim))


@register("torch.argmax")
@dataclass(frozen=True, kw_only=True)
class ArgMax(_Extremum):
    """The index of the largest number along `dim`, or in the flattened tensor. torch.argmax"""

    largest: ClassVar[bool] = True

    def infer(self, input: TensorSpec) -> TensorSpec:
        if input.dtype.kind == "bool":
            raise DTypeError("expected numbers, found bool")
        return self.reduced(input).like(dtype=i64)

    def forward(self, input: Array) -> Array:
        return extreme_index(input, self.dim, self.keepdim, self.largest)


@register("torch.argmin")
@dataclass(frozen=True, kw_only=True)
class ArgMin(ArgMax):
    """The index of the smallest number along `dim`, or in the flattened tensor. torch.argmin"""

    largest = False


@register("torch.max")
@dataclass(frozen=True, kw_only=True)
class Max(_Extremum):
    """The largest element of all, or those along `dim`; a second output, where there is one, has their indices. torch.max"""

    largest: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.dim is None and self.output_count == 2:
            raise ModelFileError("has 2 outputs, values and indices, but no parameter 'dim'")

    def infer(self, input: TensorSpec) -> TensorSpec | tuple[TensorSpec, ...]:
        values = self.reduced(input)
        return (values, values.like(dtype=i64)) if self.output_count == 2 else values

    def forward(self, input: Array) -> Array | tuple[Array, ...]:
        extreme = np.max if self.largest else np.min
        values = np.asarray(extreme(input, axis=self.axes(input.ndim), keepdims=self.keepdim))
        if self.output_count == 1:
            return values
        return values, extreme_index(input, self.dim, self.keepdim, self.largest)


@register("torch.min")
@dataclass(frozen=True, kw_only=True)
class Min(Max):
    """The smallest element of all, or those along `dim`; a second output, where there is one, has their indices. torch.min"""

    largest = False


@register("torch.aminmax", "aten::aminmax")
@dataclass(frozen=True, kw_only=True)
class AMinMax(_Extremum):
    """Two outputs: the smallest and the largest elements. torch.aminmax"""

    schemas: ClassVar[Mapping[int, str]] = {3: "input dim keepdim"}

    def infer(self, input: TensorSpec) -> tuple[TensorSpec, ...]:
        return self.reduced(input), self.reduced(input)

    def forward(self, input: Array) -> tuple[Array, ...]:
        axes = self.axes(input.ndim)
        smallest, largest = (f(input, axis=axes, keepdims=self.keepdim) for f in (np.min, np.max))
        return np.asarray(smallest), np.asarray(largest)
