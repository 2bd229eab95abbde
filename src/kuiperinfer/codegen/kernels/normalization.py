"""Normalisation by moments that are taken from the values themselves: along rows, over groups of an image's channels.

First the mean, then the mean of squared distances from it: no digits are lost where the mean is large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...records import dataclass
from ..builder import Code, Index, Vector
from ..layout import ImageLayout
from ..spec import KernelSpec
from ..vector_math import Lanes
from .rows import each_vector, fold_lanes, fold_row, keep_part, load_part, store_part

_TASK_ELEMENTS = 1 << 14


@dataclass(frozen=True)
class RowNormSpec(KernelSpec):
    """(x - mean) / sqrt(variance + eps) * weight + bias for each row.

    Arguments: input, weight and bias where there are, output, which may be the input. `centred` is False for
    x / sqrt(mean(x^2) + eps) * weight. A weight serves `run` neighbours; rows take turns through `groups` shares of the
    weights, as groups of channels do.
    """

    rows: int
    length: int
    run: int
    groups: int
    centred: bool
    eps: float
    weight: bool
    bias: bool

    @property
    def task_rows(self) -> int:
        """Rows of a task."""
        return max(1, min(self.rows, _TASK_ELEMENTS // self.length))

    @property
    def tasks(self) -> int:
        return -(-self.rows // self.task_rows)

    @property
    def flops(self) -> int:
        return 7 * self.rows * self.length

    @property
    def traffic(self) -> int:
        return 8 * self.rows * self.length

    def emit(self, code: Code) -> None:
        source, *affine, out = code.pointers(2 + self.weight + self.bias)
        weight = affine[0] if self.weight else None
        bias = affine[-1] if self.bias else None
        first = code.mul(code.task, self.task_rows)
        last = code.min(code.add(first, self.task_rows), self.rows)

        def row(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            place = code.mul(index, self.length)
            group = code.mul(code.mod(index, self.groups), self.length // self.run)
            own = [None if pointer is None else code.at(pointer, group) for pointer in (weight, bias)]
            self._emit_row(code, code.at(source, place), own[0], own[1], code.at(out, place))
            return ()

        code.loop(first, last, 1, row, at_least_once=True)

    def _emit_row(self, code: Code, source: Any, weight: Any, bias: Any, out: Any) -> None:
        def value(index: Index, count: int | None) -> Vector:
            return load_part(code, code.at(source, index), count)

        mean = row_mean(code, self.length, value) if self.centred else None

        def centred(index: Index, count: int | None) -> Vector:
            found = value(index, count)
            return found if mean is None else keep_part(code, code.builder.fsub(found, mean), count)

        scale = inverse_root(code, row_mean_square(code, self.length, centred), self.eps)
        if self.run == 1:

            def finish(index: Index, count: int | None) -> None:
                result = code.builder.fmul(centred(index, count), scale)
                factor = None if weight is None else load_part(code, code.at(weight, index), count)
                shift = None if bias is None else load_part(code, code.at(bias, index), count)
                store_part(code, affine(code, result, factor, shift), code.at(out, index), count)

            each_vector(code, self.length, finish)
            return

        def channel(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            factor = scale if weight is None else code.builder.fmul(scale, code.load_splat(code.at(weight, number)))
            shift = None if bias is None else code.load_splat(code.at(bias, number))
            start = code.mul(number, self.run)

            def finish(index: Index, count: int | None) -> None:
                place = code.add(start, index)
                store_part(code, affine(code, centred(place, count), factor, shift), code.at(out, place), count)

            each_vector(code, self.run, finish)
            return ()

        code.loop(0, self.length // self.run, 1, channel)


def row_mean(code: Code, length: int, value: Callable[[Index, int | None], Vector]) -> Vector:
    """The mean of a row, in every lane. Lanes that do not exist have to be 0."""

    def step(index: Index, count: int | None, total: Vector) -> Vector:
        return code.builder.fadd(total, value(index, count))

    total = fold_lanes(code, fold_row(code, length, step, 0.0, code.builder.fadd), code.builder.fadd)
    return code.builder.fdiv(total, code.splat(float(length)))


def row_mean_square(code: Code, length: int, value: Callable[[Index, int | None], Vector]) -> Vector:
    """The mean of the squares of a row, in every lane. Lanes that do not exist have to be 0."""

    def step(index: Index, count: int | None, total: Vector) -> Vector:
        found = value(index, count)
        return code.fma(found, found, total)

    total = fold_lanes(code, fold_row(code, length, step, 0.0, code.builder.fadd), code.builder.fadd)
    return code.builder.fdiv(total, code.splat(float(length)))


def inverse_root(code: Code, square: Vector, eps: float) -> Vector:
    """1 / sqrt(square + eps)"""
    root = (Lanes(code, square) + eps).sqrt()
    return code.builder.fdiv(code.splat(1.0), root.value)


def affine(code: Code, value: Vector, factor: Vector | None, shift: Vector | None) -> Vector:
    """value * factor + shift, of which both may be missing."""
    if factor is None:
        return value if shift is None else code.builder.fadd(value, shift)
    return code.builder.fmul(value, factor) if shift is None else code.fma(value, factor, shift)


@dataclass(frozen=True)
class ImageNormSpec(KernelSpec):
    """Group normalisation of a blocked image. Arguments: input, weight, bias, output.

    There is one weight and bias a channel, padded with zeros to whole blocks, so that what is beyond the last channel stays 0.
    Groups fill whole blocks, or blocks whole groups (`group_lanes` of them neighbours). A task is the blocks of a group of one
    image, or one block.
    """

    input: ImageLayout
    output: ImageLayout
    groups: int
    eps: float

    @property
    def group_channels(self) -> int:
        """Channels of a group."""
        return self.input.channels // self.groups

    @property
    def group_lanes(self) -> int:
        """Neighbouring lanes that belong to one group."""
        return min(self.group_channels, self.input.block)

    @property
    def task_blocks(self) -> int:
        """Blocks of a task."""
        return max(1, self.group_channels // self.input.block)

    @property
    def tasks(self) -> int:
        return self.input.batch * (self.input.blocks // self.task_blocks)

    @property
    def flops(self) -> int:
        return 7 * math.prod(self.input.shape)

    @property
    def traffic(self) -> int:
        return 8 * math.prod(self.input.shape)

    def emit(self, code: Code) -> None:
        source, weight, bias, out = code.pointers(4)
        image, task = code.divmod(code.task, self.input.blocks // self.task_blocks)
        first = code.mul(task, self.task_blocks)
        places = []
        for pointer, layout in ((source, self.input), (out, self.output)):
            start = code.add(code.mul(image, layout.image), code.mul(first, layout.block_stride))
            places.append(code.at(pointer, code.add(start, layout.origin)))
        source, out = places
        add = code.builder.fadd

        def mean(value: Callable[[Vector, Vector], Vector]) -> Vector:
            """`value(pixel, total)` over all pixels, divided by the number of values of a group."""
            total = fold_lanes(code, self._fold(code, source, value), add, self.group_lanes)
            count = self.group_channels * self.input.height * self.input.width
            return code.builder.fdiv(total, code.splat(float(count)))

        centre = mean(lambda pixel, total: add(total, pixel))

        def squared(pixel: Vector, total: Vector) -> Vector:
            distance = code.builder.fsub(pixel, centre)
            return code.fma(distance, distance, total)

        scale = inverse_root(code, mean(squared), self.eps)

        def block(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            channel = code.mul(code.add(first, number), self.input.block)
            factor = code.builder.fmul(scale, code.load(code.at(weight, channel)))
            shift = code.load(code.at(bias, channel))
            from_block = code.at(source, code.mul(number, self.input.block_stride))
            to_block = code.at(out, code.mul(number, self.output.block_stride))

            def row(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                from_row, to_row = (
                    code.at(pointer, code.mul(y, layout.row))
                    for pointer, layout in ((from_block, self.input), (to_block, self.output))
                )

                def pixel(x: Index, count: int | None) -> None:
                    distance = code.builder.fsub(code.load(code.at(from_row, x)), centre)
                    code.store(code.fma(distance, factor, shift), code.at(to_row, x))

                each_vector(code, self.input.width * self.input.pixel, pixel)
                return ()

            code.loop(0, self.input.height, 1, row)
            return ()

        code.loop(0, self.task_blocks, 1, block)

    def _fold(self, code: Code, source: Any, step: Callable[[Vector, Vector], Vector]) -> Vector:
        """A sum over all pixels of the task's blocks, lane by lane; row after row, so that small terms are not lost."""

        def block(number: Index, totals: Sequence[Vector]) -> Sequence[Vector]:
            from_block = code.at(source, code.mul(number, self.input.block_stride))

            def row(y: Index, totals: Sequence[Vector]) -> Sequence[Vector]:
                from_row = code.at(from_block, code.mul(y, self.input.row))

                def pixel(x: Index, count: int | None, total: Vector) -> Vector:
                    return step(code.load(code.at(from_row, x)), total)

                found = fold_row(code, self.input.width * self.input.pixel, pixel, 0.0, code.builder.fadd)
                return [code.builder.fadd(totals[0], found)]

            return code.loop(0, self.input.height, 1, row, totals)

        (total,) = code.loop(0, self.task_blocks, 1, block, [code.splat(0.0)])
        return total
