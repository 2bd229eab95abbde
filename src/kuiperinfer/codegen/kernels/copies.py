"""Kernels that only move: halo filling, and reorders between planar and blocked images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...dtypes import Array
from ...records import dataclass
from ..builder import Code, Index, Vector
from ..layout import ImageLayout
from ..spec import KernelSpec


@dataclass(frozen=True)
class FillHaloSpec(KernelSpec):
    """Zeros in the halo of a blocked or planar buffer. Argument: the buffer. A task is one plane (image, block)."""

    layout: ImageLayout
    value: float = 0.0

    @property
    def planes(self) -> int:
        """Planes of one image in the buffer, slices of a concatenation included."""
        return self.layout.image // self.layout.block_stride

    @property
    def tasks(self) -> int:
        return self.layout.batch * self.planes

    @property
    def traffic(self) -> int:
        top, left, bottom, right = self.layout.halo
        across = (top + bottom) * self.layout.row + self.layout.height * (left + right) * self.layout.pixel
        return 4 * self.tasks * across

    def emit(self, code: Code) -> None:
        (buffer,) = code.pointers(1)
        layout = self.layout
        top, left, bottom, right = layout.halo
        image, plane = code.divmod(code.task, self.planes)
        start = code.at(buffer, code.add(code.mul(image, layout.image), code.mul(plane, layout.block_stride)))
        self._fill(code, start, 0, top * layout.row + left * layout.pixel)

        def row(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            # the right edge of a row and the left edge of the next follow one another
            end = code.add(code.mul(y, layout.row), (top * layout.row) + (left + layout.width) * layout.pixel)
            self._fill(code, start, end, (right + left) * layout.pixel)
            return ()

        code.loop(0, layout.height - 1, 1, row)
        end = (top + layout.height - 1) * layout.row + (left + layout.width) * layout.pixel
        self._fill(code, start, end, right * layout.pixel + bottom * layout.row)

    def _fill(self, code: Code, start: Vector, offset: Index, count: int) -> None:
        lanes = code.target.lanes
        value = code.splat(self.value)

        def vector(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            code.store(value, code.at(start, code.add(offset, index)))
            return ()

        full = count // lanes * lanes
        code.loop(0, full, lanes, vector)
        if count - full:
            code.store_first(value, code.at(start, code.add(offset, full)), count - full)


@dataclass(frozen=True)
class ReorderSpec(KernelSpec):
    """Copies an image from one layout to another. Arguments: source, destination. A task is a row of blocks' rows.

    Lanes of a blocked destination beyond the last channel become zero. Of a planar layout that goes to or comes from a blocked
    one, either the pixels of a row or the channels of a pixel follow one another.
    """

    source: ImageLayout
    target: ImageLayout

    @property
    def rows(self) -> int:
        """Rows of one task: about 16 K elements."""
        return max(1, min(self.source.height, 16384 // max(1, self.source.width * self.span)))

    @property
    def span(self) -> int:
        """Channels that a task moves together: the larger block."""
        return max(self.source.block, self.target.block)

    @property
    def chunks(self) -> int:
        """Shares of the height."""
        return -(-self.source.height // self.rows)

    @property
    def groups(self) -> int:
        """Shares of the channels."""
        return -(-self.source.channels // self.span)

    @property
    def tasks(self) -> int:
        return self.source.batch * self.groups * self.chunks

    @property
    def traffic(self) -> int:
        batch, channels, height, width = self.source.shape
        return 8 * batch * channels * height * width

    def emit(self, code: Code) -> None:
        source, target = code.pointers(2)
        share, chunk = code.divmod(code.task, self.chunks)
        image, group = code.divmod(share, self.groups)
        first = code.mul(chunk, self.rows)
        last = code.min(code.add(first, self.rows), self.source.height)
        places = []
        for pointer, layout in ((source, self.source), (target, self.target)):
            groups_stride = layout.block_stride * (self.span // layout.block)
            start = code.add(code.mul(image, layout.image), code.mul(group, groups_stride))
            places.append(code.at(pointer, code.add(start, layout.origin)))
        source, target = places
        full, rest = divmod(self.source.channels, self.span)
        if rest == 0:
            self._rows(code, source, target, first, last, self.span)
        elif full == 0:
            self._rows(code, source, target, first, last, rest)
        else:
            with code.when(code.less(group, full)):
                self._rows(code, source, target, first, last, self.span)
            with code.when(code.less(full - 1, group)):
                self._rows(code, source, target, first, last, rest)

    def _rows(self, code: Code, source: Vector, target: Vector, first: Index, last: Index, channels: int) -> None:
        def row(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            from_row = code.at(source, code.mul(y, self.source.row))
            to_row = code.at(target, code.mul(y, self.target.row))
            if self.source.block == self.target.block:
                if self.source.pixel == self.target.pixel == self.source.block:
                    self._copy_row(code, from_row, to_row)
                else:
                    self._copy_pixels(code, from_row, to_row, self.span)
            elif self._is_channels_last(self.source) or self._is_channels_last(self.target):
                self._copy_pixels(code, from_row, to_row, channels)
            elif self.source.block == 1:
                self._gather_row(code, from_row, to_row, channels)
            else:
                self._scatter_row(code, from_row, to_row, channels)
            return ()

        code.loop(first, last, 1, row, at_least_once=True)

    @staticmethod
    def _is_channels_last(layout: ImageLayout) -> bool:
        return layout.block == 1 and layout.block_stride == 1

    def _copy_pixels(self, code: Code, source: Vector, target: Vector, channels: int) -> None:
        """Pixel by pixel, a vector of channels each."""
        lanes = code.target.lanes

        def pixel(x: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            place = code.at(source, code.mul(x, self.source.pixel))
            to = code.at(target, code.mul(x, self.target.pixel))
            value = code.load(place) if channels == lanes else code.load_first(place, channels)
            if channels == lanes or self.target.block != 1:
                code.store(value, to)
            else:
                code.store_first(value, to, channels)
            return ()

        code.loop(0, self.source.width, 1, pixel)

    def _copy_row(self, code: Code, source: Vector, target: Vector) -> None:
        count, lanes = self.source.width * self.source.pixel, code.target.lanes

        def vector(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            code.store(code.load(code.at(source, index)), code.at(target, index))
            return ()

        full = count // lanes * lanes
        code.loop(0, full, lanes, vector)
        if count - full:
            part = code.load_first(code.at(source, full), count - full)
            code.store_first(part, code.at(target, full), count - full)

    def _gather_row(self, code: Code, source: Vector, target: Vector, channels: int) -> None:
        """Planar to blocked: squares of lanes × lanes elements are transposed in registers."""
        lanes, width = code.target.lanes, self.source.width

        def square(x: Index, count: int) -> None:
            rows = []
            for channel in range(lanes):
                place = code.at(source, code.add(x, channel * self.source.block_stride))
                if channel >= channels:
                    rows.append(code.splat(0.0))
                else:
                    rows.append(code.load(place) if count == lanes else code.load_first(place, count))
            for pixel, vector in enumerate(code.transpose(rows)[:count]):
                code.store(vector, code.at(target, code.add(code.mul(x, self.target.pixel), pixel * self.target.pixel)))

        def whole(x: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            square(x, lanes)
            return ()

        full = width // lanes * lanes
        code.loop(0, full, lanes, whole)
        if width - full:
            square(full, width - full)

    def _scatter_row(self, code: Code, source: Vector, target: Vector, channels: int) -> None:
        """Blocked to planar."""
        lanes, width = code.target.lanes, self.source.width

        def square(x: Index, count: int) -> None:
            pixels = [
                code.load(code.at(source, code.add(code.mul(x, self.source.pixel), p * self.source.pixel)))
                if p < count
                else code.splat(0.0)
                for p in range(lanes)
            ]
            for channel, vector in enumerate(code.transpose(pixels)[:channels]):
                place = code.at(target, code.add(x, channel * self.target.block_stride))
                if count == lanes:
                    code.store(vector, place)
                else:
                    code.store_first(vector, place, count)

        def whole(x: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            square(x, lanes)
            return ()

        full = width // lanes * lanes
        code.loop(0, full, lanes, whole)
        if width - full:
            square(full, width - full)


def pack_image(array: Array, layout: ImageLayout) -> Array:
    """A constant (N, C, H, W) as the buffer of a blocked layout of its own: padding and further lanes are zeros."""
    top, left, bottom, right = layout.halo
    batch, channels, height, width = layout.shape
    padded = np.zeros((batch, layout.blocks * layout.block, height + top + bottom, width + left + right), np.float32)
    padded[:, :channels, top : top + height, left : left + width] = array
    blocks = padded.reshape(batch, layout.blocks, layout.block, *padded.shape[2:])
    return np.ascontiguousarray(blocks.transpose(0, 1, 3, 4, 2))
