"""Reductions along any dimensions: `dim` is one or several, None for all; with `keepdim` they stay, with size 1."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...dtypes import Array, DType, f32, f64, widen
from ...errors import ShapeError
from ...layers.reduction import reduced_axes, reduced_shape
from ..autograd import Gradient, Node, attach, wanted
from ..operation import ArrayOperation, Composite, Context, Operation, apply, elementwise
from ..sums import sum_over
from ..wrapping import wrap
from .layer import LayerOperation, apply_layer

if TYPE_CHECKING:
    from ..tensor import Tensor


def dims(dim: Any) -> Any:
    """One dimension or several as a tuple; None for all."""
    if dim is None or isinstance(dim, int):
        return None if dim is None else (dim,)
    try:
        return tuple(map(operator.index, dim if isinstance(dim, (tuple, list)) else (dim,)))
    except TypeError:
        raise ShapeError(f"expected the number of a dimension or several, found dim={dim!r}") from None


class _Sum(Operation):
    name = "sum"

    def run(self, input: Tensor, *, dim: Any, keepdim: bool, dtype: DType | None) -> Tensor:
        if dtype is None and input.dtype in (f32, f64):
            axes = reduced_axes(dim, input.ndim)
            result = wrap(sum_over(input.array, axes).reshape(reduced_shape(input.shape, axes, keepdim)))
        else:
            _, (array,) = apply_layer("torch.sum", [input.array], dim=dim, keepdim=keepdim, dtype=dtype)
            result = wrap(array)
        if result.dtype.kind == "float" and wanted(input):
            attach(result, self.name, (input,), _spread, input.shape, input.dtype, dim)
        return result


def _spread(node: Node, gradient: Tensor) -> Sequence[Gradient]:
    """The gradient of a sum, seen by all that were summed."""
    shape, dtype, dim = node.values
    kept = reduced_shape(shape, reduced_axes(dim, len(shape)), True)
    return [gradient.to(dtype).reshape(kept).expand(shape)]


SUM = _Sum()
MEAN = LayerOperation("torch.mean")
AMAX, AMIN = LayerOperation("torch.amax"), LayerOperation("torch.amin")


class _OfAll(LayerOperation):
    """The extreme of all elements; where some are NaN, these share the gradient, unlike that of `amax`."""

    def _differentiate(self, context: Context, gradient: Array) -> Sequence[Array | None]:
        is_nan = np.isnan(widen(context.arrays[0]))
        if not is_nan.any():
            return super()._differentiate(context, gradient)
        return [is_nan * (widen(gradient) / is_nan.sum())]


_MAX_OF_ALL, _MIN_OF_ALL = _OfAll("torch.amax"), _OfAll("torch.amin")
PROD = LayerOperation("torch.prod")
LOGSUMEXP = LayerOperation("torch.logsumexp")
ARGMAX, ARGMIN = LayerOperation("torch.argmax"), LayerOperation("torch.argmin")
IS_NAN, IS_INF = LayerOperation("torch.isnan"), LayerOperation("torch.isinf")
IS_FINITE = LayerOperation("torch.isfinite")
ALL, ANY = LayerOperation("torch.all"), LayerOperation("torch.any")


def sum_(input: Tensor, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> Any:
    """The sum; integers and bools give an i64. (*) -> () or what is left"""
    return apply(SUM, input, dim=dims(dim), keepdim=keepdim, dtype=dtype)


def _mean(input: Tensor, *, dim: Any, keepdim: bool, dtype: DType | None) -> Any:
    if dtype is None and input.dtype.kind == "float":
        axes = reduced_axes(dim, input.ndim)
        count = math.prod(input.shape[axis] for axis in axes)
        total = SUM.run(input, dim=dim, keepdim=keepdim, dtype=None)
        return elementwise("div", 2).run(total, float(count)) if count else total * math.nan
    return MEAN.run(input, dim=dim, keepdim=keepdim, dtype=dtype)


_MEAN = Composite("mean", _mean)


def mean(input: Tensor, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> Any:
    """The arithmetic mean of floats. (*) -> () or what is left"""
    return apply(_MEAN, input, dim=dims(dim), keepdim=keepdim, dtype=dtype)


def variance(input: Tensor, dim: Any = None, keepdim: bool = False, correction: float = 1) -> Any:
    """The variance, the sum of squares being divided by the count less `correction`."""
    return apply(_VARIANCE, input, dim=dims(dim), keepdim=keepdim, correction=correction)


def _variance(input: Tensor, *, dim: Any, keepdim: bool, correction: float) -> Any:
    count = math.prod(input.shape[axis] for axis in reduced_axes(dim, input.ndim))
    centred = input - mean(input, dim, True)
    divisor = max(count - correction, 0.0)
    return sum_(centred * centred, dim, keepdim) / divisor


_VARIANCE = Composite("var", _variance)


class Extremes(NamedTuple):
    """The largest or smallest elements along a dimension, and where they stand."""

    values: Tensor
    indices: Tensor


def extreme(largest: bool, input: Tensor, dim: Any, keepdim: bool) -> Any:
    """The largest or smallest element of all; along one dimension the pair of these and their indices."""
    if dim is None:
        return apply(_MAX_OF_ALL if largest else _MIN_OF_ALL, input, dim=None, keepdim=False)
    return Extremes(*apply(_MAX if largest else _MIN, input, dim=dim, keepdim=keepdim))


def _extreme(find: Any) -> Any:
    def forward(context: Context, array: Array, *, dim: int, keepdim: bool) -> tuple[Array, Array]:
        _, (index,) = apply_layer("torch.argmax" if find else "torch.argmin", [array], dim=dim, keepdim=True)
        context.saved = index
        if not array.ndim:
            return array, index
        values = np.take_along_axis(array, index, dim)
        return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))

    return forward


def _extreme_gradient(context: Context, gradient: Array) -> Sequence[Array | None]:
    """All of it to the element that was taken."""
    (array,), dim, index = context.arrays, context.parameters["dim"], context.saved
    if not array.ndim:
        return [gradient]
    result = np.zeros(array.shape, gradient.dtype)
    np.put_along_axis(result, index, gradient if context.parameters["keepdim"] else np.expand_dims(gradient, dim), dim)
    return [result]


_MAX = ArrayOperation("max", _extreme(True), _extreme_gradient)
_MIN = ArrayOperation("min", _extreme(False), _extreme_gradient)
