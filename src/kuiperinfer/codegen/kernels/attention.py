"""Attention of one head: scores of queries and keys, their softmax, and the mean of the values that these weigh.

A task takes some queries and all keys, and keeps their scores in its scratch memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from ...records import dataclass
from ..builder import F32, I8, Code, Index, Vector
from ..layout import Matrix
from ..spec import KernelSpec
from .matrix_product import Tile, emit_packing, for_shares
from .rows import each_vector, keep_part, store_part
from .softmax import exponential, row_maximum, row_total


@dataclass(frozen=True)
class Mask:
    """What happens to scores before the softmax. Strides are in elements; 0 where one serves several.

    `kind` is ``add`` for floats that are added, ``keep`` for bools that are true where a score counts, ``drop`` for the
    opposite. Keys from `keys` on are let be.
    """

    matrix: Matrix
    kind: str
    keys: int

    @property
    def element(self) -> ir.Type:
        """The LLVM type of an element."""
        return F32 if self.kind == "add" else I8


@dataclass(frozen=True)
class AttentionSpec(KernelSpec):
    """softmax(query key^T scale + masks) value, for a stack of heads.

    query (*, L, E), key (*, S, E), value (*, S, V). Arguments: query, key, value, masks, output (*, L, V), and where `weights`
    is set the softmax, dense (*, L, S). With `causal` a query takes no keys that come later. A query that is left without keys
    gets zeros, or NaN where `alone_is_nan`. A task is `task_rows` queries of one head.
    """

    stack: tuple[int, ...]
    queries: int
    keys: int
    depth: int
    columns: int
    query: Matrix
    key: Matrix
    value: Matrix
    output: Matrix
    masks: tuple[Mask, ...]
    causal: bool
    scale: float
    alone_is_nan: bool
    weights: bool
    lanes: int
    tile_rows: int
    key_panels: int
    value_panels: int
    task_rows: int

    @property
    def row(self) -> int:
        """Floats from one row of scores to the next."""
        return -(-self.keys // self.lanes) * self.lanes

    @property
    def shares(self) -> int:
        """Shares of the queries."""
        return -(-self.queries // self.task_rows)

    @property
    def tasks(self) -> int:
        return math.prod(self.stack) * self.shares

    @property
    def scratch_floats(self) -> int:
        packed = max(self.depth * self.key_panels, self.keys * self.value_panels) * self.lanes
        return self.task_rows * (self.row + self.lanes) + packed

    @property
    def flops(self) -> int:
        return 2 * math.prod(self.stack) * self.queries * self.keys * (self.depth + self.columns)

    @property
    def traffic(self) -> int:
        rows = self.queries * (self.depth + self.columns) + self.keys * (self.depth + self.columns)
        return 4 * math.prod(self.stack) * rows

    # ---------------------------------------------------------------------------------------- stages

    def emit(self, code: Code) -> None:
        query, key, value, *rest = code.pointers(4 + len(self.masks) + self.weights)
        weights = rest.pop() if self.weights else None
        *masks, out = rest
        head, share = code.divmod(code.task, self.shares)
        indices: list[Index] = []
        index = head
        for size in reversed(self.stack):
            index, place = code.divmod(index, size)
            indices.insert(0, place)
        query, key, value, out = (
            matrix.at(code, pointer, indices)
            for matrix, pointer in (
                (self.query, query),
                (self.key, key),
                (self.value, value),
                (self.output, out),
            )
        )
        masks = [
            mask.matrix.at(code, pointer, indices, mask.element)
            for mask, pointer in zip(self.masks, masks, strict=True)
        ]
        first = code.mul(share, self.task_rows)
        last = code.min(code.add(first, self.task_rows), self.queries)

        scores = code.scratch
        inverses = code.at(scores, self.task_rows * self.row)
        packed = code.at(inverses, self.task_rows * self.lanes)
        self._emit_scores(code, query, key, scores, packed, first, last)

        def row(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            own = code.sub(number, first)
            line = code.at(scores, code.mul(own, self.row))
            inverse = self._emit_softmax(code, line, masks, number)
            code.store(inverse, code.at(inverses, code.mul(own, self.lanes)))
            if weights is not None:
                place = code.add(code.mul(head, self.queries), number)
                self._store_weights(code, line, inverse, code.at(weights, code.mul(place, self.keys)))
            return ()

        code.loop(first, last, 1, row, at_least_once=True)
        self._emit_values(code, scores, inverses, value, out, packed, first, last)

    def _emit_scores(
        self, code: Code, query: Any, key: Any, scores: Any, packed: Any, first: Index, last: Index
    ) -> None:
        """Products of the queries [first, last) with all keys."""

        def group(panel: Index, panels: int) -> None:
            column = code.mul(panel, self.lanes)
            emit_packing(code, key, self.key.transposed(), packed, self.depth, column, self.keys, panels)

            def tile(row: Index, rows: int) -> None:
                product = Tile(rows, panels, self.depth, self.query.row, self.query.column, panels * self.lanes)
                start = [code.splat(0.0)] * (rows * panels)
                sums = product.emit(code, code.at(query, code.mul(row, self.query.row)), packed, start)
                place = code.add(code.mul(code.sub(row, first), self.row), column)
                for number, value in enumerate(sums):
                    shift = number // panels * self.row + number % panels * self.lanes
                    code.store(value, code.at(scores, code.add(place, shift)))

            for_shares(code, first, last, self.queries, self.tile_rows, tile)

        count = self.row // self.lanes
        for_shares(code, 0, count, count, self.key_panels, group)

    def _emit_softmax(self, code: Code, line: Any, masks: Sequence[Any], number: Index) -> Vector:
        """Exponentials in place of a query's scores; returns the inverse of their sum."""

        # rows of scores fill whole vectors: what is beyond the last key is loaded and stored, but does not count
        def masked(index: Index, count: int | None) -> Vector:
            place = code.at(line, index)
            value = code.builder.fmul(code.load(place), code.splat(self.scale))
            for mask, pointer in zip(self.masks, masks, strict=True):
                value = self._apply_mask(code, mask, pointer, value, number, index, count)
            if self.causal:
                earlier = code.mask(code.sub(code.add(number, 1), index))
                value = code.builder.select(earlier, value, code.splat(-math.inf))
            code.store(value, place)
            return keep_part(code, value, count, -math.inf)

        largest = row_maximum(code, self.keys, masked)
        none = code.builder.fcmp_ordered("==", largest, code.splat(-math.inf))
        largest = code.builder.select(none, code.splat(0.0), largest)

        def term(index: Index, count: int | None) -> Vector:
            place = code.at(line, index)
            result = exponential(code, code.builder.fsub(code.load(place), largest))
            code.store(result, place)
            return result

        total = row_total(code, self.keys, term)
        alone = code.builder.fcmp_ordered("==", total, code.splat(0.0))
        inverse = code.builder.fdiv(code.splat(1.0), total)
        return code.builder.select(alone, code.splat(math.nan if self.alone_is_nan else 0.0), inverse)

    def _apply_mask(
        self, code: Code, mask: Mask, pointer: Any, value: Vector, row: Index, column: Index, count: int | None
    ) -> Vector:
        line = code.at(pointer, code.mul(row, mask.matrix.row), mask.element)
        place = code.at(line, code.mul(column, mask.matrix.column), mask.element)
        align = 4 if mask.kind == "add" else 1
        if mask.matrix.column == 0:
            found = code.broadcast(code.builder.load(place, typ=mask.element, align=align))
        elif mask.keys < self.keys:
            there = code.min(code.sub(mask.keys, column), self.lanes)
            found = code.load_first(place, there, 1 if mask.kind == "keep" else 0, mask.element)
        elif count is None:
            found = code.builder.load(place, typ=ir.VectorType(mask.element, self.lanes), align=align)
        else:
            found = code.load_first(place, count, element=mask.element)
        if mask.kind == "add":
            return code.builder.fadd(value, found)
        is_set = code.builder.icmp_unsigned("!=", found, ir.Constant(found.type, None))
        never = code.splat(-math.inf)
        return code.builder.select(is_set, *((value, never) if mask.kind == "keep" else (never, value)))

    def _store_weights(self, code: Code, line: Any, inverse: Vector, out: Any) -> None:
        def finish(index: Index, count: int | None) -> None:
            value = code.builder.fmul(code.load(code.at(line, index)), inverse)
            store_part(code, value, code.at(out, index), count)

        each_vector(code, self.keys, finish)

    def _emit_values(
        self, code: Code, scores: Any, inverses: Any, value: Any, out: Any, packed: Any, first: Index, last: Index
    ) -> None:
        """Exponentials times values, divided by the sums."""
        count = -(-self.columns // self.lanes)
        near = self.value.row <= 4 * self.value_panels * self.lanes or self.task_rows <= self.tile_rows
        direct = near and self.value.column == 1 and self.columns % self.lanes == 0

        def group(panel: Index, panels: int) -> None:
            column = code.mul(panel, self.lanes)
            matrix, step = packed, panels * self.lanes
            if direct:
                matrix, step = code.at(value, column), self.value.row
            else:
                emit_packing(code, value, self.value, packed, self.keys, column, self.columns, panels)

            def tile(row: Index, rows: int) -> None:
                own = code.sub(row, first)
                product = Tile(rows, panels, self.keys, self.row, 1, step)
                start = [code.splat(0.0)] * (rows * panels)
                sums = product.emit(code, code.at(scores, code.mul(own, self.row)), matrix, start)
                part = code.min(code.sub(self.columns - (panels - 1) * self.lanes, column), self.lanes)
                for number in range(rows):
                    inverse = code.load(code.at(inverses, code.mul(code.add(own, number), self.lanes)))
                    place = code.at(out, code.add(code.mul(code.add(row, number), self.output.row), column))
                    for i in range(panels):
                        result = code.builder.fmul(sums[number * panels + i], inverse)
                        there = code.at(place, i * self.lanes)
                        if i == panels - 1 and self.columns % self.lanes:
                            code.store_first(result, there, part)
                        else:
                            code.store(result, there)

            for_shares(code, first, last, self.queries, self.tile_rows, tile)

        for_shares(code, 0, count, count, self.value_panels, group)
