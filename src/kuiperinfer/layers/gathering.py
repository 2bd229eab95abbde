"""Gathering and scattering along one dimension, and masks: `torch.gather` and its kin, embeddings.

Indices are checked before they are used; none may be negative, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec, bool_, broadcast_shapes, dtype_of, i32, i64
from ..errors import DTypeError, InputError, ShapeError
from ..records import dataclass
from .base import Gradients, Ints, Layer, Spec, Value, expect_rank, known_array, normalize_dim, register
from .creation import element, expect_in_range, known_scalar
from .indexing import check_range, expect_same_kind


def _expect_indices(index: TensorSpec, size: int, what: str = "index") -> None:
    """`DTypeError` unless the spec is one of i32 or i64; where its values are known, their range is checked too."""
    if index.dtype not in (i32, i64):
        raise DTypeError(f"{what}: expected a tensor of i32 or i64, found {index}")
    if index.value is not None:
        check_range(index.value, size, what)


def _expect_mask(mask: TensorSpec) -> None:
    if mask.dtype is not bool_:
        raise DTypeError(f"mask: expected a tensor of bool, found {mask}")


# ------------------------------------------------------------------------------------------- along one dimension


@register("torch.gather", "aten::gather")
@dataclass(frozen=True, kw_only=True)
class Gather(Layer):
    """result[i, j, ...] = input[index[i, j, ...], j, ...] for dim 0, and so on. (*), (*') -> (*'). torch.gather"""

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {3: "input dim index", 4: "input dim index sparse_grad"}
    ignored: ClassVar[frozenset[str]] = frozenset({"sparse_grad"})

    dim: int

    def infer(self, input: TensorSpec, index: TensorSpec) -> TensorSpec:
        axis = normalize_dim(self.dim, input.ndim)
        _expect_indices(index, (input.shape or (1,))[axis])
        if index.size:
            _expect_inside(index.shape or (1,), input.shape or (1,), "input", but=axis)
        return input.like(index.shape)

    def forward(self, input: Array, index: Array) -> Array:
        if not index.size:
            return np.empty(index.shape, input.dtype)
        source, picks, axis = np.atleast_1d(input), np.atleast_1d(index), normalize_dim(self.dim, input.ndim)
        inside = tuple(slice(None) if dim == axis else slice(size) for dim, size in enumerate(picks.shape))
        return np.take_along_axis(source[inside], picks, axis).reshape(index.shape)

    def derivative(
        self, gradient: Array, output: Array, needs: Sequence[bool], input: Array, index: Array
    ) -> Gradients:
        result = np.zeros(input.shape, gradient.dtype)
        if index.size:
            picks = np.atleast_1d(index)
            mesh = list(np.ix_(*map(range, picks.shape)))
            mesh[normalize_dim(self.dim, input.ndim)] = picks
            np.add.at(np.atleast_1d(result), tuple(mesh), gradient.reshape(picks.shape))
        return [result, None]


def _expect_inside(index: Ints, other: Ints, what: str, but: int | None = None) -> None:
    """`ShapeError` unless an index is of the other's rank, and nowhere larger, but along one dimension."""
    if len(index) != len(other):
        raise ShapeError(f"index of shape {index} and {what} of shape {other} differ in their number of dimensions")
    if any(size > limit for dim, (size, limit) in enumerate(zip(index, other, strict=True)) if dim != but):
        besides = "" if but is None else f" besides dimension {but}"
        raise ShapeError(f"index of shape {index} is larger than {what} of shape {other}{besides}")


@dataclass(frozen=True, kw_only=True)
class _Scattering(Layer):
    """Base of those that write `src` to where `index` points along `dim`."""

    dim: int

    def _check(self, input: TensorSpec, index: TensorSpec, src: TensorSpec | None) -> None:
        axis = normalize_dim(self.dim, input.ndim)
        _expect_indices(index, (input.shape or (1,))[axis])
        if src is not None:
            expect_same_kind(src, input, "src")
        if not index.size:
            return
        _expect_inside(index.shape or (1,), input.shape or (1,), "input", but=axis)
        if src is not None:
            _expect_inside(index.shape or (1,), src.shape or (1,), "src")

    def _scatter(self, how: np.ufunc | None, input: Array, index: Array, src: Array) -> Array:
        """A copy of the input with `src` written, or combined by a function, at the indices; `src` may be 0-d."""
        result = np.array(input)
        if not index.size:
            return result
        target, picks = np.atleast_1d(result), np.atleast_1d(index)
        mesh = list(np.ix_(*map(range, picks.shape)))
        mesh[normalize_dim(self.dim, input.ndim)] = picks
        values = src if not src.ndim else src[tuple(map(slice, picks.shape))]
        if how is None:
            target[tuple(mesh)] = values
        else:
            how.at(target, tuple(mesh), values)
        return result


