"""Elements in order, and running sums, along one dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dtypes import Array, DType
from ..operation import ArrayOperation, Context, apply
from .layer import LayerOperation, apply_layer
from .reduction import Extremes

if TYPE_CHECKING:
    from ..tensor import Tensor


def _cumsum(context: Context, array: Array, *, dim: int, dtype: DType | None) -> Array:
    _, (sums,) = apply_layer("torch.cumsum", [array], dim=dim, dtype=dtype)
    result: Array = sums
    return result


def _cumsum_gradient(context: Context, gradient: Array) -> Sequence[Array | None]:
    """Each element is part of its own sum and of all that follow."""
    if not gradient.ndim:
        return [gradient]
    dim = context.parameters["dim"]
    wide = np.flip(gradient, dim).cumsum(dim, np.float64)
    return [np.flip(wide, dim).astype(gradient.dtype)]


def _chosen(type_name: str) -> Any:
    def forward(context: Context, array: Array, **how: Any) -> tuple[Array, Array]:
        arguments = [array, how.pop("k")] if "k" in how else [array]
        _, (values, indices) = apply_layer(type_name, arguments, output_count=2, **how)
        context.saved = indices
        return values, indices

    return forward


def _chosen_gradient(context: Context, gradient: Array) -> Sequence[Array | None]:
    """To where the elements stood."""
    (array,), dim = context.arrays, context.parameters["dim"]
    if not array.ndim:
        return [gradient]
    result = np.zeros(array.shape, gradient.dtype)
    np.put_along_axis(result, context.saved, gradient, dim)
    return [result]


CUMSUM = ArrayOperation("cumsum", _cumsum, _cumsum_gradient)
ARGSORT = LayerOperation("torch.argsort")
_SORT = ArrayOperation("sort", _chosen("torch.sort"), _chosen_gradient)
_TOPK = ArrayOperation("topk", _chosen("torch.topk"), _chosen_gradient)


def sort(input: Tensor, dim: int, descending: bool) -> Extremes:
    """The elements in order, and their indices. (*) -> (*), (*)"""
    return Extremes(*apply(_SORT, input, dim=dim, descending=descending))


def topk(input: Tensor, k: int, dim: int, largest: bool) -> Extremes:
    """The largest or smallest elements in order, and their indices. (*, N) -> (*, k), (*, k)"""
    return Extremes(*apply(_TOPK, input, k=k, dim=dim, largest=largest))
