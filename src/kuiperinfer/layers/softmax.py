"""Softmax and its kin: exponentials that sum to one along a dimension."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..dtypes import Array, DType, TensorSpec, narrow, widen
from ..errors import DTypeError
from ..records import dataclass
from .annotation import DTypeLayer
from .base import Gradients, expect_rank, normalize_dim, register
from .checks import expect_kind


def softmax(x: Array, axis: int) -> Array:
    """exp(x) / sum(exp(x)) of real x, without overflow; NaN for a row without a finite value."""
    if x.size == 0:
        return x
    exponentials = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(exponentials / _sum(exponentials, axis))


def log_softmax(x: Array, axis: int) -> Array:
    """log(softmax(x)) without loss where softmax is nearly 0."""
    if x.size == 0:
        return x
    shifted = x - x.max(axis, keepdims=True)
    return np.asarray(shifted - np.log(_sum(np.exp(shifted), axis)))


def _sum(x: Array, axis: int) -> Array:
    return x.sum(axis, keepdims=True, dtype=np.float64).astype(x.dtype)


@register("nn.Softmax", "F.softmax", "torch.softmax")
@dataclass(frozen=True, kw_only=True)
class Softmax(DTypeLayer):
    """exp(x) / sum(exp(x)) along `dim`. (*) -> (*). torch.nn.Softmax

    Without a `dim` it is 0 for inputs with 0, 1 or 3 dimensions, else 1. The input is converted to `dtype` first.
    """

    dim: int | None = None

    ignored = frozenset({"_stacklevel"})

    def result_dtype(self, input: DType, dtype: DType | None) -> DType:
        result = dtype or input
        if result.kind != "float":
            raise DTypeError(f"expected a float dtype, or dtype= to name one, found {result}")
        return result

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_kind(input, "bool", "int", "float", "complex")
        normalize_dim(self.axis(input.ndim), input.ndim)
        return input.like(dtype=self.result_dtype(input.dtype, self.dtype))

    def forward(self, input: Array) -> Array:
        axis = self.axis(input.ndim)
        if self.dtype is not None:
            input = widen(narrow(input, self.dtype))
        if input.ndim == 0:
            return self.function(input.reshape(1), axis).reshape(())
        return self.function(input, axis)

    def function(self, x: Array, axis: int) -> Array:
        """What is done along the axis."""
        return softmax(x, axis)

    def derivative(self, gradient: Array, output: Array, needs: Sequence[bool], input: Array) -> Gradients:
        axis = self.axis(input.ndim) if input.ndim else None
        return [output * (gradient - np.sum(gradient * output, axis, keepdims=True))]

    def axis(self, ndim: int) -> int:
        """The dimension along which the numbers sum to one, as the model names it."""
        if self.dim is None:
            return 0 if ndim in (0, 1, 3) else 1
        return self.dim


@register("nn.Softmax2d", dim=-3)
class Softmax2d(Softmax):
    """Softmax over the channels of (N, C, H, W) or (C, H, W). torch.nn.Softmax2d"""

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_rank(input, 3, 4)
        return super().infer(input)


@register("nn.LogSoftmax", "F.log_softmax", "torch.log_softmax")
class LogSoftmax(Softmax):
    """log(softmax(x)) along `dim`. (*) -> (*). torch.nn.LogSoftmax"""

    def function(self, x: Array, axis: int) -> Array:
        return log_softmax(x, axis)

    def derivative(self, gradient: Array, output: Array, needs: Sequence[bool], input: Array) -> Gradients:
        axis = self.axis(input.ndim) if input.ndim else None
        return [gradient - np.exp(output) * np.sum(gradient, axis, keepdims=True)]


@register("nn.Softmin", "F.softmin")
class Softmin(Softmax):
    """softmax(-x) along `dim`. (*) -> (*). torch.nn.Softmin"""

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_kind(input, "int", "float", "complex")
        return super().infer(input)

    def forward(self, input: Array) -> Array:
        return super().forward(-input)

    def derivative(self, gradient: Array, output: Array, needs: Sequence[bool], input: Array) -> Gradients:
        (part,) = super().derivative(gradient, output, needs, input)
        return [None if part is None else -part]
