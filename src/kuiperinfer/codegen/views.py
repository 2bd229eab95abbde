"""Views: which elements of another tensor a reshaped, permuted or sliced tensor is made of, told by offset and strides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..dtypes import Array, TensorSpec
from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.base import DataDependent
from ..layers.binding import FromAttribute, FromInput, Source
from ..layers.shape import ExpandAs, ReshapeAs
from .homes import Home, View, row_major
from .lowering import Lowering


def data_operand(operator: RuntimeOperator) -> RuntimeOperand:
    """The tensor that an operator looks at: its argument `input` or `tensor`."""
    assert operator.binding is not None
    source = operator.binding.named.get("input") or operator.binding.named.get("tensor")
    assert isinstance(source, FromInput)
    return operator.input_operands_seq[source.index]


def alias_views(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Makes the outputs of an operator views of its input, wherever this lies; False where they are none, or not tensors.

    Of further tensors that the operator takes the values must be known, or the shape alone count.
    """
    source = data_operand(operator)
    specs = [lowering.specs[output] for output in operator.output_operands]
    if not all(isinstance(spec, TensorSpec) for spec in specs):
        return False
    if not lowering.spec(source).size:
        for output in operator.output_operands:
            lowering.new_rows(output)
        return True
    views = find_views(lowering, operator)
    if views is None:
        return False
    for output, view in zip(operator.output_operands, views, strict=True):
        if lowering.spec(output).size:
            lowering.alias(output, Home(view=view))
        else:
            lowering.new_rows(output)
    return True


def find_views(lowering: Lowering, operator: RuntimeOperator) -> list[View] | None:
    """The outputs as views of the input, or of the operand that this is a view of itself; None where there are no such."""
    source = data_operand(operator)
    shape = lowering.spec(source).shape
    home = lowering.homes.get(source, Home())
    try:
        if home.view is not None and home.rows is None:
            base = home.view.base
            traced = _trace(lowering, operator, shape, home.view, lowering.spec(base).size)
            if traced is not None:
                return [View(base, *place) for place in traced]
        traced = _trace(lowering, operator, shape, View(source, 0, row_major(shape)), math.prod(shape))
    except DataDependent:
        return None
    return None if traced is None else [View(source, *place) for place in traced]


def _trace(
    lowering: Lowering, operator: RuntimeOperator, shape: Sequence[int], view: View, size: int
) -> list[tuple[int, tuple[int, ...]]] | None:
    """Offset and strides of each output within the memory of `view.base`, which has `size` elements.

    The layer's own `forward` is asked: NumPy works out the strides, on memory of a byte an element that nobody reads.
    """
    memory = np.empty(size, np.uint8)
    seen: Array = np.ndarray(tuple(shape), np.uint8, memory, view.offset, view.strides)
    arrays = {data_operand(operator): seen}
    if isinstance(operator.layer, (ExpandAs, ReshapeAs)):  # of the other operand only the shape counts
        arrays |= {
            other: np.broadcast_to(np.uint8(0), lowering.spec(other).shape)
            for other in operator.input_operands_seq
            if other not in arrays
        }
    results = call(lowering, operator, arrays)
    places = []
    for result in results if isinstance(results, (tuple, list)) else (results,):
        offset = result.ctypes.data - memory.ctypes.data
        if result.size and not (np.may_share_memory(result, memory) and 0 <= offset < size):
            return None
        places.append((offset, tuple(result.strides)))
    return places


def call(lowering: Lowering, operator: RuntimeOperator, arrays: Mapping[RuntimeOperand, Array]) -> Any:
    """The layer's `forward` on the given arrays and on what else is known of its arguments; `DataDependent` where this is not
    enough."""
    assert operator.binding is not None and operator.layer is not None

    def fetch(source: Source) -> Any:
        if isinstance(source, FromInput) and operator.input_operands_seq[source.index] in arrays:
            return arrays[operator.input_operands_seq[source.index]]
        return _known(lowering, operator, source)

    named = {name: fetch(source) for name, source in operator.binding.named.items()}
    return operator.layer.forward(*(fetch(source) for source in operator.binding.arguments), **named)


def known_value(lowering: Lowering, operand: RuntimeOperand) -> Any:
    """What an operand holds, where that is known when code is made; else `DataDependent`."""
    spec = lowering.specs[operand]
    if not isinstance(spec, TensorSpec):
        return spec
    if spec.value is None:
        raise DataDependent
    return spec.value


def known_argument(lowering: Lowering, operator: RuntimeOperator, name: str) -> Any:
    """The value of a named argument, None where it is absent; `DataDependent` where it is not known when code is made."""
    assert operator.binding is not None
    source = operator.binding.named.get(name)
    return None if source is None else _known(lowering, operator, source)


def _known(lowering: Lowering, operator: RuntimeOperator, source: Source) -> Any:
    if isinstance(source, FromInput):
        return known_value(lowering, operator.input_operands_seq[source.index])
    if isinstance(source, FromAttribute):
        return operator.attributes[source.name].data
    return source.value
