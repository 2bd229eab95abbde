"""Reductions: one number out of all elements along some dimensions.

`dim` is one dimension or several, negative ones counted from the end; None and () mean all of them. With `keepdim` the
reduced dimensions stay, with size 1. Sums and products of float32 are accumulated in float64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from ..dtypes import Array, DType, TensorSpec, bool_, i64, narrow, to_float, u8, widen
from ..errors import DTypeError, ModelFileError, ShapeError
from ..records import dataclass
from .annotation import DTypeLayer
from .base import Gradients, Ints, Layer, normalize_dim, register


def reduced_axes(dim: int | Ints | None, ndim: int) -> Ints:
    """The dimensions to reduce, counted from the front: all for None and for (). `ShapeError` if one is there twice."""
    dims = (dim,) if isinstance(dim, int) else dim
    if not dims:
        return tuple(range(ndim))
    axes = tuple(normalize_dim(d, ndim) for d in dims)
    if len(set(axes)) < len(axes):
        raise ShapeError(f"dim={dims} has the same dimension twice")
    return axes if ndim else ()


def reduced_shape(shape: Ints, axes: Ints, keepdim: bool) -> Ints:
    """The shape that is left when `axes` are reduced."""
    if keepdim:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def count_reduced(shape: Ints, axes: Ints) -> int:
    """How many elements each result is made of."""
    return math.prod(shape[axis] for axis in axes)


def expect_elements(shape: Ints, axes: Ints, what: str) -> None:
    """`ShapeError` where a result would be made of no element, for reductions that have no neutral element."""
    if count_reduced(shape, axes) == 0:
        raise ShapeError(f"{what} of no elements is undefined: shape {shape} along dimensions {axes}")


def expect_ordered(dtype: DType, what: str) -> None:
    """`DTypeError` for complex numbers, which have no order."""
    if dtype.kind == "complex":
        raise DTypeError(f"{what} of complex numbers ({dtype}) is undefined")


def expect_floating(dtype: DType, what: str) -> None:
    """`DTypeError` unless the elements are floats or complex numbers."""
    if dtype.kind not in ("float", "complex"):
        raise DTypeError(f"{what} needs floats or complex numbers, found {dtype}")


def to_double(array: Array) -> Array:
    """The array in float64 or complex128."""
    return array.astype(np.result_type(array.dtype, np.float64), copy=False)


@dataclass(frozen=True, kw_only=True)
class Reduction(Layer):
    """Base of the reductions along any number of dimensions."""

    dim: Ints | None = None
    keepdim: bool = False

    def axes(self, ndim: int) -> Ints:
        """The dimensions to reduce, counted from the front."""
        return reduced_axes(self.dim, ndim)

    def with_reduced(self, result: Array, ndim: int) -> Array:
        """A result with the reduced dimensions there, of size 1."""
        return result if self.keepdim else np.expand_dims(result, self.axes(ndim))

    def reduced(self, input: TensorSpec, dtype: DType) -> TensorSpec:
        """The result's spec."""
        return TensorSpec(reduced_shape(input.shape, self.axes(input.ndim), self.keepdim), dtype)


# ------------------------------------------------------------------------------------------- sums and products


def accumulated_dtype(input: DType, dtype: DType | None = None) -> DType:
    """The dtype of a sum or product: `dtype` where given, i64 for bool and integers, else the input's."""
    return dtype or (i64 if input.kind in ("int", "bool") else input)


@dataclass(frozen=True, kw_only=True)
class _Accumulation(Reduction, DTypeLayer):
    """A sum or product. Elements are converted to `dtype` first; without one, bool and integers give an i64."""

    ufunc: ClassVar[np.ufunc]

    def result_dtype(self, input: DType, dtype: DType | None) -> DType:
        return accumulated_dtype(input, dtype)

    def infer(self, input: TensorSpec) -> TensorSpec:
        return self.reduced(input, self.result_dtype(input.dtype, self.dtype))

    def forward(self, input: Array) -> Array:
        if self.dtype is not None:
            input = widen(narrow(input, self.dtype))
        if input.dtype.kind in "fc":
            accumulator = np.result_type(input.dtype, np.float64)
        else:
            accumulator = np.dtype(np.int64) if self.dtype is None else input.dtype
        axes = self.axes(input.ndim)
        return np.asarray(self.ufunc.reduce(input, axis=axes, keepdims=self.keepdim, dtype=accumulator))

    def derivative(self, gradient: Array, output: Array, needs: Sequence[bool], input: Array) -> Gradients:
        return [np.broadcast_to(self.with_reduced(gradient, input.ndim), input.shape)]