@register("torch.scatter_add", "aten::scatter_add")
@dataclass(frozen=True, kw_only=True)
class ScatterAdd(_Scattering):
    """result[index[i, j, ...], j, ...] += src[i, j, ...] for dim 0, and so on. (*), (*'), (*'') -> (*). torch.scatter_add"""

    schemas: ClassVar[dict[int, str]] = {4: "input dim index src"}

    def infer(self, input: TensorSpec, index: TensorSpec, src: TensorSpec) -> TensorSpec:
        self._check(input, index, src)
        return input.like()

    def forward(self, input: Array, index: Array, src: Array) -> Array:
        return self._scatter(np.add, input, index, src)


@register("torch.scatter", "aten::scatter")
@dataclass(frozen=True, kw_only=True)
class Scatter(_Scattering):
    """result[index[i, j, ...], j, ...] = src[i, j, ...], or a number, for dim 0, and so on. (*), (*'), (*'') -> (*).

    With `reduce` of ``"add"`` or ``"multiply"`` the elements are combined. torch.scatter
    """

    schemas: ClassVar[dict[int, str]] = {4: "input dim index src", 5: "input dim index src reduce"}

    operand_aliases: ClassVar[dict[str, str]] = {"value": "src"}

    reduce: str | None = None

    def __post_init__(self) -> None:
        if self.reduce not in (None, "add", "multiply"):
            raise InputError(f"reduce: expected 'add' or 'multiply', found '{self.reduce}'")

    def infer(self, input: TensorSpec, index: TensorSpec, src: Spec) -> TensorSpec:
        if isinstance(src, TensorSpec):
            self._check(input, index, src)
        else:
            self._check(input, index, None)
            expect_in_range(src, input.dtype, "value")
        return input.like()

    def forward(self, input: Array, index: Array, src: Value) -> Array:
        how = {None: None, "add": np.add, "multiply": np.multiply}[self.reduce]
        if not isinstance(src, np.ndarray):
            src = element(known_scalar(src, "value"), dtype_of(input))
        return self._scatter(how, input, index, src)


@register("torch.index_select", "aten::index_select")
@dataclass(frozen=True, kw_only=True)
class IndexSelect(Layer):
    """The slices of a dimension that a vector of indices names. (A, B), (K) -> (K, B). torch.index_select"""

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {3: "input dim index"}

    dim: int

    def infer(self, input: TensorSpec, index: TensorSpec) -> TensorSpec:
        axis = normalize_dim(self.dim, input.ndim)
        expect_rank(index, 0, 1, what="index")
        _expect_indices(index, (input.shape or (1,))[axis])
        if not input.shape:
            if index.size != 1:
                raise ShapeError(f"index: expected 1 index for a 0-d tensor, found {index.size}")
            return input.like()
        return input.like((*input.shape[:axis], index.size, *input.shape[axis + 1 :]))

    def forward(self, input: Array, index: Array) -> Array:
        return input if not input.ndim else np.take(input, index.reshape(-1), axis=self.dim)


@register("aten::index_add")
@dataclass(frozen=True, kw_only=True)
class IndexAdd(Layer):
    """The input with slice i of `source`, times alpha, added to its slice index[i]. (A, B), (K), (K, B) -> (A, B).

    torch.index_add
    """

    schemas: ClassVar[dict[int, str]] = {4: "input dim index source", 5: "input dim index source alpha"}

    dim: int

    def infer(self, input: TensorSpec, index: TensorSpec, source: TensorSpec, alpha: Spec = 1) -> TensorSpec:
        axis = normalize_dim(self.dim, input.ndim)
        expect_rank(index, 0, 1, what="index")
        _expect_indices(index, (input.shape or (1,))[axis])
        expect_same_kind(source, input, "source")
        expect_in_range(alpha, input.dtype, "alpha")
        expected = (*input.shape[:axis], index.size, *input.shape[axis + 1 :]) if input.shape else ()
        if source.shape != expected or (not input.shape and index.size != 1):
            raise ShapeError(f"source: expected shape {expected} for {index.size} indices, found {source.shape}")
        return input.like()

    def forward(self, input: Array, index: Array, source: Array, alpha: Value = 1) -> Array:
        result = np.array(input)
        axis = normalize_dim(self.dim, input.ndim)
        added = np.atleast_1d(source) * element(known_scalar(alpha, "alpha"), dtype_of(input))
        np.add.at(np.moveaxis(np.atleast_1d(result), axis, 0), index.reshape(-1), np.moveaxis(added, axis, 0))
        return result


@register("aten::take")
@dataclass(frozen=True, kw_only=True)
class Take(Layer):
    """The elements at indices into the flattened input, of which negative ones count from the end. (*), (*') -> (*').

    torch.take
    """

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, index: TensorSpec) -> TensorSpec:
        if index.dtype is not i64:
            raise DTypeError(f"index: expected a tensor of i64, found {index}")
        if index.value is not None:
            check_range(index.value, input.size, "index", negative=True)
        return input.like(index.shape)

    def forward(self, input: Array, index: Array) -> Array:
        return input.reshape(-1)[index]


