"""Transposed convolution whose stride is its kernel: every input pixel makes a rectangle of output pixels of its own.

Each place of the rectangle is a 1×1 convolution of the input whose results lie a stride apart. All of them read the same input,
so a task does all of them for its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...dtypes import Array
from ...records import dataclass
from ..builder import Code, Index, Vector
from ..epilogue import Epilogue
from ..layout import ImageLayout
from ..spec import KernelSpec
from .direct_convolution import DirectConvolutionSpec, pack_weights


@dataclass(frozen=True)
class TransposedConvolutionSpec(KernelSpec):
    """A transposed convolution without overlaps and padding. Arguments: input, packed weights, bias, output, then those of the
    epilogue. A task is `rows` input rows of `tile_blocks` output blocks."""

    input: ImageLayout
    output: ImageLayout
    kernel: tuple[int, int]  # and the stride
    epilogue: Epilogue
    tile: int
    tile_blocks: int
    rows: int

    @property
    def row_chunks(self) -> int:
        """Shares of the input's height."""
        return -(-self.input.height // self.rows)

    @property
    def tasks(self) -> int:
        return self.output.batch * self.product.block_groups * self.row_chunks

    @property
    def flops(self) -> int:
        return 2 * int(np.prod(self.output.shape)) * self.input.channels

    @property
    def traffic(self) -> int:
        weights = self.input.channels * self.output.channels * self.kernel[0] * self.kernel[1]
        return 4 * (int(np.prod(self.input.shape)) + int(np.prod(self.output.shape)) + weights)

    @property
    def product(self) -> DirectConvolutionSpec:
        """The 1×1 convolution of one place of the rectangle."""
        out = self.output
        pixels = replace(
            out,
            height=self.input.height,
            width=self.input.width,
            row=self.kernel[0] * out.row,
            pixel=self.kernel[1] * out.pixel,
        )
        ones = (1, 1)
        return DirectConvolutionSpec(
            self.input, pixels, ones, ones, ones, (0, 0), 1, Epilogue(), self.tile, self.tile_blocks, self.rows
        )

    def emit(self, code: Code) -> None:
        operands = code.pointers(4 + self.epilogue.operand_count)
        share, chunk = code.divmod(code.task, self.row_chunks)
        image, group = code.divmod(share, self.product.block_groups)
        first = code.mul(chunk, self.rows)
        last = code.min(code.add(first, self.rows), self.input.height)
        full, rest = divmod(self.output.blocks, self.tile_blocks)
        if rest == 0 or full == 0:
            self._emit_rows(code, operands, image, group, (first, last), rest or self.tile_blocks)
            return
        with code.when(code.less(group, full)):
            self._emit_rows(code, operands, image, group, (first, last), self.tile_blocks)
        with code.when(code.less(full - 1, group)):
            self._emit_rows(code, operands, image, full, (first, last), rest)

    def _emit_rows(
        self,
        code: Code,
        operands: Sequence[Vector],
        image: Index,
        group: Index,
        bounds: tuple[Index, Index],
        blocks: int,
    ) -> None:
        """What the input rows within `bounds` make of `blocks` output blocks."""
        source, weights, bias, out, *extra = operands
        lanes, (down, across) = code.target.lanes, self.kernel
        block_weights = self.input.blocks * lanes * lanes
        first_block = code.mul(group, self.tile_blocks)
        weights = code.at(weights, code.mul(first_block, block_weights))
        bias = code.at(bias, code.mul(first_block, lanes))
        biases = [code.load(code.at(bias, block * lanes), align=lanes * 4) for block in range(blocks)]
        source = code.at(source, code.add(code.mul(image, self.input.image), self.input.origin))
        place = code.add(code.mul(image, self.output.image), code.mul(first_block, self.output.block_stride))
        out = code.at(out, code.add(place, self.output.origin))
        seat = self.epilogue.seek(code, extra, image, first_block)
        product = self.product

        def row(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            line = code.at(source, code.mul(y, self.input.row))

            def place_of_rectangle(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                py, px = code.divmod(number, across)
                own = code.at(weights, code.mul(number, self.output.blocks * block_weights))
                out_y = code.add(code.mul(y, down), py)
                to_row = code.at(out, code.mul(out_y, self.output.row))

                def tile(x: Index, width: int) -> None:
                    pixels = code.at(line, code.mul(x, self.input.pixel))
                    start = [bias for bias in biases for _ in range(width)]
                    sums = product.emit_tile(code, pixels, own, start, width, block_weights)
                    out_x = code.add(code.mul(x, across), px)
                    to = code.at(to_row, code.mul(out_x, self.output.pixel))
                    places = [(block, pixel * across) for block in range(blocks) for pixel in range(width)]
                    found = [(block, out_y, out_x, pixel) for block, pixel in places]
                    results = self.epilogue.emit(code, sums, seat, found)
                    for (block, pixel), value in zip(places, results, strict=True):
                        shift = block * self.output.block_stride + pixel * self.output.pixel
                        code.store(value, code.at(to, shift), align=lanes * 4)

                def whole_tile(x: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                    tile(x, self.tile)
                    return ()

                full, rest = divmod(self.input.width, self.tile)
                code.loop(0, full * self.tile, self.tile, whole_tile)
                if rest:
                    tile(full * self.tile, rest)
                return ()

            code.loop(0, down * across, 1, place_of_rectangle)
            return ()

        code.loop(*bounds, 1, row, at_least_once=True)


def pack_transposed(weight: Array, spec: TransposedConvolutionSpec, lanes: int) -> Array:
    """Weights (C, O, KH, KW) as the kernel reads them: (place of the rectangle, output block, input block, channel, lane)."""
    places = [weight[:, :, y, x].T[:, :, None, None] for y in range(spec.kernel[0]) for x in range(spec.kernel[1])]
    return np.stack([pack_weights(place, spec.product, lanes) for place in places])
