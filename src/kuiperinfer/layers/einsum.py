"""torch.einsum: sums of products, written as one letter a dimension."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..dtypes import Array, DType, TensorSpec, promote
from ..errors import ShapeError
from ..records import dataclass
from .annotation import AnnotatedLayer, Shape
from .base import Ints, Spec, Text, register
from .checks import expect_kind, factor_dtype, set_field
from .reduction import accumulated_dtype

# A letter, or a dimension that an ellipsis stands for, counted from its end: -1 is the last one.
Label: TypeAlias = str | int
Labels: TypeAlias = tuple[Label, ...]

_TERM = re.compile(r"([a-zA-Z]*)(\.\.\.)?([a-zA-Z]*)")


def parse_equation(equation: str, ranks: Ints) -> tuple[tuple[Labels, ...], Labels]:
    """The labels of each operand, and those of the output: without an arrow, the ellipsis and then all letters that stand
    once, capitals first. `ShapeError` where the equation is malformed or does not go with the operands' ranks."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ShapeError(f"equation '{equation}' is for {len(terms)} operands, found {len(ranks)}")
    operands = tuple(_labels(term, equation, rank) for term, rank in zip(terms, ranks, strict=True))
    every = [label for labels in operands for label in labels]
    ellipsis = tuple(sorted({label for label in every if isinstance(label, int)}))
    if not arrow:
        letters = Counter(label for label in every if isinstance(label, str))
        return operands, (*ellipsis, *sorted(letter for letter, count in letters.items() if count == 1))
    output = _labels(right, equation, len(right.replace("...", "")) + len(ellipsis) * ("..." in right))
    for label in output:
        if output.count(label) > 1 or label not in every:
            found = "twice in the output" if label in every else "in the output, but in no operand"
            raise ShapeError(f"equation '{equation}': '{label}' stands {found}")
    return operands, output


def _labels(term: str, equation: str, rank: int) -> Labels:
    match = _TERM.fullmatch(term)
    if match is None:
        raise ShapeError(f"equation '{equation}': expected letters and at most one '...', found '{term}'")
    before, ellipsis, after = match.groups()
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden and not ellipsis):
        raise ShapeError(f"equation '{equation}': '{term}' does not go with {rank} dimensions")
    return (*before, *range(-hidden, 0), *after)


def _sizes(equation: str, operands: Sequence[Labels], shapes: Sequence[Ints]) -> dict[Label, int]:
    """The size of each label; dimensions of size 1 adapt to the others, but not to one of the same operand."""
    sizes: dict[Label, int] = {}
    for labels, shape in zip(operands, shapes, strict=True):
        own = dict(zip(labels, shape, strict=True))
        for label, size in zip(labels, shape, strict=True):
            if own[label] != size or (size != 1 and sizes.get(label, 1) not in (1, size)):
                other = own[label] if own[label] != size else sizes[label]
                raise ShapeError(f"equation '{equation}': '{label}' has the sizes {other} and {size}")
            if size != 1 or label not in sizes:
                sizes[label] = size
    return sizes


@dataclass(frozen=True)
class PairStep:
    """How two operands, aligned to the same dimensions, become one: which dimensions are summed in one operand alone,
    and which are summed over the product."""

    sum_left: Ints
    sum_right: Ints
    contract: Ints


def _plan_pair(left: Ints, right: Ints, later: Sequence[Ints], output_count: int) -> PairStep:
    """All dimensions behind the output's that no later operand has are summed as early as possible."""
    done = [axis for axis in range(output_count, len(left)) if all(shape[axis] == 1 for shape in later)]
    return PairStep(
        sum_left=tuple(axis for axis in done if left[axis] != 1 and right[axis] == 1),
        sum_right=tuple(axis for axis in done if left[axis] == 1 and right[axis] != 1),
        contract=tuple(axis for axis in done if left[axis] != 1 and right[axis] != 1),
    )


