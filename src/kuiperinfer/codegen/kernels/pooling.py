"""Pooling over windows of a blocked image: maximum and average.

Each column that the windows of a few pixels need is reduced first, then the columns of each window. Windows are clipped to the
picture, so the halo's zeros are never seen. Pixels whose windows are clipped are written out; those between share a loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llvmlite import ir

from ...records import dataclass
from ..builder import F32, I64, Code, Index, Vector
from ..layout import ImageLayout
from ..spec import KernelSpec

_MOST_PIXELS = 8  # that share a step
_SPARE = 4  # registers for what is calculated with


@dataclass(frozen=True)
class PoolSpec(KernelSpec):
    """Arguments: input, output. A task is `rows` output rows of one block of channels.

    `kind` is ``max`` or ``average``; an average divides by `divisor`, or, where that is 0, by the elements of the window, with
    `count_padding` those of the padding too.
    """

    input: ImageLayout
    output: ImageLayout
    kind: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]
    count_padding: bool
    divisor: int
    rows: int

    @property
    def chunks(self) -> int:
        """Shares of the output's height."""
        return -(-self.output.height // self.rows)

    @property
    def tasks(self) -> int:
        return self.output.batch * self.output.blocks * self.chunks

    @property
    def flops(self) -> int:
        return int(np.prod(self.output.shape)) * self.kernel[0] * self.kernel[1]

    @property
    def traffic(self) -> int:
        return 4 * (int(np.prod(self.input.shape)) + int(np.prod(self.output.shape)))

    @property
    def operand_count(self) -> int:
        """Number of operands beside the input."""
        return 1

    def emit(self, code: Code) -> None:
        source, *others = code.pointers(1 + self.operand_count)
        plane, chunk = code.divmod(code.task, self.chunks)
        image, block = code.divmod(plane, self.output.blocks)
        first = code.mul(chunk, self.rows)
        last = code.min(code.add(first, self.rows), self.output.height)
        place = code.add(code.mul(image, self.input.image), code.mul(block, self.input.block_stride))
        source = code.at(source, code.add(place, self.input.origin))
        self.emit_rows(code, source, others, image, block, (first, last))

    def emit_rows(
        self,
        code: Code,
        source: Vector,
        others: Sequence[Vector],
        image: Index,
        block: Index,
        span: tuple[Index, Index],
    ) -> None:
        """A span of output rows of one block; `source` points to that block's first pixel, `others` are the other operands."""
        (out,) = others
        place = code.add(code.mul(image, self.output.image), code.mul(block, self.output.block_stride))
        to_plane = code.at(out, code.add(place, self.output.origin))

        def row(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            self._row(code, source, to_plane, y)
            return ()

        code.loop(*span, 1, row, at_least_once=True)

    def _row(self, code: Code, source: Vector, out: Vector, y: Index) -> None:
        (height, width), (step_y, step_x) = self.kernel, self.dilation
        top = code.sub(code.mul(y, self.stride[0]), self.padding[0])
        # kernel rows [begin, end) lie inside the picture
        begin = code.max(0, code.div(code.sub(step_y - 1, code.min(top, 0)), step_y))
        end = code.min(height, code.div(code.add(code.sub(self.input.height, top), step_y - 1), step_y))
        source = code.at(source, code.mul(top, self.input.row))
        out = code.at(out, code.mul(y, self.output.row))
        lengths = self._rows_counted(code, top, begin, end)

        def pixels(x: Index, windows: Sequence[Sequence[int]]) -> None:
            """The output pixels from `x` on, whose windows have the given columns of the kernel inside."""
            left = code.mul(code.sub(code.mul(x, self.stride[1]), self.padding[1]), self.input.pixel)
            columns = [[pixel * self.stride[1] + k * step_x for k in taps] for pixel, taps in enumerate(windows)]
            needed = sorted({column for window in columns for column in window})

            def kernel_row(ky: Index, values: Sequence[Vector]) -> Sequence[Vector]:
                line = code.at(source, code.add(left, code.mul(ky, step_y * self.input.row)))
                return [
                    self._join(code, value, code.load(code.at(line, column * self.input.pixel)))
                    for column, value in zip(needed, values, strict=True)
                ]

            down = code.loop(begin, end, 1, kernel_row, [self._start(code)] * len(needed))
            found = {(column, 1): value for column, value in zip(needed, down, strict=True)}
            for pixel, window in enumerate(columns):
                value = self._across(code, found, window[0], len(window)) if window else self._start(code)
                if self.kind == "average":
                    value = code.builder.fdiv(value, self._count(code, lengths, code.add(x, pixel), len(window)))
                place = code.mul(code.add(x, pixel), self.output.pixel)
                code.store(value, code.at(out, place), align=code.target.lanes * 4)

        def static(start: int, stop: int) -> None:
            for x in range(start, stop, tile):
                pixels(x, [self._taps(i) for i in range(x, min(x + tile, stop))])

        def whole_tile(x: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            pixels(x, [range(width)] * tile)
            return ()

        tile = self._tile(code)
        whole = [
            x for x in range(self.output.width) if len(self._taps(x)) == width and self._columns_counted(x) == width
        ]
        low, high = (whole[0], whole[-1] + 1) if whole else (self.output.width, self.output.width)
        first = -(-low // tile) * tile  # the tiles before have clipped windows, and perhaps whole ones too
        last = max(first, high // tile * tile)
        static(0, min(first, self.output.width))
        code.loop(first, last, tile, whole_tile)
        static(last, self.output.width)

    def _tile(self, code: Code) -> int:
        """Pixels that share a step: as many as leave the columns that they need in registers."""
        width, step = self.kernel[1], self.dilation[1]
        fitting = [
            pixels
            for pixels in range(2, _MOST_PIXELS + 1)
            if len({pixel * self.stride[1] + k * step for pixel in range(pixels) for k in range(width)})
            <= code.target.registers - _SPARE
        ]
        return max(fitting, default=1)

    def _across(self, code: Code, found: dict[tuple[int, int], Vector], first: int, count: int) -> Vector:
        """The result of `count` columns from `first` on; what windows have in common is calculated once."""
        if (first, count) not in found:
            half = 1 << (count - 1).bit_length() - 1
            rest = half if self.kind == "max" else count - half  # a maximum may count columns twice
            found[first, count] = self._join(
                code,
                self._across(code, found, first, half),
                self._across(code, found, first + (count - rest) * self.dilation[1], rest),
            )
        return found[first, count]

    def _taps(self, x: int) -> list[int]:
        """The columns of the kernel that lie inside the picture for output column x."""
        left = x * self.stride[1] - self.padding[1]
        return [k for k in range(self.kernel[1]) if 0 <= left + k * self.dilation[1] < self.input.width]

    def _columns_counted(self, x: int) -> int:
        """Columns of the window that an average divides by."""
        left = x * self.stride[1] - self.padding[1]
        if self.count_padding:
            return min(left + self.kernel[1], self.input.width + self.padding[1]) - left
        return len(self._taps(x))

    def _rows_counted(self, code: Code, top: Index, begin: Index, end: Index) -> Index:
        if self.count_padding:
            bottom = code.min(code.add(top, self.kernel[0]), self.input.height + self.padding[0])
            return code.sub(bottom, top)
        return code.sub(end, begin)

    def _count(self, code: Code, rows: Index, x: Index, taps: int) -> Vector:
        if self.divisor:
            return code.splat(float(self.divisor))
        columns = self._columns_counted(x) if isinstance(x, int) else taps
        count = code.mul(rows, columns)
        if isinstance(count, int):
            return code.splat(float(count))
        return code.broadcast(code.builder.sitofp(code.builder.trunc(count, ir.IntType(32)), F32))

    def _start(self, code: Code) -> Vector:
        return code.splat(float("-inf") if self.kind == "max" else 0.0)

    def _join(self, code: Code, value: Vector, element: Vector) -> Vector:
        return code.maximum(element, value) if self.kind == "max" else code.builder.fadd(value, element)


@dataclass(frozen=True)
class AdaptivePoolSpec(KernelSpec):
    """Windows of any sizes. Arguments: input, bounds of rows, bounds of columns, output.

    The tables have two i64 for each output row and column: the first element of its window, and the one behind the last.
    `kind` is ``max`` or ``average``. A task is one output row of one block of channels.
    """

    input: ImageLayout
    output: ImageLayout
    kind: str

    @property
    def tasks(self) -> int:
        return self.output.batch * self.output.blocks * self.output.height

    @property
    def flops(self) -> int:
        return int(np.prod(self.input.shape))

    @property
    def traffic(self) -> int:
        return 4 * (int(np.prod(self.input.shape)) + int(np.prod(self.output.shape)))

    def emit(self, code: Code) -> None:
        source, rows, columns, out = code.pointers(4)
        plane, y = code.divmod(code.task, self.output.height)
        image, block = code.divmod(plane, self.output.blocks)
        places = [
            code.at(
                pointer,
                code.add(code.add(code.mul(image, layout.image), code.mul(block, layout.block_stride)), layout.origin),
            )
            for pointer, layout in ((source, self.input), (out, self.output))
        ]
        to_row = code.at(places[1], code.mul(y, self.output.row))
        top, bottom = self._bounds(code, rows, y)
        start = code.splat(float("-inf") if self.kind == "max" else 0.0)

        def pixel(x: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            left, right = self._bounds(code, columns, x)

            def row(y: Index, totals: Sequence[Vector]) -> Sequence[Vector]:
                line = code.at(places[0], code.mul(y, self.input.row))

                def element(x: Index, values: Sequence[Vector]) -> Sequence[Vector]:
                    loaded = code.load(code.at(line, code.mul(x, self.input.pixel)), align=code.target.lanes * 4)
                    return [self._join(code, values[0], loaded)]

                # rows are summed up on their own: sums of sums lose less
                (value,) = code.loop(left, right, 1, element, [start], at_least_once=True)
                return [self._join(code, totals[0], value)]

            (value,) = code.loop(top, bottom, 1, row, [start], at_least_once=True)
            if self.kind == "average":
                count = code.mul(code.sub(bottom, top), code.sub(right, left))
                value = code.builder.fdiv(value, code.broadcast(code.builder.sitofp(count, F32)))
            code.store(value, code.at(to_row, code.mul(x, self.output.pixel)), align=code.target.lanes * 4)
            return ()

        code.loop(0, self.output.width, 1, pixel)

    def _bounds(self, code: Code, table: Vector, index: Index) -> list[Vector]:
        place = code.at(table, code.mul(index, 2), I64)
        return [code.builder.load(code.at(place, end, I64), typ=I64, align=8) for end in range(2)]

    def _join(self, code: Code, value: Vector, element: Vector) -> Vector:
        return code.maximum(element, value) if self.kind == "max" else code.builder.fadd(value, element)


@dataclass(frozen=True)
class GlobalAverageSpec(KernelSpec):
    """The mean of each channel's picture. Arguments: input, output (height and width 1). A task is one block of channels."""

    input: ImageLayout
    output: ImageLayout

    @property
    def tasks(self) -> int:
        return self.output.batch * self.output.blocks

    @property
    def flops(self) -> int:
        return int(np.prod(self.input.shape))

    @property
    def traffic(self) -> int:
        return 4 * int(np.prod(self.input.shape))

    def emit(self, code: Code) -> None:
        source, out = code.pointers(2)
        image, block = code.divmod(code.task, self.output.blocks)
        layout = self.input
        place = code.add(code.mul(image, layout.image), code.mul(block, layout.block_stride))
        source = code.at(source, code.add(place, layout.origin))

        def row(y: Index, sums: Sequence[Vector]) -> Sequence[Vector]:
            line = code.at(source, code.mul(y, layout.row))
            full = layout.width // 4 * 4

            def pixels(x: Index, values: Sequence[Vector]) -> Sequence[Vector]:
                return [
                    code.builder.fadd(
                        value, code.load(code.at(line, code.add(code.mul(x, layout.pixel), i * layout.pixel)))
                    )
                    for i, value in enumerate(values)
                ]

            values = list(code.loop(0, full, 4, pixels, sums))
            for i in range(layout.width - full):
                values[i] = code.builder.fadd(values[i], code.load(code.at(line, (full + i) * layout.pixel)))
            return values

        a, b, c, d = code.loop(0, layout.height, 1, row, [code.splat(0.0)] * 4)
        total = code.builder.fadd(code.builder.fadd(a, b), code.builder.fadd(c, d))
        mean = code.builder.fdiv(total, code.splat(float(layout.height * layout.width)))
        place = code.add(code.mul(image, self.output.image), code.mul(block, self.output.block_stride))
        code.store(mean, code.at(out, code.add(place, self.output.origin)), align=code.target.lanes * 4)
