"""One fused loop for an element-wise expression of any number of operands, each with strides of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from ...dtypes import DType, bool_, f32, i8, i16, i32, i64, u8
from ...records import dataclass
from ..builder import F32, I8, I16, I32, I64, Code, Index, Vector
from ..expressions import count_calls, emit_expression, vectors_a_turn
from ..spec import KernelSpec

# The element types that can be read; integers and bools become float32.
ELEMENTS: dict[DType, ir.Type] = {f32: F32, bool_: I8, u8: I8, i8: I8, i16: I16, i32: I32, i64: I64}
_TASK_ELEMENTS = 1 << 14  # at least, where there are as many


@dataclass(frozen=True)
class MapOperand:
    """Where an operand of a map lies: strides in elements, one a dimension, 0 where it is broadcast."""

    strides: tuple[int, ...]
    dtype: DType = f32
    origin: int = 0


@dataclass(frozen=True)
class MapSpec(KernelSpec):
    """`text`, an expression of `@0`…, at every place of `shape`. Arguments: the operands, then the output.

    The output is f32 or bool; its strides are not 0. It may be the same memory as an operand with the same strides. Made by
    `plan_map`. A task is a run of the outermost dimension whose elements are few enough, or of the last one.
    """

    text: str
    shape: tuple[int, ...]
    operands: tuple[MapOperand, ...]
    output: MapOperand

    @property
    def split(self) -> int:
        """The dimension along which tasks divide the work; each of the dimensions before it is divided wholly."""
        return next(
            (dim for dim in range(len(self.shape) - 1) if math.prod(self.shape[dim + 1 :]) <= _TASK_ELEMENTS),
            len(self.shape) - 1,
        )

    @property
    def run(self) -> int:
        """Length of a task along that dimension."""
        return -(-_TASK_ELEMENTS // max(1, math.prod(self.shape[self.split + 1 :])))

    @property
    def tasks(self) -> int:
        return math.prod(self.shape[: self.split]) * -(-self.shape[self.split] // self.run)

    @property
    def flops(self) -> int:
        return count_calls(self.text) * math.prod(self.shape)

    @property
    def traffic(self) -> int:
        return sum(
            operand.dtype.itemsize * math.prod(d for d, s in zip(self.shape, operand.strides, strict=True) if s)
            for operand in (*self.operands, self.output)
        )

    # ---------------------------------------------------------------------------------------- loops

    def emit(self, code: Code) -> None:
        if 0 in self.shape:
            return
        places = [
            code.at(pointer, operand.origin, ELEMENTS[operand.dtype])
            for pointer, operand in zip(
                code.pointers(len(self.operands) + 1), (*self.operands, self.output), strict=True
            )
        ]
        rest, chunk = code.divmod(code.task, -(-self.shape[self.split] // self.run))
        for dim in range(self.split - 1, -1, -1):
            rest, index = code.divmod(rest, self.shape[dim])
            places = self._moved(code, places, dim, index)
        first = code.mul(chunk, self.run)
        self._emit_dimension(code, places, self.split, first)

    def _moved(self, code: Code, places: Sequence[Any], dim: int, index: Index) -> list[Any]:
        """The operands' pointers at an index of a dimension."""
        operands = (*self.operands, self.output)
        return [
            code.at(place, code.mul(index, operand.strides[dim]), ELEMENTS[operand.dtype])
            for place, operand in zip(places, operands, strict=True)
        ]

    def _emit_dimension(self, code: Code, places: Sequence[Any], dim: int, first: Index) -> None:
        """A dimension from `first` on: a run of it for the one that tasks divide, the whole of others."""
        last = code.min(code.add(first, self.run), self.shape[dim]) if dim == self.split else self.shape[dim]
        if dim == len(self.shape) - 1:
            self._emit_row(code, places, first, last)
            return

        def body(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            self._emit_dimension(code, self._moved(code, places, dim, index), dim + 1, 0)
            return ()

        code.loop(first, last, 1, body, at_least_once=True)

    def _emit_row(self, code: Code, places: Sequence[Any], first: Index, last: Index) -> None:
        """The last dimension: whole turns of a few vectors, and at its end single vectors and a part of one."""
        lanes, length = code.target.lanes, self.shape[-1]
        turn = lanes * vectors_a_turn(self.text)
        fixed = {
            number: code.broadcast(_load_number(code, place, operand.dtype))
            for number, (operand, place) in enumerate(zip(self.operands, places, strict=False))
            if operand.strides[-1] == 0
        }

        def vectors(index: Index, count: int) -> None:
            """The `count` elements from `index` on."""
            moved = self._moved(code, places, len(self.shape) - 1, index)
            results = []
            for start in range(0, count, lanes):
                here = self._moved(code, moved, len(self.shape) - 1, start)
                results.append(self._emit_vector(code, here, min(lanes, count - start), fixed))
            for start, result in zip(range(0, count, lanes), results, strict=True):
                place = code.at(moved[-1], start * self.output.strides[-1], ELEMENTS[self.output.dtype])
                _store(code, result, place, self.output, min(lanes, count - start))

        def whole_turn(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            vectors(index, turn)
            return ()

        whole = length // turn * turn
        code.loop(first, code.min(last, whole), turn, whole_turn)
        if whole == length:
            return
        if isinstance(last, int):
            vectors(whole, length - whole)
            return
        with code.when(code.less(length - 1, last)):
            vectors(whole, length - whole)

    def _emit_vector(self, code: Code, places: Sequence[Any], count: int, fixed: dict[int, Vector]) -> Vector:
        def operand(number: int) -> Vector:
            if number in fixed:
                return fixed[number]
            return _load(code, places[number], self.operands[number], count)

        return emit_expression(code, self.text, operand)


# ------------------------------------------------------------------------------------------- elements


def to_float(code: Code, value: Any, dtype: DType) -> Any:
    """Integers or bools, one or a vector, as float32."""
    if dtype is f32:
        return value
    kind = ir.VectorType(F32, value.type.count) if isinstance(value.type, ir.VectorType) else F32
    convert = code.builder.uitofp if dtype in (bool_, u8) else code.builder.sitofp
    return convert(value, kind)


def _load_number(code: Code, place: Any, dtype: DType) -> Any:
    return to_float(code, code.builder.load(place, typ=ELEMENTS[dtype], align=dtype.itemsize), dtype)


def _load(code: Code, place: Any, operand: MapOperand, count: int) -> Vector:
    """`count` elements along the last dimension as a vector of float32; memory beyond is not touched."""
    element, stride, lanes = ELEMENTS[operand.dtype], operand.strides[-1], code.target.lanes
    if stride == 1 and count == lanes:
        kind = ir.VectorType(element, lanes)
        return to_float(code, code.builder.load(place, typ=kind, align=operand.dtype.itemsize), operand.dtype)
    if stride == 1:
        return to_float(code, code.load_first(place, count, element=element), operand.dtype)
    vector = code.splat(0.0)
    for lane in range(count):
        number = _load_number(code, code.at(place, lane * stride, element), operand.dtype)
        vector = code.builder.insert_element(vector, number, ir.Constant(I32, lane))
    return vector


def _store(code: Code, value: Vector, place: Any, output: MapOperand, count: int) -> None:
    """The first `count` lanes of a vector of float32, as elements of the output's type."""
    if output.dtype is not f32:
        assert output.dtype is bool_
        truth = code.builder.fcmp_unordered("!=", value, code.splat(0.0))
        value = code.builder.zext(truth, ir.VectorType(I8, code.target.lanes))
    if output.strides[-1] == 1 and count == code.target.lanes:
        code.store(value, place, align=output.dtype.itemsize)
    elif output.strides[-1] == 1:
        code.store_first(value, place, count)
    else:
        for lane in range(count):
            number = code.builder.extract_element(value, ir.Constant(I32, lane))
            there = code.at(place, lane * output.strides[-1], ELEMENTS[output.dtype])
            code.store(number, there, align=output.dtype.itemsize)


# ------------------------------------------------------------------------------------------- plans


def coalesce(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Shape and operands' strides with as few dimensions as they need, at least one, ordered by the last operand's strides.

    Dimensions of size 1 fall away, and neighbours that all operands walk through without a gap become one.
    """
    kept = [dim for dim, size in enumerate(shape) if size != 1]
    kept.sort(key=lambda dim: -abs(strides[-1][dim]))
    merged: list[tuple[int, list[int]]] = []
    for dim in kept:
        size, steps = shape[dim], [stride[dim] for stride in strides]
        if merged and merged[-1][1] == [step * size for step in steps]:
            merged[-1] = (merged[-1][0] * size, steps)
        else:
            merged.append((size, steps))
    if not merged:
        merged.append((1, [1 for _ in strides]))
    return tuple(size for size, _ in merged), [tuple(steps[i] for _, steps in merged) for i in range(len(strides))]


def row_major(shape: Sequence[int], within: Sequence[int] | None = None, dtype: DType = f32) -> MapOperand:
    """A dense operand of a shape, broadcast to the shape `within` where that is given."""
    within = shape if within is None else within
    strides = [0] * len(within)
    step = 1
    for dim in range(1, len(shape) + 1):
        if shape[-dim] != 1:
            strides[-dim] = step
        step *= shape[-dim]
    return MapOperand(tuple(strides), dtype)


def plan_map(text: str, shape: Sequence[int], operands: Sequence[MapOperand], output: MapOperand) -> MapSpec:
    """The spec of a map; strides are those of `shape`."""
    everything = (*operands, output)
    merged, strides = coalesce(shape, [operand.strides for operand in everything])
    placed = [
        MapOperand(steps, operand.dtype, operand.origin) for steps, operand in zip(strides, everything, strict=True)
    ]
    return MapSpec(text, merged, tuple(placed[:-1]), placed[-1])
