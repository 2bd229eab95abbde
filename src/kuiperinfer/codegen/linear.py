"""How matrix products are lowered: which operand is packed, which dimensions become rows, which tiles and shares."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from types import NoneType
from typing import Any

import numpy as np

from ..dtypes import Array, TensorSpec
from ..expression import Literal, Operand, substitute
from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.linear import AddMM, BaddBMM, Linear, Matmul, MatrixProduct, MatrixVectorProduct
from ..passes.fused import Fused, parse
from ..records import dataclass
from .epilogue import MatrixEpilogue
from .expressions import is_vectorizable
from .homes import Ref, Strided, broadcast_strides, row_major
from .kernels.direct_convolution import choose_tile
from .kernels.matrix_product import UNROLL, MatrixProductSpec, pack_panels
from .layout import Matrix
from .lowering import Lowering, as_float32, lowers
from .target import Target

TASK_FLOPS = (
    16e6  # work of a task: long, since it asks for the weights of its next panels beforehand, but not for its first
)
TASKS = 8  # shares that a step should have at least
_MOST_ROWS = 128  # of a task: more at a stride of a power of two would not all fit the ways of a cache
_MOST_GROUPS = 8  # of a task that keeps its sums in memory


@dataclass(frozen=True)
class Term:
    """An operand of a product's expression: a value for each place of the output, strides 0 where one serves several."""

    ref: Ref
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Formula:
    """What is done with a product: an expression of it (`@0`) and of further operands (`@1`…)."""

    text: str = ""
    terms: tuple[Term, ...] = ()

    def then(self, text: str, terms: Sequence[Term] = ()) -> Formula:
        """The formula whose result goes into another one as its `@0`."""
        if not text:
            return self
        if not self.text:
            return Formula(text, (*self.terms, *terms))
        own = len(self.terms)
        replaced = [parse(self.text), *(Operand(own + 1 + number) for number in range(len(terms)))]
        return Formula(str(substitute(parse(text), replaced)), (*self.terms, *terms))


_NOTHING = Formula()


@dataclass(frozen=True)
class Factor:
    """A run-time operand of a product: strides for the stack's dimensions, then for rows and columns."""

    ref: Ref
    strides: tuple[int, ...]

    def transposed(self) -> Factor:
        """Rows and columns exchanged."""
        return Factor(self.ref, (*self.strides[:-2], self.strides[-1], self.strides[-2]))


# ------------------------------------------------------------------------------------------- products


