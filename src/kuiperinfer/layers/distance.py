"""Lengths of vectors and distances between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec, broadcast_shapes, promote, to_float, to_real
from ..errors import DTypeError, ShapeError
from ..records import dataclass
from .base import Ints, Layer, normalize_dim, register
from .checks import expect_kind
from .vector import expect_vectors, vector_norm


@register("F.normalize")
@dataclass(frozen=True, kw_only=True)
class Normalize(Layer):
    """x / max(norm(x), eps), the p-norm taken along `dim`. (*) -> (*). torch.nn.functional.normalize"""

    p: float = 2.0
    dim: Ints = (1,)
    eps: float = 1e-12

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_kind(input, "float", "c64", "c128")
        dims = tuple(normalize_dim(dim, input.ndim) for dim in self.dim)
        if len(set(dims)) < len(dims):
            raise ShapeError(f"dim={self.dim}: a dimension appears twice")
        expect_vectors(input.shape, self.p, dims if input.ndim else ())
        return input.like()

    def forward(self, input: Array) -> Array:
        flat = input.reshape(1) if input.ndim == 0 else input
        length = np.maximum(vector_norm(flat, self.p, self.dim, keepdim=True), self.eps)
        return np.asarray(flat / length).reshape(input.shape)


@register("F.pairwise_distance", "nn.PairwiseDistance")
@dataclass(frozen=True, kw_only=True)
class PairwiseDistance(Layer):
    """The p-norm of x1 - x2 + eps along the last dimension. (*, D), (*, D) -> (*) or (*, 1). torch.nn.PairwiseDistance"""

    p: float = 2.0
    eps: float = 1e-6
    keepdim: bool = False

    def infer(self, x1: TensorSpec, x2: TensorSpec) -> TensorSpec:
        expect_kind(x1, "int", "float", "complex", what="x1")
        expect_kind(x2, "int", "float", "complex", what="x2")
        dtype = to_real(to_float(promote(x1.dtype, x2.dtype)))
        difference = TensorSpec(broadcast_shapes(x1.shape, x2.shape), dtype)
        expect_vectors(difference.shape, self.p, (-1,) if difference.ndim else ())
        return difference.like((*difference.shape[:-1], *[1] * (self.keepdim and difference.ndim > 0)))

    def forward(self, x1: Array, x2: Array) -> Array:
        difference = np.asarray(x1 - x2)
        if difference.dtype.kind in "iu":
            difference = difference.astype(np.float32)
        difference = difference + self.eps
        if difference.ndim == 0:
            return vector_norm(difference.reshape(1), self.p, (0,), False).reshape(())
        return vector_norm(difference, self.p, (-1,), self.keepdim)


@register("nn.CosineSimilarity", "F.cosine_similarity", "aten::cosine_similarity")
@dataclass(frozen=True, kw_only=True)
class CosineSimilarity(Layer):
    """x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)) along `dim`. (*, D, *), (*, D, *) -> (*, *). torch.nn.CosineSimilarity"""

    dim: int = 1
    eps: float = 1e-8

    schemas: ClassVar[Mapping[int, str]] = {4: "x1 x2 dim eps"}

    def infer(self, x1: TensorSpec, x2: TensorSpec) -> TensorSpec:
        expect_kind(x1, "bool", "int", "float", what="x1")
        expect_kind(x2, "bool", "int", "float", what="x2")
        dtype = promote(x1.dtype, x2.dtype)
        if dtype.kind != "float":
            raise DTypeError(f"expected a float dtype, found x1 {x1} and x2 {x2}")
        shape = broadcast_shapes(x1.shape, x2.shape)
        axis = normalize_dim(self.dim, len(shape))
        return TensorSpec((*shape[:axis], *shape[axis + 1 :]), dtype)

    def forward(self, x1: Array, x2: Array) -> Array:
        first, second = np.broadcast_arrays(np.atleast_1d(x1), np.atleast_1d(x2))
        lengths = (np.maximum(vector_norm(x, 2.0, (self.dim,), False), self.eps) for x in (first, second))
        product = (first.astype(np.float64) * second).sum(self.dim)
        return np.asarray(product / (next(lengths) * next(lengths)))
