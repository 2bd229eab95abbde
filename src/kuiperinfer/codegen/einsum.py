"""How sums of products are lowered: two operands are a stack of matrix products, whatever the order of their dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..dtypes import Array
from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.einsum import Einsum, Label, parse_equation
from ..records import dataclass
from .homes import Ref, row_major
from .linear import Factor, add_product
from .lowering import Lowering, as_float32, lowers


@dataclass(frozen=True)
class Labelled:
    """An operand: where it lies, size and stride of each label along which it moves, and its value where that is known."""

    ref: Ref
    sizes: dict[Label, int]
    strides: dict[Label, int]
    value: Array | None

    def along(self, labels: Sequence[Label | None]) -> tuple[int, ...]:
        """Strides along labels, 0 where one element serves all."""
        return tuple(0 if label is None else self.strides.get(label, 0) for label in labels)


@lowers(Einsum)
def lower_einsum(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Of two operands, neither of which is summed alone, and not both of which move along the output's last dimension."""
    layer, output = operator.layer, operator.output_operands[0]
    assert isinstance(layer, Einsum)
    inputs = _operands(lowering, operator)
    result = lowering.spec(output).shape
    shapes = [lowering.spec(operand).shape for operand in inputs]
    if len(inputs) != 2 or any(0 in shape for shape in (*shapes, result)):
        return False
    terms, out = parse_equation(layer.equation, (len(shapes[0]), len(shapes[1])))
    if any(len(set(labels)) < len(labels) for labels in terms):
        return False
    left, right = (_labelled(lowering, operand, labels) for operand, labels in zip(inputs, terms, strict=True))
    sizes = {**left.sizes, **right.sizes}
    columns = next((label for label in reversed(out) if label in sizes), None)
    if columns is not None and columns not in right.sizes:
        left, right = right, left
    summed = sorted((label for label in sizes if label not in out), key=lambda label: -left.strides.get(label, 0))
    if not all(label in left.sizes and label in right.sizes for label in summed) or columns in left.sizes:
        return False
    rows = next((label for label in reversed(out) if label in left.sizes and label not in right.sizes), None)
    stack = [label for label in out if label not in (rows, columns) and label in sizes]

    matrix: Factor | Array
    inner = _merge([(sizes[label], left.strides[label], right.strides[label]) for label in summed])
    if right.value is not None and not any(right.along(stack)):
        inner = _merge([(sizes[label], left.strides[label], 0) for label in summed], constant=True)
        matrix = _constant(right, [*summed, *([] if columns is None else [columns])], sizes.get(columns or "", 1))
    elif len(inner) == 1:
        matrix = Factor(right.ref, (*right.along(stack), inner[0][2], *right.along([columns])))
    if len(inner) > 1:
        return False
    depth, step, _ = inner[0]
    place = dict(zip(out, row_major(result), strict=True))
    shape = (*(sizes[label] for label in stack), *(1 if label is None else sizes[label] for label in (rows, columns)))
    factor = Factor(left.ref, (*left.along([*stack, rows]), step))
    strides = tuple(0 if label is None else place[label] for label in (*stack, rows, columns))
    add_product(lowering, shape, depth, factor, matrix, Factor(lowering.new_rows(output), strides))
    return True


def _operands(lowering: Lowering, operator: RuntimeOperator) -> list[RuntimeOperand]:
    """The operands, which come one by one or as one list."""
    inputs = list(operator.input_operands_seq)
    parts = lowering.homes[inputs[0]].parts if len(inputs) == 1 else None
    return inputs if parts is None else list(parts)


def _labelled(lowering: Lowering, operand: RuntimeOperand, labels: Sequence[Label]) -> Labelled:
    shape, place = lowering.spec(operand).shape, lowering.strided(operand)
    moving = [
        (label, size, stride) for label, size, stride in zip(labels, shape, place.strides, strict=True) if size > 1
    ]
    value = lowering.homes[operand].value
    return Labelled(
        place.ref,
        {label: size for label, size, _ in moving},
        {label: stride for label, _, stride in moving},
        value if isinstance(value, np.ndarray) else None,
    )


def _merge(dims: Sequence[tuple[int, int, int]], constant: bool = False) -> list[tuple[int, int, int]]:
    """(size, stride on the left, stride on the right) of summed dimensions, neighbours made one where both walk on."""
    merged: list[tuple[int, int, int]] = []
    for size, left, right in dims:
        if merged and merged[-1][1] == size * left and (constant or merged[-1][2] == size * right):
            merged[-1] = (merged[-1][0] * size, left, right)
        else:
            merged.append((size, left, right))
    return merged or [(1, 0, 0)]


def _constant(operand: Labelled, labels: Sequence[Label], columns: int) -> Array:
    """The operand's value as a matrix: the last label, or 1, is that of the columns."""
    assert operand.value is not None
    own = list(operand.sizes)
    dense = as_float32(operand.value).reshape(tuple(operand.sizes.values()))
    return dense.transpose([own.index(label) for label in labels]).reshape(-1, columns)
