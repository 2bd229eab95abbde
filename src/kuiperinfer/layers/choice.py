"""Choices between elements: the larger or the smaller one, bounds, choice by a condition, and what a condition chooses.

Operands broadcast, and the results are of their common dtype as PyTorch's type promotion has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from ..dtypes import Array, DType, TensorSpec, bool_, dtype_of, i64, largest_finite, to_real, widen
from ..errors import DTypeError, ShapeError
from ..records import dataclass
from .base import Layer, Spec, Value, known_array, register
from .checks import expect_kind
from .promotion import Operand, OperandSpec, common_arrays, common_spec

# ------------------------------------------------------------------------------------------- bounds


def _expect_to_fit(operands: Sequence[OperandSpec], dtype: DType) -> None:
    """`DTypeError` for a number that an integer dtype cannot hold; as in PyTorch, negative ones wrap around in u8."""
    if dtype.kind != "int":
        return
    limits = np.iinfo(dtype.storage)
    for operand in operands:
        if not isinstance(operand, TensorSpec) and not min(limits.min, -limits.max) <= operand.real <= limits.max:
            raise DTypeError(f"{operand} does not fit into {dtype} ({limits.min} to {limits.max})")


@dataclass(frozen=True, kw_only=True)
class _Extreme(Layer):
    """The larger or the smaller one of two operands. (*), (*) -> (*)"""

    widens = False
    ufunc: ClassVar[np.ufunc]

    def infer(self, input: OperandSpec, other: OperandSpec) -> TensorSpec:
        common = common_spec(input, other)
        expect_kind(common, "bool", "int", "float")
        return common

    def forward(self, input: Operand, other: Operand) -> Array:
        return np.asarray(self.ufunc(*common_arrays(input, other)))


@register("torch.maximum", "aten::maximum", "aten::max")
@dataclass(frozen=True, kw_only=True)
class Maximum(_Extreme):
    """The larger one; NaN if one of them is. torch.maximum"""

    ufunc = np.maximum


@register("torch.minimum", "aten::minimum", "aten::min")
@dataclass(frozen=True, kw_only=True)
class Minimum(_Extreme):
    """The smaller one; NaN if one of them is. torch.minimum"""

    ufunc = np.minimum


@register("torch.fmax", "aten::fmax")
@dataclass(frozen=True, kw_only=True)
class FMax(_Extreme):
    """The larger one; if one is NaN, the other. torch.fmax"""

    ufunc = np.fmax


@register("torch.fmin", "aten::fmin")
@dataclass(frozen=True, kw_only=True)
class FMin(_Extreme):
    """The smaller one; if one is NaN, the other. torch.fmin"""

    ufunc = np.fmin


@register("torch.clamp", "torch.clip", "torch.clamp_min", "aten::clamp", "aten::clamp_min")
@dataclass(frozen=True, kw_only=True)
class Clamp(Layer):
    """At least `min`, at most `max`, and `max` where these two cross; NaN stays, and a NaN bound gives NaN. torch.clamp"""

    widens = False

    def infer(self, input: TensorSpec, min: OperandSpec | None = None, max: OperandSpec | None = None) -> TensorSpec:
        bounds = [bound for bound in (min, max) if bound is not None]
        if not bounds:
            raise ShapeError("expected a parameter 'min' or 'max', found neither")
        common = common_spec(input, *bounds)
        expect_kind(common, "bool", "int", "float")
        _expect_to_fit(bounds, common.dtype)
        return common

    def forward(self, input: Array, min: Operand | None = None, max: Operand | None = None) -> Array:
        bounds = [bound for bound in (min, max) if bound is not None]
        clamped, *arrays = common_arrays(input, *bounds)
        if min is not None:
            clamped = np.maximum(clamped, arrays.pop(0))
        if max is not None:
            clamped = np.minimum(clamped, arrays.pop(0))
        return clamped


@register("torch.clamp_max", "aten::clamp_max")
@dataclass(frozen=True, kw_only=True)
class ClampMax(Clamp):
    """At most `max`. torch.clamp_max"""

    schemas: ClassVar[Mapping[int, str]] = {2: "input max"}


# ------------------------------------------------------------------------------------------- replacement of NaN and infinities


@register("torch.nan_to_num", "aten::nan_to_num")
@dataclass(frozen=True, kw_only=True)
class NanToNum(Layer):
    """NaN replaced by `nan`, infinities by `posinf` and `neginf`, for None the extreme finite numbers. torch.nan_to_num

    (*) -> (*), of complex numbers each part; integers and bool stay.
    """

    schemas: ClassVar[Mapping[int, str]] = {4: "input nan posinf neginf"}
    widens = False  # the extreme finite numbers are those of the dtype before widening

    nan: float | None = None
    posinf: float | None = None
    neginf: float | None = None

    def infer(self, input: TensorSpec) -> TensorSpec:
        return input.like()

    def forward(self, input: Array) -> Array:
        dtype = to_real(dtype_of(input))
        if dtype.kind != "float":
            return input
        largest = largest_finite(dtype)
        return np.nan_to_num(
            widen(input),
            nan=self.nan or 0.0,
            posinf=largest if self.posinf is None else self.posinf,
            neginf=-largest if self.neginf is None else self.neginf,
        )


# ------------------------------------------------------------------------------------------- choice by a condition


@register("torch.where")
@dataclass(frozen=True, kw_only=True)
class Where(Layer):
    """`input` where the condition holds, else `other`; None stands for False. (*) bool, (*), (*) -> (*). torch.where"""

    widens = False

    def infer(self, condition: TensorSpec, input: OperandSpec | None, other: OperandSpec | None) -> TensorSpec:
        if condition.dtype is not bool_ and condition.dtype.name != "u8":
            raise DTypeError(f"condition: expected bool, found {condition.dtype}")
        chosen = [False if operand is None else operand for operand in (input, other)]
        dtype = common_spec(*chosen).dtype
        _expect_to_fit(chosen, dtype)
        return common_spec(condition, *chosen).like(dtype=dtype)

    def forward(self, condition: Array, input: Operand | None, other: Operand | None) -> Array:
        chosen = common_arrays(*(False if operand is None else operand for operand in (input, other)))
        return np.where(condition != 0, *chosen)


@register("torch.nonzero", "aten::nonzero")
@dataclass(frozen=True, kw_only=True)
class Nonzero(Layer):
    """The indices of all elements that are not 0, a row for each. (*) -> (K, dimensions) i64. torch.nonzero"""

    def infer(self, input: TensorSpec) -> Spec:
        count = int(np.count_nonzero(widen(known_array(input))))
        return TensorSpec((count, input.ndim), i64)

    def forward(self, input: Array) -> Value:
        return np.argwhere(input)


@register("aten::where", "aten::nonzero_numpy")
@dataclass(frozen=True, kw_only=True)
class NonzeroLists(Nonzero):
    """The same as a list of vectors, one a dimension. torch.where(condition)"""

    def infer(self, input: TensorSpec) -> Spec:
        count, ndim = super().infer(input).shape
        return [TensorSpec((count,), i64) for _ in range(max(ndim, 1))]

    def forward(self, input: Array) -> Value:
        return list(np.nonzero(np.atleast_1d(input)))