def add_product(
    lowering: Lowering,
    shape: Sequence[int],
    depth: int,
    left: Factor,
    right: Factor | Array,
    output: Factor,
    bias: Array | None = None,
    formula: Formula = _NOTHING,
) -> None:
    """Adds the step of a product (*, M, K) times (*, K, N), the latter of constants (K, N) or not, plus constants (N).

    Then the formula is applied. `shape` is the output's, and strides are those of its dimensions.
    """
    columns, lanes = shape[-1], lowering.target.lanes
    if isinstance(right, np.ndarray) and columns == 1 and math.prod(shape) > 1:
        right, bias, formula = _as_operands(lowering, right, bias, formula, len(shape))
    still = (0,) * (len(shape) - 1)
    right_walk = still if isinstance(right, np.ndarray) else (*right.strides[:-2], 0)
    walks = [left.strides[:-1], right_walk, output.strides[:-1], *(term.strides[:-1] for term in formula.terms)]
    (*stack, rows), merged = _merge(shape[:-1], walks)
    last = [left.strides[-1], 0, output.strides[-1], *(term.strides[-1] for term in formula.terms)]
    a, b, c, *terms = [Matrix(walk[-1], step, walk[:-1]) for walk, step in zip(merged, last, strict=True)]
    if isinstance(right, Factor):
        b = Matrix(right.strides[-2], right.strides[-1], b.stack)
        if columns == 1 and rows > 1 and c.row == 1 and all(term.row in (0, 1) for term in terms):
            # a column is a row of the transposed product, of which a vector takes several elements
            a, b, c, terms = b.transposed(), a.transposed(), c.transposed(), [term.transposed() for term in terms]
            rows, columns, left, right = 1, rows, right, left
    panels = -(-columns // lanes)
    tile = choose_tile(rows, panels, lowering.target)
    shares = choose_shares(math.prod(stack), rows, depth, -(-panels // tile[1]), tile, lowering.target)
    spec = MatrixProductSpec(
        tuple(stack), rows, depth, columns, a, b if isinstance(right, Factor) else None, replace(c, column=1),
        bias is not None, MatrixEpilogue(formula.text, tuple(terms)), lanes, *tile, *shares,
    )  # fmt: skip
    if isinstance(right, Factor):
        refs = [left.ref, right.ref]
    else:
        pack = functools.partial(pack_panels, right, tile[1], lanes)
        refs = [left.ref, lowering.packed((depth * panels * lanes,), pack)]
    if bias is not None:
        refs.append(lowering.constant(np.pad(bias, (0, panels * lanes - columns))))
    lowering.add(spec, *refs, output.ref, *(term.ref for term in formula.terms), writes=len(refs))


def _as_operands(
    lowering: Lowering, right: Array, bias: Array | None, formula: Formula, ndim: int
) -> tuple[Factor, None, Formula]:
    """A constant matrix of one column, and its bias, as operands in memory."""
    if bias is not None:
        formula = Formula("add(@0,@1)", (Term(lowering.constant(bias), (0,) * ndim),)).then(formula.text, formula.terms)
    return Factor(lowering.constant(as_float32(right)), (*(0,) * (ndim - 2), 1, 0)), None, formula


def _merge(shape: Sequence[int], walks: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Dimensions (*, M) and strides in them, neighbours made one where every operand walks through both without a gap.

    The second walk is that of the right matrix: dimensions in which it moves do not become rows.
    """
    sizes, steps = [shape[-1]], [[walk[-1]] for walk in walks]
    for dim in range(len(shape) - 2, -1, -1):
        if shape[dim] == 1:
            continue
        inner = [step[0] for step in steps]
        if sizes[0] == 1 and len(sizes) == 1 and walks[1][dim] == 0:
            sizes, steps = [shape[dim]], [[walk[dim]] for walk in walks]
        elif all(walk[dim] == stride * sizes[0] for walk, stride in zip(walks, inner, strict=True)):
            sizes[0] *= shape[dim]
        else:
            sizes.insert(0, shape[dim])
            for step, walk in zip(steps, walks, strict=True):
                step.insert(0, walk[dim])
    return tuple(sizes), [tuple(step) for step in steps]


def choose_shares(
    stack: int, rows: int, depth: int, groups: int, tile: tuple[int, int], target: Target
) -> tuple[int, int, int]:
    """(rows, groups of panels) of a task, and how much of the inner dimension it takes at a time.

    Rows stay in the cache while groups pass by, there is work enough for a task, and there are tasks enough.
    """
    tile_rows, tile_panels = tile
    width = tile_panels * target.lanes
    shares = min(-(-rows // tile_rows), max(-(-rows // _MOST_ROWS), -(-TASKS // (stack * groups))))
    task_rows = -(-rows // (shares * tile_rows)) * tile_rows
    flops = 2 * min(task_rows, rows) * depth * width
    wanted = -(-TASKS // (stack * -(-rows // task_rows)))
    most = max(1, groups // wanted)
    # measured: panels of twice the first cache, and rows of a third of the second one
    block = min(target.l1 // (2 * width), target.l2 // (12 * task_rows))
    if rows <= tile_rows or depth <= 1.5 * block:
        return task_rows, min(most, max(1, round(TASK_FLOPS / flops))), depth
    return task_rows, min(most, _MOST_GROUPS), choose_block(depth, block)


def choose_block(depth: int, most: int) -> int:
    """The largest even share of a dimension that is not above `most`, or `most` where even shares are much smaller."""
    shares = -(-depth // most)
    even = next((count for count in range(shares, 2 * shares) if depth % (count * UNROLL) == 0), None)
    return most // UNROLL * UNROLL if even is None else depth // even


# ------------------------------------------------------------------------------------------- what rules share


def fused_formula(lowering: Lowering, operator: RuntimeOperator, formula: Formula = _NOTHING) -> Formula | None:
    """The formula, then the expression that a pass fused into the operator; None for one that has no vector form."""
    if not isinstance(operator.layer, Fused):
        return formula
    output = lowering.spec(operator.output_operands[0])
    extras: list[RuntimeOperand] = []
    while (extra := lowering.argument(operator, f"extra{len(extras) + 1}")) is not None:
        extras.append(extra)
    specs = [output, *(TensorSpec.of(e) if isinstance(e, np.ndarray) else lowering.spec(e) for e in extras)]
    if not is_vectorizable(parse(operator.layer.text), specs):
        return None
    return formula.then(operator.layer.text, [term(lowering, extra, output.shape) for extra in extras])


def term(lowering: Lowering, value: RuntimeOperand | Array, shape: Sequence[int]) -> Term:
    """An operand or a constant, broadcast to an output's shape; its columns follow one another, or are one."""
    place, own = _place(lowering, value)
    strides = broadcast_strides(own, place.strides, len(shape))
    if strides and strides[-1] not in (0, 1) and not isinstance(value, np.ndarray):
        return Term(lowering.rows(value), broadcast_strides(own, row_major(own), len(shape)))
    return Term(place.ref, strides)


def _place(lowering: Lowering, value: RuntimeOperand | Array) -> tuple[Strided, tuple[int, ...]]:
    """Where a value lies, and its shape."""
    if isinstance(value, np.ndarray):
        data = as_float32(value)
        return Strided(lowering.constant(data), row_major(data.shape)), data.shape
    return lowering.strided(value), lowering.spec(value).shape


def _base(operator: RuntimeOperator) -> Any:
    return operator.layer.base if isinstance(operator.layer, Fused) else operator.layer


def _shape_of(lowering: Lowering, value: RuntimeOperand | Array) -> tuple[int, ...]:
    return value.shape if isinstance(value, np.ndarray) else lowering.spec(value).shape


# ------------------------------------------------------------------------------------------- rules


@lowers(Linear)
def lower_linear(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """input @ weight.T + bias; a constant weight is packed."""
    source, weight, bias = (lowering.argument(operator, name) for name in ("input", "weight", "bias"))
    return _lower(lowering, operator, source, weight, is_weight=True, added=bias)


@lowers(Matmul, MatrixProduct, MatrixVectorProduct)
def lower_matmul(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Products of two operands, of which the right one may be constant."""
    second = {Matmul: "other", MatrixProduct: "mat2", MatrixVectorProduct: "vec"}[type(_base(operator))]
    left, right = (lowering.argument(operator, name) for name in ("input", second))
    return _lower(lowering, operator, left, right)


@lowers(AddMM, BaddBMM)
def lower_added_product(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """beta * input + alpha * (a @ b)"""
    layer = _base(operator)
    names = ("mat1", "mat2") if isinstance(layer, AddMM) else ("batch1", "batch2")
    left, right = (lowering.argument(operator, name) for name in names)
    added = lowering.argument(operator, "input")
    product = "@0" if layer.alpha == 1 else f"mul(@0,{Literal(float(layer.alpha))})"
    if layer.beta == 0:
        return _lower(lowering, operator, left, right, text=product)
    scaled = "@1" if layer.beta == 1 else f"mul(@1,{Literal(float(layer.beta))})"
    return _lower(lowering, operator, left, right, added=added, text=f"add({product},{scaled})")


def _lower(
    lowering: Lowering,
    operator: RuntimeOperator,
    left: Any,
    right: Any,
    *,
    is_weight: bool = False,
    added: Any = None,
    text: str = "add(@0,@1)",
) -> bool:
    """`text` of the product and of `added`, where there is one; a weight is transposed, unless it is a vector."""
    if not all(isinstance(value, (RuntimeOperand, np.ndarray, NoneType)) for value in (left, right, added)):
        return False
    output = operator.output_operands[0]
    result = lowering.spec(output).shape
    left_shape, right_shape = _shape_of(lowering, left), _shape_of(lowering, right)
    depth, row_there, column_there = left_shape[-1], len(left_shape) > 1, len(right_shape) > 1
    if 0 in result or depth == 0:
        return False

    # the result's dimensions, with those put back that a vector takes away
    stack = result[: len(result) - row_there - column_there]
    rows = left_shape[-2] if row_there else 1
    columns = (right_shape[-2] if is_weight else right_shape[-1]) if column_there else 1
    shape = (*stack, rows, columns)

    def completed(strides: tuple[int, ...]) -> tuple[int, ...]:
        row = strides[len(stack) : len(stack) + row_there]
        column = strides[len(stack) + row_there :]
        return (*strides[: len(stack)], *(row or (0,)), *(column or (0,)))

    bias, formula = None, _NOTHING
    if isinstance(added, np.ndarray) and text == "add(@0,@1)" and added.shape == (columns,) and column_there:
        bias, formula = as_float32(added), _NOTHING
    elif added is not None:
        formula = Formula(text, (term(lowering, added, result),))
    elif text not in ("add(@0,@1)", "@0"):
        formula = Formula(text)
    fused = fused_formula(lowering, operator, formula)
    if fused is None:
        return False
    formula = Formula(fused.text, tuple(Term(term.ref, completed(term.strides)) for term in fused.terms))

    matrix: Factor | Array
    if isinstance(right, np.ndarray) and math.prod(right_shape[:-2]) == 1:
        matrix = as_float32(right).reshape((-1, 1) if not column_there else right_shape[-2:])
        matrix = matrix.T if is_weight and column_there else matrix
    else:
        matrix = _factor(lowering, right, stack)
        matrix = matrix.transposed() if is_weight or not column_there else matrix
    factor = _factor(lowering, left, stack)
    place = Factor(lowering.new_rows(output), row_major(shape))
    add_product(lowering, shape, depth, factor, matrix, place, bias, formula)
    return True


def _factor(lowering: Lowering, value: RuntimeOperand | Array, stack: Sequence[int]) -> Factor:
    """An operand of a product; a vector is a row."""
    place, own = _place(lowering, value)
    if len(own) == 1:
        return Factor(place.ref, (*(0,) * len(stack), 0, place.strides[0]))
    return Factor(place.ref, (*broadcast_strides(own[:-2], place.strides[:-2], len(stack)), *place.strides[-2:]))
