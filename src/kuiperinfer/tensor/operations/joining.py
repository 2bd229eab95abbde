"""Several tensors as one, and elements chosen by conditions and indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...dtypes import Scalar, bool_
from ...errors import DTypeError, InputError, ShapeError
from ..operation import Composite, apply, elementwise
from .layer import LayerOperation

if TYPE_CHECKING:
    from ..tensor import Tensor

_CAT, _STACK, _GATHER = LayerOperation("torch.cat"), LayerOperation("torch.stack"), LayerOperation("torch.gather")


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Any:
    """Tensors one after the other along `dim`; other sizes equal. (A, B1), (A, B2) -> (A, B1 + B2)"""
    return apply(_CAT, *_expect_tensors(tensors, "cat"), dim=dim)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Any:
    """Tensors of one shape side by side along a new dimension. n times (A, B) -> (n, A, B)"""
    return apply(_STACK, *_expect_tensors(tensors, "stack"), dim=dim)


def _expect_tensors(tensors: Sequence[Tensor], operation: str) -> Sequence[Tensor]:
    if not isinstance(tensors, Iterable):
        raise InputError(f"{operation}: expected a list of tensors, found {tensors!r}")
    if not tensors:
        raise InputError(f"{operation}: expected at least one tensor, found none")
    return tensors


def gather(input: Tensor, dim: int, index: Tensor) -> Any:
    """result[i, j, ...] = input[index[i, j, ...], j, ...] for dim 0, and so on. (*), (*') -> (*')"""
    return apply(_GATHER, input, index, dim=dim)


def where(condition: Tensor, input: Tensor | Scalar, other: Tensor | Scalar) -> Any:
    """Elements of `input` where the condition is true, of `other` elsewhere; broadcast."""
    dtype = getattr(condition, "dtype", type(condition).__name__)
    if dtype is not bool_:
        raise DTypeError(f"where: expected a condition of bool, found {dtype}; compare it with something")
    return apply(elementwise("where", 3), condition, input, other)


def _masked_fill(input: Tensor, mask: Tensor, value: Scalar) -> Any:
    return where(mask, value, input).to(input.dtype)


_MASKED_FILL = Composite("masked_fill", _masked_fill)


def masked_fill(input: Tensor, mask: Tensor, value: Scalar) -> Any:
    """The tensor with a number where the mask is true; broadcast."""
    return apply(_MASKED_FILL, input, mask, value)


def index_select(input: Tensor, dim: int, index: Tensor) -> Any:
    """The positions along a dimension that `index` names."""
    axis = input.shape.dimension(dim)
    return input[(slice(None),) * axis + (index,)]


def _repeat(input: Tensor, *, sizes: Sequence[int]) -> Any:
    if len(sizes) < input.ndim or not all(isinstance(count, int) and count >= 0 for count in sizes):
        found = f"{tuple(sizes)} for shape {input.shape}"
        raise ShapeError(f"repeat: expected a number of at least 0 for each dimension, found {found}")
    shape = (*(1,) * (len(sizes) - input.ndim), *input.shape)
    apart = input.reshape([one for size in shape for one in (1, size)])
    copies = apart.expand([one for count, size in zip(sizes, shape, strict=True) for one in (count, size)])
    return copies.clone().view([count * size for count, size in zip(sizes, shape, strict=True)])


_REPEAT = Composite("repeat", _repeat)


def repeat(input: Tensor, sizes: Sequence[int]) -> Any:
    """The whole tensor so many times along each dimension. (A, B) -> (m A, n B)"""
    return apply(_REPEAT, input, sizes=tuple(sizes))
