"""A convolution and an operation on windows of each of its channels, depth first: what lies between never leaves the cache.

Whole layer after layer, a large picture goes out to the third-level cache or to memory and comes back. Here a task calculates a
strip of the convolution's output, of a few blocks of channels, in thread-local scratch, and goes on with it at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...records import dataclass
from ..builder import Code, Index, Vector
from ..layout import ImageLayout
from ..spec import KernelSpec
from .depthwise import DepthwiseSpec
from .direct_convolution import DirectConvolutionSpec
from .pooling import PoolSpec


@dataclass(frozen=True)
class DepthFirstSpec(KernelSpec):
    """Arguments: those of `first` but for its output, then those of `then` but for its input.

    A task is `rows` rows of `then`'s output, of the blocks of a group of `first`. The output of `first` and the input of `then`
    have the picture's shape and the strides of the `strip`: as many rows as a task needs, with zeros around where they are
    padding.
    """

    first: DirectConvolutionSpec
    then: DepthwiseSpec | PoolSpec
    strip: ImageLayout
    rows: int

    @property
    def input(self) -> ImageLayout:
        """Where the convolution's input lies."""
        return self.first.input

    @property
    def output(self) -> ImageLayout:
        """Where the result lies."""
        return self.then.output

    @property
    def strips(self) -> int:
        """Shares of the output's height."""
        return -(-self.output.height // self.rows)

    @property
    def tasks(self) -> int:
        return self.output.batch * self.strips * self.first.block_groups

    @property
    def scratch_floats(self) -> int:
        return self.strip.floats

    @property
    def flops(self) -> int:
        return self.first.flops + self.then.flops

    @property
    def traffic(self) -> int:
        return self.first.traffic + self.then.traffic - 8 * int(np.prod(self.then.input.shape))

    def emit(self, code: Code) -> None:
        count = 3 + self.first.epilogue.operand_count
        pointers = code.pointers(count + self.then.operand_count)
        share, group = code.divmod(code.task, self.first.block_groups)
        image, strip = code.divmod(share, self.strips)
        start = code.mul(strip, self.rows)
        span = (start, code.min(code.add(start, self.rows), self.output.height))
        self.first.for_blocks(
            code,
            group,
            lambda group, blocks: self._strip(code, pointers[:count], pointers[count:], image, group, span, blocks),
        )

    def _strip(
        self,
        code: Code,
        operands: Sequence[Any],
        others: Sequence[Vector],
        image: Index,
        group: Index,
        span: tuple[Index, Index],
        blocks: int,
    ) -> None:
        source, weights, bias, *extra = operands
        then, layout = self.then, self.strip
        top = code.sub(code.mul(span[0], then.stride[0]), then.padding[0])  # the rows that windows see: [top, bottom)
        below = (then.kernel[0] - 1) * then.dilation[0] + 1 - then.padding[0]
        bottom = code.add(code.mul(code.sub(span[1], 1), then.stride[0]), below)
        begin = code.min(code.max(top, 0), bottom)
        inside = (begin, code.max(begin, code.min(bottom, then.input.height)))
        if isinstance(then, DepthwiseSpec):
            self._pad(code, blocks, code.sub(inside[0], top), code.sub(inside[1], top), code.sub(bottom, top))
        # where the picture's first row would be
        picture = code.at(code.scratch, code.sub(layout.origin, code.mul(top, layout.row)))
        self.first.emit_share(code, (source, weights, bias, picture, extra), image, group, inside, blocks)
        first_block = code.mul(group, self.first.tile_blocks)

        def block(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            plane = code.at(picture, code.mul(number, layout.block_stride))
            then.emit_rows(code, plane, others, image, code.add(first_block, number), span)
            return ()

        code.loop(0, blocks, 1, block)

    def _pad(self, code: Code, blocks: int, first: Index, last: Index, rows: Index) -> None:
        """Zeros around the rows from `first` to before `last` of a strip of so many rows."""
        layout, lanes = self.strip, code.target.lanes
        _, left, _, right = layout.halo
        zero = code.splat(0.0)

        def clear(line: Vector, start: int, stop: int) -> None:
            def pixel(place: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                code.store(zero, code.at(line, place), align=lanes * 4)
                return ()

            code.loop(start * layout.pixel, stop * layout.pixel, layout.pixel, pixel)

        def block(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            plane = code.at(code.scratch, code.mul(number, layout.block_stride))

            def edges(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                line = code.at(plane, code.mul(y, layout.row))
                clear(line, 0, left)
                clear(line, left + layout.width, left + layout.width + right)
                return ()

            def outside(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                clear(code.at(plane, code.mul(y, layout.row)), 0, left + layout.width + right)
                return ()

            code.loop(first, last, 1, edges)
            code.loop(0, first, 1, outside)
            code.loop(last, rows, 1, outside)
            return ()

        code.loop(0, blocks, 1, block)
