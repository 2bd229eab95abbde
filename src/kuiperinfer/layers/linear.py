"""Matrix products: fully connected layers, and products of matrices, of vectors and of stacks of matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec, broadcast_shapes
from ..errors import ShapeError
from ..records import dataclass
from .base import Gradients, Ints, Layer, Spec, Value, expect_rank, register
from .checks import expect_kind, factor_dtype


def expect_numbers(**operands: Spec) -> None:
    """`DTypeError` unless all are tensors of numbers; bool is none."""
    for name, operand in operands.items():
        expect_kind(operand, "int", "float", "complex", what=name)


def _product_shape(a: Ints, b: Ints) -> Ints:
    """The shape of `a @ b`, a vector being a row on the left and a column on the right."""
    if not a or not b:
        raise ShapeError(f"a matrix product needs at least one dimension on each side, found shapes {a} and {b}")
    rows, columns = a if len(a) > 1 else (1, *a), b if len(b) > 1 else (*b, 1)
    if rows[-1] != columns[-2]:
        raise ShapeError(
            f"shapes {a} and {b} cannot be multiplied: {rows[-1]} columns on the left, {columns[-2]} rows on the right"
        )
    batch = broadcast_shapes(rows[:-2], columns[:-2])
    return batch + (rows[-2:-1] if len(a) > 1 else ()) + (columns[-1:] if len(b) > 1 else ())


def _multiply(a: Array, b: Array) -> Array:
    """`a @ b`; a stack of matrices times one matrix is one large product, not a small one for each."""
    if a.ndim > 2 and b.ndim == 2:
        return (a.reshape(-1, a.shape[-1]) @ b).reshape(*a.shape[:-1], b.shape[-1]) if a.size else a @ b
    return a @ b


def _sum_to(array: Array, shape: Ints) -> Array:
    """An array summed over the dimensions along which an operand of this shape was broadcast."""
    extra = array.ndim - len(shape)
    broadcast = (extra + dim for dim, size in enumerate(shape) if size == 1 and array.shape[extra + dim] != 1)
    return array.sum((*range(extra), *broadcast), keepdims=True).reshape(shape)


def _expect_expandable(bias: TensorSpec, shape: Ints, what: str) -> None:
    if bias.ndim > len(shape) or broadcast_shapes(shape, bias.shape) != shape:
        raise ShapeError(f"{what}: shape {bias.shape} cannot be expanded to {shape}")


@register("nn.Linear", "F.linear", "aten::linear")
@dataclass(frozen=True, kw_only=True)
class Linear(Layer):
    """input @ weight.T + bias. (*, I), (O, I), (O) -> (*, O); a weight (I) gives (*). torch.nn.Linear"""

    presence: ClassVar[Mapping[str, tuple[str, ...]]] = {"bias": ("bias",)}

    in_features: int | None = None
    out_features: int | None = None

    def infer(self, input: TensorSpec, weight: TensorSpec, bias: Spec = None) -> TensorSpec:
        expect_numbers(input=input, weight=weight)
        expect_rank(weight, 1, 2, what="weight")
        found = (self.out_features, self.in_features)[-weight.ndim :]
        if any(number not in (None, dim) for number, dim in zip(found, weight.shape, strict=True)):
            raise ShapeError(
                f"in_features={self.in_features} and out_features={self.out_features} do not go with a weight of "
                f"shape {weight.shape}"
            )
        shape = _product_shape(input.shape, weight.shape[::-1])
        if bias is None:
            return TensorSpec(shape, factor_dtype(input, weight))
        expect_numbers(bias=bias)
        if weight.ndim == 1 and bias.ndim:
            raise ShapeError(f"bias: a weight of shape {weight.shape} takes a single number, found shape {bias.shape}")
        _expect_expandable(bias, shape, "bias")
        return TensorSpec(shape, factor_dtype(input, weight, bias))

    def forward(self, input: Array, weight: Array, bias: Value = None) -> Array:
        product = _multiply(input, weight.T)
        return product if bias is None else product + bias

    def derivative(
        self, gradient: Array, output: Array, needs: Sequence[bool], input: Array, weight: Array, bias: Value = None
    ) -> Gradients:
        matrix = np.atleast_2d(weight)
        rows, seen = gradient.reshape(-1, len(matrix)), input.reshape(-1, input.shape[-1])
        return [
            (rows @ matrix).reshape(input.shape) if needs[0] else None,
            (rows.T @ seen).reshape(weight.shape) if needs[1] else None,
            None if bias is None else _sum_to(gradient, bias.shape),
        ]


@register("torch.matmul", "aten::matmul")
@dataclass(frozen=True, kw_only=True)
class Matmul(Layer):
    """Products of the last two dimensions, the others broadcast: (*, M, K), (*, K, N) -> (*, M, N).

    A vector on the left is a row, on the right a column, and its added dimension disappears again. torch.matmul
    """

    def infer(self, input: TensorSpec, other: TensorSpec) -> TensorSpec:
        expect_numbers(input=input, other=other)
        return TensorSpec(_product_shape(input.shape, other.shape), factor_dtype(input, other))

    def forward(self, input: Array, other: Array) -> Array:
        return _multiply(input, other)

    def derivative(
        self, gradient: Array, output: Array, needs: Sequence[bool], input: Array, other: Array
    ) -> Gradients:
        """gradient @ otherᵀ and inputᵀ @ gradient, summed over dimensions that were broadcast."""
        left, right = np.atleast_2d(input), other[:, None] if other.ndim == 1 else other
        if other.ndim == 1:
            gradient = gradient[..., None]
        if input.ndim == 1:
            gradient = gradient[..., None, :]
        return [
            _sum_to(gradient @ right.swapaxes(-1, -2), left.shape).reshape(input.shape) if needs[0] else None,
            _sum_to(left.swapaxes(-1, -2) @ gradient, right.shape).reshape(other.shape) if needs[1] else None,
        ]


@register("torch.mm", "aten::mm", ranks=(2, 2))
@register("torch.bmm", "aten::bmm", ranks=(3, 3))
@dataclass(frozen=True, kw_only=True)
class MatrixProduct(Layer):
    """Products without broadcasting: mm (M, K), (K, N) -> (M, N); bmm (B, M, K), (B, K, N) -> (B, M, N)."""

    ranks: Ints

    def infer(self, input: TensorSpec, mat2: TensorSpec) -> TensorSpec:
        expect_numbers(input=input, mat2=mat2)
        return TensorSpec(_strict_product_shape(input, mat2, self.ranks, ("input", "mat2")), factor_dtype(input, mat2))

    def forward(self, input: Array, mat2: Array) -> Array:
        return input @ mat2


def _strict_product_shape(a: TensorSpec, b: TensorSpec, ranks: Ints, names: tuple[str, str]) -> Ints:
    expect_rank(a, ranks[0], what=names[0])
    expect_rank(b, ranks[1], what=names[1])
    if a.shape[:-2] != b.shape[:-2]:
        raise ShapeError(f"{names[0]} and {names[1]}: shapes {a.shape} and {b.shape} have different batch sizes")
    return _product_shape(a.shape, b.shape)


@register("torch.mv", "aten::mv")
@dataclass(frozen=True, kw_only=True)
class MatrixVectorProduct(Layer):
    """(M, K), (K) -> (M). torch.mv"""

    def infer(self, input: TensorSpec, vec: TensorSpec) -> TensorSpec:
        expect_numbers(input=input, vec=vec)
        return TensorSpec(_strict_product_shape(input, vec, (2, 1), ("input", "vec")), factor_dtype(input, vec))

    def forward(self, input: Array, vec: Array) -> Array:
        return input @ vec


@dataclass(frozen=True, kw_only=True)
class _AddedProduct(Layer):
    """beta * input + alpha * (a @ b); where beta is 0, NaN and infinity in `input` do not count."""

    ranks: ClassVar[Ints]

    alpha: int | float = 1
    beta: int | float = 1

    def _infer(self, input: TensorSpec, a: TensorSpec, b: TensorSpec, names: tuple[str, str]) -> TensorSpec:
        expect_numbers(input=input, **{names[0]: a, names[1]: b})
        shape = _strict_product_shape(a, b, self.ranks, names)
        _expect_expandable(input, shape, "input")
        return TensorSpec(shape, factor_dtype(input, a, b))

    def _forward(self, input: Array, a: Array, b: Array) -> Array:
        product = _scaled(a @ b, self.alpha)
        return product + _scaled(input, self.beta) if self.beta != 0 else product


def _scaled(array: Array, factor: int | float) -> Array:
    if factor == 1:
        return array
    return array * array.dtype.type(factor)  # an integer tensor takes the integer part of the factor


@register("torch.addmm", "aten::addmm")
@dataclass(frozen=True, kw_only=True)
class AddMM(_AddedProduct):
    """beta * input + alpha * (mat1 @ mat2). input that expands to (M, N), (M, K), (K, N) -> (M, N). torch.addmm"""

    ranks: ClassVar[Ints] = (2, 2)
    schemas: ClassVar[Mapping[int, str]] = {5: "input mat1 mat2 beta alpha"}

    def infer(self, input: TensorSpec, mat1: TensorSpec, mat2: TensorSpec) -> TensorSpec:
        return self._infer(input, mat1, mat2, ("mat1", "mat2"))

    def forward(self, input: Array, mat1: Array, mat2: Array) -> Array:
        return self._forward(input, mat1, mat2)


@register("torch.addmv", "aten::addmv")
@dataclass(frozen=True, kw_only=True)
class AddMV(_AddedProduct):
    """beta * input + alpha * (mat @ vec). input that expands to (M), (M, K), (K) -> (M). torch.addmv"""

    ranks: ClassVar[Ints] = (2, 1)
    schemas: ClassVar[Mapping[int, str]] = {5: "input mat vec beta alpha"}

    def infer(self, input: TensorSpec, mat: TensorSpec, vec: TensorSpec) -> TensorSpec:
        return self._infer(input, mat, vec, ("mat", "vec"))

    def forward(self, input: Array, mat: Array, vec: Array) -> Array:
        return self._forward(input, mat, vec)


@register("torch.baddbmm", "aten::baddbmm")
@dataclass(frozen=True, kw_only=True)
class BaddBMM(_AddedProduct):
    """beta * input + alpha * (batch1 @ batch2). input that expands to (B, M, N), (B, M, K), (B, K, N) -> (B, M, N)."""

    ranks: ClassVar[Ints] = (3, 3)
    schemas: ClassVar[Mapping[int, str]] = {5: "input batch1 batch2 beta alpha"}

    def infer(self, input: TensorSpec, batch1: TensorSpec, batch2: TensorSpec) -> TensorSpec:
        return self._infer(input, batch1, batch2, ("batch1", "batch2"))

    def forward(self, input: Array, batch1: Array, batch2: Array) -> Array:
        return self._forward(input, batch1, batch2)
