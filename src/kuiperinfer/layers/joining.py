"""Joining and parting: several tensors to one along a dimension, and one to several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from ..dtypes import Array, DType, TensorSpec, cast, promote, scalar_dtype
from ..errors import DTypeError, InputError, ShapeError
from ..records import dataclass
from .base import Gradients, Ints, Layer, Spec, Value, expect_rank, known_int, known_ints, normalize_dim, register
from .checks import expect_dimensions

# ------------------------------------------------------------------------------------------- several to one


def _listed(tensors: Sequence[Any]) -> list[Any]:
    """The tensors of an operator that takes any number of them: its inputs, or its one input that is a list."""
    listed = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list) else list(tensors)
    if not listed:
        raise InputError("expected at least one tensor, found none")
    return listed


def _listed_specs(tensors: Sequence[Spec]) -> list[TensorSpec]:
    """The same as specs; a number in a list stands for a 0-d tensor."""
    return [spec if isinstance(spec, TensorSpec) else TensorSpec((), scalar_dtype(spec)) for spec in _listed(tensors)]


def _listed_arrays(tensors: Sequence[Value]) -> list[Array]:
    return [t if isinstance(t, np.ndarray) else np.asarray(t, scalar_dtype(t).storage) for t in _listed(tensors)]


def _common_dtype(specs: Sequence[TensorSpec]) -> DType:
    dtype = specs[0].dtype
    for spec in specs[1:]:
        dtype = promote(dtype, spec.dtype)
    return dtype


@register("torch.cat", "torch.concat")
@dataclass(frozen=True, kw_only=True)
class Cat(Layer):
    """Tensors one after the other along `dim`; other sizes equal. (A, B1), (A, B2) -> (A, B1 + B2). torch.cat

    Tensors of shape (0,) are skipped, whatever the shape of the others, and count for the dtype alone.
    """

    widens: ClassVar[bool] = False

    dim: int = 0

    def infer(self, *tensors: Spec) -> TensorSpec:
        specs = _listed_specs(tensors)
        joined = [spec for spec in specs if spec.shape != (0,)]
        if not joined:
            return TensorSpec((0,), _common_dtype(specs))
        first = joined[0]
        for spec in joined:
            expect_dimensions(spec.shape, 1, "tensors")
        axis = normalize_dim(self.dim, first.ndim)
        for spec in joined:
            if spec.ndim != first.ndim or _without(spec.shape, axis) != _without(first.shape, axis):
                raise ShapeError(
                    f"shapes {first.shape} and {spec.shape} differ in another dimension than dim={self.dim}"
                )
        shape = list(first.shape)
        shape[axis] = sum(spec.shape[axis] for spec in joined)
        return TensorSpec(tuple(shape), _common_dtype(specs))

    def forward(self, *tensors: Value) -> Array:
        arrays = _listed_arrays(tensors)
        dtype = _common_dtype([TensorSpec.of(array) for array in arrays])
        joined = [cast(array, dtype) for array in arrays if array.shape != (0,)]
        return np.concatenate(joined, axis=self.dim) if joined else np.empty((0,), dtype.storage)

    def derivative(self, gradient: Array, output: Array, needs: Sequence[bool], *tensors: Array) -> Gradients:
        axis = normalize_dim(self.dim, gradient.ndim)
        sizes = [0 if array.shape == (0,) else array.shape[axis] for array in tensors]
        parts = np.split(gradient, np.cumsum(sizes)[:-1], axis)
        return [part.reshape(array.shape) for part, array in zip(parts, tensors, strict=True)]


def _without(shape: Ints, axis: int) -> Ints:
    return shape[:axis] + shape[axis + 1 :]


@register("torch.stack")
@dataclass(frozen=True, kw_only=True)
class Stack(Layer):
    """Tensors of one shape side by side along a new dimension `dim`. n times (A, B) -> (n, A, B). torch.stack"""

    widens: ClassVar[bool] = False

    dim: int = 0

    def infer(self, *tensors: Spec) -> TensorSpec:
        specs = _listed_specs(tensors)
        first = specs[0]
        for spec in specs:
            if spec.shape != first.shape:
                raise ShapeError(f"expected tensors of one shape, found {first.shape} and {spec.shape}")
        shape = list(first.shape)
        shape.insert(normalize_dim(self.dim, first.ndim + 1), len(specs))
        return TensorSpec(tuple(shape), _common_dtype(specs))

    def forward(self, *tensors: Value) -> Array:
        arrays = _listed_arrays(tensors)
        dtype = _common_dtype([TensorSpec.of(array) for array in arrays])
        return np.stack([cast(array, dtype) for array in arrays], axis=self.dim)

    def derivative(self, gradient: Array, output: Array, needs: Sequence[bool], *tensors: Array) -> Gradients:
        return list(np.moveaxis(gradient, self.dim, 0))


# ------------------------------------------------------------------------------------------- one to several


@dataclass(frozen=True, kw_only=True)
class _Parting(Layer):
    """Base of those that part one tensor along `dim`. The results are the operator's outputs; where it has one output
    and there are several, they are a list."""

    widens: ClassVar[bool] = False

    dim: int = 0

    def _pack(self, parts: list[Any]) -> Any:
        return parts if self.output_count == 1 < len(parts) else tuple(parts)

    def _size(self, shape: Ints) -> int:
        expect_dimensions(shape, 1)
        return shape[normalize_dim(self.dim, len(shape))]

    def _specs(self, input: TensorSpec, bounds: Sequence[tuple[int, int]]) -> Any:
        axis = normalize_dim(self.dim, input.ndim)
        before, after = input.shape[:axis], input.shape[axis + 1 :]
        return self._pack([input.like((*before, max(end - start, 0), *after)) for start, end in bounds])

    def _slices(self, input: Array, bounds: Sequence[tuple[int, int]]) -> Any:
        before = (slice(None),) * normalize_dim(self.dim, input.ndim)
        return self._pack([input[before + (slice(start, max(start, end)),)] for start, end in bounds])  # noqa: RUF005


def _consecutive(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes as (start, end) pairs."""
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    return list(zip([0, *ends], ends, strict=False))


