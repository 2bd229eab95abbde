"""Softmax and its kin along one dimension: the largest value, the exponentials and their sum, the quotients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..builder import Code, Index, Vector
from ..spec import KernelSpec
from ..vector_math import emit_function
from .rows import each_vector, fold_lanes, fold_row, keep_part, load_part, store_part

Value: TypeAlias = "Callable[[Index, int | None], Vector]"  # the vector at an index, of which so many lanes exist
_TASK_ELEMENTS = 1 << 14


def row_maximum(code: Code, length: int, value: Value) -> Vector:
    """The largest value of a row, in every lane; NaN if there is one. Lanes that do not exist have to be -inf."""

    def step(index: Index, count: int | None, largest: Vector) -> Vector:
        return code.maximum(value(index, count), largest)

    return fold_lanes(code, fold_row(code, length, step, -math.inf, code.maximum), code.maximum)


def row_total(code: Code, length: int, value: Value) -> Vector:
    """The sum of a row, in every lane."""

    def step(index: Index, count: int | None, total: Vector) -> Vector:
        return code.builder.fadd(total, keep_part(code, value(index, count), count))

    return fold_lanes(code, fold_row(code, length, step, 0.0, code.builder.fadd), code.builder.fadd)


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

    def _quotient(self, code: Code, value: Vector, total: Vector) -> Vector:
        """What is stored for x - max or, unless it is a logarithm, exp(x - max)."""
        if self.kind == "log_softmax":
            return code.builder.fsub(value, total)
        return code.builder.fdiv(value, total)

    def _emit_row(self, code: Code, source: Any, out: Any) -> None:
        is_log = self.kind == "log_softmax"

        def value(index: Index, count: int | None) -> Vector:
            fill = math.inf if self.kind == "softmin" else -math.inf
            return self._sign(code, load_part(code, code.at(source, index), count, fill))

        maximum = row_maximum(code, self.length, value)

        def shifted(index: Index, count: int | None) -> Vector:
            return code.builder.fsub(value(index, count), maximum)

        def exponential(index: Index, count: int | None) -> Vector:
            result = emit_function(code, "exp", shifted(index, count))
            if not is_log:
                store_part(code, result, code.at(out, index), count)
            return result

        total = row_total(code, self.length, exponential)
        if is_log:
            total = emit_function(code, "log", total)

        def finish(index: Index, count: int | None) -> None:
            result = shifted(index, count) if is_log else load_part(code, code.at(out, index), count)
            store_part(code, self._quotient(code, result, total), code.at(out, index), count)

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
            return [code.maximum(value(index), largest[0])]

        (maximum,) = code.loop(0, self.length, 1, larger, [code.splat(-math.inf)])

        def add(index: Index, total: Sequence[Vector]) -> Sequence[Vector]:
            result = emit_function(code, "exp", code.builder.fsub(value(index), maximum))
            if not is_log:
                store_part(code, result, code.at(out, code.mul(index, self.inner)), count)
            return [code.builder.fadd(total[0], result)]

        (total,) = code.loop(0, self.length, 1, add, [code.splat(0.0)])
        if is_log:
            total = emit_function(code, "log", total)

        def finish(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            place = code.at(out, code.mul(index, self.inner))
            result = code.builder.fsub(value(index), maximum) if is_log else load_part(code, place, count)
            store_part(code, self._quotient(code, result, total), place, count)
            return ()

        code.loop(0, self.length, 1, finish)
