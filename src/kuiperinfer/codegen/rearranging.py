"""How repeating, reversing and rolling are lowered: as copies, or as views."""

from __future__ import annotations

import numpy as np

from ..graph import RuntimeOperator
from ..layers.base import DataDependent, known_int, known_ints, normalize_dim
from ..layers.rearranging import Flip, Repeat, RepeatInterleave, Roll, Tile
from .copying import Run, copy_runs, runs_of
from .homes import Strided, row_major
from .kernels.strided_copy import plan_copy
from .lowering import Lowering, lowers
from .views import alias_views, data_operand, known_argument


@lowers(Flip, layout=lambda lowering, operator: False, any_dtype=True)
def lower_flip(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """A view with negative strides."""
    return alias_views(lowering, operator)


@lowers(Repeat, Tile, layout=lambda lowering, operator: False, any_dtype=True)
def lower_repeat(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Each dimension counts the repetitions, then the elements."""
    name = "sizes" if isinstance(operator.layer, Repeat) else "dims"
    try:
        repeats = known_ints(known_argument(lowering, operator, name), name)
    except DataDependent:
        return False
    shape = lowering.spec(data_operand(operator)).shape
    rank = max(len(shape), len(repeats))
    shape = (1,) * (rank - len(shape)) + shape
    repeats = (1,) * (rank - len(repeats)) + repeats
    _copy_repeated(lowering, operator, [(count, size) for count, size in zip(repeats, shape, strict=True)], [1] * rank)
    return True


@lowers(RepeatInterleave, layout=lambda lowering, operator: False, any_dtype=True)
def lower_repeat_interleave(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """A dimension counts the elements, then the repetitions; where there is one number of these."""
    layer, source = operator.layer, data_operand(operator)
    assert isinstance(layer, RepeatInterleave)
    try:
        given = known_argument(lowering, operator, "repeats")
        if getattr(given, "size", 1) != 1:
            return False
        count = known_int(given, "repeats")
    except DataDependent:
        return False
    shape = lowering.spec(source).shape
    flat = layer.dim is None
    axis = 0 if layer.dim is None else normalize_dim(layer.dim, len(shape))
    sizes = (lowering.spec(source).size,) if flat else shape
    factors = [(size, count) if dim == axis else (1, size) for dim, size in enumerate(sizes)]
    _copy_repeated(lowering, operator, factors, [int(dim != axis) for dim in range(len(sizes))], flat=flat)
    return True


def _copy_repeated(
    lowering: Lowering, operator: RuntimeOperator, factors: list[tuple[int, int]], moving: list[int], flat: bool = False
) -> None:
    """Copies dimensions that are products of two: `moving` says which of the two factors are the input's elements, the other
    one repeats them."""
    source, output = data_operand(operator), operator.output_operands[0]
    spec, place = lowering.spec(output), lowering.new_rows(output)
    if not spec.size:
        return
    if flat:
        start = Strided(lowering.rows(source), (1,))
    else:
        start = lowering.strided(source)
    strides = (0,) * (len(factors) - len(start.strides)) + start.strides
    sizes, steps, target = [], [], []
    shape = [outer * inner for outer, inner in factors]
    for (outer, inner), which, step, to in zip(factors, moving, strides, row_major(shape), strict=True):
        sizes += [outer, inner]
        steps += [step if which == 0 else 0, step if which == 1 else 0]
        target += [to * inner, to]
    lowering.add(plan_copy(sizes, steps, target, spec.dtype.itemsize, lowering.target.lanes), start.ref, place)


@lowers(Roll, layout=lambda lowering, operator: False, any_dtype=True)
def lower_roll(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Two pieces for each dimension that is rolled."""
    source, output = data_operand(operator), operator.output_operands[0]
    spec = lowering.spec(output)
    try:
        shifts = known_ints(known_argument(lowering, operator, "shifts"), "shifts")
        given = known_argument(lowering, operator, "dims")
        dims = known_ints(given, "dims") if given is not None else ()
    except DataDependent:
        return False
    place = lowering.new_rows(output)
    if not spec.size:
        return True
    shape: tuple[int, ...] = spec.shape if dims else (spec.size,)
    start = lowering.strided(source) if dims else Strided(lowering.rows(source), (1,))
    offsets = [0] * len(shape)
    for shift, dim in zip(shifts, dims or (0,), strict=True):
        offsets[normalize_dim(dim, len(shape))] += shift
    runs: list[list[Run]] = [
        runs_of((np.arange(size) - offset) % size) for size, offset in zip(shape, offsets, strict=True)
    ]
    copy_runs(lowering, start, Strided(place, row_major(shape)), runs, spec.dtype.itemsize)
    return True
