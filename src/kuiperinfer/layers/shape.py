"""Shape: the same elements under another shape, in another order of dimensions, or seen several times over.

Everything here is a view of its input where NumPy can make one, and takes arrays as they are stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec
from ..errors import ShapeError
from ..records import dataclass
from .base import Ints, Layer, Spec, Value, expect_rank, known_int, known_ints, normalize_dim, register
from .checks import expect_dimensions


def describe_shape(name: str, shape: Any) -> str:
    """How a message names a shape argument: a tuple stands in the file, a list was calculated by the model."""
    listed = f"{name}=({','.join(map(str, known_ints(shape, name)))})"
    return f"{listed} was baked in at conversion" if isinstance(shape, tuple) else f"{listed} was calculated"


def distinct_dims(dims: Sequence[int], ndim: int) -> Ints:
    """Dimension indices counted from the front; `ShapeError` where one is out of range or named twice."""
    normalized = tuple(normalize_dim(dim, ndim) for dim in dims)
    if len(set(normalized)) < len(normalized):
        raise ShapeError(f"dims={tuple(dims)} name a dimension twice")
    return normalized


# ------------------------------------------------------------------------------------------- reshape


def fill_in(size: int, shape: Ints, described: str) -> Ints:
    """`shape` with its -1 replaced so that it has `size` elements; `ShapeError` where that cannot be."""
    if shape.count(-1) > 1 or any(dim < -1 for dim in shape):
        raise ShapeError(f"{described}; expected sizes of at least 0, and -1 at most once")
    known = math.prod(dim for dim in shape if dim != -1)
    if -1 in shape:
        if not known:
            raise ShapeError(f"{described}; -1 could stand for any size, since there are no elements")
        if size % known == 0:
            return tuple(size // known if dim == -1 else dim for dim in shape)
    elif known == size:
        return shape
    raise ShapeError(f"{described}, which is no shape for {size} elements")


@register("Tensor.reshape", "Tensor.view", "torch.reshape", "aten::reshape", "aten::view")
@dataclass(frozen=True, kw_only=True)
class Reshape(Layer):
    """The elements in row-major order under another shape; one size may be -1. torch.Tensor.reshape

    In a shape of the file, 0 stands for the input's size at the same place, as PNNX has it, unless only a size of
    0 gives the right number of elements.
    """

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, shape: Spec) -> TensorSpec:
        return input.like(self._target(input.shape, shape))

    def forward(self, input: Array, shape: Value) -> Array:
        return input.reshape(self._target(input.shape, shape))

    def _target(self, old: Ints, shape: Any) -> Ints:
        new = known_ints(shape, "shape")
        size = math.prod(old)
        described = f"input has shape {old}, and {describe_shape('shape', shape)}"
        if isinstance(shape, tuple) and 0 in new:
            copied = tuple(old[i] if dim == 0 and i < len(old) else dim for i, dim in enumerate(new))
            if size or -1 in new or math.prod(copied) == 0:
                return fill_in(size, copied, described)
        return fill_in(size, new, described)


@register("Tensor.reshape_as", "Tensor.view_as", "aten::reshape_as", "aten::view_as")
@dataclass(frozen=True, kw_only=True)
class ReshapeAs(Layer):
    """The elements in row-major order under the shape of `other`. torch.Tensor.reshape_as"""

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, other: TensorSpec) -> TensorSpec:
        if input.size != other.size:
            raise ShapeError(
                f"input of shape {input.shape} has {input.size} elements, other of {other.shape} {other.size}"
            )
        return input.like(other.shape)

    def forward(self, input: Array, other: Array) -> Array:
        return input.reshape(other.shape)


@register("torch.flatten", "aten::flatten")
@register("nn.Flatten", start_dim=1)
@dataclass(frozen=True, kw_only=True)
class Flatten(Layer):
    """The dimensions from `start_dim` to `end_dim` as one; a 0-d tensor gives one element. torch.flatten"""

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {3: "input start_dim end_dim"}

    start_dim: int = 0
    end_dim: int = -1

    def infer(self, input: TensorSpec) -> TensorSpec:
        return input.like(self._target(input.shape))

    def forward(self, input: Array) -> Array:
        return input.reshape(self._target(input.shape))

    def _target(self, shape: Ints) -> Ints:
        start, end = (normalize_dim(dim, len(shape)) for dim in (self.start_dim, self.end_dim))
        if start > end:
            raise ShapeError(f"start_dim={self.start_dim} comes after end_dim={self.end_dim}; input has shape {shape}")
        return (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])


@register("Tensor.unflatten", "torch.unflatten", "aten::unflatten")
@dataclass(frozen=True, kw_only=True)
class Unflatten(Layer):
    """Dimension `dim` as several of the given sizes, of which one may be -1. torch.Tensor.unflatten"""

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {3: "input dim sizes"}

    dim: int

    def infer(self, input: TensorSpec, sizes: Spec) -> TensorSpec:
        return input.like(self._target(input.shape, sizes))

    def forward(self, input: Array, sizes: Value) -> Array:
        return input.reshape(self._target(input.shape, sizes))

    def _target(self, shape: Ints, sizes: Any) -> Ints:
        expect_dimensions(shape, 1)
        dim = normalize_dim(self.dim, len(shape))
        parts = known_ints(sizes, "sizes")
        if not parts:
            raise ShapeError("sizes: expected at least one, found none")
        described = f"dimension {dim} of input has size {shape[dim]}, and {describe_shape('sizes', sizes)}"
        return (*shape[:dim], *fill_in(shape[dim], parts, described), *shape[dim + 1 :])


# ------------------------------------------------------------------------------------------- order of dimensions


@register("Tensor.permute", "torch.permute", "aten::permute")
@dataclass(frozen=True, kw_only=True)
class Permute(Layer):
    """Dimension i of the result is dimension dims[i] of the input. torch.permute"""

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, dims: Spec) -> TensorSpec:
        return input.like(input.shape[dim] for dim in self._order(input.ndim, dims))

    def forward(self, input: Array, dims: Value) -> Array:
        return input.transpose(self._order(input.ndim, dims))

    def _order(self, ndim: int, dims: Any) -> Ints:
        order = known_ints(dims, "dims")
        if len(order) != ndim:
            raise ShapeError(f"dims={order} are {len(order)} dimensions, but input has {ndim}")
        return distinct_dims(order, ndim)


@register("torch.transpose", "aten::transpose")
@dataclass(frozen=True, kw_only=True)
class Transpose(Layer):
    """Two dimensions exchanged. (..., A, ..., B, ...) -> (..., B, ..., A, ...). torch.transpose"""

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {3: "input dim0 dim1"}

    dim0: int
    dim1: int

    def infer(self, input: TensorSpec) -> TensorSpec:
        order = self._order(input.ndim)
        return input.like(input.shape[dim] for dim in order)

    def forward(self, input: Array) -> Array:
        return input.transpose(self._order(input.ndim))

    def _order(self, ndim: int) -> list[int]:
        order = list(range(ndim))
        first, second = normalize_dim(self.dim0, ndim), normalize_dim(self.dim1, ndim)
        if order:
            order[first], order[second] = second, first
        return order


@register("torch.t", "aten::t")
@dataclass(frozen=True, kw_only=True)
class MatrixTranspose(Layer):
    """A matrix transposed; vectors and 0-d tensors stay. (M, N) -> (N, M). torch.t"""

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_rank(input, 0, 1, 2)
        return input.like(reversed(input.shape))

    def forward(self, input: Array) -> Array:
        return input.transpose()


@register("torch.movedim", "aten::movedim")
@dataclass(frozen=True, kw_only=True)
class MoveDim(Layer):
    """The dimensions `source` at the places `destination`, the others in their order. torch.movedim"""

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {3: "input source destination"}

    source: Ints
    destination: Ints

    def infer(self, input: TensorSpec) -> TensorSpec:
        return input.like(input.shape[dim] for dim in self._order(input.ndim))

    def forward(self, input: Array) -> Array:
        return input.transpose(self._order(input.ndim))

    def _order(self, ndim: int) -> list[int]:
        if len(self.source) != len(self.destination):
            raise ShapeError(f"source={self.source} and destination={self.destination} differ in length")
        source, destination = distinct_dims(self.source, ndim), distinct_dims(self.destination, ndim)
        order = [dim for dim in range(ndim) if dim not in source]
        for place, dim in sorted(zip(destination, source, strict=True)):
            order.insert(place, dim)
        return order[:ndim]


# ------------------------------------------------------------------------------------------- dimensions of size 1


@register("torch.squeeze", "aten::squeeze")
@dataclass(frozen=True, kw_only=True)
class Squeeze(Layer):
    """Without its dimensions of size 1: all of them, or those among `dim`. (A, 1, B) -> (A, B). torch.squeeze"""

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, dim: Spec = None) -> TensorSpec:
        return input.like(self._target(input.shape, dim))

    def forward(self, input: Array, dim: Value = None) -> Array:
        return input.reshape(self._target(input.shape, dim))

    def _target(self, shape: Ints, dim: Any) -> list[int]:
        candidates = range(len(shape)) if dim is None else distinct_dims(known_ints(dim, "dim"), len(shape))
        return [size for axis, size in enumerate(shape) if size != 1 or axis not in candidates]


@register("torch.unsqueeze", "aten::unsqueeze")
@dataclass(frozen=True, kw_only=True)
class Unsqueeze(Layer):
    """A new dimension of size 1 at place `dim` of the result. (A, B) -> (A, 1, B). torch.unsqueeze

    A list of places is worked off as PNNX has it: -1, -2, ... and then 0, 1, ...
    """

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, dim: Spec) -> TensorSpec:
        return input.like(self._target(input.shape, dim))

    def forward(self, input: Array, dim: Value) -> Array:
        return input.reshape(self._target(input.shape, dim))

    def _target(self, shape: Ints, dim: Any) -> list[int]:
        target = list(shape)
        places = known_ints(dim, "dim")
        for place in sorted(places, key=lambda place: (place >= 0, abs(place))):
            target.insert(normalize_dim(place, len(target) + 1), 1)
        return target


# ------------------------------------------------------------------------------------------- views of more elements


@register("Tensor.expand", "torch.broadcast_to", "aten::expand", "aten::broadcast_to")
@dataclass(frozen=True, kw_only=True)
class Expand(Layer):
    """Dimensions of size 1 repeated up to `sizes`, of which -1 keeps a dimension; more in front. torch.Tensor.expand"""

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {3: "input sizes implicit"}
    operand_aliases: ClassVar[dict[str, str]] = {"size": "sizes"}
    ignored: ClassVar[frozenset[str]] = frozenset({"implicit"})

    def infer(self, input: TensorSpec, sizes: Spec) -> TensorSpec:
        return input.like(self._target(input.shape, sizes))

    def forward(self, input: Array, sizes: Value) -> Array:
        return np.broadcast_to(input, self._target(input.shape, sizes))

    def _target(self, shape: Ints, sizes: Any) -> list[int]:
        wanted = known_ints(sizes, "sizes")
        added = len(wanted) - len(shape)
        target = [old if new == -1 else new for new, old in zip(wanted, (-1,) * added + shape, strict=False)]
        fits = added >= 0 and all(new >= 0 for new in target)
        if not fits or any(old not in (1, new) for new, old in zip(target[added:], shape, strict=True)):
            raise ShapeError(f"input of shape {shape} cannot be expanded: {describe_shape('sizes', sizes)}")
        return target


@register("Tensor.expand_as", "aten::expand_as")
@dataclass(frozen=True, kw_only=True)
class ExpandAs(Layer):
    """Dimensions of size 1 repeated up to the shape of `other`. torch.Tensor.expand_as"""

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, other: TensorSpec) -> TensorSpec:
        pairs = zip(reversed(input.shape), reversed(other.shape), strict=False)
        if input.ndim > other.ndim or any(old not in (1, new) for old, new in pairs):
            raise ShapeError(f"input of shape {input.shape} cannot be expanded to the shape {other.shape} of other")
        return input.like(other.shape)

    def forward(self, input: Array, other: Array) -> Array:
        return np.broadcast_to(input, other.shape)


@register("torch.as_strided", "aten::as_strided")
@dataclass(frozen=True, kw_only=True)
class AsStrided(Layer):
    """Element (i, j, ...) of the result is the input's, in row-major order, number offset + i stride[0] + j stride[1] + ...

    The input counts as contiguous. torch.as_strided
    """

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, size: Spec, stride: Spec, storage_offset: Spec = None) -> TensorSpec:
        return input.like(self._layout(input.shape, size, stride, storage_offset)[0])

    def forward(self, input: Array, size: Value, stride: Value, storage_offset: Value = None) -> Array:
        sizes, strides, offset = self._layout(input.shape, size, stride, storage_offset)
        if 0 in sizes:
            return np.empty(sizes, input.dtype)
        elements = np.ascontiguousarray(input).reshape(-1)[offset:]
        in_bytes = [step * input.itemsize for step in strides]
        return np.lib.stride_tricks.as_strided(elements, sizes, in_bytes, writeable=False)

    def _layout(self, shape: Ints, size: Any, stride: Any, storage_offset: Any) -> tuple[Ints, Ints, int]:
        sizes, strides = known_ints(size, "size"), known_ints(stride, "stride")
        offset = 0 if storage_offset is None else known_int(storage_offset, "storage_offset")
        found = f"size={sizes}, stride={strides}, storage_offset={offset}"
        if len(sizes) != len(strides):
            raise ShapeError(f"size and stride differ in length: {found}")
        if min((*sizes, *strides, offset)) < 0:
            raise ShapeError(f"expected no negative numbers, found {found}")
        last = offset + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
        if 0 not in sizes and last >= math.prod(shape):
            raise ShapeError(f"{found} reach element {last}, but the input of shape {shape} has {math.prod(shape)}")
        return sizes, strides, offset
