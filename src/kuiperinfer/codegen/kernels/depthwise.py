"""Depthwise convolution: every channel by its own filter, which goes over a few output pixels that stay in registers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...dtypes import Array
from ...records import dataclass
from ..builder import Code, Index, Vector
from ..epilogue import Epilogue
from ..layout import ImageLayout
from ..spec import KernelSpec


@dataclass(frozen=True)
class DepthwiseSpec(KernelSpec):
    """One filter a channel. Arguments: input, packed weights, bias, output, then those of the epilogue.

    A task is `rows` output rows of one block of channels; tasks go through all blocks of these rows first if `by_rows`. The
    input's halo holds the padding.
    """

    input: ImageLayout
    output: ImageLayout
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]
    epilogue: Epilogue
    tile: int
    rows: int
    by_rows: bool = False

    @property
    def chunks(self) -> int:
        """Shares of the output's height."""
        return -(-self.output.height // self.rows)

    @property
    def tasks(self) -> int:
        return self.output.batch * self.output.blocks * self.chunks

    @property
    def flops(self) -> int:
        return 2 * int(np.prod(self.output.shape)) * self.kernel[0] * self.kernel[1]

    @property
    def traffic(self) -> int:
        return 4 * (int(np.prod(self.input.shape)) + int(np.prod(self.output.shape)))

    @property
    def operand_count(self) -> int:
        """Number of operands beside the input."""
        return 3 + self.epilogue.operand_count

    def emit(self, code: Code) -> None:
        source, *others = code.pointers(1 + self.operand_count)
        if self.by_rows:
            share, block = code.divmod(code.task, self.output.blocks)
            image, chunk = code.divmod(share, self.chunks)
        else:
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
        weights, bias, out, *extra = others
        lanes = code.target.lanes
        weights = code.at(weights, code.mul(block, self.kernel[0] * self.kernel[1] * lanes))
        start = code.load(code.at(bias, code.mul(block, lanes)), align=lanes * 4)
        source = code.at(source, -self.padding[0] * self.input.row - self.padding[1] * self.input.pixel)
        place = code.add(code.mul(image, self.output.image), code.mul(block, self.output.block_stride))
        out = code.at(out, code.add(place, self.output.origin))
        operands = self.epilogue.seek(code, extra, image, block)

        def row(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            line = code.at(source, code.mul(y, self.stride[0] * self.input.row))
            to = code.at(out, code.mul(y, self.output.row))

            def tile(x: Index, width: int) -> None:
                sums = self._tile(
                    code, code.at(line, code.mul(x, self.stride[1] * self.input.pixel)), weights, start, width
                )
                found = [(0, y, x, pixel) for pixel in range(width)]
                for pixel, value in enumerate(self.epilogue.emit(code, sums, operands, found)):
                    place = code.add(code.mul(x, self.output.pixel), pixel * self.output.pixel)
                    code.store(value, code.at(to, place), align=lanes * 4)

            def whole_tile(x: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                tile(x, self.tile)
                return ()

            full, rest = divmod(self.output.width, self.tile)
            code.loop(0, full * self.tile, self.tile, whole_tile)
            if rest:
                tile(full * self.tile, rest)
            return ()

        code.loop(*span, 1, row, at_least_once=True)

    def _tile(self, code: Code, source: Vector, weights: Vector, start: Vector, width: int) -> list[Vector]:
        """The sums of `width` output pixels; an input pixel is loaded once for all that need it."""
        lanes = code.target.lanes
        sums = [start] * width
        for ky in range(self.kernel[0]):
            line = code.at(source, ky * self.dilation[0] * self.input.row)
            filters = [
                code.load(code.at(weights, (ky * self.kernel[1] + kx) * lanes), align=lanes * 4)
                for kx in range(self.kernel[1])
            ]
            pixels: dict[int, Vector] = {}
            for pixel in range(width):
                for kx, factor in enumerate(filters):
                    place = pixel * self.stride[1] + kx * self.dilation[1]
                    if place not in pixels:
                        pixels[place] = code.load(code.at(line, place * self.input.pixel), align=lanes * 4)
                    sums[pixel] = code.fma(pixels[place], factor, sums[pixel])
        return sums


def pack_depthwise(weight: Array, lanes: int) -> Array:
    """Weights (C, 1, KH, KW) as (block, position, lane), padded with zeros."""
    channels, _, height, width = weight.shape
    packed = np.zeros((-(-channels // lanes) * lanes, height * width), np.float32)
    packed[:channels] = weight.reshape(channels, -1)
    return np.ascontiguousarray(packed.reshape(-1, lanes, height * width).transpose(0, 2, 1))
