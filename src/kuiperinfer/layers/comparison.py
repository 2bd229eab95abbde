"""Comparisons of elements, kinds of numbers, and truth: all of which give bool.

Operands broadcast, and are compared in their common dtype as PyTorch's type promotion has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec, bool_
from ..errors import DTypeError
from ..records import dataclass
from .base import Layer, register
from .checks import expect_kind
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
        expect_kind(common, "bool", "int", "float")
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
