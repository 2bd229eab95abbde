"""Weighted sums of two or three tensors: interpolation, addition of a product or of a quotient. All broadcast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec
from ..errors import DTypeError
from ..records import dataclass
from .base import Layer, register
from .promotion import Operand, OperandSpec, common_arrays, common_spec
from .reduction import expect_floating


@register("torch.lerp", "aten::lerp")
@dataclass(frozen=True, kw_only=True)
class Lerp(Layer):
    """input + weight * (end - input), exact at weight 1; floats or complex numbers of one dtype. torch.lerp"""

    widens = False

    def infer(self, input: TensorSpec, end: TensorSpec, weight: OperandSpec) -> TensorSpec:
        expect_floating(input.dtype, "lerp")
        tensors = [end]
        if isinstance(weight, TensorSpec) and weight.shape:  # a 0-d weight counts as a number
            tensors.append(weight)
        for tensor in tensors:
            if tensor.dtype is not input.dtype:
                raise DTypeError(f"expected tensors of one dtype, found {input.dtype} and {tensor.dtype}")
        common = common_spec(input, end, weight)
        if common.dtype is not input.dtype:
            raise DTypeError(f"weight: {weight} does not fit into {input.dtype}")
        return common

    def forward(self, input: Array, end: Array, weight: Operand) -> Array:
        start, stop, share = common_arrays(input, end, weight)
        difference = stop - start
        return np.where(np.abs(share) < 0.5, start + share * difference, stop - difference * (1 - share))


@register("torch.addcmul", "aten::addcmul")
@dataclass(frozen=True, kw_only=True)
class AddCMul(Layer):
    """input + value * tensor1 * tensor2, in the common dtype, to which `value` is converted too. torch.addcmul"""

    schemas: ClassVar[Mapping[int, str]] = {4: "input tensor1 tensor2 value"}
    widens = False

    value: int | float = 1

    def infer(self, input: TensorSpec, tensor1: TensorSpec, tensor2: TensorSpec) -> TensorSpec:
        common = common_spec(input, tensor1, tensor2)
        if common.dtype.kind == "bool":
            raise DTypeError("expected numbers, found bool")
        return common

    def forward(self, input: Array, tensor1: Array, tensor2: Array) -> Array:
        start, one, other = common_arrays(input, tensor1, tensor2)
        return start + self._value(start) * one * other

    def _value(self, like: Array) -> Array:
        return np.asarray(self.value).astype(like.dtype)


@register("torch.addcdiv", "aten::addcdiv")
@dataclass(frozen=True, kw_only=True)
class AddCDiv(AddCMul):
    """input + value * tensor1 / tensor2, in the common dtype. torch.addcdiv"""

    def infer(self, input: TensorSpec, tensor1: TensorSpec, tensor2: TensorSpec) -> TensorSpec:
        if {tensor1.dtype.kind, tensor2.dtype.kind} <= {"int", "bool"}:
            raise DTypeError(
                f"expected a quotient with floats or complex numbers, found {tensor1.dtype}, {tensor2.dtype}"
            )
        return super().infer(input, tensor1, tensor2)

    def forward(self, input: Array, tensor1: Array, tensor2: Array) -> Array:
        start, one, other = common_arrays(input, tensor1, tensor2)
        return start + self._value(start) * one / other
