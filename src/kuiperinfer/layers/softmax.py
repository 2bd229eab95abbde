"""Softmax and its kin: exponentials that sum to one along a dimension."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import Array, DType, TensorSpec, narrow, widen
from ..errors import DTypeError
from .annotation import AnnotatedLayer
from .base import expect_rank, normalize_dim, register
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
class Softmax(AnnotatedLayer):
    """exp(x) / sum(exp(x)) along `dim`. (*) -> (*). torch.nn.Softmax

    Without a `dim` it is 0 for inputs with 0, 1 or 3 dimensions, else 1. The input is converted to `dtype` first.
    """

    dim: int | None = None
    dtype: DType | None = None

    ignored = frozenset({"_stacklevel"})

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_kind(input, "bool", "int", "float", "complex")
        wanted = self._wanted_dtype()
        if (wanted or input.dtype).kind != "float":
            raise DTypeError(f"input: expected a float dtype, or dtype= to name one, found {input}")
        normalize_dim(self.axis(input.ndim), input.ndim)
        return input.like(dtype=wanted)

    def forward(self, input: Array) -> Array:
        axis = self.axis(input.ndim)
        wanted = self._wanted_dtype()
        if wanted is not None:
            input = widen(narrow(input, wanted))
        if input.ndim == 0:
            return self.function(input.reshape(1), axis).reshape(())
        return self.function(input, axis)

    def function(self, x: Array, axis: int) -> Array:
        """What is done along the axis."""
        return softmax(x, axis)

    def axis(self, ndim: int) -> int:
        """The dimension along which the numbers sum to one, as the model names it."""
        if self.dim is None:
            return 0 if ndim in (0, 1, 3) else 1
        return self.dim

    def _wanted_dtype(self) -> DType | None:
        """The converter leaves `dtype` out, but annotates the operands."""
        if self.dtype is not None or not self.annotated_outputs:
            return self.dtype
        before, after = self.annotated_input(0).dtype, self.annotated_outputs[0].dtype
        return after if before is not None and before is not after else None


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


@register("nn.Softmin", "F.softmin")
class Softmin(Softmax):
    """softmax(-x) along `dim`. (*) -> (*). torch.nn.Softmin"""

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_kind(input, "int", "float", "complex")
        return super().infer(input)

    def forward(self, input: Array) -> Array:
        return super().forward(-input)
