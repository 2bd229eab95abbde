"""Softmax and its kin along one dimension: the largest value, the exponentials and their sum, the quotients.

The largest value leaves NaN out: with it in one exponential, it is in their sum, and with that in all results.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ...records import dataclass
from ..builder import Code, Index, Vector
from ..spec import KernelSpec
from ..vector_math import emit_function
from .rows import each_vector, fold_lanes, fold_row, keep_part, load_part, store_part

Value: TypeAlias = "Callable[[Index, int | None], Vector]"  # the vector at an index, of which so many lanes exist
_TASK_ELEMENTS = 1 << 14
_LEAST = -87.0  # exp of less is subnormal
_SHORT = 8  # vectors of a row that stay in registers: what was stored in part is slow to be read again


def row_maximum(code: Code, length: int, value: Value) -> Vector:
    """The largest value of a row but for NaN, in every lane. Lanes that do not exist have to be -inf."""

    def step(index: Index, count: int | None, largest: Vector) -> Vector:
        return code.clamp_low(largest, value(index, count))

    return fold_lanes(code, fold_row(code, length, step, -math.inf, code.clamp_low), code.clamp_low)


def row_total(code: Code, length: int, value: Value) -> Vector:
    """The sum of a row, in every lane."""

    def step(index: Index, count: int | None, total: Vector) -> Vector:
        return code.builder.fadd(total, keep_part(code, value(index, count), count))

    return fold_lanes(code, fold_row(code, length, step, 0.0, code.builder.fadd), code.builder.fadd)


def exponential(code: Code, value: Vector) -> Vector:
    """exp(x), 0 where that is subnormal: far too small to be seen in a sum of which one term is 1, and slow to calculate."""
    least = code.splat(_LEAST)
    result = emit_function(code, "exp", code.clamp_low(value, least))
    return code.builder.select(code.builder.fcmp_ordered("<", value, least), code.splat(0.0), result)


@dataclass(frozen=True)
class SoftmaxSpec(KernelSpec):
    """Along the middle one of (outer, length, inner) dimensions. Arguments: input, output, both row-major, or the same.

    `kind` is ``softmax``, ``log_softmax`` or ``softmin``. Without inner dimension a vector has neighbours of one row, else
    neighbours of the inner dimension.
    """

    outer: int
    length: int
    inner: int
    kind: str
    lanes: int

    @property
    def columns(self) -> int:
        """Vectors across the inner dimension that a task takes."""
        return max(1, min(-(-self.inner // self.lanes), _TASK_ELEMENTS // (self.length * self.lanes)))

    @property
    def shares(self) -> int:
        """Shares of the inner dimension."""
        return 1 if self.inner == 1 else -(-self.inner // (self.columns * self.lanes))

    @property
    def rows(self) -> int:
        """Outer indices of a task."""
        return max(1, min(self.outer, _TASK_ELEMENTS // (self.length * self.inner)))

    @property
    def tasks(self) -> int:
        return -(-self.outer // self.rows) * self.shares

    @property
    def flops(self) -> int:
        return 5 * self.outer * self.length * self.inner

    @property
    def traffic(self) -> int:
        return 8 * self.outer * self.length * self.inner

    def emit(self, code: Code) -> None:
        source, out = code.pointers(2)
        number, share = code.divmod(code.task, self.shares)
        first = code.mul(number, self.rows)
        last = code.min(code.add(first, self.rows), self.outer)

        def row(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            place = code.mul(index, self.length * self.inner)
            if self.inner == 1:
                self._emit_row(code, code.at(source, place), code.at(out, place))
            else:
                self._emit_columns(code, code.at(source, place), code.at(out, place), share)
            return ()

        code.loop(first, last, 1, row, at_least_once=True)

    def _sign(self, code: Code, value: Vector) -> Vector:
        return code.builder.fneg(value) if self.kind == "softmin" else value

    def _divisor(self, code: Code, total: Vector) -> Vector:
        """What all values of a row are divided by: the inverse of the sum, or its logarithm."""
        if self.kind == "log_softmax":
            return emit_function(code, "log", total)
        return code.builder.fdiv(code.splat(1.0), total)

    def _quotient(self, code: Code, value: Vector, divisor: Vector) -> Vector:
        """What is stored for x - max or, unless it is a logarithm, exp(x - max)."""
        if self.kind == "log_softmax":
            return code.builder.fsub(value, divisor)
        return code.builder.fmul(value, divisor)

    def _emit_row(self, code: Code, source: Any, out: Any) -> None:
        if self.length <= _SHORT * self.lanes:
            self._emit_short_row(code, source, out)
        else:
            self._emit_long_row(code, source, out)

    def _value(self, code: Code, source: Any, index: Index, count: int | None) -> Vector:
        fill = math.inf if self.kind == "softmin" else -math.inf
        return self._sign(code, load_part(code, code.at(source, index), count, fill))

    def _emit_short_row(self, code: Code, source: Any, out: Any) -> None:
        places = [(index, min(self.lanes, self.length - index)) for index in range(0, self.length, self.lanes)]
        parts = [(index, None if count == self.lanes else count) for index, count in places]
        values = [self._value(code, source, index, count) for index, count in parts]
        # the first could be NaN, which is never larger
        maximum = fold_lanes(code, functools.reduce(code.clamp_low, values, code.splat(-math.inf)), code.clamp_low)
        shifted = [code.builder.fsub(value, maximum) for value in values]
        exponentials = [exponential(code, value) for value in shifted]
        kept = [keep_part(code, value, count) for value, (_, count) in zip(exponentials, parts, strict=True)]
        divisor = self._divisor(code, fold_lanes(code, functools.reduce(code.builder.fadd, kept), code.builder.fadd))
        results = shifted if self.kind == "log_softmax" else exponentials
        for value, (index, count) in zip(results, parts, strict=True):
            store_part(code, self._quotient(code, value, divisor), code.at(out, index), count)

    def _emit_long_row(self, code: Code, source: Any, out: Any) -> None:
        is_log = self.kind == "log_softmax"

        def value(index: Index, count: int | None) -> Vector:
            return self._value(code, source, index, count)

        maximum = row_maximum(code, self.length, value)

        def shifted(index: Index, count: int | None) -> Vector:
            return code.builder.fsub(value(index, count), maximum)

        def term(index: Index, count: int | None) -> Vector:
            result = exponential(code, shifted(index, count))
            if not is_log:
                store_part(code, result, code.at(out, index), count)
            return result

        divisor = self._divisor(code, row_total(code, self.length, term))

        def finish(index: Index, count: int | None) -> None:
            result = shifted(index, count) if is_log else load_part(code, code.at(out, index), count)
            store_part(code, self._quotient(code, result, divisor), code.at(out, index), count)

        each_vector(code, self.length, finish)

    def _emit_columns(self, code: Code, source: Any, out: Any, share: Index) -> None:
        """A share of the inner dimension, a vector of it at a time."""
        width = self.columns * self.lanes
        whole = self.inner // self.lanes * self.lanes
        first = code.mul(share, width)
        last = code.min(code.add(first, width), whole)

        def whole_vector(column: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            self._emit_column(code, code.at(source, column), code.at(out, column), None)
            return ()

        code.loop(first, last, self.lanes, whole_vector)
        if whole < self.inner:
            with code.when(code.less(whole, code.add(first, width))):
                self._emit_column(code, code.at(source, whole), code.at(out, whole), self.inner - whole)

    def _emit_column(self, code: Code, source: Any, out: Any, count: int | None) -> None:
        is_log = self.kind == "log_softmax"

        def value(index: Index) -> Vector:
            return self._sign(code, load_part(code, code.at(source, code.mul(index, self.inner)), count))

        def larger(index: Index, largest: Sequence[Vector]) -> Sequence[Vector]:
            return [code.clamp_low(largest[0], value(index))]

        (maximum,) = code.loop(0, self.length, 1, larger, [code.splat(-math.inf)])

        def add(index: Index, total: Sequence[Vector]) -> Sequence[Vector]:
            result = exponential(code, code.builder.fsub(value(index), maximum))
            if not is_log:
                store_part(code, result, code.at(out, code.mul(index, self.inner)), count)
            return [code.builder.fadd(total[0], result)]

        (total,) = code.loop(0, self.length, 1, add, [code.splat(0.0)])
        divisor = self._divisor(code, total)

        def finish(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            place = code.at(out, code.mul(index, self.inner))
            result = code.builder.fsub(value(index), maximum) if is_log else load_part(code, place, count)
            store_part(code, self._quotient(code, result, divisor), place, count)
            return ()

        code.loop(0, self.length, 1, finish)
