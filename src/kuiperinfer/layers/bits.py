"""Functions of the bits of integers; of bool, where all operands are, logical functions. Operands broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec
from .base import Layer, register
from .checks import expect_kind
from .promotion import Operand, OperandSpec, common_arrays, common_spec


@dataclass(frozen=True, kw_only=True)
class _Bitwise(Layer):
    """A function of the bits of two integers or bools. (*), (*) -> (*)"""

    widens = False
    ufunc: ClassVar[np.ufunc]
    kinds: ClassVar[tuple[str, ...]] = ("bool", "int")

    def infer(self, input: OperandSpec, other: OperandSpec) -> TensorSpec:
        common = common_spec(input, other)
        expect_kind(common, *self.kinds)
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
        expect_kind(input, "bool", "int")
        return input.like()

    def forward(self, input: Array) -> Array:
        return np.invert(input)