def _merged_shape(left: Ints, right: Ints, step: PairStep) -> Ints:
    summed = (*step.sum_left, *step.sum_right, *step.contract)
    pairs = enumerate(zip(left, right, strict=True))
    return tuple(1 if axis in summed else (a if b == 1 else b) for axis, (a, b) in pairs)


def restore_ellipsis(equation: str, inputs: Sequence[Shape], output: Shape) -> str:
    """The equation that gives the annotated output of the annotated inputs.

    The converter drops every `...` from an equation of several operands. Where the operands have more dimensions than letters,
    and there is a place for the dots that explains the output's shape, they are put back; else the equation stays.
    """
    left, _, right = equation.partition("->")
    terms = left.split(",")
    short = [len(shape) > len(term) for term, shape in zip(terms, inputs, strict=False)]
    if "." in equation or len(terms) != len(inputs) or not any(short):
        return equation
    shapes = [tuple(1 if dim is None else dim for dim in shape) for shape in inputs]  # 1 goes with any size
    for place in ("...{}", "{}..."):
        operands = [place.format(term) if is_short else term for term, is_short in zip(terms, short, strict=True)]
        candidate = f"{','.join(operands)}->{place.format(right)}"
        try:
            _, found = align_shapes(candidate, shapes)
        except ShapeError:
            continue
        if len(found) == len(output) and all(b in (None, a) for a, b in zip(found, output, strict=True)):
            return candidate
    return equation


def align_shapes(equation: str, shapes: Sequence[Ints]) -> tuple[list[Ints], Ints]:
    """Each operand's shape over all labels, the output's first, with 1 for those it lacks; and the output's shape."""
    operands, output = parse_equation(equation, tuple(map(len, shapes)))
    sizes = _sizes(equation, operands, shapes)
    every = _all_labels(operands, output)
    own = [dict(zip(labels, shape, strict=True)) for labels, shape in zip(operands, shapes, strict=True)]
    return [tuple(mine.get(label, 1) for label in every) for mine in own], tuple(sizes[label] for label in output)


@register("torch.einsum")
@dataclass(frozen=True, kw_only=True)
class Einsum(AnnotatedLayer):
    """The product of all operands, summed over the labels that are not in the output; `ii` is a diagonal.

    equation "bij,bjk->bik": (B, I, J), (B, J, K) -> (B, I, K). Operands come one by one or as one list. torch.einsum
    """

    ignored: ClassVar[frozenset[str]] = frozenset({"path"})

    equation: Text

    def __post_init__(self) -> None:
        inputs = [annotation.shape for annotation in self.annotated_inputs]
        known = [shape for shape in inputs if shape is not None]
        output = self.annotated_outputs[0].shape if self.annotated_outputs else None
        if inputs and output is not None and len(known) == len(inputs):
            set_field(self, "equation", restore_ellipsis(self.equation, known, output))

    def infer(self, *operands: Spec) -> TensorSpec:
        specs = _unpack(operands)
        for number, spec in enumerate(specs):
            expect_kind(spec, "bool", "int", "float", "complex", what=f"operand {number}")
        shapes, output_shape = align_shapes(self.equation, [spec.shape for spec in specs])
        count = len(output_shape)
        if len(specs) == 1:
            summed = len(shapes[0]) > count
            return TensorSpec(output_shape, accumulated_dtype(specs[0].dtype) if summed else specs[0].dtype)
        left = TensorSpec(shapes[0], specs[0].dtype)
        for number in range(1, len(shapes)):
            right = TensorSpec(shapes[number], specs[number].dtype)
            step = _plan_pair(left.shape, right.shape, shapes[number + 1 :], count)
            dtype = _pair_dtype(left, right, step)
            left = TensorSpec(_merged_shape(left.shape, right.shape, step), dtype)
        return TensorSpec(output_shape, left.dtype)

    def forward(self, *operands: Array) -> Array:
        arrays = _unpack(operands)
        labels, output = parse_equation(self.equation, tuple(array.ndim for array in arrays))
        every = _all_labels(labels, output)
        aligned = [_align(array, own, every) for array, own in zip(arrays, labels, strict=True)]
        count = len(output)
        result = aligned[0]
        if len(aligned) == 1:
            result = _sum(result, tuple(range(count, len(every))))
        for number in range(1, len(aligned)):
            later = [array.shape for array in aligned[number + 1 :]]
            step = _plan_pair(result.shape, aligned[number].shape, later, count)
            result = _merge(_sum(result, step.sum_left), _sum(aligned[number], step.sum_right), step.contract)
        return result.reshape(result.shape[:count])


