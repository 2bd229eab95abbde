"""Pooling over windows of a blocked image: maximum and average.

Windows are clipped to the picture, so the halo's zeros are never seen. Columns whose windows are clipped are written out one by
one; those between share a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from ..builder import F32, Code, Index, Vector
from ..layout import ImageLayout
from ..spec import KernelSpec

_TILE = 4  # pixels that share a step


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

    def emit(self, code: Code) -> None:
        source, out = code.pointers(2)
        plane, chunk = code.divmod(code.task, self.chunks)
        image, block = code.divmod(plane, self.output.blocks)
        first = code.mul(chunk, self.rows)
        last = code.min(code.add(first, self.rows), self.output.height)

        def seek(pointer: Vector, layout: ImageLayout) -> Vector:
            place = code.add(code.mul(image, layout.image), code.mul(block, layout.block_stride))
            return code.at(pointer, code.add(place, layout.origin))

        from_plane, to_plane = seek(source, self.input), seek(out, self.output)

        def row(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            self._row(code, from_plane, to_plane, y)
            return ()

        code.loop(first, last, 1, row, at_least_once=True)

    def _row(self, code: Code, source: Vector, out: Vector, y: Index) -> None:
        (height, width), (step_y, step_x) = self.kernel, self.dilation
        top = code.sub(code.mul(y, self.stride[0]), self.padding[0])
        # kernel rows [begin, end) lie inside the picture
        begin = code.max(0, code.div(code.sub(step_y - 1, code.min(top, 0)), step_y))
        end = code.min(height, code.div(code.add(code.sub(self.input.height, top), step_y - 1), step_y))
        source = code.at(source, code.mul(top, self.input.row))
        out = code.at(out, code.mul(y, self.output.row))
        lengths = self._rows_counted(code, top, begin, end)

        def columns(x: Index, count: int, taps: Sequence[int]) -> None:
            """`count` output columns from `x` on whose windows have the given columns of the kernel inside."""
            left = code.mul(code.sub(code.mul(x, self.stride[1]), self.padding[1]), self.input.pixel)
            start = [self._start(code)] * count

            def kernel_row(ky: Index, values: Sequence[Vector]) -> Sequence[Vector]:
                line = code.at(source, code.add(left, code.mul(ky, step_y * self.input.row)))
                new = list(values)
                for pixel in range(count):
                    for kx in taps:
                        shift = (pixel * self.stride[1] + kx * step_x) * self.input.pixel
                        new[pixel] = self._join(code, new[pixel], code.load(code.at(line, shift)))
                return new

            values = code.loop(begin, end, 1, kernel_row, start)
            for pixel, value in enumerate(values):
                if self.kind == "average":
                    value = code.builder.fdiv(value, self._count(code, lengths, x, len(taps)))
                place = code.add(code.mul(x, self.output.pixel), pixel * self.output.pixel)
                code.store(value, code.at(out, place), align=code.target.lanes * 4)

        whole = [
            x for x in range(self.output.width) if len(self._taps(x)) == width and self._columns_counted(x) == width
        ]
        low, high = (whole[0], whole[-1] + 1) if whole else (self.output.width, self.output.width)
        for x in range(low):
            columns(x, 1, self._taps(x))

        def tile(x: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            columns(x, _TILE, range(width))
            return ()

        full = (high - low) // _TILE * _TILE
        code.loop(low, low + full, _TILE, tile)
        if high - low - full:
            columns(low + full, high - low - full, range(width))
        for x in range(high, self.output.width):
            columns(x, 1, self._taps(x))

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