@register("torch.split", "aten::split", "aten::split_with_sizes")
@dataclass(frozen=True, kw_only=True)
class Split(_Parting):
    """Parts of `split_size_or_sections` along `dim`, the last one smaller; or parts of the listed sizes. torch.split"""

    schemas: ClassVar[dict[int, str]] = {3: "tensor split_size_or_sections dim"}
    operand_aliases: ClassVar[dict[str, str]] = {"input": "tensor"}

    def infer(self, tensor: TensorSpec, split_size_or_sections: Spec) -> Any:
        return self._specs(tensor, self._bounds(tensor.shape, split_size_or_sections))

    def forward(self, tensor: Array, split_size_or_sections: Value) -> Any:
        return self._slices(tensor, self._bounds(tensor.shape, split_size_or_sections))

    def _bounds(self, shape: Ints, sections: Any) -> list[tuple[int, int]]:
        size = self._size(shape)
        parts = known_ints(sections, "split_size_or_sections")
        if any(part < 0 for part in parts):
            raise ShapeError(f"split_size_or_sections={parts}; expected sizes of at least 0")
        if isinstance(sections, (tuple, list)):
            if sum(parts) != size:
                raise ShapeError(
                    f"split_size_or_sections={parts} add up to {sum(parts)}, but dim={self.dim} has {size}"
                )
            return _consecutive(parts)
        part = parts[0]
        if part == 0 and size:
            raise ShapeError(f"split_size_or_sections=0, but dim={self.dim} has size {size}")
        return [(start, min(start + part, size)) for start in range(0, size, part or 1)] or [(0, 0)]