@register("aten::one_hot")
@dataclass(frozen=True, kw_only=True)
class OneHot(Layer):
    """For every class number a row of zeros with a one in its place; -1 classes are as many as needed. (*) -> (*, C).

    torch.nn.functional.one_hot
    """

    schemas: ClassVar[dict[int, str]] = {2: "input num_classes"}

    num_classes: int = -1

    def infer(self, input: TensorSpec) -> TensorSpec:
        if input.dtype is not i64:
            raise DTypeError(f"input: expected a tensor of i64, found {input}")
        if self.num_classes < 1 and not input.size:
            raise ShapeError(f"num_classes={self.num_classes}, and there is no class number to count by")
        classes = self._classes(known_array(input)) if self.num_classes == -1 else self.num_classes
        _expect_indices(input, classes, "input")
        return input.like((*input.shape, classes))

    def forward(self, input: Array) -> Array:
        return (input[..., None] == np.arange(self._classes(input))).astype(np.int64)

    def _classes(self, input: Array) -> int:
        return max(int(input.max()) + 1, 0) if self.num_classes == -1 else self.num_classes


# ------------------------------------------------------------------------------------------- masks


@register("torch.masked_select", "aten::masked_select")
@dataclass(frozen=True, kw_only=True)
class MaskedSelect(Layer):
    """The elements where the mask is true, as a vector; input and mask are broadcast. (*), (*) -> (K). torch.masked_select"""

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, mask: TensorSpec) -> TensorSpec:
        _expect_mask(mask)
        shape = broadcast_shapes(input.shape, mask.shape)
        return input.like([int(np.count_nonzero(np.broadcast_to(known_array(mask), shape)))])

    def forward(self, input: Array, mask: Array) -> Array:
        values, where = np.broadcast_arrays(input, mask)
        return values[where]


@register("Tensor.masked_fill", "aten::masked_fill")
@dataclass(frozen=True, kw_only=True)
class MaskedFill(Layer):
    """A number, or a 0-d tensor, where the mask is true, the input elsewhere; both are broadcast. (*), (*) -> (*).

    torch.Tensor.masked_fill
    """

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, mask: TensorSpec, value: Spec) -> TensorSpec:
        _expect_mask(mask)
        expect_in_range(value, input.dtype, "value")
        return input.like(broadcast_shapes(input.shape, mask.shape))

    def forward(self, input: Array, mask: Array, value: Value) -> Array:
        return np.where(mask, element(known_scalar(value, "value"), dtype_of(input)), input)


# ------------------------------------------------------------------------------------------- embeddings


@register("nn.Embedding", "F.embedding", "aten::embedding")
@dataclass(frozen=True, kw_only=True)
class Embedding(Layer):
    """The rows of a table that the indices name. (*), (V, D) -> (*, D). torch.nn.Embedding

    `max_norm` is refused: it would change the table while the model runs.
    """

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {5: "weight input padding_idx scale_grad_by_freq sparse"}
    ignored: ClassVar[frozenset[str]] = frozenset({"norm_type", "scale_grad_by_freq", "sparse"})

    num_embeddings: int | None = None
    embedding_dim: int | None = None
    padding_idx: int | None = None
    max_norm: float | None = None

    def __post_init__(self) -> None:
        if self.max_norm is not None:
            raise InputError(f"max_norm={self.max_norm} is not supported; expected None")

    def infer(self, input: TensorSpec, weight: TensorSpec) -> TensorSpec:
        expect_rank(weight, 2, what="weight")
        rows, columns = weight.shape
        if rows != (self.num_embeddings or rows) or columns != (self.embedding_dim or columns):
            found = f"num_embeddings={self.num_embeddings} and embedding_dim={self.embedding_dim}"
            raise ShapeError(f"weight has shape {weight.shape}, but the parameters are {found}")
        if self.padding_idx is not None and not -rows <= self.padding_idx < rows:
            raise InputError(f"padding_idx={self.padding_idx} is out of range for {rows} rows")
        _expect_indices(input, rows, "input")
        return weight.like((*input.shape, columns))

    def forward(self, input: Array, weight: Array) -> Array:
        return weight[input]

    def derivative(
        self, gradient: Array, output: Array, needs: Sequence[bool], input: Array, weight: Array
    ) -> Gradients:
        """Every row adds up the gradients of its uses; the row of `padding_idx` gets none."""
        result = np.zeros(weight.shape, gradient.dtype)
        np.add.at(result, input.reshape(-1), gradient.reshape(-1, weight.shape[1]))
        if self.padding_idx is not None:
            result[self.padding_idx] = 0
        return [None, result]
