"""What a producer does with a result before it stores it: any element-wise expression of it and of further operands.

`@0` is the result; `@1`… are operands of the kinds below. Bias is no part of it: sums start with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .builder import Code, Index, Vector
from .layout import ImageLayout


@dataclass(frozen=True)
class Epilogue:
    """`text` is the expression (empty for none), `operands` where `@1`… lie: images in blocked layout of the output's shape,
    or of height and width 1, which are broadcast over the pixels."""

    text: str = ""
    operands: tuple[ImageLayout, ...] = ()

    @property
    def operand_count(self) -> int:
        """Number of further operands."""
        return len(self.operands)

    def seek(self, code: Code, pointers: Sequence[Any], image: Index, block: Index) -> list[Any]:
        """The operands' pointers moved to an image and a block."""
        return [
            code.at(
                pointer,
                code.add(code.add(code.mul(image, layout.image), code.mul(block, layout.block_stride)), layout.origin),
            )
            for pointer, layout in zip(pointers, self.operands, strict=True)
        ]

    def emit(
        self, code: Code, value: Vector, pointers: Sequence[Any], block: int, y: Index, x: Index, pixel: int
    ) -> Vector:
        """The value of the expression at pixel (y, x + pixel) of block `block`."""
        if not self.text:
            return value
        from .expressions import emit_expression

        def operand(index: int) -> Vector:
            if index == 0:
                return value
            layout, pointer = self.operands[index - 1], pointers[index - 1]
            place: Index = block * layout.block_stride
            if (layout.height, layout.width) != (1, 1):
                place = code.add(place, code.add(code.mul(y, layout.row), code.mul(x, layout.pixel)))
                place = code.add(place, pixel * layout.pixel)
            return code.load(code.at(pointer, place), align=code.target.lanes * 4)

        return emit_expression(code, self.text, operand)
