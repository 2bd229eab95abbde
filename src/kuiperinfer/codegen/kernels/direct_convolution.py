"""Direct convolution: a tile of pixels × channel blocks stays in registers while all of its inputs go by.

Each step takes one input channel: a few weight vectors, and for each pixel of the tile one scalar, broadcast. The input may be
blocked or planar (a first layer, read from NCHW with its few channels); the output is blocked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...dtypes import Array
from ...records import dataclass
from ..builder import Code, Index, Vector
from ..epilogue import Epilogue
from ..layout import ImageLayout
from ..spec import KernelSpec
from ..target import Target

CACHE_LINE = 64  # bytes
UNROLL = 4  # input channels of one turn of the innermost loop: enough to hide its jump, few enough to compile fast

PREFETCH_BYTES = (
    6144  # how far ahead weights are asked for: measured, 10 to 25 % where they come from beyond the second level
)
MOST_SHARES = 16  # of the weights that follow, which so many tiles ask for together


@dataclass(frozen=True)
class Ahead:
    """Weights that something later reads: a tile asks for one while it reads `pace`, of each output block from `place` on.

    They come to the second-level cache a little at a time, instead of all at once when the first tile needs them.
    """

    place: Vector
    apart: int  # floats from one output block's to the next's
    pace: int

    def further(self, code: Code, times: Index, weights: int) -> Ahead:
        """Where it stands after `times` times so many weights of a block have been read."""
        if weights % self.pace == 0:
            read = code.mul(times, weights // self.pace)
        else:
            read = code.div(code.mul(times, weights), self.pace)
        return Ahead(code.at(self.place, read), self.apart, self.pace)

    def ask(self, code: Code, blocks: int, weights: int) -> None:
        """Asks for what falls to the time in which so many weights of a block are read."""
        line = CACHE_LINE // 4
        for block in range(blocks):
            for number in range(max(1, weights // (self.pace * line))):
                code.prefetch(code.at(self.place, block * self.apart + number * line), soon=False)


@dataclass(frozen=True)
class DirectConvolutionSpec(KernelSpec):
    """A 2-d convolution. Arguments: input, packed weights, bias, output, then those of the epilogue.

    `tile` pixels × `tile_blocks` output blocks are kept in registers; a task is `rows` output rows of `tile_blocks` blocks,
    or, where the output is one row, `columns` pixels of it. A tile of `tile_rows` > 1 rows has all of their pixels: for
    pictures narrower than a tile. Tasks go through the blocks of some rows and then to the next rows if `by_rows`, so that
    threads share the picture, else through all rows of some blocks, so that they share the weights. With a `slice` sums go
    over so many input blocks at a time, of all tiles of a task, so that their weights stay in the first-level cache.
    """

    input: ImageLayout
    output: ImageLayout
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]  # top, left; the input's halo holds it
    groups: int
    epilogue: Epilogue
    tile: int
    tile_blocks: int
    rows: int
    tile_rows: int = 1
    columns: int = 0
    by_rows: bool = False
    slice: int = 0

    @property
    def input_blocks(self) -> int:
        """Channel blocks of the input that one output block needs."""
        per_group = self.input.channels // self.groups
        return 1 if self.input.block == 1 else max(1, -(-per_group // self.input.block))

    @property
    def channels_a_block(self) -> int:
        """Input channels of one step of the block loop."""
        return self.input.channels if self.input.block == 1 else self.input.block

    @property
    def _channels_read(self) -> int:
        """Input channels that a sum goes over: the last block's empty lanes are left out, as far as whole turns allow."""
        if self.groups > 1 or self.input.block % UNROLL:
            return self.input_blocks * self.channels_a_block
        return -(-self.input.channels // UNROLL) * UNROLL

    @property
    def chunks(self) -> int:
        """Shares of the output's pixels."""
        if self.columns:
            return -(-self.output.width // self.columns)
        return -(-self.output.height // self.rows)

    @property
    def block_groups(self) -> int:
        """Shares of the output's blocks."""
        return -(-self.output.blocks // self.tile_blocks)

    @property
    def tasks(self) -> int:
        return self.output.batch * self.block_groups * self.chunks

    @property
    def tiles(self) -> int:
        """Tiles of a task."""
        if self.columns:
            return -(-self.columns // self.tile)
        return -(-self.rows // self.tile_rows) if self.tile_rows > 1 else self.rows * -(-self.output.width // self.tile)

    @property
    def flops(self) -> int:
        out = self.output
        per_pixel = out.channels * (self.input.channels // self.groups) * self.kernel[0] * self.kernel[1]
        return 2 * out.batch * out.height * out.width * per_pixel

    @property
    def traffic(self) -> int:
        weights = self.output.channels * (self.input.channels // self.groups) * self.kernel[0] * self.kernel[1]
        return 4 * (int(np.prod(self.input.shape)) + int(np.prod(self.output.shape)) + weights)

    def emit(self, code: Code) -> None:
        source, weights, bias, out, *extra = code.pointers(4 + self.epilogue.operand_count)
        if self.by_rows:
            share, group = code.divmod(code.task, self.block_groups)
            image, chunk = code.divmod(share, self.chunks)
        else:
            share, chunk = code.divmod(code.task, self.chunks)
            group, image = code.divmod(share, self.output.batch)
        out = code.at(out, code.add(code.mul(image, self.output.image), self.output.origin))
        size = self.columns or self.rows
        first = code.mul(chunk, size)
        last = code.min(code.add(first, size), self.output.width if self.columns else self.output.height)

        def share_of(group: Index, blocks: int) -> None:
            to = code.at(out, code.mul(group, self.tile_blocks * self.output.block_stride))
            self.emit_share(code, (source, weights, bias, to, extra), image, group, (first, last), blocks)

        self.for_blocks(code, group, share_of)

    def for_blocks(self, code: Code, group: Index, body: Callable[[Index, int], None]) -> None:
        """`body(group, blocks)` for a group of output blocks: of `tile_blocks`, or of those that are left at the end."""
        full, rest = divmod(self.output.blocks, self.tile_blocks)
        if rest == 0:
            body(group, self.tile_blocks)
        elif full == 0:
            body(0, rest)
        else:
            with code.when(code.less(group, full)):
                body(group, self.tile_blocks)
            with code.when(code.less(full - 1, group)):
                body(full, rest)

    def emit_share(
        self,
        code: Code,
        operands: tuple[Any, ...],
        image: Index,
        group: Index,
        span: tuple[Index, Index],
        blocks: int,
    ) -> None:
        """The `blocks` output blocks of a group in a span of rows, or, where tasks are `columns`, of columns.

        Of the operands (input, weights, bias, output, list of the epilogue's) the output points to the group's first pixel.
        """
        source, weights, bias, out, extra = operands
        lanes, kernel_size = code.target.lanes, self.kernel[0] * self.kernel[1]
        block_weights = self.input_blocks * kernel_size * self.channels_a_block * lanes
        first_block = code.mul(group, self.tile_blocks)
        weights = code.at(weights, code.mul(first_block, block_weights))
        bias = code.at(bias, code.mul(first_block, lanes))
        biases = [code.load(code.at(bias, block * lanes), align=lanes * 4) for block in range(blocks)]
        source = code.at(source, code.add(self._input_start(code, group), code.mul(image, self.input.image)))
        source = code.at(
            source, self.input.origin - self.padding[0] * self.input.row - self.padding[1] * self.input.pixel
        )
        extra = self.epilogue.seek(code, extra, image, first_block)

        size = self.slice or self.input_blocks
        block_share = block_weights // self.input_blocks
        shares = shares_of(self.tiles) if self.input.block > 1 else 1

        def following(number: Index, last: Index) -> Ahead | None:
            """A tile's share of the weights behind input block `last`. Behind the last of a group are those of the next one, or
            mostly of the next step."""
            if shares == 1:
                return None
            place = code.mul(code.mod(number, shares), size * block_share // shares)
            place = code.add(place, code.mul(last, block_share))
            if last == self.input_blocks:
                place = code.add(place, (blocks - 1) * block_weights)
            return Ahead(code.at(weights, place), block_weights, shares)

        def tile(y: Index, x: Index, width: int, rows: int, number: Index, some: tuple[Index, Index]) -> None:
            """Adds up `some` input blocks; what comes before the first ones and goes behind the last ones is in the output."""
            place = code.add(
                code.mul(y, self.stride[0] * self.input.row), code.mul(x, self.stride[1] * self.input.pixel)
            )
            tile_out = code.at(out, code.add(code.mul(y, self.output.row), code.mul(x, self.output.pixel)))
            pixels = [(down, across) for down in range(rows) for across in range(width)]
            places = [
                code.at(
                    tile_out, block * self.output.block_stride + down * self.output.row + across * self.output.pixel
                )
                for block in range(blocks)
                for down, across in pixels
            ]
            if some[0] == 0:
                start = [bias for bias in biases for _ in pixels]
            else:
                start = [code.load(at, align=lanes * 4) for at in places]
            sums = self.emit_tile(
                code, code.at(source, place), weights, start, width, block_weights, rows,
                prefetch=not self.slice, some=some, ahead=following(number, some[1]),
            )  # fmt: skip
            if some[1] == self.input_blocks:
                found = [(block, code.add(y, down), x, across) for block in range(blocks) for down, across in pixels]
                sums = self.epilogue.emit(code, sums, extra, found)
            for value, to in zip(sums, places, strict=True):
                code.store(value, to, align=lanes * 4)

        def slice_of(first: Index, last: Index) -> Sequence[Vector]:
            self._for_tiles(
                code, span, lambda y, x, width, rows, number: tile(y, x, width, rows, number, (first, last))
            )
            return ()

        slices = -(-self.input_blocks // size)
        if slices > 1:
            slice_of(0, size)
        code.loop(
            1, slices - 1, 1, lambda number, _: slice_of(code.mul(number, size), code.mul(code.add(number, 1), size))
        )
        slice_of((slices - 1) * size, self.input_blocks)

    def _for_tiles(
        self, code: Code, span: tuple[Index, Index], tile: Callable[[Index, Index, int, int, Index], None]
    ) -> None:
        """`tile(y, x, width, rows, number)` for all tiles of a span of rows, or of columns."""
        full, rest = divmod(self.output.width, self.tile)
        first, last = span

        def whole_tile(y: Index, x: Index, before: Index) -> Sequence[Vector]:
            tile(y, x, self.tile, 1, code.add(before, code.div(x, self.tile)))
            return ()

        if self.columns:
            code.loop(first, code.min(last, full * self.tile), self.tile, lambda x, _: whole_tile(0, x, 0))
            if rest:
                with code.when(code.less(full * self.tile, last)):
                    tile(0, full * self.tile, rest, 1, full)
            return

        def row(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            before = code.mul(code.sub(y, first), -(-self.output.width // self.tile))
            code.loop(0, full * self.tile, self.tile, lambda x, _: whole_tile(y, x, before))
            if rest:
                tile(y, full * self.tile, rest, 1, code.add(before, full))
            return ()

        def several_rows(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            tile(y, 0, self.output.width, self.tile_rows, code.div(code.sub(y, first), self.tile_rows))
            return ()

        if self.tile_rows > 1:
            whole = code.sub(last, code.mod(code.sub(last, first), self.tile_rows))
            code.loop(first, whole, self.tile_rows, several_rows)
            code.loop(whole, last, 1, row)
        else:
            code.loop(first, last, 1, row)

    def _input_start(self, code: Code, group: Index) -> Index:
        """Where the input channels of a share of output blocks begin: with groups, not at the first block."""
        if self.groups == 1:
            return 0
        outputs_a_group = self.output.channels // self.groups
        if outputs_a_group % (self.tile_blocks * self.output.block) == 0:
            shares = outputs_a_group // (self.tile_blocks * self.output.block)
            return code.mul(code.div(group, shares), self.input_blocks * self.input.block_stride)
        return code.mul(group, self.tile_blocks * self.input.block_stride)  # narrow groups: a block takes its own block

    def emit_tile(
        self,
        code: Code,
        source: Vector,
        weights: Vector,
        start: Sequence[Vector],
        width: int,
        block_weights: int,
        rows: int = 1,
        *,
        prefetch: bool = True,
        some: tuple[Index, Index] | None = None,
        ahead: Ahead | None = None,
    ) -> Sequence[Vector]:
        """The sums of `rows` × `width` pixels of all blocks, block after block, added to `start`.

        They go over all input blocks, or those from the first of `some` to before the second. Meanwhile `ahead` is asked for.
        """
        lanes = code.target.lanes
        pixels = [
            down * self.stride[0] * self.input.row + across * self.stride[1] * self.input.pixel
            for down in range(rows)
            for across in range(width)
        ]
        blocks = len(start) // len(pixels)
        step_weights, positions = self.channels_a_block * lanes, self.kernel[0] * self.kernel[1]

        def channel_block(block: Index, sums: Sequence[Vector]) -> Sequence[Vector]:
            block_source = code.at(source, code.mul(block, self.input.block_stride))
            block_weight = code.at(weights, code.mul(block, positions * step_weights))
            count = code.min(
                code.sub(self._channels_read, code.mul(block, self.channels_a_block)), self.channels_a_block
            )

            def position(index: Index, sums: Sequence[Vector]) -> Sequence[Vector]:
                y, x = code.divmod(index, self.kernel[1])
                shift = code.add(
                    code.mul(y, self.dilation[0] * self.input.row), code.mul(x, self.dilation[1] * self.input.pixel)
                )
                return self._emit_step(
                    code,
                    code.at(block_source, shift),
                    code.at(block_weight, code.mul(index, step_weights)),
                    count,
                    sums,
                    pixels,
                    blocks,
                    block_weights,
                    prefetch,
                    ahead
                    and ahead.further(code, code.add(code.mul(code.sub(block, first), positions), index), step_weights),
                )

            return code.loop(0, positions, 1, position, sums)

        first, last = some or (0, self.input_blocks)
        return code.loop(first, last, 1, channel_block, start, at_least_once=True)

    def _emit_step(
        self,
        code: Code,
        source: Vector,
        weights: Vector,
        count: Index,
        sums: Sequence[Vector],
        pixels: Sequence[int],
        blocks: int,
        block_weights: int,
        prefetch: bool,
        ahead: Ahead | None,
    ) -> Sequence[Vector]:
        """One kernel position: `count` channels of a block, for every pixel of the tile; a few channels a turn of the loop."""
        lanes = code.target.lanes
        turn = UNROLL if self.channels_a_block % UNROLL == 0 else self.channels_a_block

        def channels(first: Index, sums: Sequence[Vector]) -> Sequence[Vector]:
            new = list(sums)
            turn_weights = code.at(weights, code.mul(first, lanes))
            turn_source = code.at(source, code.mul(first, self.input.channel))
            if ahead is not None:
                ahead.further(code, first, lanes).ask(code, blocks, turn * lanes)
            for channel in range(turn):
                vectors = [
                    code.load(code.at(turn_weights, block * block_weights + channel * lanes), align=lanes * 4)
                    for block in range(blocks)
                ]
                new_line = channel * lanes % (CACHE_LINE // 4) == 0
                for block in range(blocks if prefetch and new_line else 0):
                    place = block * block_weights + channel * lanes + PREFETCH_BYTES // 4
                    code.prefetch(code.at(turn_weights, place))
                for number, pixel in enumerate(pixels):
                    value = code.load_splat(code.at(turn_source, pixel + channel * self.input.channel))
                    for block in range(blocks):
                        place = block * len(pixels) + number
                        new[place] = code.fma(value, vectors[block], new[place])
            return new

        return code.loop(0, count, turn, channels, sums, at_least_once=True)


def shares_of(tiles: int) -> int:
    """Among how many tiles, a power of two, the asking for weights that follow is shared; 1 where nobody asks.

    With many tiles, weights are read again so often that the first reading of the next ones takes little of the time.
    """
    return 1 << (tiles.bit_length() - 1) if 1 < tiles < 2 * MOST_SHARES else 1


@functools.cache
def choose_tile(output_width: int, blocks: int, target: Target, blocks_a_group: int = 0) -> tuple[int, int]:
    """(pixels, blocks) of a tile: the least cycles for a row, by a model of the fused multiply-adds and the loads of a step.

    With `blocks_a_group` the blocks of a tile divide it, so that they stay within one group.
    """

    def cycles(tile: int, tile_blocks: int) -> float:
        full, rest = divmod(output_width, tile)

        def step(width: int, count: int) -> float:
            return max(width * count / 2, (width + count) / 2, 4.5) + 0.06 * count

        groups, left = divmod(blocks, tile_blocks)
        total = 0.0
        for many, count in ((groups, tile_blocks), (1 if left else 0, left)):
            if many and count:
                total += many * (full * step(tile, count) + (step(rest, count) if rest else 0.0))
        return total

    candidates = [
        (tile, tile_blocks)
        for tile_blocks in (1, 2, 3, 4)
        for tile in range(1, max(2, (target.registers - tile_blocks - 1) // tile_blocks + 1))
        if tile_blocks <= blocks
        and (not blocks_a_group or blocks_a_group % tile_blocks == 0)
        and tile <= output_width
        and tile * tile_blocks <= target.registers - tile_blocks - 1
    ]
    return min(candidates, key=lambda candidate: (cycles(*candidate), -candidate[0] * candidate[1]))


def pack_weights(weight: Array, spec: DirectConvolutionSpec, lanes: int) -> Array:
    """Weights (O, I/groups, KH, KW) as the kernel reads them: (output block, input block, position, channel, lane).

    A view, of the weights themselves where they fill whole blocks.
    """
    outputs, inputs, height, width = weight.shape
    out_blocks = -(-outputs // lanes)
    steps = spec.channels_a_block
    dense = weight
    if weight.shape[:2] != (out_blocks * lanes, spec.input_blocks * steps):
        dense = np.zeros((out_blocks * lanes, spec.input_blocks * steps, height, width), np.float32)
        if spec.groups == 1 or inputs % lanes == 0 or spec.input.block == 1:
            dense[:outputs, :inputs] = weight
        else:  # narrow groups: output block b takes input block b alone, its weights lie on the block's diagonal
            for output in range(outputs):
                group = output // (outputs // spec.groups)
                start = group * inputs % steps
                dense[output, start : start + inputs] = weight[output]
    return dense.reshape(out_blocks, lanes, spec.input_blocks, steps, height, width).transpose(0, 2, 4, 5, 3, 1)


def pack_bias(bias: Array | None, outputs: int, lanes: int) -> Array:
    """The bias padded with zeros to whole blocks; zeros where there is none."""
    packed = np.zeros(-(-outputs // lanes) * lanes, np.float32)
    if bias is not None:
        packed[:outputs] = bias
    return packed
