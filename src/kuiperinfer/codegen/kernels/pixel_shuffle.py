"""Pixel shuffles between blocked images: r × r pixels of one block are r × r blocks of one pixel, with lanes in turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...records import dataclass
from ..builder import Code, Index, Vector
from ..layout import ImageLayout
from ..spec import KernelSpec
from .permutation import interleave, permute

TASK_ELEMENTS = 1 << 15


@dataclass(frozen=True)
class PixelShuffleSpec(KernelSpec):
    """Arguments: input, output. One has `factor` ² times the channels of the other, and as many fewer pixels.

    A task is some rows of the one with fewer pixels, of the channels that make one block of the other one.
    """

    input: ImageLayout
    output: ImageLayout
    factor: int

    @property
    def deep(self) -> ImageLayout:
        """The image of more channels."""
        return max(self.input, self.output, key=lambda layout: layout.channels)

    @property
    def wide(self) -> ImageLayout:
        """The image of more pixels."""
        return min(self.input, self.output, key=lambda layout: layout.channels)

    @property
    def rows(self) -> int:
        """Rows of a task, of the image of fewer pixels."""
        deep = self.deep
        return max(1, min(deep.height, TASK_ELEMENTS // (deep.width * deep.block * self.factor**2)))

    @property
    def chunks(self) -> int:
        """Shares of these rows."""
        return -(-self.deep.height // self.rows)

    @property
    def tasks(self) -> int:
        return self.wide.batch * self.wide.blocks * self.chunks

    @property
    def traffic(self) -> int:
        return 8 * int(np.prod(self.input.shape))

    def emit(self, code: Code) -> None:
        source, target = code.pointers(2)
        plane, chunk = code.divmod(code.task, self.chunks)
        image, block = code.divmod(plane, self.wide.blocks)
        first = code.mul(chunk, self.rows)
        last = code.min(code.add(first, self.rows), self.deep.height)
        count = self.factor**2
        places = []
        for pointer, layout in ((source, self.input), (target, self.output)):
            blocks = count if layout is self.deep else 1
            start = code.add(code.mul(image, layout.image), code.mul(block, blocks * layout.block_stride))
            places.append(code.at(pointer, code.add(start, layout.origin)))
        whole, rest = divmod(self.deep.blocks, count)
        bounds = (first, last)
        if rest == 0 or whole == 0:
            self._rows(code, places, bounds, rest or count)
            return
        with code.when(code.less(block, whole)):
            self._rows(code, places, bounds, count)
        with code.when(code.less(whole - 1, block)):
            self._rows(code, places, bounds, rest)

    def _rows(self, code: Code, places: Sequence[Vector], bounds: tuple[Index, Index], blocks: int) -> None:
        """All pixels of the rows within `bounds`; of the deep image's blocks only the first `blocks` exist."""
        deep, wide, factor, lanes = self.deep, self.wide, self.factor, code.target.lanes
        opens = self.input is self.deep or self.input == self.deep
        offsets = [i * wide.row + j * wide.pixel for i in range(factor) for j in range(factor)]
        depths = [number * deep.block_stride for number in range(blocks)]
        sources, targets = (depths, offsets) if opens else (offsets, depths)
        from_layout, to_layout = (deep, wide) if opens else (wide, deep)
        from_step, to_step = (1, factor) if opens else (factor, 1)

        def row(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            line = code.at(places[0], code.mul(y, from_step * from_layout.row))
            to_line = code.at(places[1], code.mul(y, to_step * to_layout.row))

            def pixel(x: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                place = code.at(line, code.mul(x, from_step * from_layout.pixel))
                to = code.at(to_line, code.mul(x, to_step * to_layout.pixel))
                vectors = [code.load(code.at(place, offset), align=lanes * 4) for offset in sources]
                vectors += [code.splat(0.0)] * (factor**2 - len(vectors))
                for vector, offset in zip(self._shuffle(code, vectors, opens), targets, strict=False):
                    code.store(vector, code.at(to, offset), align=lanes * 4)
                return ()

            code.loop(0, deep.width, 1, pixel)
            return ()

        code.loop(*bounds, 1, row, at_least_once=True)

    def _shuffle(self, code: Code, vectors: Sequence[Vector], opens: bool) -> list[Vector]:
        """Pixels from the blocks of one pixel, or the other way round."""
        lanes, count = code.target.lanes, len(vectors)
        if count == lanes:
            return code.transpose(vectors)
        if not opens:
            return interleave(code, vectors)
        return [
            permute(code, vectors, [divmod(lane * count + number, lanes) for lane in range(lanes)])
            for number in range(count)
        ]
