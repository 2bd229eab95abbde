"""Matrix products, by BLAS: transposed operands are read where they lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dtypes import Array, widen
from ...memory import aligned_empty
from ..operation import ArrayOperation, Composite, Context, apply
from .layer import apply_layer, make_layer

if TYPE_CHECKING:
    from ..tensor import Tensor

_BLAS = (np.float32, np.float64)
_FEW_ROWS = 128


def _multiply(a: Array, b: Array) -> Array:
    """a @ b of matrices of one float dtype."""
    out = aligned_empty((a.shape[0], b.shape[1]), a.dtype)
    return np.matmul(a, b, out=out)


def _matmul(context: Context, a: Array, b: Array) -> Array:
    if a.ndim == b.ndim == 2 and a.dtype == b.dtype and a.dtype in _BLAS and a.shape[1] == b.shape[0]:
        return _multiply(a, b)
    _, (result,) = apply_layer("torch.matmul", [a, b])
    return result


def _matmul_gradient(context: Context, gradient: Array) -> Sequence[Array | None]:
    a, b = context.arrays
    if a.ndim == b.ndim == 2 and gradient.dtype in _BLAS:
        return [
            _multiply(gradient, b.T) if context.needs[0] else None,
            _multiply(a.T, gradient) if context.needs[1] else None,
        ]
    return _derivative("torch.matmul", context, gradient)


def _derivative(type_name: str, context: Context, gradient: Array) -> Sequence[Array | None]:
    """The gradients as the layer has them."""
    wide = widen(gradient)
    return make_layer(type_name, ()).derivative(wide, wide, context.needs, *map(widen, context.arrays))


def _linear(context: Context, input: Array, weight: Array, *, any_order: bool) -> Array:
    """input @ weightᵀ; in `any_order` of its elements, few rows are calculated transposed, which BLAS does faster."""
    flat = input if input.ndim == 2 else input.reshape(-1, input.shape[-1]) if input.ndim and input.size else None
    fits = flat is not None and weight.ndim == 2 and input.dtype == weight.dtype and input.dtype in _BLAS
    if fits and flat is not None and flat.shape[1] == weight.shape[1]:
        if any_order and input.ndim == 2 and len(flat) <= _FEW_ROWS:
            return _multiply(weight, flat.T).T
        return _multiply(flat, weight.T).reshape(*input.shape[:-1], len(weight))
    _, (result,) = apply_layer("F.linear", [input, weight])
    return result


def _linear_gradient(context: Context, gradient: Array) -> Sequence[Array | None]:
    input, weight = context.arrays
    if weight.ndim == 1 or gradient.dtype not in _BLAS:
        return _derivative("F.linear", context, gradient)
    rows = math.prod(input.shape[:-1])
    flat = gradient.reshape(rows, len(weight))
    return [
        _multiply(flat, weight).reshape(input.shape) if context.needs[0] else None,
        _multiply(flat.T, input.reshape(rows, input.shape[-1])) if context.needs[1] else None,
    ]


MATMUL = ArrayOperation("matmul", _matmul, _matmul_gradient)
_PRODUCT = ArrayOperation("linear", _linear, _linear_gradient)


def _affine(input: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
    product = _PRODUCT.run(input, weight, any_order=bias is not None)
    return product if bias is None else product + bias


LINEAR = Composite("linear", _affine)


def matmul(input: Tensor, other: Tensor) -> Any:
    """Products of the last two dimensions, the others broadcast. (*, M, K), (*, K, N) -> (*, M, N)"""
    return apply(MATMUL, input, other)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """input @ weightᵀ + bias. (*, I), (O, I), (O) -> (*, O)"""
    return apply(LINEAR, input, weight, bias)