@register("torch.sum")
@dataclass(frozen=True, kw_only=True)
class Sum(_Accumulation):
    """The sum; of nothing it is 0. torch.sum"""

    ufunc = np.add


@register("torch.prod", "aten::prod")
@dataclass(frozen=True, kw_only=True)
class Prod(_Accumulation):
    """The product; of nothing it is 1. torch.prod, but `dim` may be a list"""

    schemas: ClassVar[Mapping[int, str]] = {2: "input dtype"}
    ufunc = np.multiply

    def derivative(self, gradient: Array, output: Array, needs: Sequence[bool], input: Array) -> Gradients:
        """For each element the product of all others, which a division would not give where there are zeros."""
        axes = self.axes(input.ndim)
        last = np.moveaxis(input, axes, range(-len(axes), 0)) if axes else input[..., None]
        kept = last.ndim - max(len(axes), 1)
        rows = last.reshape(*last.shape[:kept], math.prod(last.shape[kept:]))
        one = np.ones_like(rows[..., :1])
        before = np.cumprod(np.concatenate([one, rows[..., :-1]], -1), -1)
        after = np.cumprod(np.concatenate([one, rows[..., :0:-1]], -1), -1)[..., ::-1]
        others = (before * after).reshape(last.shape)
        others = np.moveaxis(others, range(-len(axes), 0), axes) if axes else others[..., 0]
        return [self.with_reduced(gradient, input.ndim) * others]


@register("torch.mean")
@dataclass(frozen=True, kw_only=True)
class Mean(_Accumulation):
    """The arithmetic mean of floats or complex numbers; of nothing it is NaN. torch.mean"""

    ufunc = np.add

    def result_dtype(self, input: DType, dtype: DType | None) -> DType:
        expect_floating(dtype or input, "a mean")
        return super().result_dtype(input, dtype)

    def forward(self, input: Array) -> Array:
        count = count_reduced(input.shape, self.axes(input.ndim))
        return np.asarray(np.true_divide(super().forward(input), count))

    def derivative(self, gradient: Array, output: Array, needs: Sequence[bool], input: Array) -> Gradients:
        count = count_reduced(input.shape, self.axes(input.ndim))
        return super().derivative(np.asarray(gradient / count, gradient.dtype), output, needs, input)


@register("torch.nansum", "aten::nansum")
@dataclass(frozen=True, kw_only=True)
class NanSum(Sum):
    """The sum of all that is not NaN. torch.nansum"""

    schemas: ClassVar[Mapping[int, str]] = {4: "input dim keepdim dtype"}

    def result_dtype(self, input: DType, dtype: DType | None) -> DType:
        expect_ordered(input, "nansum")
        if dtype is not None and input.kind == "float":
            expect_ordered(dtype, "nansum")
        return super().result_dtype(input, dtype)

    def forward(self, input: Array) -> Array:
        return super().forward(np.where(np.isnan(input), input.dtype.type(0), input))


@register("torch.nanmean", "aten::nanmean")
@dataclass(frozen=True, kw_only=True)
class NanMean(NanSum):
    """The mean of all that is not NaN. torch.nanmean"""

    def result_dtype(self, input: DType, dtype: DType | None) -> DType:
        expect_floating(input, "nanmean")
        return super().result_dtype(input, dtype)

    def forward(self, input: Array) -> Array:
        count = np.sum(~np.isnan(input), axis=self.axes(input.ndim), keepdims=self.keepdim)
        return np.asarray(np.true_divide(super().forward(input), count))


