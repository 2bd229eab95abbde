"""What a producer does with a result before it stores it: any element-wise expression of it and of further operands.

`@0` is the result; `@1`… are operands of the kinds below. Bias is no part of it: sums start with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..expression import evaluate
from ..passes.fused import parse
from ..records import dataclass
from .builder import Code, Index, Vector
from .expressions import call_expression, call_expressions
from .layout import ImageLayout, Matrix


def _emit(code: Code, text: str, value: Vector, operand: Callable[[int], Vector]) -> Vector:
    """The value of an expression; `operand(i)` loads operand number i, counted from 0."""
    if not text:
        return value
    return call_expression(code, text, lambda index: value if index == 0 else operand(index - 1))


def keeps_zeros(text: str, operand_count: int) -> bool:
    """Whether an expression of a result and further operands gives 0 where all of them are 0."""
    zeros = [np.zeros(1, np.float32)] * (1 + operand_count)
    return not text or not np.any(evaluate(parse(text), zeros))


@dataclass(frozen=True)
class Seat:
    """The operands of an epilogue at an image and a block."""

    pointers: Sequence[Any]
    block: Index


@dataclass(frozen=True)
class Epilogue:
    """`text` is the expression (empty for none), `operands` where `@1`… lie: images in blocked layout of the output's shape,
    or of height and width 1, which are broadcast over the pixels. Where the expression makes something else of the zeros in the
    lanes beyond the last channel, `channels` is the number of channels, and these lanes become 0 again."""

    text: str = ""
    operands: tuple[ImageLayout, ...] = ()
    channels: int = 0

    @staticmethod
    def of(text: str, operands: Sequence[ImageLayout], channels: int, lanes: int) -> Epilogue:
        """The epilogue of an output with so many channels."""
        masked = channels % lanes != 0 and not keeps_zeros(text, len(operands))
        return Epilogue(text, tuple(operands), channels if masked else 0)

    @property
    def operand_count(self) -> int:
        """Number of further operands."""
        return len(self.operands)

    def seek(self, code: Code, pointers: Sequence[Any], image: Index, block: Index) -> Seat:
        """The operands at an image and a block."""
        moved = [
            code.at(
                pointer,
                code.add(code.add(code.mul(image, layout.image), code.mul(block, layout.block_stride)), layout.origin),
            )
            for pointer, layout in zip(pointers, self.operands, strict=True)
        ]
        return Seat(moved, block)

    def emit(
        self, code: Code, values: Sequence[Vector], seat: Seat, places: Sequence[tuple[int, Index, Index, int]]
    ) -> list[Vector]:
        """The values of the expression for several results at places (block, y, x, pixel)."""
        if not self.text:
            return list(values)

        def operand(number: int, value: Vector, place: tuple[int, Index, Index, int]) -> Vector:
            return value if number == 0 else self._load(code, seat, number - 1, *place)

        pairs = zip(values, places, strict=True)
        operands = [functools.partial(operand, value=value, place=place) for value, place in pairs]
        results = call_expressions(code, self.text, operands)
        if not self.channels:
            return results
        lanes, zero = code.target.lanes, code.splat(0.0)
        left = [code.sub(self.channels, code.mul(code.add(seat.block, block), lanes)) for block, *_ in places]
        return [
            code.builder.select(code.mask(count), result, zero) for count, result in zip(left, results, strict=True)
        ]

    def _load(self, code: Code, seat: Seat, number: int, block: int, y: Index, x: Index, pixel: int) -> Vector:
        layout, pointer = self.operands[number], seat.pointers[number]
        place: Index = block * layout.block_stride
        if (layout.height, layout.width) != (1, 1):
            place = code.add(place, code.add(code.mul(y, layout.row), code.mul(x, layout.pixel)))
            place = code.add(place, pixel * layout.pixel)
        return code.load(code.at(pointer, place), align=code.target.lanes * 4)


@dataclass(frozen=True)
class MatrixEpilogue:
    """The same for a stack of matrices: strides of 0 broadcast, columns follow one another or are one."""

    text: str = ""
    operands: tuple[Matrix, ...] = ()

    @property
    def operand_count(self) -> int:
        """Number of further operands."""
        return len(self.operands)

    def seek(self, code: Code, pointers: Sequence[Any], indices: Sequence[Index]) -> list[Any]:
        """The operands' pointers moved to one matrix of the stack."""
        return [layout.at(code, pointer, indices) for pointer, layout in zip(pointers, self.operands, strict=True)]

    def emit(
        self, code: Code, value: Vector, pointers: Sequence[Any], row: Index, column: Index, count: Index | None = None
    ) -> Vector:
        """The value of the expression for a vector of columns; of operands only the first `count` columns are read."""

        def operand(number: int) -> Vector:
            layout = self.operands[number]
            line = code.at(pointers[number], code.mul(row, layout.row))
            if layout.column == 0:
                return code.load_splat(line)
            place = code.at(line, column)
            return code.load(place) if count is None else code.load_first(place, count)

        return _emit(code, self.text, value, operand)
