"""Indexing as `x[indices]` and `x[indices] = values` do it, with tensors of indices, masks, and None for a whole dimension.

Negative indices count from the end; all are checked before they are used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec, bool_, broadcast_shapes, dtype_of, i32, i64, u8
from ..errors import DTypeError, ExpressionError, InputError, ModelFileError, ShapeError
from ..records import dataclass
from .annotation import AnnotatedLayer
from .base import Ints, Layer, Spec, Text, Value, known_array, register
from .creation import element, expect_in_range, known_scalar


def check_range(indices: Array, size: int, what: str, *, negative: bool = False) -> None:
    """`InputError` that names the first index outside of 0 ... size - 1, or with `negative` of -size ... size - 1."""
    wrong = (indices < (-size if negative else 0)) | (indices >= size)
    if wrong.any():
        raise InputError(f"{what}: index {indices[wrong][0]} is out of range for size {size}")


def expect_same_kind(source: TensorSpec, input: TensorSpec, what: str) -> None:
    """`DTypeError` unless both have one dtype. Floats of another width are let through: the converter drops casts to f16."""
    if source.dtype is not input.dtype and not source.dtype.kind == input.dtype.kind == "float":
        raise DTypeError(f"{what}: expected a tensor of the input's dtype {input.dtype}, found {source}")


# ------------------------------------------------------------------------------------------- lists of indices


_JSON_WORDS = {"None": "null", "True": "true", "False": "false"}


def parse_indices(text: str) -> list[Any]:
    """The indices of a constant such as `[[0,1],None,[True,False]]`: arrays, and None; `ExpressionError` for other texts.

    Not read as an expression, because such a list may have as many elements as a tensor.
    """
    try:
        items = json.loads(re.sub("|".join(_JSON_WORDS), lambda found: _JSON_WORDS[found[0]], text))
        indices = [None if item is None else np.asarray(item) for item in items]
    except (ValueError, TypeError, RecursionError):
        raise ExpressionError(f"expected a list of indices such as [[0,1],None], found {text[:60]}") from None
    indices = [index if index is None or index.size else index.astype(np.int64) for index in indices]
    for index in indices:
        if index is not None and index.dtype not in (np.int64, np.bool_):
            raise ExpressionError(f"expected indices or truth values, found {text[:60]}")
    return indices


def _entries(indices: Any, shape: Ints) -> list[Any]:
    """One entry a dimension: None, or its indices, masks being resolved; checked as far as they are known."""
    if not isinstance(indices, list) or all(index is None for index in indices):
        raise InputError(f"expected a list with at least one index, found {indices}")
    entries: list[Any] = []
    for place, index in enumerate(indices):
        index = np.asarray(index) if isinstance(index, (bool, int)) else index
        spec = TensorSpec.of(index) if isinstance(index, np.ndarray) else index
        if spec is not None and spec.dtype in (bool_, u8):
            covered = shape[len(entries) : len(entries) + spec.ndim]
            if spec.shape != covered or not spec.ndim:
                raise ShapeError(f"mask {place} of shape {spec.shape} does not fit dimensions of shape {covered}")
            entries.extend(np.nonzero(known_array(index)))
        else:
            entries.append(index)
    if len(entries) > len(shape):
        raise ShapeError(f"{len(entries)} dimensions are indexed, but input has shape {shape}")
    for dim, index in enumerate(entries):
        spec = TensorSpec.of(index) if isinstance(index, np.ndarray) else index
        if spec is not None and spec.dtype not in (i32, i64):
            raise DTypeError(f"index {dim}: expected a tensor of i64, i32, u8 or bool, found {spec}")
        if spec is not None and spec.value is not None:
            check_range(spec.value, shape[dim], f"dimension {dim}", negative=True)
    return entries


def _indexed_shape(shape: Ints, entries: Sequence[Any]) -> Ints:
    """The shape of what is picked: the indexed dimensions are replaced in their place, or in front if they are apart."""
    indexed = [dim for dim, entry in enumerate(entries) if entry is not None]
    picked = broadcast_shapes(*(entries[dim].shape for dim in indexed))
    place = indexed[0] if indexed[-1] - indexed[0] == len(indexed) - 1 else 0
    rest = tuple(size for dim, size in enumerate(shape) if dim not in indexed)
    return (*rest[:place], *picked, *rest[place:])


def _numpy_index(entries: Sequence[Any]) -> tuple[Any, ...]:
    return (*(slice(None) if entry is None else entry for entry in entries), ...)


@register("Tensor.index", "aten::index")
@dataclass(frozen=True, kw_only=True)
class Index(AnnotatedLayer):
    """The elements at the indices `expr`, a list of tensors or a constant: one entry a dimension, None for all of it.

    The semantics are those of aten::index. Indices broadcast together and stand in the place of the indexed dimensions, or in
    front where these are apart; a mask stands for the indices of its true elements. Of a constant index with more than
    one dimension the converter writes the first row alone: such a file is refused, since its annotated shapes tell.
    """

    widens: ClassVar[bool] = False

    expr: Text | None = None

    def infer(self, input: TensorSpec, expr: Spec = None) -> TensorSpec:
        shape = _indexed_shape(input.shape, _entries(self._indices(expr), input.shape))
        annotated = self.annotated_outputs[0].shape if self.annotated_outputs and self.expr is not None else None
        if annotated is not None and len(annotated) != len(shape):
            raise ModelFileError(
                f"the constant index {str(self.expr)[:60]} gives shape {shape}, but the file has {annotated}: the converter "
                f"has lost a part of it; make the index an input of the model, or a tensor of one dimension"
            )
        return input.like(shape)

    def forward(self, input: Array, expr: Value = None) -> Array:
        return input[_numpy_index(_entries(self._indices(expr), input.shape))]

    def _indices(self, expr: Any) -> Any:
        return expr if self.expr is None else self._constant

    @cached_property
    def _constant(self) -> list[Any]:
        return parse_indices(self.expr or "")


@register("Tensor.index_put", "aten::index_put")
@dataclass(frozen=True, kw_only=True)
class IndexPut(Layer):
    """The input with the elements at `indices` (see `Index`) replaced by `values`, broadcast, or increased by them.

    Values may be a number, and None stands for False, as PNNX has it. torch.Tensor.index_put
    """

    schemas: ClassVar[dict[int, str]] = {4: "input indices values accumulate"}

    accumulate: bool = False

    def infer(self, input: TensorSpec, indices: Spec, values: Spec) -> TensorSpec:
        part = _indexed_shape(input.shape, _entries(self._listed(indices), input.shape))
        if not isinstance(values, TensorSpec):
            expect_in_range(values or False, input.dtype, "values")
            return input.like()
        expect_same_kind(values, input, "values")
        if broadcast_shapes(values.shape, part) != part:
            raise ShapeError(f"values of shape {values.shape} do not fit the indexed part of shape {part}")
        return input.like()

    def forward(self, input: Array, indices: Value, values: Value) -> Array:
        index = _numpy_index(_entries(self._listed(indices), input.shape))
        result = np.array(input)
        if not isinstance(values, np.ndarray):
            values = element(known_scalar(values or False, "values"), dtype_of(input))
        if self.accumulate:
            np.add.at(result, index, values)
        else:
            result[index] = values
        return result

    def _listed(self, indices: Any) -> Any:
        return parse_indices(indices) if isinstance(indices, str) else indices
