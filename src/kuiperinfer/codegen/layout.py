"""Where the elements of an image operand lie: strides in floats, known when code is made.

*Blocked*: `N, C/v, H, W, v` with v the vector's lanes, and a halo: zeros around the picture, which are the consumer's padding.
*Planar*: `N, C, H, W` as PyTorch has it, with or without a halo. One description serves both, so kernels ask for strides
and not for kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from llvmlite import ir

from ..records import dataclass
from .builder import F32, Code, Index

Halo: TypeAlias = tuple[int, int, int, int]  # top, left, bottom, right

NO_HALO: Halo = (0, 0, 0, 0)


@dataclass(frozen=True)
class ImageLayout:
    """Element (n, c, y, x) lies at ``origin + n*image + (c // block)*block_stride + (c % block)*channel + y*row + x*pixel``.

    `block` is the number of channels that lie together (1 where planar); `floats` is the size of the whole buffer. A slice
    of a concatenated buffer has that buffer's strides, and an origin inside it.
    """

    batch: int
    channels: int
    height: int
    width: int
    block: int
    image: int
    block_stride: int
    row: int
    pixel: int
    channel: int
    origin: int
    floats: int
    halo: Halo = NO_HALO

    @property
    def blocks(self) -> int:
        """Number of channel blocks."""
        return -(-self.channels // self.block)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(N, C, H, W)"""
        return (self.batch, self.channels, self.height, self.width)

    @property
    def is_dense(self) -> bool:
        """Whether the pixels of a block follow one another without a gap, row after row."""
        return self.row == self.width * self.pixel

    def channel_slice(self, start: int, channels: int) -> ImageLayout:
        """Channels from `start` (a multiple of the block) on, in the same buffer."""
        assert start % self.block == 0
        return replace(self, channels=channels, origin=self.origin + start // self.block * self.block_stride)

    def as_rows(self, rows: int) -> ImageLayout:
        """The same pixels as another number of rows of equal length; the layout must be dense."""
        assert self.is_dense and self.height * self.width % rows == 0
        width = self.height * self.width // rows
        return replace(self, height=rows, width=width, row=width * self.pixel)


def blocked(shape: tuple[int, int, int, int], lanes: int, halo: Halo = NO_HALO) -> ImageLayout:
    """A buffer of its own in blocked layout."""
    batch, channels, height, width = shape
    top, left, bottom, right = halo
    row = (width + left + right) * lanes
    block_stride = (height + top + bottom) * row
    image = -(-channels // lanes) * block_stride
    return ImageLayout(
        batch, channels, height, width, lanes, image, block_stride, row, lanes, 1,
        top * row + left * lanes, batch * image, halo,
    )  # fmt: skip


def planar(shape: tuple[int, int, int, int], halo: Halo = NO_HALO) -> ImageLayout:
    """A buffer of its own in row-major order."""
    batch, channels, height, width = shape
    top, left, bottom, right = halo
    row = width + left + right
    plane = (height + top + bottom) * row
    return ImageLayout(
        batch, channels, height, width, 1, channels * plane, plane, row, 1, plane,
        top * row + left, batch * channels * plane, halo,
    )  # fmt: skip


@dataclass(frozen=True)
class Matrix:
    """Where the elements of a stack of matrices lie: strides in elements for rows, columns and each dimension of the stack.

    A stride is 0 where one element serves all.
    """

    row: int
    column: int = 1
    stack: tuple[int, ...] = ()

    def transposed(self) -> Matrix:
        """Rows and columns exchanged."""
        return replace(self, row=self.column, column=self.row)

    def at(self, code: Code, pointer: Any, indices: Sequence[Index], element: ir.Type = F32) -> Any:
        """The pointer moved to one matrix of the stack."""
        for index, stride in zip(indices, self.stack, strict=True):
            pointer = code.at(pointer, code.mul(index, stride), element)
        return pointer


def strided_planar(shape: tuple[int, int, int, int], strides: Sequence[int]) -> ImageLayout:
    """Elements of other memory, with the given strides for N, C, H and W; `floats` is of no use here."""
    image, plane, row, pixel = (
        stride if size > 1 else default for stride, size, default in zip(strides, shape, (0, 1, 0, 1), strict=True)
    )
    return ImageLayout(*shape, 1, image, plane, row, pixel, plane, 0, 0)
