"""Fused loops whose sizes and strides are arguments: one kernel for operands of all shapes, as eager tensors need it.

The table of arguments holds words of 64 bits, in this order:

    an address for each operand and then each result; a number stands there itself, as float32
    elements of the innermost dimension; how many of them a task takes; how many tasks share the dimension
    rows, the places of all other dimensions together; how many of them a task takes
    sizes of the other dimensions but the outermost
    strides in bytes, operand by operand and then the results: of the other dimensions, and of the innermost where it is any
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llvmlite import ir

from ...dtypes import DType, bool_, f32
from ...records import dataclass
from ..builder import I8, I32, I64, PTR, Code, Index, Vector
from ..expressions import call_expression, emit_expression, vectors_a_turn
from ..spec import KernelSpec
from .map import ELEMENTS, to_float

BROADCAST, DENSE, ANY, NUMBER = "broadcast", "dense", "any", "number"


@dataclass(frozen=True)
class MapPart:
    """An operand or a result: its dtype, and how it goes through the innermost dimension, or that it is a number."""

    dtype: DType = f32
    step: str = DENSE


@dataclass(frozen=True)
class AnyShapeMapSpec(KernelSpec):
    """`texts`, expressions of the operands `@0`…, each with a result of its own, f32 or bool; see the module's docstring.

    `outer` counts the dimensions besides the innermost. Results may be the memory of operands with the same strides.
    `streams`: results, which begin at a whole vector of memory, go past the caches, for more elements than these hold.
    """

    texts: tuple[str, ...]
    operands: tuple[MapPart, ...]
    results: tuple[MapPart, ...]
    outer: int
    streams: bool = False

    @property
    def tasks(self) -> int:
        """One; how many there are of a shape is said by the arguments."""
        return 1

    @property
    def parts(self) -> tuple[MapPart, ...]:
        """Operands and results."""
        return (*self.operands, *self.results)

    def emit(self, code: Code) -> None:
        words = _words(code)
        parts = self.parts
        places = [
            code.at(code.arguments, number, I64) if part.step == NUMBER else code.builder.inttoptr(next(words), PTR)
            for number, part in enumerate(parts)
            if part.step != NUMBER or next(words)
        ]
        elements, run, shares, rows, height = (next(words) for _ in range(5))
        sizes = [next(words) for _ in range(self.outer - 1)]
        strides = [self._strides(part, words) for part in parts]
        share = code.builder.urem(code.task, shares)
        first = code.mul(share, run)
        last = code.min(code.add(first, run), elements)
        top = code.mul(code.builder.udiv(code.task, shares), height)

        def row(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            at_row = places
            for dim in range(self.outer - 1, -1, -1):
                position = code.index(index)
                if dim:
                    size = sizes[dim - 1]
                    index, position = code.builder.udiv(position, size), code.builder.urem(position, size)
                at_row = [
                    code.at(place, code.mul(position, steps[dim]), I8) if steps else place
                    for place, steps in zip(at_row, strides, strict=True)
                ]
            self._emit_row(code, at_row, [steps[-1] if steps else 0 for steps in strides], first, last)
            return ()

        if self.outer:
            code.loop(top, code.min(code.add(top, height), rows), 1, row)
        else:
            row(0, ())

    def _strides(self, part: MapPart, words: Iterator[ir.Value]) -> list[Index]:
        """A part's strides in bytes, innermost last; nothing for a number."""
        if part.step == NUMBER:
            return []
        known = {BROADCAST: 0, DENSE: part.dtype.itemsize}
        outer: list[Index] = [next(words) for _ in range(self.outer)]
        return [*outer, known[part.step] if part.step in known else next(words)]

    def _emit_row(self, code: Code, row: Sequence[Any], steps: Sequence[Index], first: Index, last: Index) -> None:
        """Whole turns of a few vectors, and behind them vectors that may be parts of one."""
        lanes = code.target.lanes
        turn = lanes * min(vectors_a_turn(text) for text in self.texts)
        fixed = {
            number: code.broadcast(to_float(code, _load_one(code, row[number], part.dtype), part.dtype))
            for number, part in enumerate(self.operands)
            if part.step in (BROADCAST, NUMBER)
        }

        def vectors(index: Index, count: Index, starts: Sequence[int]) -> None:
            here = [code.at(place, code.mul(index, step), I8) for place, step in zip(row, steps, strict=True)]
            values = []
            for start in starts:
                at = [code.at(place, code.mul(start, step), I8) for place, step in zip(here, steps, strict=True)]
                values.append(self._values(code, at, steps, count, fixed))
            for start, results in zip(starts, values, strict=True):
                for number, value in enumerate(results, start=len(self.operands)):
                    place = code.at(here[number], code.mul(start, steps[number]), I8)
                    _store(code, value, place, self.parts[number], steps[number], count, self.streams)

        def whole_turn(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            vectors(index, lanes, range(0, turn, lanes))
            return ()

        def part(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            vectors(index, code.min(lanes, code.sub(last, index)), [0])
            return ()

        length = code.sub(last, first)
        whole = code.add(first, code.sub(length, code.mod(length, turn)))
        code.loop(first, whole, turn, whole_turn)
        code.loop(whole, last, lanes, part)

    def _values(
        self, code: Code, places: Sequence[Any], steps: Sequence[Index], count: Index, fixed: dict[int, Vector]
    ) -> list[Vector]:
        """The values of all expressions, each operand being read once."""
        read = dict(fixed)

        def operand(number: int) -> Vector:
            if number not in read:
                read[number] = _load(code, places[number], self.operands[number], steps[number], count)
            return read[number]

        emit = emit_expression if isinstance(count, int) else call_expression
        return [emit(code, text, operand) for text in self.texts]


def _words(code: Code) -> Iterator[ir.Value]:
    """The table's words, one after another."""
    number = 0
    while True:
        place = code.at(code.arguments, number, I64)
        yield code.builder.load(place, typ=I64, align=8)
        number += 1


# ------------------------------------------------------------------------------------------- elements


def _load_one(code: Code, place: Any, dtype: DType) -> Any:
    return code.builder.load(place, typ=ELEMENTS[dtype], align=dtype.itemsize)


def _load(code: Code, place: Any, part: MapPart, step: Index, count: Index) -> Vector:
    """`count` elements as a vector of float32; memory beyond is not touched."""
    element, lanes = ELEMENTS[part.dtype], code.target.lanes
    kind = ir.VectorType(element, lanes)
    if part.step == DENSE and isinstance(count, int):
        return to_float(code, code.builder.load(place, typ=kind, align=part.dtype.itemsize), part.dtype)
    if part.step == DENSE:
        return to_float(code, code.load_first(place, count, element=element), part.dtype)
    vector = ir.Constant(kind, ir.Undefined)
    furthest = code.sub(count, 1)
    for lane in range(lanes):
        there = code.at(place, code.mul(code.min(lane, furthest), step), I8)
        number = _load_one(code, there, part.dtype)
        vector = code.builder.insert_element(vector, number, ir.Constant(I32, lane))
    return to_float(code, vector, part.dtype)


def _store(code: Code, value: Vector, place: Any, part: MapPart, step: Index, count: Index, streams: bool) -> None:
    """The first `count` lanes of a vector of float32, as elements of the result's type."""
    if part.dtype is bool_:
        truth = code.builder.fcmp_unordered("!=", value, code.splat(0.0))
        value = code.builder.zext(truth, ir.VectorType(I8, code.target.lanes))
    if part.step == DENSE:
        if isinstance(count, int) and streams:
            code.stream(value, place)
        elif isinstance(count, int):
            code.store(value, place, align=part.dtype.itemsize)
        else:
            code.store_first(value, place, count)
        return
    for lane in range(code.target.lanes):
        number = code.builder.extract_element(value, ir.Constant(I32, lane))
        there = code.at(place, code.mul(lane, step), I8)
        if isinstance(count, int):
            code.store(number, there, align=part.dtype.itemsize)
            continue
        with code.when(code.less(lane, count)):
            code.store(number, there, align=part.dtype.itemsize)
