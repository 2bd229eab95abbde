"""Vectors and matrices along dimensions of a tensor: norms, distances, the cross product.

Norms are calculated in double precision and are real numbers, of complex tensors too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ..dtypes import Array, DType, TensorSpec, broadcast_shapes, promote, to_real
from ..errors import DTypeError, ModelFileError, ShapeError
from ..records import dataclass
from .annotation import DTypeLayer
from .base import Ints, Layer, normalize_dim, register
from .checks import expect_dimensions
from .promotion import common_arrays, common_spec
from .reduction import Reduction, expect_elements, expect_floating, reduced_axes, reduced_shape, to_double

# ------------------------------------------------------------------------------------------- norms


def vector_norm(input: Array, order: float, axes: Ints, keepdim: bool) -> Array:
    """(sum |x|^order)^(1/order); the largest or smallest |x| for an infinite order, how many are not 0 for order 0."""
    magnitude = np.abs(to_double(input))
    if math.isinf(order):
        extreme = np.max if order > 0 else np.min
        norm = extreme(magnitude, axis=axes, keepdims=keepdim)
    elif order == 0:
        norm = np.sum(magnitude != 0, axis=axes, keepdims=keepdim, dtype=np.float64)
    elif order == 2:
        norm = np.sqrt(np.sum(magnitude * magnitude, axis=axes, keepdims=keepdim))
    else:
        norm = np.sum(magnitude**order, axis=axes, keepdims=keepdim) ** (1.0 / order)
    return np.asarray(norm)


def expect_vectors(shape: Ints, order: float, axes: Ints) -> None:
    """`ShapeError` where the vectors along the axes have no elements, and no norm of that order without."""
    if order < 0 or order == math.inf:
        expect_elements(shape, axes, f"the {order} norm")


def matrix_norm(input: Array, order: float | str, axes: Ints, keepdim: bool) -> Array:
    """The norm of the matrices that lie in two axes.

    ±1 look for the extreme sum of a column's magnitudes, ±inf of a row's, ±2 for the extreme singular value; `nuc` adds the
    singular values up, and `fro` is the vector norm of order 2.
    """
    if isinstance(order, str) and order != "nuc":
        return vector_norm(input, 2.0, axes, keepdim)
    matrices = np.moveaxis(to_double(input), axes, (-2, -1))
    if order in (1, -1):
        parts = np.sum(np.abs(matrices), axis=-2)
    elif order in (math.inf, -math.inf):
        parts = np.sum(np.abs(matrices), axis=-1)
    else:
        parts = np.linalg.svd(matrices, compute_uv=False)
    if isinstance(order, str):
        norm = np.sum(parts, axis=-1)
    else:
        norm = np.max(parts, axis=-1, initial=0.0) if order > 0 else np.min(parts, axis=-1)
    return np.asarray(norm).reshape(reduced_shape(input.shape, axes, keepdim))


def _norm_dtype(input: DType, wanted: DType | None) -> DType:
    """The real dtype of a norm; `DTypeError` for integers, and where `wanted` does not hold all that the input may be."""
    expect_floating(input, "a norm")
    dtype = wanted or input
    if dtype.kind != input.kind or promote(input, dtype) is not dtype:
        raise DTypeError(f"dtype: expected one that holds all numbers of {input}, found {dtype}")
    return to_real(dtype)


@register("torch.norm", "torch.linalg.vector_norm")
@dataclass(frozen=True, kw_only=True)
class Norm(Reduction, DTypeLayer):
    """The p-norm of all elements, or of those along `dim`. torch.norm

    `p` is a number, `fro` (2), or `nuc`, the sum of the singular values of the matrices that lie in two dimensions.
    """

    p: float | str | None = "fro"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.p, str) and self.p not in ("fro", "nuc"):
            raise ModelFileError(f"parameter 'p': expected a number, fro or nuc, found {self.p}")

    def result_dtype(self, input: DType, dtype: DType | None) -> DType:
        return _norm_dtype(input, dtype)

    def infer(self, input: TensorSpec) -> TensorSpec:
        dtype = self.result_dtype(input.dtype, self.dtype)
        axes = self.axes(input.ndim)
        if self.p == "nuc" and len(axes) != 2:
            raise ShapeError(f"p=nuc: expected two dimensions, found dim={self.dim} for shape {input.shape}")
        if isinstance(self.p, float):
            expect_vectors(input.shape, self.p, axes)
        return self.reduced(input, dtype)

    def forward(self, input: Array) -> Array:
        axes = self.axes(input.ndim)
        if isinstance(self.p, float):
            return vector_norm(input, self.p, axes, self.keepdim)
        return matrix_norm(input, self.p or "fro", axes, self.keepdim)


@register("torch.linalg.matrix_norm", "aten::linalg_matrix_norm")
@dataclass(frozen=True, kw_only=True)
class MatrixNorm(Layer):
    """The norm of the matrices that lie in two dimensions; `ord` as in `matrix_norm`. torch.linalg.matrix_norm"""

    schemas: ClassVar[Mapping[int, str]] = {5: "input ord dim keepdim dtype"}

    ord: float | str = "fro"
    dim: Ints = (-2, -1)
    keepdim: bool = False
    dtype: DType | None = None

    def __post_init__(self) -> None:
        known = ("fro", "nuc", math.inf, -math.inf, 2, -2, 1, -1)
        if self.ord not in known:
            raise ModelFileError(f"parameter 'ord': expected one of {', '.join(map(str, known))}, found {self.ord}")
        if len(self.dim) != 2:
            raise ModelFileError(f"parameter 'dim': expected two dimensions, found {self.dim}")

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_dimensions(input.shape, 2)
        axes = reduced_axes(self.dim, input.ndim)
        if isinstance(self.ord, float) and self.ord < 0:
            looked_at = {-1.0: axes[1:], -math.inf: axes[:1]}.get(self.ord, axes)
            expect_elements(input.shape, looked_at, f"the {self.ord} norm")
        return TensorSpec(reduced_shape(input.shape, axes, self.keepdim), _norm_dtype(input.dtype, self.dtype))

    def forward(self, input: Array) -> Array:
        return matrix_norm(input, self.ord, reduced_axes(self.dim, input.ndim), self.keepdim)


@register("torch.linalg.norm", "aten::linalg_norm")
@dataclass(frozen=True, kw_only=True)
class LinalgNorm(Layer):
    """A vector norm along one dimension, or a matrix norm in two; without `ord` the norm of order 2. torch.linalg.norm"""

    schemas: ClassVar[Mapping[int, str]] = {5: "input ord dim keepdim dtype"}

    ord: float | str | None = None
    dim: Ints | None = None
    keepdim: bool = False
    dtype: DType | None = None

    def infer(self, input: TensorSpec) -> TensorSpec:
        return self._meant(input.ndim).infer(input)

    def forward(self, input: Array) -> Array:
        return self._meant(input.ndim).forward(input)

    def _meant(self, ndim: int) -> Norm | MatrixNorm:
        """The layer that this one is for a tensor of so many dimensions."""
        count = ndim if self.dim is None else len(self.dim)
        if (self.dim or self.ord is not None) and count not in (1, 2):
            raise ShapeError(f"ord={self.ord} dim={self.dim}: expected 1 or 2 dimensions, found {count}")
        if isinstance(self.ord, str) or (self.ord is not None and count == 2):
            dim = (-2, -1) if self.dim is None else self.dim
            return MatrixNorm(ord=self.ord, dim=dim, keepdim=self.keepdim, dtype=self.dtype)
        return Norm(p=2.0 if self.ord is None else self.ord, dim=self.dim, keepdim=self.keepdim, dtype=self.dtype)


@register("torch.dist", "aten::dist")
@dataclass(frozen=True, kw_only=True)
class Distance(Layer):
    """The p-norm of all elements of a difference, 0-d. torch.dist"""

    schemas: ClassVar[Mapping[int, str]] = {3: "input other p"}
    widens = False

    p: float = 2.0

    def infer(self, input: TensorSpec, other: TensorSpec) -> TensorSpec:
        return Norm(p=self.p).infer(common_spec(input, other))

    def forward(self, input: Array, other: Array) -> Array:
        return Norm(p=self.p).forward(np.subtract(*common_arrays(input, other)))


# ------------------------------------------------------------------------------------------- cross product


@register("torch.cross", "aten::cross")
@dataclass(frozen=True, kw_only=True)
class Cross(Layer):
    """The cross product of the vectors along `dim`, for None along the first dimension of size 3. torch.cross

    (..., 3, ...), (..., 3, ...) -> (..., 3, ...), broadcast, of one dtype.
    """

    schemas: ClassVar[Mapping[int, str]] = {3: "input other dim"}

    dim: int | None = None

    def infer(self, input: TensorSpec, other: TensorSpec) -> TensorSpec:
        if input.dtype is not other.dtype or input.dtype.kind == "bool":
            raise DTypeError(f"expected numbers of one dtype, found {input.dtype} and {other.dtype}")
        if input.ndim != other.ndim:
            raise ShapeError(f"expected tensors of one rank, found {input.shape} and {other.shape}")
        axis = self._axis(input.shape)
        if not (input.ndim and input.shape[axis] == other.shape[axis] == 3):
            raise ShapeError(f"expected size 3 in dimension {axis}, found {input.shape} and {other.shape}")
        return input.like(broadcast_shapes(input.shape, other.shape))

    def _axis(self, shape: Ints) -> int:
        if self.dim is not None:
            return normalize_dim(self.dim, len(shape))
        if 3 not in shape:
            raise ShapeError(f"expected a dimension of size 3, found {shape}")
        return shape.index(3)

    def forward(self, input: Array, other: Array) -> Array:
        axis = self._axis(input.shape)
        a, b = (np.moveaxis(array, axis, 0) for array in np.broadcast_arrays(input, other))
        product = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
        return np.stack(product, axis)


@register("torch.linalg.cross", "aten::linalg_cross")
@dataclass(frozen=True, kw_only=True)
class LinalgCross(Cross):
    """The cross product of the vectors along `dim`, by default the last. torch.linalg.cross"""

    dim: int = -1
