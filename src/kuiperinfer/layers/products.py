"""Products of vectors and of more than two dimensions, which the converter leaves as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec, result_type
from ..errors import ShapeError
from ..records import dataclass
from .base import Ints, Layer, Spec, Value, expect_rank, normalize_dim, register
from .checks import expect_kind, factor_dtype
from .linear import expect_numbers


@register("torch.dot", "aten::dot")
@register("torch.vdot", "aten::vdot", conjugate=True)
@dataclass(frozen=True, kw_only=True)
class Dot(Layer):
    """The sum of the products of two vectors, of which vdot conjugates the first. (K), (K) -> (). torch.dot"""

    conjugate: bool = False

    def infer(self, input: TensorSpec, other: TensorSpec) -> TensorSpec:
        expect_numbers(input=input, other=other)
        expect_rank(input, 1)
        expect_rank(other, 1, what="other")
        if input.shape != other.shape:
            raise ShapeError(f"two vectors of one length are needed, found shapes {input.shape} and {other.shape}")
        return TensorSpec((), factor_dtype(input, other))

    def forward(self, input: Array, other: Array) -> Array:
        return np.asarray((input.conj() if self.conjugate else input) @ other)


@register("torch.inner", "aten::inner")
@dataclass(frozen=True, kw_only=True)
class Inner(Layer):
    """The products of the last dimensions, summed; a number multiplies. (*A, K), (*B, K) -> (*A, *B). torch.inner"""

    def infer(self, input: TensorSpec, other: TensorSpec) -> TensorSpec:
        expect_numbers(input=input, other=other)
        dtype = factor_dtype(input, other)
        if not input.ndim or not other.ndim:
            return TensorSpec(input.shape + other.shape, dtype)
        if input.shape[-1] != other.shape[-1]:
            raise ShapeError(f"the last dimensions have to agree, found shapes {input.shape} and {other.shape}")
        return TensorSpec(input.shape[:-1] + other.shape[:-1], dtype)

    def forward(self, input: Array, other: Array) -> Array:
        return np.inner(input, other)


@register("torch.outer", "aten::outer", "aten::ger")
@dataclass(frozen=True, kw_only=True)
class Outer(Layer):
    """The product of each element with each. (M), (N) -> (M, N), in the common dtype. torch.outer"""

    def infer(self, input: TensorSpec, vec2: TensorSpec) -> TensorSpec:
        for name, vector in (("input", input), ("vec2", vec2)):
            expect_kind(vector, "bool", "int", "float", "complex", what=name)
            expect_rank(vector, 1, what=name)
        return TensorSpec(input.shape + vec2.shape, result_type(input, vec2))

    def forward(self, input: Array, vec2: Array) -> Array:
        return np.multiply.outer(input, vec2)


@register("torch.kron", "aten::kron")
@dataclass(frozen=True, kw_only=True)
class Kron(Layer):
    """Each element of the first replaced by it times the second. (A, B), (C, D) -> (A * C, B * D). torch.kron"""

    def infer(self, input: TensorSpec, other: TensorSpec) -> TensorSpec:
        for name, tensor in (("input", input), ("other", other)):
            expect_kind(tensor, "bool", "int", "float", "complex", what=name)
        rank = max(input.ndim, other.ndim)
        shapes = ((1,) * (rank - tensor.ndim) + tensor.shape for tensor in (input, other))
        return TensorSpec(tuple(a * b for a, b in zip(*shapes, strict=True)), result_type(input, other))

    def forward(self, input: Array, other: Array) -> Array:
        return np.kron(input, other)


@register("aten::tensordot")
@dataclass(frozen=True, kw_only=True)
class Tensordot(Layer):
    """The products over pairs of dimensions, summed. (*A, K), (K, *B) -> (*A, *B) for `dims_self` -1 and `dims_other` 0.

    torch.tensordot
    """

    schemas: ClassVar[Mapping[int, str]] = {4: "input other dims_self dims_other"}

    dims_self: Ints
    dims_other: Ints

    def _axes(self, input_rank: int, other_rank: int) -> tuple[Ints, Ints]:
        ours = tuple(normalize_dim(dim, input_rank) for dim in self.dims_self)
        theirs = tuple(normalize_dim(dim, other_rank) for dim in self.dims_other)
        if len(ours) != len(theirs) or len(set(ours)) < len(ours) or len(set(theirs)) < len(theirs):
            raise ShapeError(f"dims: expected as many on both sides and none twice, found {ours} and {theirs}")
        return ours, theirs

    def infer(self, input: TensorSpec, other: TensorSpec) -> TensorSpec:
        expect_numbers(input=input, other=other)
        ours, theirs = self._axes(input.ndim, other.ndim)
        if any(input.shape[a] != other.shape[b] for a, b in zip(ours, theirs, strict=True)):
            raise ShapeError(f"shapes {input.shape} and {other.shape} differ in the dimensions {ours} and {theirs}")
        left = tuple(dim for axis, dim in enumerate(input.shape) if axis not in ours)
        right = tuple(dim for axis, dim in enumerate(other.shape) if axis not in theirs)
        return TensorSpec(left + right, factor_dtype(input, other))

    def forward(self, input: Array, other: Array) -> Array:
        return np.asarray(np.tensordot(input, other, self._axes(input.ndim, other.ndim)))


@register("F.bilinear", "nn.Bilinear", "aten::bilinear")
@dataclass(frozen=True, kw_only=True)
class Bilinear(Layer):
    """input1 @ weight[o] @ input2 for each output o, and a bias. (*, I), (*, J), (O, I, J), (O) -> (*, O). torch.nn.Bilinear"""

    presence: ClassVar[Mapping[str, tuple[str, ...]]] = {"bias": ("bias",)}

    in1_features: int | None = None
    in2_features: int | None = None
    out_features: int | None = None

    def infer(self, input1: TensorSpec, input2: TensorSpec, weight: TensorSpec, bias: Spec = None) -> TensorSpec:
        expect_numbers(input1=input1, input2=input2, weight=weight)
        expect_rank(weight, 3, what="weight")
        if (input1.shape[-1:], input2.shape[-1:]) != (weight.shape[1:2], weight.shape[2:]):
            raise ShapeError(
                f"inputs {input1.shape} and {input2.shape} do not go with a weight of shape {weight.shape}"
            )
        if input1.shape[:-1] != input2.shape[:-1]:
            raise ShapeError(f"the inputs differ in more than the last dimension: {input1.shape} and {input2.shape}")
        named = (self.out_features, self.in1_features, self.in2_features)
        if any(number not in (None, dim) for number, dim in zip(named, weight.shape, strict=True)):
            raise ShapeError(f"features {named} do not go with a weight of shape {weight.shape}")
        shape = (*input1.shape[:-1], weight.shape[0])
        if bias is None:
            return TensorSpec(shape, factor_dtype(input1, input2, weight))
        expect_numbers(bias=bias)
        if bias.shape != weight.shape[:1]:
            raise ShapeError(f"bias: expected shape {weight.shape[:1]}, found {bias.shape}")
        return TensorSpec(shape, factor_dtype(input1, input2, weight, bias))

    def forward(self, input1: Array, input2: Array, weight: Array, bias: Value = None) -> Array:
        outputs, first, second = weight.shape
        batch = input1.shape[:-1]
        samples = math.prod(batch)
        rows = input1.reshape(samples, first) @ weight.transpose(1, 0, 2).reshape(first, outputs * second)
        products = rows.reshape(samples, outputs, second) @ input2.reshape(samples, second, 1)
        result = products.reshape(*batch, outputs)
        return result if bias is None else result + bias