@register("torch.logsumexp")
@dataclass(frozen=True, kw_only=True)
class LogSumExp(Reduction):
    """log(sum(exp(x))), without overflow; of nothing it is -inf. torch.logsumexp"""

    def __post_init__(self) -> None:
        if not self.dim:
            raise ModelFileError(f"parameter 'dim': expected at least one dimension, found {self.dim}")

    def infer(self, input: TensorSpec) -> TensorSpec:
        return self.reduced(input, to_float(input.dtype))

    def forward(self, input: Array) -> Array:
        axes = self.axes(input.ndim)
        input = to_double(input)
        largest = np.maximum.reduce(input.real, axis=axes, keepdims=True, initial=-np.inf)
        largest = np.where(np.isinf(largest), 0.0, largest)
        total = np.sum(np.exp(input - largest), axis=axes, keepdims=True)
        result = np.log(total) + largest
        return result.reshape(reduced_shape(input.shape, axes, self.keepdim))

    def derivative(self, gradient: Array, output: Array, needs: Sequence[bool], input: Array) -> Gradients:
        return [self.with_reduced(gradient, input.ndim) * np.exp(input - self.with_reduced(output, input.ndim))]


# ------------------------------------------------------------------------------------------- extremes and truth


@register("torch.amax")
@dataclass(frozen=True, kw_only=True)
class AMax(Reduction):
    """The largest element; NaN if there is one. torch.amax"""

    ufunc: ClassVar[np.ufunc] = np.maximum

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_ordered(input.dtype, "an extreme")
        expect_elements(input.shape, self.axes(input.ndim), "an extreme")
        return self.reduced(input, input.dtype)

    def forward(self, input: Array) -> Array:
        return np.asarray(self.ufunc.reduce(input, axis=self.axes(input.ndim), keepdims=self.keepdim))

    def derivative(self, gradient: Array, output: Array, needs: Sequence[bool], input: Array) -> Gradients:
        """Equal shares to equal extremes; NaN to all where the extreme is NaN."""
        share = input == self.with_reduced(output, input.ndim)
        count = share.sum(self.axes(input.ndim), keepdims=True)
        return [(share * (self.with_reduced(gradient, input.ndim) / count)).astype(gradient.dtype)]


@register("torch.amin")
@dataclass(frozen=True, kw_only=True)
class AMin(AMax):
    """The smallest element; NaN if there is one. torch.amin"""

    ufunc = np.minimum


@register("torch.all", "aten::all")
@dataclass(frozen=True, kw_only=True)
class AllNonzero(Reduction):
    """Whether no element is zero, as bool, of u8 as u8; `dim=()` reduces nothing here. torch.all"""

    schemas: ClassVar[Mapping[int, str]] = {3: "input dim keepdim"}
    ufunc: ClassVar[np.ufunc] = np.logical_and

    def axes(self, ndim: int) -> Ints:
        return () if self.dim == () else super().axes(ndim)

    def infer(self, input: TensorSpec) -> TensorSpec:
        return self.reduced(input, u8 if input.dtype is u8 else bool_)

    def forward(self, input: Array) -> Array:
        return np.asarray(self.ufunc.reduce(input != 0, axis=self.axes(input.ndim), keepdims=self.keepdim))


@register("torch.any", "aten::any")
@dataclass(frozen=True, kw_only=True)
class AnyNonzero(AllNonzero):
    """Whether an element is not zero, as bool, of u8 as u8; `dim=()` reduces nothing here. torch.any"""

    ufunc = np.logical_or


@register("torch.count_nonzero", "aten::count_nonzero")
@dataclass(frozen=True, kw_only=True)
class CountNonzero(Layer):
    """How many elements are not zero, as i64. torch.count_nonzero"""

    schemas: ClassVar[Mapping[int, str]] = {2: "input dim"}

    dim: Ints | None = None

    def infer(self, input: TensorSpec) -> TensorSpec:
        return TensorSpec(reduced_shape(input.shape, reduced_axes(self.dim, input.ndim), False), i64)

    def forward(self, input: Array) -> Array:
        return np.asarray(np.count_nonzero(input, axis=reduced_axes(self.dim, input.ndim)))
