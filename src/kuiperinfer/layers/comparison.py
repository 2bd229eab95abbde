"""Functions that compare elements, and those that pick by comparing: order, truth, bits, bounds.

All broadcast, and compare in the operands' common dtype as PyTorch's type promotion has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dtypes import Array, DType, TensorSpec, bool_, i64, widen
from ..errors import DTypeError, ShapeError
from .base import Layer, Spec, Value, known_array, register
from .promotion import Operand, OperandSpec, common_arrays, common_spec

# ------------------------------------------------------------------------------------------- order and equality


@dataclass(frozen=True, kw_only=True)
class _Comparison(Layer):
    """A comparison of two operands. (*), (*) -> (*) bool"""

    widens = False
    ufunc: ClassVar[np.ufunc]

    def infer(self, input: OperandSpec, other: OperandSpec) -> TensorSpec:
        return common_spec(input, other).like(dtype=bool_)

    def forward(self, input: Operand, other: Operand) -> Array:
        return np.asarray(self.ufunc(*common_arrays(input, other)))


@register("torch.eq", "aten::eq")
@dataclass(frozen=True, kw_only=True)
class Equal(_Comparison):
    """input == other. torch.eq"""

    ufunc = np.equal


@register("torch.ne", "aten::ne")
@dataclass(frozen=True, kw_only=True)
class NotEqual(_Comparison):
    """input != other. torch.ne"""

    ufunc = np.not_equal


@dataclass(frozen=True, kw_only=True)
class _Ordering(_Comparison):
    """A comparison by size, which complex numbers do not have."""

    def infer(self, input: OperandSpec, other: OperandSpec) -> TensorSpec:
        common = common_spec(input, other)
        _expect_kind(common.dtype, "bool", "int", "float")
        return common.like(dtype=bool_)


@register("torch.lt", "aten::lt")
@dataclass(frozen=True, kw_only=True)
class Less(_Ordering):
    """input < other. torch.lt"""

    ufunc = np.less


@register("torch.le", "aten::le")
@dataclass(frozen=True, kw_only=True)
class LessEqual(_Ordering):
    """input <= other. torch.le"""

    ufunc = np.less_equal


@register("torch.gt", "aten::gt")
@dataclass(frozen=True, kw_only=True)
class Greater(_Ordering):
    """input > other. torch.gt"""

    ufunc = np.greater


@register("torch.ge", "aten::ge")
@dataclass(frozen=True, kw_only=True)
class GreaterEqual(_Ordering):
    """input >= other. torch.ge"""

    ufunc = np.greater_equal


def _expect_kind(dtype: DType, *kinds: str) -> None:
    if dtype.kind not in kinds:
        raise DTypeError(f"expected operands of kind {' or '.join(kinds)}, found {dtype}")


def _expect_to_fit(operands: Sequence[OperandSpec], dtype: DType) -> None:
    """`DTypeError` for a number that an integer dtype cannot hold; as in PyTorch, negative ones wrap around in u8."""
    if dtype.kind != "int":
        return
    limits = np.iinfo(dtype.storage)
    for operand in operands:
        if not isinstance(operand, TensorSpec) and not min(limits.min, -limits.max) <= operand.real <= limits.max:
            raise DTypeError(f"{operand} does not fit into {dtype} ({limits.min} to {limits.max})")


@register("torch.isclose", "aten::isclose")
@dataclass(frozen=True, kw_only=True)
class IsClose(Layer):
    """|input - other| <= atol + rtol * |other|, or both the same infinity. (*), (*) -> (*) bool. torch.isclose"""

    schemas: ClassVar[Mapping[int, str]] = {5: "input other rtol atol equal_nan"}

    rtol: float = 1e-5
    atol: float = 1e-8
    equal_nan: bool = False

    def infer(self, input: TensorSpec, other: TensorSpec) -> TensorSpec:
        if input.dtype is not other.dtype:
            raise DTypeError(f"expected tensors of one dtype, found {input.dtype} and {other.dtype}")
        return common_spec(input, other).like(dtype=bool_)

    def forward(self, input: Array, other: Array) -> Array:
        return np.isclose(input, other, rtol=self.rtol, atol=self.atol, equal_nan=self.equal_nan)


# ------------------------------------------------------------------------------------------- kinds of numbers


@dataclass(frozen=True, kw_only=True)
class _Classification(Layer):
    """A property of every element. (*) -> (*) bool"""

    ufunc: ClassVar[np.ufunc]

    def infer(self, input: TensorSpec) -> TensorSpec:
        return input.like(dtype=bool_)

    def forward(self, input: Array) -> Array:
        return np.asarray(self.ufunc(input))


@register("torch.isnan", "aten::isnan")
@dataclass(frozen=True, kw_only=True)
class IsNan(_Classification):
    """Whether an element, or a part of it, is NaN. torch.isnan"""

    ufunc = np.isnan


@register("torch.isinf", "aten::isinf")
@dataclass(frozen=True, kw_only=True)
class IsInf(_Classification):
    """Whether an element, or a part of it, is infinite. torch.isinf"""

    ufunc = np.isinf


@register("torch.isfinite", "aten::isfinite")
@dataclass(frozen=True, kw_only=True)
class IsFinite(_Classification):
    """Whether an element is neither infinite nor NaN. torch.isfinite"""

    ufunc = np.isfinite


# ------------------------------------------------------------------------------------------- truth


@dataclass(frozen=True, kw_only=True)
class _Logical(Layer):
    """A truth function of two operands, of which all but zero is true. (*), (*) -> (*) bool"""

    ufunc: ClassVar[np.ufunc]

    def infer(self, input: OperandSpec, other: OperandSpec) -> TensorSpec:
        return common_spec(input, other).like(dtype=bool_)

    def forward(self, input: Operand, other: Operand) -> Array:
        return np.asarray(self.ufunc(np.not_equal(input, 0), np.not_equal(other, 0)))


@register("torch.logical_and", "aten::logical_and")
@dataclass(frozen=True, kw_only=True)
class LogicalAnd(_Logical):
    """Whether both are true. torch.logical_and"""

    ufunc = np.logical_and


@register("torch.logical_or", "aten::logical_or")
@dataclass(frozen=True, kw_only=True)
class LogicalOr(_Logical):
    """Whether at least one is true. torch.logical_or"""

    ufunc = np.logical_or


@register("torch.logical_xor", "aten::logical_xor")
@dataclass(frozen=True, kw_only=True)
class LogicalXor(_Logical):
    """Whether exactly one is true. torch.logical_xor"""

    ufunc = np.logical_xor


@register("torch.logical_not", "aten::logical_not")
@dataclass(frozen=True, kw_only=True)
class LogicalNot(Layer):
    """Whether an element is zero. (*) -> (*) bool. torch.logical_not"""

    def infer(self, input: TensorSpec) -> TensorSpec:
        return input.like(dtype=bool_)

    def forward(self, input: Array) -> Array:
        return np.equal(input, 0)


# ------------------------------------------------------------------------------------------- bits


@dataclass(frozen=True, kw_only=True)
class _Bitwise(Layer):
    """A function of the bits of two integers or bools. (*), (*) -> (*)"""

    widens = False
    ufunc: ClassVar[np.ufunc]
    kinds: ClassVar[tuple[str, ...]] = ("bool", "int")

    def infer(self, input: OperandSpec, other: OperandSpec) -> TensorSpec:
        common = common_spec(input, other)
        _expect_kind(common.dtype, *self.kinds)
        return common

    def forward(self, input: Operand, other: Operand) -> Array:
        return np.asarray(self.ufunc(*common_arrays(input, other)))


@register("torch.bitwise_and", "aten::bitwise_and")
@dataclass(frozen=True, kw_only=True)
class BitwiseAnd(_Bitwise):
    """input & other. torch.bitwise_and"""

    ufunc = np.bitwise_and


@register("torch.bitwise_or", "aten::bitwise_or")
@dataclass(frozen=True, kw_only=True)
class BitwiseOr(_Bitwise):
    """input | other. torch.bitwise_or"""

    ufunc = np.bitwise_or


@register("torch.bitwise_xor", "aten::bitwise_xor")
@dataclass(frozen=True, kw_only=True)
class BitwiseXor(_Bitwise):
    """input ^ other. torch.bitwise_xor"""

    ufunc = np.bitwise_xor


@register("torch.bitwise_left_shift", "aten::bitwise_left_shift")
@dataclass(frozen=True, kw_only=True)
class BitwiseLeftShift(_Bitwise):
    """input << other; 0 where `other` is negative or not less than the number of bits. torch.bitwise_left_shift"""

    kinds = ("int",)

    def forward(self, input: Operand, other: Operand) -> Array:
        number, shift = common_arrays(input, other)
        fits = (shift >= 0) & (shift < 8 * number.itemsize)
        return np.where(fits, np.left_shift(number, np.where(fits, shift, 0)), number.dtype.type(0))


@register("torch.bitwise_right_shift", "aten::bitwise_right_shift")
@dataclass(frozen=True, kw_only=True)
class BitwiseRightShift(_Bitwise):
    """input >> other, filled with the sign; all sign where `other` is negative or too large. torch.bitwise_right_shift"""

    kinds = ("int",)

    def forward(self, input: Operand, other: Operand) -> Array:
        number, shift = common_arrays(input, other)
        last = 8 * number.itemsize - 1
        fits = (shift >= 0) & (shift <= last)
        shifted = np.right_shift(number, np.where(fits, shift, last).astype(number.dtype))
        return shifted if number.dtype.kind == "i" else np.where(fits, shifted, number.dtype.type(0))


@register("torch.bitwise_not", "aten::bitwise_not")
@dataclass(frozen=True, kw_only=True)
class BitwiseNot(Layer):
    """Every bit turned over; of bool, not. (*) -> (*). torch.bitwise_not"""

    def infer(self, input: TensorSpec) -> TensorSpec:
        _expect_kind(input.dtype, "bool", "int")
        return input.like()

    def forward(self, input: Array) -> Array:
        return np.invert(input)


# ------------------------------------------------------------------------------------------- bounds


@dataclass(frozen=True, kw_only=True)
class _Extreme(Layer):
    """The larger or the smaller one of two operands. (*), (*) -> (*)"""

    widens = False
    ufunc: ClassVar[np.ufunc]

    def infer(self, input: OperandSpec, other: OperandSpec) -> TensorSpec:
        common = common_spec(input, other)
        _expect_kind(common.dtype, "bool", "int", "float")
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
        _expect_kind(common.dtype, "bool", "int", "float")
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


# ------------------------------------------------------------------------------------------- choice


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