def _unpack(operands: Sequence[Any]) -> Sequence[Any]:
    return operands[0] if len(operands) == 1 and isinstance(operands[0], list) else operands


def _all_labels(operands: tuple[Labels, ...], output: Labels) -> Labels:
    return tuple(dict.fromkeys([*output, *(label for labels in operands for label in labels)]))


def _align(array: Array, labels: Labels, every: Labels) -> Array:
    """The array over all labels: diagonals taken, dimensions put in order, and those that it lacks added with size 1."""
    own = list(labels)
    for label in [label for label, count in Counter(labels).items() for _ in range(count - 1)]:
        first = own.index(label)
        second = own.index(label, first + 1)
        array = array.diagonal(0, first, second)  # the diagonal becomes the last dimension
        own = [*own[:first], *own[first + 1 : second], *own[second + 1 :], label]
    array = array.transpose([own.index(label) for label in every if label in own])
    return np.expand_dims(array, [axis for axis, label in enumerate(every) if label not in own])


def _sum(array: Array, axes: Ints) -> Array:
    """The sum over axes, which stay with size 1; integers are added as 64 bits, floats in double precision."""
    if not axes:
        return array
    if array.dtype.kind in "biu":
        return array.sum(axes, np.int64, keepdims=True)
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    return array.sum(axes, wide, keepdims=True).astype(array.dtype)


def _pair_dtype(left: TensorSpec, right: TensorSpec, step: PairStep) -> DType:
    left = left.like(dtype=accumulated_dtype(left.dtype)) if step.sum_left else left
    right = right.like(dtype=accumulated_dtype(right.dtype)) if step.sum_right else right
    if not step.contract:
        return promote(left.dtype, right.dtype)
    for side in (left, right):
        expect_kind(side, "int", "float", "complex", what="a summed operand")
    return factor_dtype(left, right)


def _merge(left: Array, right: Array, contract: Ints) -> Array:
    """The product of two arrays of one rank, summed over `contract`, which stays with size 1.

    It is a stack of matrix products: dimensions of both are the stack, those of one side alone its rows or columns.
    """
    if not contract:
        return left * right
    others = [axis for axis in range(left.ndim) if axis not in contract]
    rows = [axis for axis in others if right.shape[axis] == 1 != left.shape[axis]]
    columns = [axis for axis in others if left.shape[axis] == 1 != right.shape[axis]]
    stack = [axis for axis in others if axis not in rows and axis not in columns]

    def as_matrices(array: Array, first: Sequence[int], second: Sequence[int]) -> Array:
        sizes = [math.prod(array.shape[axis] for axis in axes) for axes in (stack, first, second)]
        kept = [*stack, *first, *second]
        dropped = [axis for axis in range(array.ndim) if axis not in kept]  # of size 1
        return array.transpose(*kept, *dropped).reshape(sizes)

    product = as_matrices(left, rows, contract) @ as_matrices(right, contract, columns)
    order = [*stack, *rows, *columns, *contract]
    sizes = [left.shape[a] for a in (*stack, *rows)] + [right.shape[a] for a in columns] + [1] * len(contract)
    return product.reshape(sizes).transpose(np.argsort(order))
