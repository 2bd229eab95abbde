"""Matrix products: a tile of rows × panels stays in registers while all of its inputs go by; a panel is a vector wide.

Each step takes one element of the inner dimension: a vector of the right matrix for each panel, and for each row one number
of the left matrix, broadcast. The right matrix is constant and packed beforehand, or packed by the task that reads it, or read
where it lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...dtypes import Array
from ...records import dataclass
from ..builder import Code, Index, Vector
from ..epilogue import MatrixEpilogue
from ..layout import Matrix
from ..spec import KernelSpec

UNROLL = 4  # elements of the inner dimension in one turn of the innermost loop
_ACCUMULATORS = 8  # sums that have to be under way at a time, lest each wait for the one before
_LINE = 16  # floats of a cache line
_AHEAD = 2048  # floats that lie between what is read and what is asked for


@dataclass(frozen=True)
class Tile:
    """`rows` × `panels` sums over `depth` products. Strides are in floats; rows of the right matrix lie `right_row` apart, its
    panels follow one another."""

    rows: int
    panels: int
    depth: int
    left_row: int
    left_column: int
    right_row: int

    @property
    def splits(self) -> int:
        """Into how many sums each is split, so that enough are under way."""
        return min(UNROLL, 1 << math.ceil(math.log2(max(1.0, _ACCUMULATORS / (self.rows * self.panels)))))

    def emit(
        self,
        code: Code,
        left: Any,
        right: Any,
        start: Sequence[Vector],
        last_panel: Index | None = None,
        prefetch: Callable[[Index], None] | None = None,
    ) -> list[Vector]:
        """The sums, row after row, on top of those of `start`.

        With `last_panel`, only so many columns of the last panel exist in memory. `prefetch(k)` is called in each turn.
        """
        lanes, count = code.target.lanes, self.rows * self.panels

        def step(left: Any, right: Any, sums: list[Vector], offset: int) -> None:
            """One element of the inner dimension."""
            vectors = []
            for panel in range(self.panels):
                place = code.at(right, panel * lanes)
                partial = last_panel is not None and panel == self.panels - 1
                vectors.append(code.load_first(place, last_panel) if partial else code.load(place))
            for row in range(self.rows):
                number = code.load_splat(code.at(left, row * self.left_row))
                for panel, vector in enumerate(vectors):
                    place = offset + row * self.panels + panel
                    sums[place] = code.fma(number, vector, sums[place])

        def turn(k: Index, sums: Sequence[Vector]) -> list[Vector]:
            new = list(sums)
            if prefetch is not None:
                prefetch(k)
            turn_left, turn_right = (
                code.at(left, code.mul(k, self.left_column)),
                code.at(right, code.mul(k, self.right_row)),
            )
            for i in range(UNROLL):
                step(
                    code.at(turn_left, i * self.left_column),
                    code.at(turn_right, i * self.right_row),
                    new,
                    i % self.splits * count,
                )
            return new

        whole = self.depth // UNROLL * UNROLL
        sums = list(start) + [code.splat(0.0)] * (count * (self.splits - 1))
        sums = list(code.loop(0, whole, UNROLL, turn, sums))
        for k in range(whole, self.depth):
            step(code.at(left, k * self.left_column), code.at(right, k * self.right_row), sums, k % self.splits * count)
        while len(sums) > count:
            half = len(sums) // 2
            sums = [code.builder.fadd(a, b) for a, b in zip(sums[:half], sums[half:], strict=True)]
        return sums


@dataclass(frozen=True)
class MatrixProductSpec(KernelSpec):
    """left (*, M, K) times right (*, K, N), for a stack of matrices of shape `stack`.

    Arguments: left, right, bias where there is one, output, then those of the epilogue. Without a layout the right matrix is
    packed, see `pack_panels`, and one for the whole stack. The bias has one value a column, padded to whole panels. A task is
    `task_rows` rows of `task_groups` groups of `tile_panels` panels. Where `block` is less than the inner dimension, the task
    takes so many elements of it at a time, for which its rows stay in the cache, and keeps its sums in its scratch memory.
    """

    stack: tuple[int, ...]
    rows: int
    depth: int
    columns: int
    left: Matrix
    right: Matrix | None
    output: Matrix
    bias: bool
    epilogue: MatrixEpilogue
    lanes: int
    tile_rows: int
    tile_panels: int
    task_rows: int
    task_groups: int
    block: int

    @property
    def panels(self) -> int:
        """Panels of the output."""
        return -(-self.columns // self.lanes)

    @property
    def groups(self) -> int:
        """Groups of panels."""
        return -(-self.panels // self.tile_panels)

    @property
    def width(self) -> int:
        """Columns of a group."""
        return self.tile_panels * self.lanes

    @property
    def packs(self) -> bool:
        """Whether a task packs its share of the right matrix: where columns lie apart, or several tiles read it."""
        return self.right is not None and (self.right.column != 1 or self.rows > self.tile_rows)

    @property
    def row_shares(self) -> int:
        """Shares of the rows."""
        return -(-self.rows // self.task_rows)

    @property
    def group_shares(self) -> int:
        """Shares of the groups."""
        return -(-self.groups // self.task_groups)

    @property
    def tasks(self) -> int:
        return math.prod(self.stack) * self.row_shares * self.group_shares

    @property
    def scratch_floats(self) -> int:
        return self._sums_floats + (self.block * self.width if self.packs else 0)

    @property
    def _sums_floats(self) -> int:
        """Floats of the sums that are kept: those of a tile on their way to the epilogue, or those of the whole task."""
        return self.width * (self.tile_rows if self.block == self.depth else self.task_rows * self.task_groups)

    @property
    def flops(self) -> int:
        return 2 * math.prod(self.stack) * self.rows * self.depth * self.columns

    @property
    def traffic(self) -> int:
        total = self.rows * self.columns * math.prod(self.stack)
        for matrix, size in ((self.left, self.rows * self.depth), (self.right, self.depth * self.columns)):
            batch = matrix.stack if matrix is not None else ()
            total += size * math.prod(n for n, stride in zip(self.stack, batch, strict=False) if stride)
        return 4 * total

    # ---------------------------------------------------------------------------------------- loops

    def emit(self, code: Code) -> None:
        left, right, *others = code.pointers(3 + self.bias + self.epilogue.operand_count)
        bias = others.pop(0) if self.bias else None
        out, *extra = others
        share, groups = code.divmod(code.task, self.group_shares)
        index, rows = code.divmod(share, self.row_shares)
        indices: list[Index] = []
        for size in reversed(self.stack):
            index, place = code.divmod(index, size)
            indices.insert(0, place)
        left, out = self.left.at(code, left, indices), self.output.at(code, out, indices)
        right = right if self.right is None else self.right.at(code, right, indices)
        extra = self.epilogue.seek(code, extra, indices)
        first_row = code.mul(rows, self.task_rows)
        last_row = code.min(code.add(first_row, self.task_rows), self.rows)
        first = code.mul(groups, self.task_groups * self.tile_panels)
        last = code.min(code.add(first, self.task_groups * self.tile_panels), self.panels)
        emit = self._emit_whole if self.block == self.depth else self._emit_blocks
        emit(code, (left, right, bias, out, extra), (first_row, last_row), (first, last))

    def _emit_whole(
        self, code: Code, operands: tuple[Any, ...], rows: tuple[Index, Index], panels: tuple[Index, Index]
    ) -> None:
        """A tile after the other, each with all of the inner dimension."""
        left, right, bias, out, extra = operands

        def group(panel: Index, count: int) -> None:
            column = code.mul(panel, self.lanes)
            matrix, step = self._right(code, right, panel, count, 0, self.depth)
            biases = self._biases(code, bias, column, count)
            following = code.at(matrix, self.depth * step) if self.right is None else None

            def tile(row: Index, height: int) -> None:
                place, shape = (row, column, 0), (height, count, self.depth)
                sums = self._emit_tile(code, left, (matrix, step, following), biases * height, place, shape)
                if not self.epilogue.text:
                    for number in range(height):
                        self._store(code, out, sums[number * count :][:count], code.add(row, number), column)
                    return
                # the expression is written once, for a loop over the tile's rows
                for number, value in enumerate(sums):
                    code.store(value, code.at(code.scratch, number * self.lanes))
                self._finish(code, code.scratch, out, extra, (row, code.add(row, height)), column, count)

            for_shares(code, *rows, self.rows, self.tile_rows, tile)

        for_shares(code, *panels, self.panels, self.tile_panels, group)

    def _emit_blocks(
        self, code: Code, operands: tuple[Any, ...], rows: tuple[Index, Index], panels: tuple[Index, Index]
    ) -> None:
        """A block of the inner dimension after the other, each for all tiles, whose sums wait in memory."""
        left, right, bias, out, extra = operands
        height = code.sub(rows[1], rows[0])

        def sums_of(panel: Index) -> Any:
            """Where the sums of a group lie, row after row."""
            return code.at(code.scratch, code.mul(code.sub(panel, panels[0]), self.lanes * self.task_rows))

        def start(panel: Index, count: int) -> None:
            biases = self._biases(code, bias, code.mul(panel, self.lanes), count)

            def row(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                line = code.at(sums_of(panel), code.mul(number, count * self.lanes))
                for i, value in enumerate(biases):
                    code.store(value, code.at(line, i * self.lanes))
                return ()

            code.loop(0, height, 1, row, at_least_once=True)

        def block(inner: Index, length: int) -> None:
            def group(panel: Index, count: int) -> None:
                column, kept = code.mul(panel, self.lanes), sums_of(panel)
                matrix, step = self._right(code, right, panel, count, inner, length)
                following = None
                if self.right is None:  # the same block of the next group, or of the first group the next block
                    again = self._right(code, right, panels[0], self.tile_panels, code.add(inner, length), length)[0]
                    more = code.less(code.add(panel, count), panels[1])
                    following = code.builder.select(more, code.at(matrix, self.depth * step), again)

                def tile(row: Index, rows_there: int) -> None:
                    place = code.at(kept, code.mul(code.sub(row, rows[0]), count * self.lanes))
                    places = [code.at(place, i * self.lanes) for i in range(rows_there * count)]
                    sums = [code.load(there) for there in places]
                    shape = (rows_there, count, length)
                    sums = self._emit_tile(code, left, (matrix, step, following), sums, (row, column, inner), shape)
                    for value, there in zip(sums, places, strict=True):
                        code.store(value, there)

                for_shares(code, *rows, self.rows, self.tile_rows, tile)

            for_shares(code, *panels, self.panels, self.tile_panels, group)

        def end(panel: Index, count: int) -> None:
            self._finish(code, sums_of(panel), out, extra, rows, code.mul(panel, self.lanes), count)

        for_shares(code, *panels, self.panels, self.tile_panels, start)
        for_shares(code, 0, self.depth, self.depth, self.block, block)
        for_shares(code, *panels, self.panels, self.tile_panels, end)

    def _biases(self, code: Code, bias: Any, column: Index, panels: int) -> list[Vector]:
        if bias is None:
            return [code.splat(0.0)] * panels
        return [code.load(code.at(bias, code.add(column, i * self.lanes))) for i in range(panels)]

    def _right(self, code: Code, right: Any, panel: Index, panels: int, inner: Index, length: int) -> tuple[Any, int]:
        """Where the panels of a group lie for a block of the inner dimension, and the distance of their rows."""
        width = panels * self.lanes
        if self.right is None:
            start = code.add(code.mul(panel, self.depth * self.lanes), code.mul(inner, width))
            return code.at(right, start), width
        column, block = code.mul(panel, self.lanes), code.at(right, code.mul(inner, self.right.row))
        if not self.packs:
            return code.at(block, column), self.right.row
        packed = code.at(code.scratch, self._sums_floats)
        emit_packing(code, block, self.right, packed, length, column, self.columns, panels)
        return packed, width

    def _last_panel(self, code: Code, column: Index, panels: int) -> Index | None:
        """How many columns the last panel of a group has; None where all panels are full."""
        if self.columns % self.lanes == 0:
            return None
        return code.min(code.sub(self.columns - (panels - 1) * self.lanes, column), self.lanes)

    def _emit_tile(
        self,
        code: Code,
        left: Any,
        right: tuple[Any, int, Any],
        start: Sequence[Vector],
        place: tuple[Index, Index, Index],
        shape: tuple[int, int, int],
    ) -> list[Vector]:
        """The sums of a tile of `shape` (rows, panels, inner elements) from a place (row, column, inner element) on.

        `right` is where its panels lie, the distance of their rows, and where those lie that are needed next.
        """
        (row, column, inner), (rows, panels, length), (matrix, step, following) = place, shape, right
        tile = Tile(rows, panels, length, self.left.row, self.left.column, step)
        left = code.at(left, code.add(code.mul(row, self.left.row), code.mul(inner, self.left.column)))
        in_place = self.right is not None and not self.packs
        last = self._last_panel(code, column, panels) if in_place else None
        ahead = None if following is None else self._prefetch(code, matrix, following, row, panels, length)
        return tile.emit(code, left, matrix, start, last, ahead)

    def _store(self, code: Code, out: Any, values: Sequence[Vector], row: Index, column: Index) -> None:
        """One row of a tile."""
        last = self._last_panel(code, column, len(values))
        place = code.at(out, code.add(code.mul(row, self.output.row), column))
        for panel, value in enumerate(values):
            here = code.at(place, panel * self.lanes)
            if last is not None and panel == len(values) - 1:
                code.store_first(value, here, last)
            else:
                code.store(value, here)

    def _finish(
        self,
        code: Code,
        sums: Any,
        out: Any,
        extra: Sequence[Any],
        rows: tuple[Index, Index],
        column: Index,
        panels: int,
    ) -> None:
        """The epilogue of rows whose sums lie in memory."""
        last = self._last_panel(code, column, panels)

        def finish(row: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            line = code.at(sums, code.mul(code.sub(row, rows[0]), panels * self.lanes))
            values = []
            for panel in range(panels):
                value, there = code.load(code.at(line, panel * self.lanes)), code.add(column, panel * self.lanes)
                values.append(self.epilogue.emit(code, value, extra, row, there, last if panel == panels - 1 else None))
            self._store(code, out, values, row, column)
            return ()

        code.loop(*rows, 1, finish, at_least_once=True)

    def _prefetch(
        self, code: Code, panels_at: Any, following: Any, row: Index, panels: int, length: int
    ) -> Callable[[Index], None]:
        """Asks for constant weights, which come from far away, in good time.

        While the tiles of a group are calculated, they ask for what follows in equal shares; a lone tile, which takes little
        time for much memory, asks for what it will need itself a little later.
        """
        floats = UNROLL * panels * self.lanes
        tiles = -(-min(self.task_rows, self.rows) // self.tile_rows)
        lines = max(1, -(-floats // (_LINE * tiles)))
        start = code.at(panels_at, _AHEAD)
        if tiles > 1:
            number = code.div(code.mod(row, self.task_rows), self.tile_rows)
            start = code.at(following, code.mul(number, -(-length // UNROLL) * lines * _LINE))

        def emit(k: Index) -> None:
            place = code.at(start, code.mul(k, lines * _LINE // UNROLL))
            for line in range(lines):
                code.prefetch(code.at(place, line * _LINE), soon=tiles == 1)

        return emit


def for_shares(
    code: Code, first: Index, last: Index, total: int, unit: int, body: Callable[[Index, int], None]
) -> None:
    """`body(start, count)` for all of [first, last), `unit` at a time; where `last` is the total, the rest is a smaller share.

    `first` is a multiple of the unit, `last` too or the total.
    """
    whole = total // unit * unit

    def share(start: Index, _: Sequence[Vector]) -> Sequence[Vector]:
        body(start, unit)
        return ()

    code.loop(first, code.min(last, whole), unit, share)
    if whole == total:
        return
    if isinstance(last, int):
        body(whole, total - whole)
        return
    with code.when(code.less(whole, last)):
        body(whole, total - whole)


def emit_packing(
    code: Code, matrix: Any, layout: Matrix, to: Any, depth: int, column: Index, columns: int, panels: int
) -> None:
    """Copies `panels` panels of a (depth, columns) matrix from `column` on to rows that lie one behind the other.

    Lanes beyond the last column hold anything.
    """
    lanes = code.target.lanes

    def copied(k: Index, _: Sequence[Vector]) -> Sequence[Vector]:
        for panel in range(panels):
            there = code.add(column, panel * lanes)
            place = code.at(matrix, code.add(code.mul(k, layout.row), there))
            if columns % lanes and panel == panels - 1:
                vector = code.load_first(place, code.min(code.sub(columns, there), lanes))
            else:
                vector = code.load(place)
            code.store(vector, code.at(to, code.add(code.mul(k, panels * lanes), panel * lanes)))
        return ()

    def gathered(k: Index, _: Sequence[Vector]) -> Sequence[Vector]:
        line, target = code.at(matrix, code.mul(k, layout.row)), code.at(to, code.mul(k, panels * lanes))

        def number(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            there = code.min(code.add(column, index), columns - 1)
            code.store(code.load_float(code.at(line, code.mul(there, layout.column))), code.at(target, index))
            return ()

        code.loop(0, panels * lanes, 1, number)
        return ()

    def transposed(k: Index, count: int) -> None:
        def square(panel: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            shift = code.mul(panel, lanes)
            rows = []
            for lane in range(lanes):
                there = code.add(code.add(column, shift), lane)
                if columns % (panels * lanes):
                    there = code.min(there, columns - 1)
                place = code.at(matrix, code.add(code.mul(there, layout.column), k))
                rows.append(code.load(place) if count == lanes else code.load_first(place, count))
            target = code.at(to, code.add(code.mul(k, panels * lanes), shift))
            for step, vector in enumerate(code.transpose(rows)[:count]):
                code.store(vector, code.at(target, step * panels * lanes))
            return ()

        code.loop(0, panels, 1, square)

    if layout.column == 1:
        code.loop(0, depth, 1, copied)
    elif layout.row == 1:
        for_shares(code, 0, depth, depth, lanes, transposed)
    else:
        code.loop(0, depth, 1, gathered)


def pack_panels(matrix: Array, tile_panels: int, lanes: int, out: Array) -> None:
    """A (K, N) matrix as the kernel reads it: groups of panels, in each (K, panels, lanes); columns padded with zeros.

    `out` has K times as many floats as whole panels have columns. No other memory is needed: weights may be large.
    """
    depth, columns = matrix.shape
    padded = -(-columns // lanes) * lanes
    for first in range(0, padded, tile_panels * lanes):
        width = min(tile_panels * lanes, padded - first)
        group = out[first * depth : (first + width) * depth].reshape(depth, width)
        there = min(columns - first, width)
        group[:, :there] = matrix[:, first : first + there]
        group[:, there:] = 0
