"""How convolutions are lowered: which algorithm, which tiles, which layouts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ..dtypes import Array
from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.binding import FromInput
from ..layers.convolution import Conv
from ..passes.fused import Fused
from .epilogue import Epilogue
from .kernels.depthwise import DepthwiseSpec, pack_depthwise
from .kernels.direct_convolution import DirectConvolutionSpec, choose_tile, pack_bias, pack_weights
from .kernels.winograd import TILE, plan_winograd, reach, transform_weights
from .layout import NO_HALO, Halo, ImageLayout, planar
from .lowering import Image, Lowering, Ref, as_float32, lowers
from .pointwise import is_product_of_rows, lower_product_of_rows
from .shares import share
from .target import Target

TASK_FLOPS = 4e6  # work that a task should have: long against claiming it, short against a step


MANY_TILES = 8  # tiles of a task that weights which stay in the first-level cache serve well


def microseconds(flops: float) -> float:
    """How long a thread takes for multiply-adds, more or less: what tasks are cut by."""
    return flops / 1.5e5


def base_of(operator: RuntimeOperator) -> Any:
    """The layer itself, without the expression that a pass fused into it."""
    return operator.layer.base if isinstance(operator.layer, Fused) else operator.layer


def epilogue_of(lowering: Lowering, operator: RuntimeOperator) -> tuple[Epilogue, list[Image]]:
    """The fused expression, and the images that it reads beside the result."""
    if not isinstance(operator.layer, Fused):
        return Epilogue(), []
    assert operator.binding is not None
    images: list[Image] = []
    while isinstance(source := operator.binding.named.get(f"extra{len(images) + 1}"), FromInput):
        image = lowering.image(operator.input_operands_seq[source.index])
        if image.layout.batch == 1:  # one for all samples
            image = replace(image, layout=replace(image.layout, image=0))
        images.append(image)
    channels = lowering.spec(operator.output_operands[0]).shape[1]
    layouts = [image.layout for image in images]
    return Epilogue.of(operator.layer.text, layouts, channels, lowering.target.lanes), images


def _is_image_convolution(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Whether the kernels below take this convolution on."""
    layer, assert_spec = base_of(operator), lowering.spec(operator.input_operands_seq[0])
    weight = operator.attributes.get("weight")
    if (
        not isinstance(layer, Conv)
        or layer.ndim != 2
        or assert_spec.ndim != 4
        or weight is None
        or 0 in assert_spec.shape
    ):
        return False
    if layer.mode != "constant" or is_product_of_rows(lowering, operator):
        return False
    outputs, inputs = weight.shape[0] // layer.groups, weight.shape[1]
    lanes = lowering.target.lanes
    if layer.groups == 1:
        return True
    if _is_depthwise(layer, weight.shape):
        return True
    wide = inputs % lanes == 0 and outputs % lanes == 0
    narrow = inputs == outputs and lanes % inputs == 0
    return wide or narrow


def _is_depthwise(layer: Conv, weight: tuple[int, ...]) -> bool:
    """One filter a channel."""
    return layer.groups > 1 and weight[1] == 1 and weight[0] == layer.groups


