"""Rearranging: elements repeated, reversed, shifted, or set out along a diagonal."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec, i32, i64
from ..errors import DTypeError, ShapeError
from ..records import dataclass
from .base import (
    Ints,
    Layer,
    Spec,
    Value,
    expect_rank,
    known_array,
    known_int,
    known_ints,
    normalize_dim,
    register,
)
from .checks import expect_dimensions
from .shape import describe_shape, distinct_dims


def _repeated_shape(shape: Ints, repeats: Ints) -> Ints:
    """The shape of a tensor whose dimensions, aligned at the right, are repeated so often each."""
    rank = max(len(shape), len(repeats))
    shape = (1,) * (rank - len(shape)) + shape
    repeats = (1,) * (rank - len(repeats)) + repeats
    return tuple(size * count for size, count in zip(shape, repeats, strict=True))


@register("Tensor.repeat", "aten::repeat")
@dataclass(frozen=True, kw_only=True)
class Repeat(Layer):
    """The whole tensor repeated along each dimension; `sizes` may have more in front. (A, B) -> (m A, n B).

    torch.Tensor.repeat
    """

    widens: ClassVar[bool] = False
    operand_aliases: ClassVar[dict[str, str]] = {"repeats": "sizes"}

    def infer(self, input: TensorSpec, sizes: Spec) -> TensorSpec:
        repeats = known_ints(sizes, "sizes")
        if len(repeats) < input.ndim or any(count < 0 for count in repeats):
            raise ShapeError(
                f"{describe_shape('sizes', sizes)}; expected one number of at least 0 for each dimension of {input.shape}"
            )
        return input.like(_repeated_shape(input.shape, repeats))

    def forward(self, input: Array, sizes: Value) -> Array:
        return np.tile(input, known_ints(sizes, "sizes"))


@register("torch.tile", "aten::tile")
@dataclass(frozen=True, kw_only=True)
class Tile(Layer):
    """The whole tensor repeated along its last dimensions, as many as `dims` has. (A, B) -> (A, n B). torch.tile"""

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, dims: Spec) -> TensorSpec:
        repeats = known_ints(dims, "dims")
        if any(count < 0 for count in repeats):
            raise ShapeError(f"{describe_shape('dims', dims)}; expected numbers of at least 0")
        return input.like(_repeated_shape(input.shape, repeats))

    def forward(self, input: Array, dims: Value) -> Array:
        return np.tile(input, known_ints(dims, "dims"))


@register("torch.repeat_interleave", "aten::repeat_interleave")
@dataclass(frozen=True, kw_only=True)
class RepeatInterleave(Layer):
    """Each slice along `dim` repeated in its place: `repeats` times, or as often as a 1-d tensor says for each.

    Without `dim` the input is flattened first. (A, B) -> (A', B). torch.repeat_interleave
    """

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {3: "input repeats dim", 4: "input repeats dim output_size"}

    dim: int | None = None

    def infer(self, input: TensorSpec, repeats: Spec, output_size: Spec = None) -> TensorSpec:
        shape = [input.size] if self.dim is None else list(input.shape)
        axis = normalize_dim(self.dim or 0, len(shape))
        expect_dimensions(tuple(shape), 1)
        total = self._total(repeats, shape[axis])
        if output_size is not None and known_int(output_size, "output_size") != total:
            raise ShapeError(f"output_size={known_int(output_size, 'output_size')}, but the repeats add up to {total}")
        shape[axis] = total
        return input.like(shape)

    def forward(self, input: Array, repeats: Value, output_size: Value = None) -> Array:
        counts = repeats.reshape(-1) if isinstance(repeats, np.ndarray) else repeats
        return np.repeat(input.reshape(-1) if self.dim is None else input, counts, axis=self.dim or 0)

    def _total(self, repeats: Spec, size: int) -> int:
        if not isinstance(repeats, TensorSpec):
            counts = np.asarray([known_int(repeats, "repeats")])
        else:
            if repeats.dtype not in (i32, i64) or repeats.ndim > 1:
                raise DTypeError(f"repeats: expected a number, or a 0-d or 1-d tensor of i32 or i64, found {repeats}")
            if repeats.size not in (1, size):
                raise ShapeError(f"repeats has {repeats.size} numbers, but input has size {size} along the dimension")
            counts = known_array(repeats).reshape(-1)
        if (counts < 0).any():
            raise ShapeError(f"repeats: expected numbers of at least 0, found {counts.min()}")
        return int(counts.sum()) * (size if counts.size == 1 else 1)


@register("torch.flip", "aten::flip")
@dataclass(frozen=True, kw_only=True)
class Flip(Layer):
    """Reversed along the dimensions `dims`. (*) -> (*). torch.flip"""

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, dims: Spec) -> TensorSpec:
        distinct_dims(known_ints(dims, "dims"), input.ndim)
        return input.like()

    def forward(self, input: Array, dims: Value) -> Array:
        return np.flip(input, distinct_dims(known_ints(dims, "dims"), input.ndim)) if input.ndim else input


@register("torch.roll", "aten::roll")
@dataclass(frozen=True, kw_only=True)
class Roll(Layer):
    """Shifted along dimensions, what falls off at the end coming back at the start; without `dims` as if flattened.

    (*) -> (*). torch.roll
    """

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, shifts: Spec, dims: Spec = None) -> TensorSpec:
        steps, axes = self._shifts(shifts, dims)
        if len(steps) != (len(axes) or 1):
            raise ShapeError(f"shifts={steps} and dims={axes} differ in length")
        if axes and not input.ndim:
            raise ShapeError(f"dims={axes}, but input is a 0-d tensor")
        if input.size:
            for axis in axes:
                normalize_dim(axis, input.ndim)
        return input.like()

    def forward(self, input: Array, shifts: Value, dims: Value = None) -> Array:
        steps, axes = self._shifts(shifts, dims)
        return np.roll(input, steps, axes or None) if input.size else input

    def _shifts(self, shifts: Any, dims: Any) -> tuple[Ints, Ints]:
        return known_ints(shifts, "shifts"), () if dims is None else known_ints(dims, "dims")


@register("torch.diag", "aten::diag")
@dataclass(frozen=True, kw_only=True)
class Diag(Layer):
    """The matrix that has a vector on a diagonal, or the diagonal of a matrix. (N) -> (N + |d|, N + |d|); (M, N) -> (K).

    torch.diag
    """

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {2: "input diagonal"}

    diagonal: int = 0

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_rank(input, 1, 2)
        if input.ndim == 1:
            return input.like([input.size + abs(self.diagonal)] * 2)
        return input.like([_diagonal_length(input.shape[0], input.shape[1], self.diagonal)])

    def forward(self, input: Array) -> Array:
        return np.diag(input, self.diagonal)


@register("aten::diagonal")
@dataclass(frozen=True, kw_only=True)
class Diagonal(Layer):
    """The diagonals of matrices over two dimensions, as a new last dimension. (A, M, N) -> (A, K) for the last two.

    torch.diagonal
    """

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {4: "input offset dim1 dim2"}

    offset: int = 0
    dim1: int = 0
    dim2: int = 1

    def infer(self, input: TensorSpec) -> TensorSpec:
        rows, columns = distinct_dims((self.dim1, self.dim2), input.ndim)
        rest = [size for dim, size in enumerate(input.shape) if dim not in (rows, columns)]
        return input.like([*rest, _diagonal_length(input.shape[rows], input.shape[columns], self.offset)])

    def forward(self, input: Array) -> Array:
        return np.diagonal(input, self.offset, self.dim1, self.dim2)


def _diagonal_length(rows: int, columns: int, offset: int) -> int:
    return max(0, min(rows + min(offset, 0), columns - max(offset, 0)))


@register("torch.tril", "aten::tril", lower=True)
@register("torch.triu", "aten::triu", lower=False)
@dataclass(frozen=True, kw_only=True)
class Triangle(Layer):
    """Matrices with zeros above (`tril`) or below (`triu`) a diagonal. (*, M, N) -> (*, M, N). torch.tril, torch.triu"""

    schemas: ClassVar[dict[int, str]] = {2: "input diagonal"}

    lower: bool
    diagonal: int = 0

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_dimensions(input.shape, 2)
        return input.like()

    def forward(self, input: Array) -> Array:
        rows, columns = input.shape[-2:]
        below = np.arange(columns) <= np.arange(rows)[:, None] + (self.diagonal if self.lower else self.diagonal - 1)
        return np.where(below if self.lower else ~below, input, input.dtype.type(0))