@register("torch.chunk", "aten::chunk")
@dataclass(frozen=True, kw_only=True)
class Chunk(_Parting):
    """At most `chunks` parts of ceil(size / chunks) along `dim`, the last one smaller. torch.chunk"""

    schemas: ClassVar[dict[int, str]] = {3: "input chunks dim"}

    def infer(self, input: TensorSpec, chunks: Spec) -> Any:
        return self._specs(input, self._bounds(input.shape, chunks))

    def forward(self, input: Array, chunks: Value) -> Any:
        return self._slices(input, self._bounds(input.shape, chunks))

    def _bounds(self, shape: Ints, chunks: Any) -> list[tuple[int, int]]:
        size = self._size(shape)
        count = known_int(chunks, "chunks")
        if count < 1:
            raise ShapeError(f"chunks={count}; expected at least 1")
        if not size:
            return [(0, 0)] * count
        part = -(-size // count)
        return [(start, min(start + part, size)) for start in range(0, size, part)]


@register("torch.tensor_split", "aten::tensor_split")
@dataclass(frozen=True, kw_only=True)
class TensorSplit(_Parting):
    """Parts that end at `indices` along `dim`, or `sections` parts of which the first are larger by one.

    torch.tensor_split
    """

    schemas: ClassVar[dict[int, str]] = {3: "input tensor_indices_or_sections dim"}

    def infer(
        self,
        input: TensorSpec,
        indices: Spec = None,
        sections: Spec = None,
        tensor_indices_or_sections: Spec = None,
    ) -> Any:
        return self._specs(input, self._bounds(input.shape, indices, sections, tensor_indices_or_sections))

    def forward(
        self,
        input: Array,
        indices: Value = None,
        sections: Value = None,
        tensor_indices_or_sections: Value = None,
    ) -> Any:
        return self._slices(input, self._bounds(input.shape, indices, sections, tensor_indices_or_sections))

    def _bounds(self, shape: Ints, indices: Any, sections: Any, either: Any) -> list[tuple[int, int]]:
        size = self._size(shape)
        if either is not None:
            listed = isinstance(either, (list, tuple)) or getattr(either, "ndim", 0) > 0
            indices, sections = (either, None) if listed else (None, either)
        if (indices is None) == (sections is None):
            raise InputError("expected either indices or sections")
        if sections is not None:
            count = known_int(sections, "sections")
            if count < 1:
                raise ShapeError(f"sections={count}; expected at least 1")
            return _consecutive([size // count + (index < size % count) for index in range(count)])
        inner = [min(max(index + size if index < 0 else index, 0), size) for index in known_ints(indices, "indices")]
        return list(zip([0, *inner], [*inner, size], strict=True))


@register("torch.unbind", "aten::unbind")
@dataclass(frozen=True, kw_only=True)
class Unbind(_Parting):
    """The slices along `dim`, without that dimension. (A, B) -> A times (B). torch.unbind"""

    schemas: ClassVar[dict[int, str]] = {2: "input dim"}

    def infer(self, input: TensorSpec) -> Any:
        size = self._size(input.shape)
        shape = _without(input.shape, normalize_dim(self.dim, input.ndim))
        return self._pack([input.like(shape)] * size)

    def forward(self, input: Array) -> Any:
        moved = np.moveaxis(input, self.dim, 0)
        return self._pack([moved[index, ...] for index in range(len(moved))])


@register("aten::meshgrid")
@dataclass(frozen=True, kw_only=True)
class MeshGrid(Layer):
    """Vectors spread over a grid: a list with one result for each. (A), (B) -> [(A, B), (A, B)]. torch.meshgrid

    With `indexing` of ``"xy"`` the first two dimensions are exchanged.
    """

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {2: "tensors indexing"}

    indexing: str = "ij"

    def __post_init__(self) -> None:
        if self.indexing not in ("ij", "xy"):
            raise InputError(f"indexing: expected 'ij' or 'xy', found '{self.indexing}'")

    def infer(self, *tensors: Spec) -> list[TensorSpec]:
        specs = _listed_specs(tensors)
        for spec in specs:
            expect_rank(spec, 0, 1, what="tensors")
        if len({spec.dtype for spec in specs}) > 1:
            raise DTypeError(f"expected tensors of one dtype, found {' and '.join(map(str, specs))}")
        shape = [spec.size for spec in specs]
        if self.indexing == "xy":
            shape[:2] = reversed(shape[:2])
        return [spec.like(shape) for spec in specs]

    def forward(self, *tensors: Value) -> list[Array]:
        vectors = [array.reshape(-1) for array in _listed_arrays(tensors)]
        indexing: Literal["ij", "xy"] = "ij" if self.indexing == "ij" else "xy"
        return list(np.meshgrid(*vectors, indexing=indexing, copy=False))
