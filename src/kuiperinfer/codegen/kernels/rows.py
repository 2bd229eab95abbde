"""Loops along a row of floats: whole vectors, several accumulators at a time, and a part of a vector at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from llvmlite import ir

from ..builder import I32, Code, Index, Vector

Combine: TypeAlias = Callable[[Vector, Vector], Vector]
# step(index, count, accumulator): the accumulator after the vector at `index`, of which `count` lanes exist (None: all)
Step: TypeAlias = "Callable[[Index, int | None, Vector], Vector]"

_CHUNK = (
    256  # vectors that one accumulator takes before it is added to the others' totals: sums of long rows stay exact
)


def load_part(code: Code, pointer: Any, count: int | None, fill: float = 0.0) -> Vector:
    """A vector of which only `count` lanes exist, the others `fill`."""
    return code.load(pointer) if count is None else code.load_first(pointer, count, fill)


def store_part(code: Code, value: Vector, pointer: Any, count: int | None) -> None:
    """Stores the lanes that exist."""
    if count is None:
        code.store(value, pointer)
    else:
        code.store_first(value, pointer, count)


def keep_part(code: Code, value: Vector, count: int | None, fill: float = 0.0) -> Vector:
    """The value with `fill` in the lanes that do not exist."""
    return value if count is None else code.builder.select(code.mask(count), value, code.splat(fill))


def each_vector(code: Code, length: int, body: Callable[[Index, int | None], None], unroll: int = 2) -> None:
    """`body(index, count)` for all vectors of a row."""
    lanes = code.target.lanes
    whole = length // lanes * lanes
    turn = whole // (unroll * lanes) * unroll * lanes

    def several(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
        for i in range(unroll):
            body(code.add(index, i * lanes), None)
        return ()

    code.loop(0, turn, unroll * lanes, several)
    for index in range(turn, whole, lanes):
        body(index, None)
    if whole < length:
        body(whole, length - whole)


def fold_range(
    code: Code, count: int, step: Callable[[Index, Vector], Vector], neutral: float, combine: Combine, unroll: int = 4
) -> Vector:
    """`step(index, accumulator)` for indices below `count`, from `neutral` on; `combine` joins several accumulators."""
    unroll = max(1, min(unroll, count))
    start = [code.splat(neutral)] * unroll

    def several(index: Index, sums: Sequence[Vector]) -> Sequence[Vector]:
        return [step(code.add(index, i), value) for i, value in enumerate(sums)]

    span = _CHUNK * unroll

    def chunk(index: Index, sums: Sequence[Vector]) -> Sequence[Vector]:
        found = code.loop(index, code.add(index, span), unroll, several, start, at_least_once=True)
        return [combine(a, b) for a, b in zip(sums, found, strict=True)]

    chunked, whole = count // span * span, count // unroll * unroll
    sums = list(code.loop(0, chunked, span, chunk, start))
    if chunked < whole:
        rest = code.loop(chunked, whole, unroll, several, start)
        sums = list(rest) if chunked == 0 else [combine(a, b) for a, b in zip(sums, rest, strict=True)]
    for i, index in enumerate(range(whole, count)):
        sums[i] = step(index, sums[i])
    while len(sums) > 1:
        half = (len(sums) + 1) // 2
        pairs = zip(sums[:half], sums[half:], strict=False)
        sums = [combine(a, b) for a, b in pairs] + sums[len(sums) - half : half]
    return sums[0]


def fold_row(code: Code, length: int, step: Step, neutral: float, combine: Combine, unroll: int = 4) -> Vector:
    """The same for the vectors of a row of floats."""
    lanes = code.target.lanes
    vectors, rest = divmod(length, lanes)

    def whole(index: Index, value: Vector) -> Vector:
        return step(code.mul(index, lanes), None, value)

    folded = fold_range(code, vectors, whole, neutral, combine, unroll)
    return step(vectors * lanes, rest, folded) if rest else folded


def fold_lanes(code: Code, value: Vector, combine: Combine, width: int | None = None) -> Vector:
    """All lanes, or each `width` neighbours (a power of two), folded into one value, which each of them has in the result."""
    lanes = code.target.lanes
    distance = (width or lanes) // 2
    while distance:
        order = [ir.Constant(I32, lane ^ distance) for lane in range(lanes)]
        mask = ir.Constant(ir.VectorType(I32, lanes), order)
        value = combine(value, code.builder.shuffle_vector(value, value, mask))
        distance //= 2
    return value
