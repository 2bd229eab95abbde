"""Blocked images at another resolution, or with other borders: output pixels are input pixels, or weighted sums of a few.

Which ones is known when code is made: tables of offsets and weights are constants that the kernels read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...dtypes import Array
from ...records import dataclass
from ..builder import I64, Code, Index, Vector
from ..layout import ImageLayout
from ..spec import KernelSpec

TASK_ELEMENTS = 1 << 15  # elements that a task writes, about
_UNROLL = 4


@dataclass(frozen=True)
class _ResizeSpec(KernelSpec):
    """What all have in common: a task is some output rows of one block of channels."""

    input: ImageLayout
    output: ImageLayout

    @property
    def rows(self) -> int:
        """Output rows of a task."""
        return max(1, min(self.output.height, TASK_ELEMENTS // (self.output.width * self.output.block)))

    @property
    def chunks(self) -> int:
        """Shares of the output's height."""
        return -(-self.output.height // self.rows)

    @property
    def tasks(self) -> int:
        return self.output.batch * self.output.blocks * self.chunks

    @property
    def traffic(self) -> int:
        return 4 * (int(np.prod(self.input.shape)) + int(np.prod(self.output.shape)))

    def _share(self, code: Code, source: Vector, out: Vector) -> tuple[Vector, Vector, Index, Index]:
        """Input and output moved to the task's block, and the output rows that it makes."""
        plane, chunk = code.divmod(code.task, self.chunks)
        image, block = code.divmod(plane, self.output.blocks)
        first = code.mul(chunk, self.rows)
        places = [
            code.at(
                pointer,
                code.add(code.add(code.mul(image, layout.image), code.mul(block, layout.block_stride)), layout.origin),
            )
            for pointer, layout in ((source, self.input), (out, self.output))
        ]
        return places[0], places[1], first, code.min(code.add(first, self.rows), self.output.height)

    def _pixels(self, code: Code, count: int, pixel: Callable[[Index], None]) -> None:
        """`pixel(x)` for x = 0 … count - 1, a few a turn."""

        def turn(x: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            for step in range(_UNROLL):
                pixel(code.add(x, step))
            return ()

        whole = count // _UNROLL * _UNROLL
        code.loop(0, whole, _UNROLL, turn)
        for x in range(whole, count):
            pixel(x)


@dataclass(frozen=True)
class GatherPixelsSpec(_ResizeSpec):
    """Each output pixel is one input pixel. Arguments: input, offsets of rows, offsets of columns, output.

    The tables have an i64 for each output row and column, in floats.
    """

    def emit(self, code: Code) -> None:
        source, rows, columns, out = code.pointers(4)
        source, out, first, last = self._share(code, source, out)
        lanes = code.target.lanes

        def row(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            line = code.at(source, _load_index(code, rows, y))
            to_row = code.at(out, code.mul(y, self.output.row))

            def pixel(x: Index) -> None:
                value = code.load(code.at(line, _load_index(code, columns, x)), align=lanes * 4)
                code.store(value, code.at(to_row, code.mul(x, self.output.pixel)), align=lanes * 4)

            self._pixels(code, self.output.width, pixel)
            return ()

        code.loop(first, last, 1, row, at_least_once=True)


@dataclass(frozen=True)
class WeighPixelsSpec(_ResizeSpec):
    """Each output pixel is a weighted sum of `taps` input pixels, down times across.

    Arguments: input, then of rows and of columns the offsets (i64, in floats) and the weights, all (output size, taps); output.
    """

    taps: tuple[int, int]

    @property
    def flops(self) -> int:
        return 2 * int(np.prod(self.output.shape)) * self.taps[0] * (self.taps[1] + 1)

    def emit(self, code: Code) -> None:
        source, rows, row_weights, columns, column_weights, out = code.pointers(6)
        source, out, first, last = self._share(code, source, out)
        (down, across), lanes = self.taps, code.target.lanes

        def row(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            taps = [code.add(code.mul(y, down), tap) for tap in range(down)]
            lines = [code.at(source, _load_index(code, rows, tap)) for tap in taps]
            factors = [code.load_splat(code.at(row_weights, tap)) for tap in taps]
            to_row = code.at(out, code.mul(y, self.output.row))

            def pixel(x: Index) -> None:
                taps = [code.add(code.mul(x, across), tap) for tap in range(across)]
                places = [_load_index(code, columns, tap) for tap in taps]
                shares = [code.load_splat(code.at(column_weights, tap)) for tap in taps]
                total: Vector | None = None
                for line, factor in zip(lines, factors, strict=True):
                    values = [code.load(code.at(line, place), align=lanes * 4) for place in places]
                    total = _multiply_add(code, _weighted(code, values, shares), factor, total)
                code.store(total, code.at(to_row, code.mul(x, self.output.pixel)), align=lanes * 4)

            self._pixels(code, self.output.width, pixel)
            return ()

        code.loop(first, last, 1, row, at_least_once=True)


def _load_index(code: Code, table: Vector, index: Index) -> Vector:
    return code.builder.load(code.at(table, index, I64), typ=I64, align=8)


def _multiply_add(code: Code, value: Vector, factor: Vector, total: Vector | None) -> Vector:
    return code.builder.fmul(value, factor) if total is None else code.fma(value, factor, total)


def _weighted(code: Code, values: Sequence[Vector], weights: Sequence[Vector]) -> Vector:
    total: Vector | None = None
    for value, weight in zip(values, weights, strict=True):
        total = _multiply_add(code, value, weight, total)
    return total


def offsets(positions: Array, stride: int) -> Array:
    """A table of offsets for the given positions."""
    return np.ascontiguousarray(positions.astype(np.int64) * stride)
