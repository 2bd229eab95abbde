"""Reductions: over any dimensions of strided memory, over the pixels of blocked images, and the places of extremes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ...records import dataclass
from ..builder import I32, I64, Code, Index, Vector
from ..layout import ImageLayout
from ..spec import KernelSpec
from ..vector_math import Lanes, emit_function
from .rows import Combine, fold_lanes, fold_range, fold_row, load_part, store_part
from .softmax import exponential

_TASK_ELEMENTS = 1 << 14


@dataclass(frozen=True)
class Kind:
    """What a reduction starts from, does with each element, joins partial results with, and does at the end.

    `finish` gets the result, a divisor, and the centre: with `centred`, elements are differences from a number that each result
    has of its own. Joins and steps keep NaN, as PyTorch does.
    """

    neutral: float
    step: Callable[[Code, Vector, Vector], Vector]
    combine: Callable[[Code], Combine]
    finish: Callable[[Code, Vector, float, Vector | None], Vector] = lambda code, result, divisor, centre: result
    centred: bool = False


def _add(code: Code, value: Vector, total: Vector) -> Vector:
    return code.builder.fadd(total, value)


def _add_square(code: Code, value: Vector, total: Vector) -> Vector:
    return code.fma(value, value, total)


def _adding(code: Code) -> Combine:
    return code.builder.fadd


def _divide(code: Code, total: Vector, divisor: float, centre: Vector | None = None) -> Vector:
    return code.builder.fdiv(total, code.splat(divisor))


def _root(code: Code, value: Vector) -> Vector:
    return Lanes(code, value).sqrt().value


KINDS: dict[str, Kind] = {
    "sum": Kind(0.0, _add, _adding),
    "mean": Kind(0.0, _add, _adding, _divide),
    "prod": Kind(1.0, lambda code, x, total: code.builder.fmul(total, x), lambda code: code.builder.fmul),
    "max": Kind(-math.inf, lambda code, x, largest: code.maximum(x, largest), lambda code: code.maximum),
    "min": Kind(math.inf, lambda code, x, least: code.minimum(x, least), lambda code: code.minimum),
    "norm1": Kind(0.0, lambda code, x, total: code.builder.fadd(total, abs(Lanes(code, x)).value), _adding),
    "norm2": Kind(0.0, _add_square, _adding, lambda code, x, divisor, centre: _root(code, x)),
    "variance": Kind(0.0, _add_square, _adding, _divide, centred=True),
    "deviation": Kind(
        0.0,
        _add_square,
        _adding,
        lambda code, x, divisor, centre: _root(code, _divide(code, x, divisor)),
        centred=True,
    ),
    "logsumexp": Kind(
        0.0,
        lambda code, x, total: code.builder.fadd(total, exponential(code, x)),
        _adding,
        lambda code, x, divisor, centre: code.builder.fadd(emit_function(code, "log", x), centre),
        centred=True,
    ),
}


@dataclass(frozen=True)
class ReduceSpec(KernelSpec):
    """A number for each place of the kept dimensions, made of all elements along the reduced ones.

    Arguments: input, the centres of the results where the kind has such, output. `kept` and `reduced` are (size, stride in
    floats). The output is dense, in the order of `kept`. The last of one of the two has stride 1: a vector has neighbours along
    that, and is folded into one number where it is reduced. Means and their like divide by `divisor`, or by the number of
    elements. A task is a run of outputs.
    """

    kind: str
    kept: tuple[tuple[int, int], ...]
    reduced: tuple[tuple[int, int], ...]
    lanes: int
    divisor: float | None = None

    @property
    def count(self) -> int:
        """Elements of one result."""
        return math.prod(size for size, _ in self.reduced)

    @property
    def outputs(self) -> int:
        """Number of results."""
        return math.prod(size for size, _ in self.kept)

    @property
    def across(self) -> int:
        """Size of the kept dimension whose neighbours fill vectors; 0 where a reduced one does."""
        return self.kept[-1][0] if self.kept and self.kept[-1][1] == 1 and self.kept[-1][0] > 1 else 0

    @property
    def vectors(self) -> int:
        """Vectors of results along the last kept dimension; results, where a vector is folded into one."""
        return -(-self.across // self.lanes) if self.across else 1

    @property
    def units(self) -> int:
        """Vectors of results, or results, in all."""
        return self.outputs // max(1, self.across) * self.vectors

    @property
    def task_units(self) -> int:
        """Those of a task."""
        return max(1, min(self.units, _TASK_ELEMENTS // (self.count * (self.lanes if self.across else 1))))

    @property
    def tasks(self) -> int:
        return -(-self.units // self.task_units)

    @property
    def flops(self) -> int:
        return self.count * self.outputs

    @property
    def traffic(self) -> int:
        return 4 * (self.count + 1) * self.outputs

    def emit(self, code: Code) -> None:
        source, *rest = code.pointers(2 + KINDS[self.kind].centred)
        first = code.mul(code.task, self.task_units)
        last = code.min(code.add(first, self.task_units), self.units)
        outer = self.kept[:-1] if self.across else self.kept

        def unit(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            index, vector = code.divmod(number, self.vectors)
            place = source
            *centre, out = (code.at(pointer, code.mul(index, self.across or 1)) for pointer in rest)
            for size, stride in reversed(outer):
                index, there = code.divmod(index, size)
                place = code.at(place, code.mul(there, stride))
            if self.across:
                column = code.mul(vector, self.lanes)
                place, out, *centre = (code.at(pointer, column) for pointer in (place, out, *centre))
                self._emit_across(code, place, centre, out, column)
            else:
                middle = self._centre(code, code.load_splat(centre[0])) if centre else None
                result = self._finish(code, self._along(code, place, middle), middle)
                code.store(code.builder.extract_element(result, ir.Constant(I32, 0)), out)
            return ()

        code.loop(first, last, 1, unit, at_least_once=True)

    def _centre(self, code: Code, value: Vector) -> Vector:
        """The centre itself, or 0 for an infinite one, from which differences would be none."""
        infinite = code.builder.fcmp_ordered("==", abs(Lanes(code, value)).value, code.splat(math.inf))
        return code.builder.select(infinite, code.splat(0.0), value) if self.kind == "logsumexp" else value

    def _finish(self, code: Code, result: Vector, centre: Vector | None) -> Vector:
        divisor = float(self.count) if self.divisor is None else self.divisor
        return KINDS[self.kind].finish(code, result, divisor, centre)

    def _step(self, code: Code, place: Any, count: int | None, total: Vector, centre: Vector | None) -> Vector:
        """The accumulator after a vector of elements; lanes that do not exist keep what they had."""
        kind = KINDS[self.kind]
        value = load_part(code, place, count, kind.neutral)
        if centre is None:
            return kind.step(code, value, total)
        result = kind.step(code, code.builder.fsub(value, centre), total)
        return result if count is None else code.builder.select(code.mask(count), result, total)

    def _along(self, code: Code, place: Any, centre: Vector | None) -> Vector:
        """All reduced elements, in every lane."""
        kind = KINDS[self.kind]
        combine = kind.combine(code)

        def row(pointer: Any) -> Vector:
            def step(index: Index, count: int | None, total: Vector) -> Vector:
                return self._step(code, code.at(pointer, index), count, total, centre)

            return fold_row(code, self.reduced[-1][0], step, kind.neutral, combine)

        return fold_lanes(code, self._outer(code, place, self.reduced[:-1], row), combine)

    def _emit_across(self, code: Code, place: Any, centre: Sequence[Any], out: Any, column: Index) -> None:
        """A vector of results, of which the last of a row is a part."""
        kind = KINDS[self.kind]

        def emit(count: int | None) -> None:
            middle = self._centre(code, load_part(code, centre[0], count)) if centre else None

            def line(pointer: Any) -> Vector:
                size, stride = self.reduced[-1]

                def step(index: Index, total: Vector) -> Vector:
                    return self._step(code, code.at(pointer, code.mul(index, stride)), count, total, middle)

                return fold_range(code, size, step, kind.neutral, kind.combine(code))

            result = self._outer(code, place, self.reduced[:-1], line)
            store_part(code, self._finish(code, result, middle), out, count)

        whole, rest = divmod(self.across, self.lanes)
        if rest == 0:
            emit(None)
        elif whole == 0:
            emit(rest)
        else:
            with code.when(code.less(column, whole * self.lanes)):
                emit(None)
            with code.when(code.less(whole * self.lanes - 1, column)):
                emit(rest)

    def _outer(self, code: Code, place: Any, dims: Sequence[tuple[int, int]], inner: Callable[[Any], Vector]) -> Vector:
        """`inner` folded over further reduced dimensions."""
        if not dims:
            return inner(place)
        kind = KINDS[self.kind]
        (size, stride), *rest = dims

        def body(index: Index, total: Sequence[Vector]) -> Sequence[Vector]:
            found = self._outer(code, code.at(place, code.mul(index, stride)), rest, inner)
            return [kind.combine(code)(found, total[0])]

        return code.loop(0, size, 1, body, [code.splat(kind.neutral)])[0]


@dataclass(frozen=True)
class ImageReduceSpec(KernelSpec):
    """A number for each channel, made of all its pixels. Arguments: input, output, an image of one pixel, blocked or planar.

    A task is one block.
    """

    kind: str
    input: ImageLayout
    output: ImageLayout

    @property
    def tasks(self) -> int:
        return self.input.batch * self.input.blocks

    @property
    def flops(self) -> int:
        return math.prod(self.input.shape)

    @property
    def traffic(self) -> int:
        return 4 * math.prod(self.input.shape)

    def emit(self, code: Code) -> None:
        source, out = code.pointers(2)
        kind, layout = KINDS[self.kind], self.input
        image, block = code.divmod(code.task, layout.blocks)
        place = code.add(code.mul(image, layout.image), code.mul(block, layout.block_stride))
        source = code.at(source, code.add(place, layout.origin))

        def row(y: Index, total: Sequence[Vector]) -> Sequence[Vector]:
            line = code.at(source, code.mul(y, layout.row))

            def pixel(x: Index, value: Vector) -> Vector:
                return kind.step(code, code.load(code.at(line, code.mul(x, layout.pixel))), value)

            found = fold_range(code, layout.width, pixel, kind.neutral, kind.combine(code))
            return [kind.combine(code)(found, total[0])]

        (total,) = code.loop(0, layout.height, 1, row, [code.splat(kind.neutral)])
        total = kind.finish(code, total, float(layout.height * layout.width), None)
        to = self.output
        there = code.mul(block, layout.block // to.block * to.block_stride)
        target = code.at(out, code.add(code.add(code.mul(image, to.image), there), to.origin))
        whole, rest = divmod(layout.channels, layout.block)
        if rest == 0 or to.block == layout.block:
            code.store(total, target)
            return
        with code.when(code.less(block, whole)):
            code.store(total, target)
        with code.when(code.less(whole - 1, block)):
            code.store_first(total, target, rest)


@dataclass(frozen=True)
class ExtremeIndexSpec(KernelSpec):
    """Where the largest (or smallest) element stands along the middle one of (outer, length, inner) dimensions.

    Arguments: input, output of i64. Of equal ones the first counts, and NaN before all others.
    """

    outer: int
    length: int
    inner: int
    largest: bool
    lanes: int

    @property
    def vectors(self) -> int:
        """Vectors of results for an outer index."""
        return 1 if self.inner == 1 else -(-self.inner // self.lanes)

    @property
    def task_units(self) -> int:
        """Results, or vectors of them, of a task."""
        size = self.length * (1 if self.inner == 1 else self.lanes)
        return max(1, min(self.outer * self.vectors, _TASK_ELEMENTS // size))

    @property
    def tasks(self) -> int:
        return -(-self.outer * self.vectors // self.task_units)

    @property
    def flops(self) -> int:
        return self.outer * self.length * self.inner

    @property
    def traffic(self) -> int:
        return 4 * self.outer * self.length * self.inner

    @property
    def _neutral(self) -> float:
        return -math.inf if self.largest else math.inf

    def emit(self, code: Code) -> None:
        source, out = code.pointers(2)
        first = code.mul(code.task, self.task_units)
        last = code.min(code.add(first, self.task_units), self.outer * self.vectors)

        def unit(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            index, vector = code.divmod(number, self.vectors)
            place = code.at(source, code.mul(index, self.length * self.inner))
            target = code.at(out, code.mul(index, self.inner), I64)
            if self.inner == 1:
                self._emit_row(code, place, target)
            else:
                self._emit_column(code, place, target, code.mul(vector, self.lanes))
            return ()

        code.loop(first, last, 1, unit, at_least_once=True)

    def _is_beyond(self, code: Code, a: Vector, b: Vector) -> Vector:
        """Whether a counts before b, wherever they stand."""
        beyond = code.builder.fcmp_ordered(">" if self.largest else "<", a, b)
        a_alone = code.builder.and_(code.builder.fcmp_unordered("uno", a, a), code.builder.fcmp_ordered("ord", b, b))
        return code.builder.or_(beyond, a_alone)

    def _step(self, code: Code, value: Vector, index: Vector, best: Sequence[Vector]) -> list[Vector]:
        """The better one of a new element and the best so far."""
        better = self._is_beyond(code, value, best[0])
        return [code.builder.select(better, value, best[0]), code.builder.select(better, index, best[1])]

    def _emit_row(self, code: Code, source: Any, target: Any) -> None:
        wide = ir.VectorType(I32, self.lanes)
        lanes = ir.Constant(wide, [ir.Constant(I32, lane) for lane in range(self.lanes)])
        whole = self.length // self.lanes * self.lanes

        def step(index: Index, count: int | None, best: Sequence[Vector]) -> list[Vector]:
            value = load_part(code, code.at(source, index), count, self._neutral)
            start = code.broadcast(code.builder.trunc(code.index(index), I32))
            return self._step(code, value, code.builder.add(start, lanes), best)

        best = code.loop(
            0, whole, self.lanes, lambda index, best: step(index, None, best), [code.splat(self._neutral), lanes]
        )
        if whole < self.length:
            best = step(whole, self.length - whole, best)
        value, place = best
        distance = self.lanes // 2
        while distance:
            order = ir.Constant(wide, [ir.Constant(I32, lane ^ distance) for lane in range(self.lanes)])
            other, there = (code.builder.shuffle_vector(vector, vector, order) for vector in (value, place))
            equal = code.builder.not_(
                code.builder.or_(self._is_beyond(code, other, value), self._is_beyond(code, value, other))
            )
            earlier = code.builder.and_(equal, code.builder.icmp_signed("<", there, place))
            better = code.builder.or_(self._is_beyond(code, other, value), earlier)
            value, place = code.builder.select(better, other, value), code.builder.select(better, there, place)
            distance //= 2
        found = code.builder.extract_element(place, ir.Constant(I32, 0))
        code.store(code.builder.sext(found, I64), target, align=8)

    def _emit_column(self, code: Code, source: Any, target: Any, column: Index) -> None:
        wide = ir.VectorType(I32, self.lanes)

        def emit(count: int | None) -> None:
            def step(index: Index, best: Sequence[Vector]) -> Sequence[Vector]:
                place = code.at(source, code.add(code.mul(index, self.inner), column))
                number = code.broadcast(code.builder.trunc(code.index(index), I32))
                return self._step(code, load_part(code, place, count), number, best)

            start = [code.splat(self._neutral), ir.Constant(wide, None)]
            _, place = code.loop(0, self.length, 1, step, start)
            result = code.builder.sext(place, ir.VectorType(I64, self.lanes))
            there = code.at(target, column, I64)
            if count is None:
                code.store(result, there, align=8)
            else:
                code.store_first(result, there, count)

        whole, rest = divmod(self.inner, self.lanes)
        if rest == 0:
            emit(None)
        elif whole == 0:
            emit(rest)
        else:
            with code.when(code.less(column, whole * self.lanes)):
                emit(None)
            with code.when(code.less(whole * self.lanes - 1, column)):
                emit(rest)
