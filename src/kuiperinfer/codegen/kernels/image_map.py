"""A fused loop for an element-wise expression of images in blocked layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...expression import evaluate
from ...passes.fused import parse
from ...records import dataclass
from ..builder import Code, Index, Vector
from ..expressions import count_calls, emit_expression, vectors_a_turn
from ..layout import ImageLayout
from ..spec import KernelSpec

_TASK_ELEMENTS = 1 << 14  # at least, where a picture has as many


@dataclass(frozen=True)
class ImageMapSpec(KernelSpec):
    """`text`, an expression of `@0`…, at every pixel. Arguments: the operands, then the output.

    Operands are blocked images of the output's shape, or with 1 in place of any size, which is broadcast. The interior alone
    is written; lanes beyond the last channel become 0. The output may be the same memory as an operand of the same layout.
    Made by `plan_image_map`. A task is some rows of one block.
    """

    text: str
    operands: tuple[ImageLayout, ...]
    output: ImageLayout

    @property
    def rows(self) -> int:
        """Rows of a task."""
        return min(self.output.height, -(-_TASK_ELEMENTS // max(1, self.output.width * self.output.block)))

    @property
    def row_chunks(self) -> int:
        """Tasks of a block."""
        return -(-self.output.height // max(1, self.rows))

    @property
    def tasks(self) -> int:
        return self.output.batch * self.output.blocks * self.row_chunks

    @property
    def flops(self) -> int:
        return count_calls(self.text) * int(np.prod(self.output.shape))

    @property
    def traffic(self) -> int:
        return 4 * sum(int(np.prod(layout.shape)) for layout in (*self.operands, self.output))

    def emit(self, code: Code) -> None:
        *pointers, out = code.pointers(len(self.operands) + 1)
        share, chunk = code.divmod(code.task, self.row_chunks)
        image, block = code.divmod(share, self.output.blocks)
        operands = [
            _Operand(code, layout, self.output, pointer).at_block(image, block)
            for layout, pointer in zip((*self.operands, self.output), (*pointers, out), strict=True)
        ]
        channels = code.sub(self.output.channels, code.mul(block, self.output.block))
        mask = None if self._keeps_zeros() else code.mask(channels)
        fixed = {number: operand.load(0) for number, operand in enumerate(operands[:-1]) if operand.is_fixed}

        def row(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            here = [operand.at_row(y) for operand in operands]
            self._emit_row(code, here, fixed, mask)
            return ()

        first = code.mul(chunk, self.rows)
        last = code.min(code.add(first, self.rows), self.output.height)
        code.loop(first, last, 1, row, at_least_once=True)

    def _keeps_zeros(self) -> bool:
        """Whether there are no lanes beyond the last channel, or the expression makes zeros of the zeros there."""
        if self.output.channels % self.output.block == 0:
            return True
        zeros = [np.zeros(1, np.float32) for _ in self.operands]
        return not np.any(evaluate(parse(self.text), zeros))

    def _emit_row(self, code: Code, row: Sequence[_Operand], fixed: dict[int, Vector], mask: Any) -> None:
        lanes, turn = code.target.lanes, vectors_a_turn(self.text)
        assert self.output.block == lanes

        def pixels(x: Index, count: int) -> None:
            results = []
            for pixel in range(count):

                def operand(number: int, pixel: int = pixel) -> Vector:
                    return fixed[number] if number in fixed else row[number].load(code.add(x, pixel))

                value = emit_expression(code, self.text, operand)
                results.append(value if mask is None else code.builder.select(mask, value, code.splat(0.0)))
            for pixel, result in enumerate(results):
                row[-1].store(result, code.add(x, pixel))

        def body(x: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            pixels(x, turn)
            return ()

        whole = self.output.width // turn * turn
        code.loop(0, whole, turn, body)
        pixels(whole, self.output.width - whole)


@dataclass(frozen=True)
class _Operand:
    """An image that is broadcast to the output's shape, at a place within."""

    code: Code
    layout: ImageLayout
    output: ImageLayout
    pointer: Any

    @property
    def is_fixed(self) -> bool:
        """Whether all pixels of a block are the same."""
        return (self.layout.height, self.layout.width) == (1, 1)

    def _moved(self, offset: Index) -> _Operand:
        return _Operand(self.code, self.layout, self.output, self.code.at(self.pointer, offset))

    def at_block(self, image: Index, block: Index) -> _Operand:
        code, layout = self.code, self.layout
        return self._moved(
            code.add(
                code.add(0 if layout.batch == 1 else code.mul(image, layout.image), layout.origin),
                0 if layout.blocks == 1 else code.mul(block, layout.block_stride),
            )
        )

    def at_row(self, y: Index) -> _Operand:
        return self._moved(0 if self.layout.height == 1 else self.code.mul(y, self.layout.row))

    def _at_pixel(self, x: Index) -> Any:
        return self.code.at(self.pointer, 0 if self.layout.width == 1 else self.code.mul(x, self.layout.pixel))

    def load(self, x: Index) -> Vector:
        place = self._at_pixel(x)
        if self.layout.channels == 1 and self.output.channels > 1:
            return self.code.load_splat(place)
        return self.code.load(place, align=self.code.target.vector_bytes)

    def store(self, value: Vector, x: Index) -> None:
        self.code.store(value, self._at_pixel(x), align=self.code.target.vector_bytes)


def plan_image_map(text: str, operands: Sequence[ImageLayout], output: ImageLayout) -> ImageMapSpec:
    """The spec of a map of images; pictures that lie densely become rows of a length that fits a task."""
    whole = [layout for layout in operands if (layout.height, layout.width) != (1, 1)]
    same = all((layout.height, layout.width) == (output.height, output.width) for layout in whole)
    if same and all(layout.is_dense for layout in (*whole, output)):
        pixels = output.height * output.width
        most = _TASK_ELEMENTS // output.block * 2
        rows = next((rows for rows in range(1, pixels + 1) if pixels % rows == 0 and pixels // rows <= most), 1)
        if pixels // rows >= output.width:
            operands = [layout.as_rows(rows) if layout in whole else layout for layout in operands]
            output = output.as_rows(rows)
    return ImageMapSpec(text, tuple(operands), output)
