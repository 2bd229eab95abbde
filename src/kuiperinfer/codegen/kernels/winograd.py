"""Winograd convolution of 3×3 filters: F(4×4, 3×3) with a quarter of the multiplications, and its like for stride 2.

Input tiles are transformed, a matrix product for each element of the transformed tile follows, and the products are
transformed back to output tiles of 4×4 pixels, with bias and epilogue. A task does all three for a chunk of tiles in
thread-local scratch, one group of output channels after the other, so that everything between stays in the cache. For small
pictures of many channels the transformed input is a step of its own (stage ``input``), and tasks are groups of output channels
(stage ``rest``). Small weights are transformed beforehand; transformed weights are four times the size, and where they
do not stay in the cache, reading them takes longer than transforming again what was read: these are transformed on the way.

The transforms stand in `winograd_transforms`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from ...dtypes import Array
from ...records import dataclass
from ..builder import Code, Index, Vector
from ..epilogue import Epilogue, Seat
from ..layout import ImageLayout, blocked
from ..spec import KernelSpec
from ..target import Target
from .direct_convolution import PREFETCH_BYTES, Ahead, DirectConvolutionSpec, choose_tile, shares_of
from .winograd_transforms import FORMS, Form, transform

TILE = 4  # output pixels of a tile, each way
_MOST_TILES = 28  # of a task that does everything
_BLAS_ALONE = 768  # columns of a (36, 9) by (9, columns) product that OpenBLAS calculates with one thread


@dataclass(frozen=True)
class WinogradSpec(KernelSpec):
    """A 3×3 convolution of stride 1 or 2. Arguments: input (for the stage ``rest``: the transformed input), packed weights,
    bias, output, then those of the epilogue; for the stage ``input``: input, transformed input.

    The input's halo extends as far as the last tile needs, see `reach`. `chunk` tiles are transformed together; in a matrix
    product `tile` of them times `tile_blocks` output blocks stay in registers. Weights are transformed beforehand, or, for
    `weight_channels` input channels at a time, on the way: whole blocks, which divide the input's.
    """

    input: ImageLayout
    output: ImageLayout
    stride: int
    padding: tuple[int, int]  # top, left
    epilogue: Epilogue
    chunk: int
    tile: int
    tile_blocks: int
    weight_channels: int = 0
    stage: str = "all"

    @property
    def form(self) -> Form:
        """The transforms."""
        return FORMS[self.stride]

    @property
    def products(self) -> int:
        """Matrix products: elements of a transformed tile."""
        return self.form.span**2

    @property
    def tiles_across(self) -> int:
        """Tiles in a row of tiles."""
        return -(-self.output.width // TILE)

    @property
    def tiles_down(self) -> int:
        """Rows of tiles."""
        return -(-self.output.height // TILE)

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.output.batch * self.tiles_across * self.tiles_down

    @property
    def block_groups(self) -> int:
        """Shares of the output's blocks in one matrix product."""
        return -(-self.output.blocks // self.tile_blocks)

    @property
    def tasks(self) -> int:
        if self.stage == "input":
            return self.input.blocks
        return self.block_groups if self.stage == "rest" else -(-self.tiles // self.chunk)

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """Packed weights: (output block, element of a transformed filter, input channel, lane), or, where they are transformed
        on the way, (output block, input channel, element of a filter, lane)."""
        out, inputs = self.output, self.input.blocks * self.output.block
        if self.weight_channels:
            return out.blocks, inputs, 9, out.block
        return out.blocks, self.form.filters**2, inputs, out.block

    @property
    def transformed_plane(self) -> int:
        """Floats from one element of the transformed input tiles to the next."""
        return _apart(self.chunk * self.input.blocks * self.output.block, self.output.block)

    @property
    def weight_plane(self) -> int:
        """The same for the weights of an output block that are transformed on the way."""
        return _apart(self.weight_channels * self.output.block, self.output.block)

    @property
    def product_plane(self) -> int:
        """The same for the products of a chunk and a group of output blocks."""
        return _apart(self.chunk * self.tile_blocks * self.output.block, self.output.block)

    @property
    def transformed_floats(self) -> int:
        """Floats of the transformed input tiles of a chunk."""
        return self.products * self.transformed_plane

    @property
    def weight_floats(self) -> int:
        """Floats of the weights that are transformed at a time."""
        return self.form.filters**2 * self.weight_plane * self.tile_blocks if self.weight_channels else 0

    @property
    def product_floats(self) -> int:
        """Floats of the products of a chunk and a group of output blocks."""
        return self.products * self.product_plane

    @property
    def scratch_floats(self) -> int:
        if self.stage == "input":
            return 0
        own = self.weight_floats + self.product_floats
        return own + self.transformed_floats if self.stage == "all" else own

    @property
    def flops(self) -> int:
        if self.stage == "input":
            return 0
        out = self.output
        return 18 * out.batch * out.height * out.width * out.channels * self.input.channels

    @property
    def traffic(self) -> int:
        weights = self.output.channels * self.input.channels
        weights *= 9 if self.weight_channels else self.form.filters**2
        return 4 * (int(np.prod(self.input.shape)) + int(np.prod(self.output.shape)) + weights)

    def emit(self, code: Code) -> None:
        if self.stage == "input":
            source, transformed = code.pointers(2)
            self._transform_input(code, source, transformed, 0, (code.task, code.add(code.task, 1)))
            return
        source, weights, bias, out, *extra = code.pointers(4 + self.epilogue.operand_count)
        full, rest = divmod(self.output.blocks, self.tile_blocks)
        if self.stage == "rest":
            group = _Group(weights, bias, out, extra, 0, source, code.scratch)
            if rest == 0:
                self._emit_group(code, group, code.mul(code.task, self.tile_blocks), self.tile_blocks)
            elif full == 0:
                self._emit_group(code, group, 0, rest)
            else:
                with code.when(code.less(code.task, full)):
                    self._emit_group(code, group, code.mul(code.task, self.tile_blocks), self.tile_blocks)
                with code.when(code.less(full - 1, code.task)):
                    self._emit_group(code, group, full * self.tile_blocks, rest)
            return
        first = code.min(code.mul(code.task, self.chunk), self.tiles - self.chunk)
        self._transform_input(code, source, code.scratch, first, (0, self.input.blocks))
        group = _Group(weights, bias, out, extra, first, code.scratch, code.at(code.scratch, self.transformed_floats))

        def one(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            self._emit_group(code, group, code.mul(number, self.tile_blocks), self.tile_blocks)
            return ()

        code.loop(0, full, 1, one)
        if rest:
            self._emit_group(code, group, full * self.tile_blocks, rest)

    def _emit_group(self, code: Code, group: _Group, first_block: Index, blocks: int) -> None:
        """The output blocks from `first_block` on, of a chunk of tiles."""
        lanes, filters = code.target.lanes, self.form.filters**2
        inputs = self.input.blocks * lanes
        if self.weight_channels:
            weights = code.at(group.weights, code.mul(first_block, 9 * inputs * lanes))
            steps = inputs // self.weight_channels
            transformed, products = group.scratch, code.at(group.scratch, self.weight_floats)

            def step(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                self._transform_weights(code, weights, transformed, number, blocks)
                next_group = code.mul(code.div(code.add(number, 1), steps), (blocks - 1) * 9 * inputs * lanes)
                following = code.at(weights, code.mul(code.add(number, 1), 9 * self.weight_channels * lanes))
                self._multiply(
                    code,
                    code.at(group.transformed, code.mul(number, self.weight_channels * self.chunk)),
                    transformed,
                    products,
                    blocks,
                    accumulate=steps > 1,
                    following=code.at(following, next_group),
                )
                return ()

            if steps > 1:
                self._clear(code, products)
            code.loop(0, steps, 1, step)
        else:
            products = group.scratch
            weights = code.at(group.weights, code.mul(first_block, filters * inputs * lanes))
            self._multiply(code, group.transformed, weights, products, blocks)
        self._transform_output(code, group, products, first_block, blocks)

    def _clear(self, code: Code, products: Vector) -> None:
        lanes = code.target.lanes

        def clear(place: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            code.store(code.splat(0.0), code.at(products, place), align=lanes * 4)
            return ()

        code.loop(0, self.product_floats, lanes, clear)

    def _transform_weights(self, code: Code, weights: Vector, target: Vector, step: Index, blocks: int) -> None:
        """The filters of `weight_channels` input channels and `blocks` output blocks."""
        lanes, form = code.target.lanes, self.form
        inputs, now = self.input.blocks * lanes, self.weight_channels
        start = code.at(weights, code.mul(step, now * 9 * lanes))

        def block(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            source = code.at(start, code.mul(number, inputs * 9 * lanes))
            to = code.at(target, code.mul(number, form.filters**2 * self.weight_plane))

            def channel(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                at = code.at(source, code.mul(index, 9 * lanes))
                for place in range(9):
                    code.prefetch(code.at(at, place * lanes + PREFETCH_BYTES // 4))
                taps = [code.load(code.at(at, place * lanes), align=lanes * 4) for place in range(9)]
                half = [transform(code, form.weight, taps[column::3]) for column in range(3)]
                to_channel = code.at(to, code.mul(index, lanes))
                for i in range(form.filters):
                    line = transform(code, form.weight, [half[column][i] for column in range(3)])
                    for j, value in enumerate(line):
                        place = (i * form.filters + j) * self.weight_plane
                        code.store(value, code.at(to_channel, place), align=lanes * 4)
                return ()

            code.loop(0, now, 1, channel)
            return ()

        code.loop(0, blocks, 1, block)

    def _multiply(
        self,
        code: Code,
        source: Vector,
        weights: Vector,
        products: Vector,
        blocks: int,
        *,
        accumulate: bool = False,
        following: Vector | None = None,
    ) -> None:
        """The matrix products, of all input blocks, or of those whose weights have just been transformed; `following` points to
        those that are next."""
        lanes, form = code.target.lanes, self.form
        channels = self.weight_channels or self.input.blocks * lanes
        matrix = self.weight_plane if self.weight_channels else channels * lanes
        pixels = blocked((1, self.weight_channels or self.input.channels, 1, self.chunk), lanes)
        apart = form.filters**2 * matrix
        read = 4 * (math.prod(self.weight_shape) + self.transformed_floats)
        far = self.stage == "rest" or read > code.target.l2 // 8 * 7  # else weights stay near from one task to the next
        shares = shares_of(-(-self.chunk // self.tile)) if following or far else 1
        pace = self.products * shares // 9
        one = DirectConvolutionSpec(pixels, pixels, (1, 1), (1, 1), (1, 1), (0, 0), 1, Epilogue(), self.tile, blocks, 1)

        def product(row: Index, column: Index) -> None:
            number = code.add(code.mul(row, form.span), column)
            last = form.filters - 1
            filter_number = code.add(code.mul(code.min(row, last), form.filters), code.min(column, last))
            vectors = code.at(source, code.mul(number, self.transformed_plane))
            factors = code.at(weights, code.mul(filter_number, matrix))
            to = code.at(products, code.mul(number, self.product_plane))

            def tile(x: Index, width: int) -> None:
                places = [
                    code.at(to, code.add(code.mul(x, lanes), (block * self.chunk + pixel) * lanes))
                    for block in range(blocks)
                    for pixel in range(width)
                ]
                zero = code.splat(0.0)
                start = [code.load(place, align=lanes * 4) if accumulate else zero for place in places]
                pixels = code.at(vectors, code.mul(x, lanes))
                share = code.mod(code.div(x, self.tile), shares)
                ahead = None
                if following is not None:  # the filters of the next channels: each tile of each product has a share
                    share = code.mul(code.add(code.mul(number, shares), share), channels * lanes // pace)
                    ahead = Ahead(code.at(following, share), self.input.blocks * lanes * 9 * lanes, pace)
                elif shares > 1:  # those of the next product
                    share = code.add(code.mul(share, matrix // shares), matrix)
                    ahead = Ahead(code.at(factors, share), apart, shares)
                sums = one.emit_tile(
                    code, pixels, factors, start, width, apart, prefetch=following is None, ahead=ahead
                )
                for place, value in zip(places, sums, strict=True):
                    code.store(value, place, align=lanes * 4)

            def whole_tile(x: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                tile(x, self.tile)
                return ()

            whole, left = divmod(self.chunk, self.tile)
            code.loop(0, whole * self.tile, self.tile, whole_tile)
            if left:
                tile(whole * self.tile, left)

        def line(row: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            def element(column: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                product(row, column)
                return ()

            code.loop(0, form.span, 1, element)
            return ()

        code.loop(0, form.span, 1, line)

    def _place(self, code: Code, tile: Index) -> tuple[Index, Index, Index]:
        """(image, row, column) of a tile's first output pixel."""
        image, rest = code.divmod(tile, self.tiles_across * self.tiles_down)
        down, across = code.divmod(rest, self.tiles_across)
        return image, code.mul(down, TILE), code.mul(across, TILE)

    def _transform_input(
        self, code: Code, source: Vector, target: Vector, first: Index, blocks: tuple[Index, Index]
    ) -> None:
        layout, lanes, form = self.input, code.target.lanes, self.form
        start = layout.origin - self.padding[0] * layout.row - self.padding[1] * layout.pixel
        plane = self.transformed_plane

        def tile(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            image, y, x = self._place(code, code.add(first, index))
            step = self.stride * layout.pixel
            place = code.add(code.mul(y, self.stride * layout.row), code.mul(x, step))
            corner = code.at(source, code.add(code.add(code.mul(image, layout.image), place), start))
            column = code.at(target, code.mul(index, lanes))

            def block(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                pixels = code.at(corner, code.mul(number, layout.block_stride))
                half = []
                for i in range(form.span):
                    line = [code.load(code.at(pixels, j * layout.row + i * layout.pixel)) for j in range(form.span)]
                    half.append(transform(code, form.input, line))
                to = code.at(column, code.mul(number, self.chunk * lanes))
                for i in range(form.span):
                    values = transform(code, form.input, [half[j][i] for j in range(form.span)])
                    for j, value in enumerate(values):
                        code.store(value, code.at(to, (i * form.span + j) * plane), align=lanes * 4)
                return ()

            code.loop(*blocks, 1, block, at_least_once=True)
            return ()

        code.loop(0, self.chunk, 1, tile)

    def _transform_output(self, code: Code, group: _Group, source: Vector, first_block: Index, blocks: int) -> None:
        layout, lanes, form = self.output, code.target.lanes, self.form
        plane = self.product_plane
        out = code.at(group.out, code.add(code.mul(first_block, layout.block_stride), layout.origin))
        bias = code.at(group.bias, code.mul(first_block, lanes))

        def tile(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            image, y, x = self._place(code, code.add(group.first, index))
            place = code.add(
                code.mul(image, layout.image), code.add(code.mul(y, layout.row), code.mul(x, layout.pixel))
            )
            corner = code.at(out, place)
            column = code.at(source, code.mul(index, lanes))

            def block(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                products = code.at(column, code.mul(number, self.chunk * lanes))
                half = []
                for i in range(form.span):
                    places = [(j * form.span + i) * plane for j in range(form.span)]
                    half.append(
                        transform(
                            code, form.output, [code.load(code.at(products, at), align=lanes * 4) for at in places]
                        )
                    )
                shift = code.load(code.at(bias, code.mul(number, lanes)), align=lanes * 4)
                operands = self.epilogue.seek(code, group.extra, image, code.add(first_block, number))
                pixels = code.at(corner, code.mul(number, layout.block_stride))
                for i in range(TILE):
                    sums = transform(code, form.output, [half[j][i] for j in range(form.span)])
                    values = [code.builder.fadd(value, shift) for value in sums]
                    self._store_line(code, values, pixels, operands, y, x, i)
                return ()

            code.loop(0, blocks, 1, block)
            return ()

        code.loop(0, self.chunk, 1, tile)

    def _store_line(
        self,
        code: Code,
        values: Sequence[Vector],
        pixels: Vector,
        extra: Seat,
        y: Index,
        x: Index,
        line: int,
    ) -> None:
        """Stores the pixels of a tile's line that lie inside the picture."""
        layout, lanes = self.output, code.target.lanes
        row = code.add(y, line)

        def store(first: int, last: int) -> None:
            span = range(first, last)
            results = self.epilogue.emit(code, values[first:last], extra, [(0, row, x, pixel) for pixel in span])
            for pixel, value in zip(span, results, strict=True):
                code.store(value, code.at(pixels, line * layout.row + pixel * layout.pixel), align=lanes * 4)

        def columns() -> None:
            inside = layout.width % TILE or TILE
            store(0, inside)
            if inside < TILE:
                with code.when(code.less(code.add(x, TILE - 1), layout.width)):
                    store(inside, TILE)

        if line < (layout.height % TILE or TILE):
            columns()
        else:
            with code.when(code.less(row, layout.height)):
                columns()


def _apart(floats: int, lanes: int) -> int:
    """A distance of at least so many floats, an odd number of vectors: powers of two would all want the same cache lines."""
    return floats + lanes if floats // lanes % 2 == 0 else floats


def reach(size: int, padding: int, stride: int = 1) -> int:
    """The halo that the last tile needs after `size` input pixels, with `padding` before them."""
    outputs = (size + 2 * padding - 3) // stride + 1
    last = (-(-outputs // TILE) * TILE - 1) * stride + 3
    return max(0, last - padding - size)


def transform_weights(weight: Array, spec: WinogradSpec, out: Array) -> None:
    """Weights (O, I, 3, 3) as the kernel reads them, into an array of `spec.weight_shape`: transformed, or as they are.

    Calculated in double precision, a few channels at a time: what is read and written stays in the cache, and the products are
    too small for threads of a BLAS, which would go on spinning beside the work that follows.
    """
    matrix = np.array(spec.form.weight, np.float64)
    both = np.einsum("ai,bj->abij", matrix, matrix).reshape(-1, 9)
    inputs, lanes = weight.shape[1], out.shape[3]
    step = max(1, _BLAS_ALONE // lanes)
    for block in range(out.shape[0]):
        filters = weight[block * lanes : (block + 1) * lanes].reshape(-1, inputs, 9)
        if spec.weight_channels:
            out[block, :inputs, :, : len(filters)] = filters.transpose(1, 2, 0)
            out[block, :inputs, :, len(filters) :] = 0
            out[block, inputs:] = 0
            continue
        for first in range(0, inputs, step):
            some = filters[:, first : first + step].transpose(2, 1, 0)
            padded = np.zeros((*some.shape[:2], lanes))
            padded[:, :, : len(filters)] = some
            out[block, :, first : first + some.shape[1]] = (both @ padded.reshape(9, -1)).reshape(len(both), -1, lanes)
        out[block, :, inputs:] = 0


@functools.cache
def plan_winograd(
    source: ImageLayout, out: ImageLayout, stride: int, padding: tuple[int, int], epilogue: Epilogue, target: Target
) -> WinogradSpec:
    """The spec of a convolution in one step, or of the stage ``rest`` of one in two.

    Measured: two steps win, by 4 to 23 %, where there are too few tiles for two tasks and the transformed input stays in the
    second-level cache, or where the weights are too large for it and the input is not for the third. With more tiles two steps
    lose 4 %, because threads then read what others have transformed. Weights transformed beforehand win by 15 % where the cache
    holds them or more than 25 tiles use what was read; but large ones drive all others out of the cache.
    """
    form, lanes = FORMS[stride], target.lanes
    whole = WinogradSpec(source, out, stride, padding, epilogue, 1, 1, 1)
    inputs, outputs = source.blocks * lanes, out.blocks * lanes
    weights = 4 * form.filters**2 * inputs * outputs
    stage, chunk = "all", _choose_chunk(whole, max(1, target.l2 // 2 // (4 * whole.products * inputs)), target)
    transformed = 4 * whole.products * whole.tiles * inputs
    near = transformed <= target.l2 and whole.tiles <= _MOST_TILES
    far = weights > 5 * target.l2 // 4 and transformed <= 8 * target.l2
    if weights > target.l2 // 2 and (near or far):
        again = 0 if near else transformed * out.blocks // 2  # read for each group of blocks
        if weights + again < weights * -(-whole.tiles // chunk):
            stage, chunk = "rest", whole.tiles
    tile, tile_blocks = choose_tile(chunk, out.blocks, target)
    weight_channels = 0
    if chunk <= 25 and whole.tiles <= 25 and weights > 2.5 * target.l2:
        most = max(1, target.l2 // 6 // (4 * form.filters**2 * lanes * tile_blocks * lanes))
        blocks = max(count for count in range(1, min(most, source.blocks) + 1) if source.blocks % count == 0)
        weight_channels = blocks * lanes
    return WinogradSpec(source, out, stride, padding, epilogue, chunk, tile, tile_blocks, weight_channels, stage)


def _choose_chunk(spec: WinogradSpec, most: int, target: Target) -> int:
    """Tiles of a task, `most` at most: whole tiles of registers, the same for all threads, little done twice."""
    most = min(spec.tiles, most, _MOST_TILES)

    def cost(chunk: int) -> float:
        tile, _ = choose_tile(chunk, spec.output.blocks, target)
        tasks = -(-spec.tiles // chunk)
        uneven = sum(members * -(-tasks // members) / tasks for members in (1, 2, 4)) / 3
        full, rest = divmod(chunk, tile)
        registers = (full * tile + (max(rest, 4.5) if rest else 0) + full + bool(rest)) / chunk
        return uneven * tasks * chunk / spec.tiles * registers * (1 + 1 / chunk)

    return min(range(max(1, most // 2), most + 1), key=lambda chunk: (cost(chunk), -chunk))


@dataclass(frozen=True)
class _Group:
    """Operands of a group of output blocks; `first` is the first tile."""

    weights: Vector
    bias: Vector
    out: Vector
    extra: Sequence[Vector]
    first: Index
    transformed: Vector
    scratch: Vector
