"""Running results along one dimension: sums, products, extremes. (*) -> (*)

Sums and products of float32 are accumulated in float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ..dtypes import Array, DType, TensorSpec, i64, narrow, widen
from ..errors import DTypeError
from ..records import dataclass
from .annotation import DTypeLayer
from .base import Layer, normalize_dim, register
from .reduction import accumulated_dtype, expect_floating, expect_ordered, to_double


@dataclass(frozen=True, kw_only=True)
class _Scan(Layer):
    dim: int

    def accumulate(self, ufunc: np.ufunc, input: Array) -> Array:
        """`ufunc` accumulated along the dimension; a 0-d array counts as one element."""
        flat = input.reshape(1) if not input.ndim else input
        return ufunc.accumulate(flat, axis=normalize_dim(self.dim, input.ndim)).reshape(input.shape)


@register("torch.cumsum")
@dataclass(frozen=True, kw_only=True)
class CumSum(_Scan, DTypeLayer):
    """Running sums, of bool and integers as i64. Elements are converted to `dtype` first, where given. torch.cumsum"""

    ufunc: ClassVar[np.ufunc] = np.add

    def result_dtype(self, input: DType, dtype: DType | None) -> DType:
        if dtype is not None and dtype.kind == "bool":
            raise DTypeError("dtype: expected a dtype of numbers, found bool")
        return accumulated_dtype(input, dtype)

    def infer(self, input: TensorSpec) -> TensorSpec:
        normalize_dim(self.dim, input.ndim)
        return input.like(dtype=self.result_dtype(input.dtype, self.dtype))

    def forward(self, input: Array) -> Array:
        if self.dtype is not None:
            input = widen(narrow(input, self.dtype))
        elif input.dtype.kind in "iub":
            input = input.astype(np.int64)
        return self.accumulate(self.ufunc, to_double(input) if input.dtype.kind in "fc" else input)


@register("torch.cumprod")
@dataclass(frozen=True, kw_only=True)
class CumProd(CumSum):
    """Running products, of bool and integers as i64. Elements are converted to `dtype` first, where given. torch.cumprod"""

    ufunc = np.multiply


@register("torch.cummax", "aten::cummax")
@dataclass(frozen=True, kw_only=True)
class CumMax(_Scan):
    """Two outputs: the largest element so far, NaN once there was one, and the last index where it stood. torch.cummax"""

    schemas: ClassVar[Mapping[int, str]] = {2: "input dim"}
    ufunc: ClassVar[np.ufunc] = np.maximum

    def infer(self, input: TensorSpec) -> tuple[TensorSpec, ...]:
        normalize_dim(self.dim, input.ndim)
        expect_ordered(input.dtype, "an extreme")
        return input.like(), input.like(dtype=i64)

    def forward(self, input: Array) -> tuple[Array, ...]:
        axis = normalize_dim(self.dim, input.ndim)
        values = self.accumulate(self.ufunc, input)
        if not input.ndim:
            return values, np.zeros((), np.int64)
        position = np.arange(input.shape[axis]).reshape([-1 if d == axis else 1 for d in range(input.ndim)])
        extreme_here = (input == values) | np.isnan(input)
        return values, self.accumulate(np.maximum, np.where(extreme_here, position, 0))


@register("torch.cummin", "aten::cummin")
@dataclass(frozen=True, kw_only=True)
class CumMin(CumMax):
    """Two outputs: the smallest element so far, NaN once there was one, and the last index where it stood. torch.cummin"""

    ufunc = np.minimum


@register("torch.logcumsumexp", "aten::logcumsumexp")
@dataclass(frozen=True, kw_only=True)
class LogCumSumExp(_Scan):
    """The logarithm of the running sums of exp(x), without overflow, of floats. torch.logcumsumexp"""

    schemas: ClassVar[Mapping[int, str]] = {2: "input dim"}

    def infer(self, input: TensorSpec) -> TensorSpec:
        normalize_dim(self.dim, input.ndim)
        expect_floating(input.dtype, "logcumsumexp")
        expect_ordered(input.dtype, "logcumsumexp")
        return input.like()

    def forward(self, input: Array) -> Array:
        return self.accumulate(np.logaddexp, to_double(input))
