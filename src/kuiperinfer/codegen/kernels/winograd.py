"""Winograd convolution F(4×4, 3×3): a quarter of the multiplications of a direct 3×3 convolution.

Input tiles of 6×6 pixels are transformed, 36 matrix products follow, and their results are transformed back to output tiles
of 4×4 pixels, with bias and epilogue. In one step (stage ``all``) a task does all three for a chunk of tiles, in thread-local
scratch, so that everything between stays in the cache; the last chunk may overlap the one before it and writes the same values
again. Where the transformed weights are too large to be read for every chunk, the three are steps of their own over all tiles
(stages ``input``, ``product``, ``output``), and the weights are read once.

Definition of the transforms: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ...dtypes import Array
from ...records import dataclass
from ..builder import Code, Index, Vector
from ..epilogue import Epilogue, Seat
from ..layout import ImageLayout, blocked
from ..spec import KernelSpec
from ..target import Target
from .direct_convolution import DirectConvolutionSpec, choose_tile

TILE = 4  # output pixels of a tile, each way
SPAN = 6  # input pixels of a tile, each way

_INPUT = (
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)
_BLAS_ALONE = 768  # columns of a (36, 9) by (9, columns) product that OpenBLAS calculates with one thread
_WEIGHT = (
    (1 / 4, 0, 0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0, 0, 1),
)
_OUTPUT = ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1))


@dataclass(frozen=True)
class WinogradSpec(KernelSpec):
    """A 3×3 convolution of stride 1. Arguments: input, transformed weights, bias, output, then those of the epilogue; for the
    stages ``input``: input, transformed; ``product``: transformed, weights, products; ``output``: products, bias, output, ….

    The input's halo extends as far as the last tile needs, see `reach`. `chunk` tiles are transformed together.
    """

    input: ImageLayout
    output: ImageLayout
    padding: tuple[int, int]  # top, left
    epilogue: Epilogue
    chunk: int
    tile: int
    tile_blocks: int
    stage: str = "all"

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
        if self.stage == "product":
            return SPAN * SPAN * self.block_groups
        return self.output.blocks if self.stage == "output" else -(-self.tiles // self.chunk)

    @property
    def transformed_floats(self) -> int:
        """Floats of the transformed input tiles of a chunk."""
        return SPAN * SPAN * self.chunk * self.output.block * self.input.blocks

    @property
    def product_floats(self) -> int:
        """Floats of the products of a chunk."""
        return SPAN * SPAN * self.chunk * self.output.block * self.output.blocks

    @property
    def scratch_floats(self) -> int:
        return self.transformed_floats + self.product_floats if self.stage == "all" else 0

    @property
    def flops(self) -> int:
        if self.stage in ("input", "output"):
            return 0
        out = self.output
        return 18 * out.batch * out.height * out.width * out.channels * self.input.channels

    @property
    def traffic(self) -> int:
        weights = self.output.channels * self.input.channels * SPAN * SPAN
        return 4 * (int(np.prod(self.input.shape)) + int(np.prod(self.output.shape)) + weights)

    @property
    def product(self) -> DirectConvolutionSpec:
        """One of the 36 matrix products: a 1×1 convolution from the transformed tiles to the products."""
        lanes = self.output.block
        pixels = blocked((1, self.input.blocks * lanes, 1, self.chunk), lanes)
        products = blocked((1, self.output.blocks * lanes, 1, self.chunk), lanes)
        return DirectConvolutionSpec(
            pixels, products, (1, 1), (1, 1), (1, 1), (0, 0), 1, Epilogue(), self.tile, self.tile_blocks, 1
        )

    def emit(self, code: Code) -> None:
        if self.stage == "all":
            source, weights, bias, out, *extra = code.pointers(4 + self.epilogue.operand_count)
            first = code.min(code.mul(code.task, self.chunk), self.tiles - self.chunk)
            transformed, products = code.scratch, code.at(code.scratch, self.transformed_floats)
            self._transform_input(code, source, transformed, first, (0, self.input.blocks))
            self._multiply(code, transformed, weights, products)
            self._transform_output(code, products, bias, out, extra, first, (0, self.output.blocks))
        elif self.stage == "input":
            source, transformed = code.pointers(2)
            self._transform_input(code, source, transformed, 0, (code.task, code.add(code.task, 1)))
        elif self.stage == "product":
            transformed, weights, products = code.pointers(3)
            number, group = code.divmod(code.task, self.block_groups)
            places = self._product_places(code, number, transformed, weights, products)
            self.product.emit_product_group(code, *places, group)
        else:
            products, bias, out, *extra = code.pointers(3 + self.epilogue.operand_count)
            self._transform_output(code, products, bias, out, extra, 0, (code.task, code.add(code.task, 1)))

    def _product_places(
        self, code: Code, number: Index, source: Vector, weights: Vector, target: Vector
    ) -> tuple[Vector, Vector, Vector]:
        """The operands of one of the 36 matrix products."""
        lanes = code.target.lanes
        return (
            code.at(source, code.mul(number, self.input.blocks * self.chunk * lanes)),
            code.at(weights, code.mul(number, self.input.blocks * self.output.blocks * lanes * lanes)),
            code.at(target, code.mul(number, self.output.blocks * self.chunk * lanes)),
        )

    def _place(self, code: Code, tile: Index) -> tuple[Index, Index, Index]:
        """(image, row, column) of a tile's first output pixel."""
        image, rest = code.divmod(tile, self.tiles_across * self.tiles_down)
        down, across = code.divmod(rest, self.tiles_across)
        return image, code.mul(down, TILE), code.mul(across, TILE)

    def _transform_input(
        self, code: Code, source: Vector, target: Vector, first: Index, blocks: tuple[Index, Index]
    ) -> None:
        layout, lanes = self.input, code.target.lanes
        start = layout.origin - self.padding[0] * layout.row - self.padding[1] * layout.pixel
        plane = layout.blocks * self.chunk * lanes

        def tile(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            image, y, x = self._place(code, code.add(first, index))
            place = code.add(
                code.mul(image, layout.image), code.add(code.mul(y, layout.row), code.mul(x, layout.pixel))
            )
            corner = code.at(source, code.add(place, start))
            column = code.at(target, code.mul(index, lanes))

            def block(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                pixels = code.at(corner, code.mul(number, layout.block_stride))
                half = []
                for i in range(SPAN):
                    line = [code.load(code.at(pixels, j * layout.row + i * layout.pixel)) for j in range(SPAN)]
                    half.append([combine(code, row, line) for row in _INPUT])
                to = code.at(column, code.mul(number, self.chunk * lanes))
                for i in range(SPAN):
                    line = [half[j][i] for j in range(SPAN)]
                    for j, row in enumerate(_INPUT):
                        code.store(combine(code, row, line), code.at(to, (i * SPAN + j) * plane), align=lanes * 4)
                return ()

            code.loop(*blocks, 1, block, at_least_once=True)
            return ()

        code.loop(0, self.chunk, 1, tile)

    def _multiply(self, code: Code, source: Vector, weights: Vector, target: Vector) -> None:
        product = self.product

        def one(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            product.emit_product(code, *self._product_places(code, number, source, weights, target))
            return ()

        code.loop(0, SPAN * SPAN, 1, one)

    def _transform_output(
        self,
        code: Code,
        source: Vector,
        bias: Vector,
        out: Vector,
        extra: Sequence[Vector],
        first: Index,
        blocks: tuple[Index, Index],
    ) -> None:
        layout, lanes = self.output, code.target.lanes
        plane = layout.blocks * self.chunk * lanes

        def tile(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            image, y, x = self._place(code, code.add(first, index))
            place = code.add(
                code.mul(image, layout.image), code.add(code.mul(y, layout.row), code.mul(x, layout.pixel))
            )
            corner = code.at(out, code.add(place, layout.origin))
            column = code.at(source, code.mul(index, lanes))

            def block(number: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                products = code.at(column, code.mul(number, self.chunk * lanes))
                half = []
                for i in range(SPAN):
                    line = [code.load(code.at(products, (j * SPAN + i) * plane), align=lanes * 4) for j in range(SPAN)]
                    half.append([combine(code, row, line) for row in _OUTPUT])
                shift = code.load(code.at(bias, code.mul(number, lanes)), align=lanes * 4)
                operands = self.epilogue.seek(code, extra, image, number)
                pixels = code.at(corner, code.mul(number, layout.block_stride))
                for i in range(TILE):
                    line = [half[j][i] for j in range(SPAN)]
                    values = [code.builder.fadd(combine(code, row, line), shift) for row in _OUTPUT]
                    self._store_line(code, values, pixels, operands, y, x, i)
                return ()

            code.loop(*blocks, 1, block, at_least_once=True)
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

        def store(pixel: int) -> None:
            value = self.epilogue.emit(code, values[pixel], extra, 0, row, x, pixel)
            code.store(value, code.at(pixels, line * layout.row + pixel * layout.pixel), align=lanes * 4)

        def columns() -> None:
            inside = layout.width % TILE or TILE
            for pixel in range(inside):
                store(pixel)
            if inside < TILE:
                with code.when(code.less(code.add(x, TILE - 1), layout.width)):
                    for pixel in range(inside, TILE):
                        store(pixel)

        if line < (layout.height % TILE or TILE):
            columns()
        else:
            with code.when(code.less(row, layout.height)):
                columns()


def combine(code: Code, factors: Sequence[float], vectors: Sequence[Vector]) -> Vector:
    """The sum of vectors times small constants; constants of 0 cost nothing, of 1 and -1 no multiplication."""
    total: Vector | None = None
    for factor, vector in sorted(zip(factors, vectors, strict=True), key=lambda pair: pair[0] != 1):
        if factor == 0:
            continue
        if total is None:
            total = vector if factor == 1 else code.builder.fmul(vector, code.splat(factor))
        elif factor == 1:
            total = code.builder.fadd(total, vector)
        elif factor == -1:
            total = code.builder.fsub(total, vector)
        else:
            total = code.fma(vector, code.splat(factor), total)
    assert total is not None
    return total


def reach(size: int, padding: int) -> int:
    """The halo that the last tile needs after `size` input pixels, with `padding` before them."""
    outputs = size + 2 * padding - 2
    return max(0, -(-outputs // TILE) * TILE + 2 - padding - size)


def transform_weights(weight: Array, out: Array) -> None:
    """Weights (O, I, 3, 3) as the kernel reads them, into (36, output block, input channel, lane).

    Calculated in double precision, a few channels at a time: what is read and written stays in the cache, and the products are
    too small for threads of a BLAS, which would go on spinning beside the work that follows.
    """
    transform = np.array(_WEIGHT)
    both = np.einsum("ai,bj->abij", transform, transform).reshape(SPAN * SPAN, 9)
    inputs, lanes = weight.shape[1], out.shape[3]
    step = max(1, _BLAS_ALONE // lanes)
    for block in range(out.shape[1]):
        filters = weight[block * lanes : (block + 1) * lanes].reshape(-1, inputs, 9)
        for first in range(0, inputs, step):
            some = filters[:, first : first + step].transpose(2, 1, 0)
            padded = np.zeros((*some.shape[:2], lanes))
            padded[:, :, : len(filters)] = some
            spread = both @ padded.reshape(9, -1)
            out[:, block, first : first + some.shape[1]] = spread.reshape(SPAN * SPAN, -1, lanes)
    out[:, :, inputs:] = 0


@functools.cache
def choose_chunk(spec_tiles: int, channels: tuple[int, int], target: Target) -> int:
    """Tiles of a task: scratch within a good part of the second-level cache, whole tiles of registers, enough to share."""
    bytes_a_tile = 4 * SPAN * SPAN * (channels[0] + channels[1])
    most = max(1, min(spec_tiles, (target.l2 // 2) // bytes_a_tile, 56))
    if spec_tiles <= 4:
        return spec_tiles
    candidates = range(max(1, most // 2), most + 1)

    def cost(chunk: int) -> float:
        tile, _ = choose_tile(chunk, -(-channels[1] // target.lanes), target)
        waste = -(-spec_tiles // chunk) * chunk / spec_tiles
        return waste * (1 + 0.5 / tile) * (-(-chunk // tile) * tile / chunk) ** 0.5

    return min(candidates, key=lambda chunk: (cost(chunk), -chunk))