def _uses_winograd(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Whether Winograd's algorithm is expected to be the fastest for a 3×3 convolution.

    Measured: with stride 1 it wins by 1.6 to 3 times, with stride 2 by up to 1.6 times.
    """
    layer, weight = base_of(operator), operator.attributes["weight"].shape
    if (
        lowering.exact
        or layer.groups != 1
        or weight[2:] != (3, 3)
        or layer.stride not in ((1, 1), (2, 2))
        or layer.dilation != (1, 1)
    ):
        return False
    stride = layer.stride[0]
    (top, bottom), (left, right) = layer.pads(weight[2:])
    if (top, left) != (bottom, right):
        return False
    batch, _, height, width = lowering.spec(operator.output_operands[0]).shape
    tiles = batch * -(-height // TILE) * -(-width // TILE)
    waste = tiles * TILE * TILE / (batch * height * width)
    if stride == 2:  # more is transformed and less is saved
        return min(weight[:2]) >= 32 and tiles >= 25 and waste < 1.3
    return min(weight[:2]) >= 16 and tiles >= 9 and waste < 1.9


def _halo(lowering: Lowering, operator: RuntimeOperator, index: int) -> Halo:
    if index > 0 or not _is_image_convolution(lowering, operator):
        return NO_HALO
    layer = base_of(operator)
    (top, bottom), (left, right) = layer.pads(operator.attributes["weight"].shape[2:])
    if _uses_winograd(lowering, operator):
        height, width = lowering.spec(operator.input_operands_seq[0]).shape[2:]
        stride = layer.stride[0]
        bottom, right = max(bottom, reach(height, top, stride)), max(right, reach(width, left, stride))
    return (top, left, bottom, right)


@lowers(Conv, layout=_is_image_convolution, halo=_halo, reads_image=True)
def lower_convolution(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """A 2-d convolution with constant weights."""
    if is_product_of_rows(lowering, operator):
        return lower_product_of_rows(lowering, operator)
    if not _is_image_convolution(lowering, operator):
        return False
    layer, source = base_of(operator), operator.input_operands_seq[0]
    weight = as_float32(operator.attributes["weight"].data)
    halo = _halo(lowering, operator, 0)
    few = weight.shape[1] * layer.groups <= 4 and not _is_depthwise(layer, weight.shape)
    image = _first_image(lowering, source, halo) if few else lowering.image(source, halo)
    epilogue, extras = epilogue_of(lowering, operator)
    out = lowering.new_image(operator.output_operands[0])
    bias = operator.attributes["bias"].data if "bias" in operator.attributes else None
    packed = pack_bias(None if bias is None else as_float32(bias), len(weight), lowering.target.lanes)
    operands = (lowering.constant(packed), out.ref, *(extra.ref for extra in extras))
    if _uses_winograd(lowering, operator):
        _add_winograd(lowering, image, out, layer, weight, epilogue, operands)
        return True
    if _is_depthwise(layer, weight.shape):
        _add_depthwise(lowering, image, out, layer, weight, epilogue, operands)
        return True
    spec = plan_direct(lowering, image.layout, out.layout, layer, weight.shape, epilogue)
    weights = lowering.constant(pack_weights(weight, spec, lowering.target.lanes))
    lowering.add(spec, image.ref, weights, *operands, writes=3)
    return True


def _add_depthwise(
    lowering: Lowering,
    image: Image,
    out: Image,
    layer: Conv,
    weight: Array,
    epilogue: Epilogue,
    operands: tuple[Ref, ...],
) -> None:
    kernel = (weight.shape[2], weight.shape[3])
    (top, _), (left, _) = layer.pads(kernel)
    registers = lowering.target.registers
    # registers: the sums, the input pixels of one kernel row and its filters
    most = max(1, (registers - 2 * kernel[1] - 2) // (1 + layer.stride[1]))
    width = out.layout.width
    tile = min(range(1, most + 1), key=lambda tile: (-(-width // tile) * (tile + 1.5), -tile))
    height, lanes = out.layout.height, lowering.target.lanes
    row_time = microseconds(6 * width * kernel[0] * kernel[1] * lanes)  # memory bound: about a third as fast as others
    by_rows = height * width >= 144
    rows = share(height, row_time, out.layout.batch * out.layout.blocks)
    pair = ((layer.stride[0], layer.stride[1]), (layer.dilation[0], layer.dilation[1]))
    spec = DepthwiseSpec(image.layout, out.layout, kernel, *pair, (top, left), epilogue, tile, rows, by_rows)
    weights = lowering.constant(pack_depthwise(weight, lanes))
    lowering.add(spec, image.ref, weights, *operands, writes=3)


def _add_winograd(
    lowering: Lowering,
    image: Image,
    out: Image,
    layer: Conv,
    weight: Array,
    epilogue: Epilogue,
    operands: tuple[Ref, ...],
) -> None:
    """One step, or, for small pictures of many channels, one that transforms the input and one with the rest."""
    (top, _), (left, _) = layer.pads((3, 3))
    target = lowering.target
    spec = plan_winograd(image.layout, out.layout, layer.stride[0], (top, left), epilogue, target)
    weights = lowering.packed(spec.weight_shape, lambda packed: transform_weights(weight, spec, packed))
    source = image.ref
    if spec.stage == "rest":
        source = lowering.temporary(4 * spec.transformed_floats)
        lowering.add(replace(spec, stage="input", epilogue=Epilogue()), image.ref, source)
    lowering.add(spec, source, weights, *operands, writes=3)


def _first_image(lowering: Lowering, source: RuntimeOperand, halo: Halo) -> Image:
    """An image of few channels stays planar; padding makes a copy with a halo."""
    home = lowering.homes[source]
    if home.image is not None and home.rows is None:
        return lowering.image(source, halo)
    shape: Any = lowering.spec(source).shape
    plain = Image(lowering.rows(source), planar(shape))
    if halo == NO_HALO:
        return plain
    return lowering.planar_copy(plain, halo)


def plan_direct(
    lowering: Lowering, source: ImageLayout, out: ImageLayout, layer: Conv, weight: tuple[int, ...], epilogue: Epilogue
) -> DirectConvolutionSpec:
    """The spec of a direct convolution: tiles, and shares of about `TASK_FLOPS`."""
    kernel = (weight[2], weight[3])
    (top, _), (left, _) = layer.pads(kernel)
    lanes = lowering.target.lanes
    blocks_a_group = 0 if layer.groups == 1 else max(1, len_blocks(weight[0] // layer.groups, lanes))
    everything = (source, out, *epilogue.operands)
    pointwise = kernel == (1, 1) and layer.stride == (1, 1) and (top, left) == (0, 0)
    if pointwise and out.height > 1 and all(layout.is_dense for layout in everything):
        source, out, *operands = (layout.as_rows(1) for layout in everything)
        epilogue = replace(epilogue, operands=tuple(operands))
    tile, tile_blocks = choose_tile(out.width, out.blocks, lowering.target, blocks_a_group)
    tile_rows = 1
    if 2 * out.width * 2 <= lowering.target.registers - 3 and out.height > 1 and blocks_a_group != 1 and out.blocks > 1:
        tile, tile_blocks, tile_rows = out.width, 2, 2  # narrow pictures: half the reading of weights
    weights = weight[0] * weight[1] * kernel[0] * kernel[1]
    by_rows = weights <= math.prod(source.shape) + math.prod(out.shape)
    sets = out.batch * -(-out.blocks // tile_blocks)
    pixel_time = microseconds(2 * weights / (sets // out.batch))
    near = lowering.target.l2 // 4 // (4 * source.channels)  # pixels of the input, read again for each share of blocks
    slices = _slice(source, kernel, layer.groups, tile_blocks, lowering.target)
    rows, columns = 1, 0
    if out.height == 1:
        columns = share(out.width, pixel_time, sets, tile, most=max(tile, near) if by_rows else None)
    else:
        grain = -(-out.height // max(1, out.height * out.width // (MANY_TILES * tile))) if slices else tile_rows
        most = max(grain, near // (source.width * layer.stride[0]))
        rows = min(out.height, share(out.height, pixel_time * out.width, sets, grain, most=most if by_rows else None))
    tiles = (columns or rows * out.width) // tile
    return DirectConvolutionSpec(
        source,
        out,
        kernel,
        (layer.stride[0], layer.stride[1]),
        (layer.dilation[0], layer.dilation[1]),
        (top, left),
        layer.groups,
        epilogue,
        tile,
        tile_blocks,
        rows,
        tile_rows,
        columns,
        by_rows,
        0 if tiles < MANY_TILES else slices,
    )


def _slice(source: ImageLayout, kernel: tuple[int, int], groups: int, tile_blocks: int, target: Target) -> int:
    """Input blocks whose weights, for the blocks of a tile, take half of the first-level cache; 0 where all of them do.

    With many registers a tile is so large that the second level brings weights fast enough.
    """
    blocks = len_blocks(source.channels // groups, source.block)
    block = 4 * kernel[0] * kernel[1] * tile_blocks * target.lanes * source.block
    slices = -(-blocks * block // (target.l1 // 2))
    return 0 if target.registers >= 32 or source.block == 1 or slices < 2 else -(-blocks // slices)


def len_blocks(channels: int, lanes: int) -> int:
    """Blocks of whole vectors that channels fill."""
    return -(-channels // lanes)
