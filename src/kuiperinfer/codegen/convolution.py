"""How convolutions are lowered: which algorithm, which tiles, which layouts."""

from __future__ import annotations

from typing import Any

from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.convolution import Conv
from ..passes.fused import Fused
from .epilogue import Epilogue
from .kernels.direct_convolution import DirectConvolutionSpec, choose_tile, pack_bias, pack_weights
from .layout import NO_HALO, Halo, ImageLayout, planar
from .lowering import Image, Lowering, as_float32, lowers

TASK_FLOPS = 4e6  # work that a task should have: long against claiming it, short against a step


def base_of(operator: RuntimeOperator) -> Any:
    """The layer itself, without the expression that a pass fused into it."""
    return operator.layer.base if isinstance(operator.layer, Fused) else operator.layer


def epilogue_of(lowering: Lowering, operator: RuntimeOperator) -> tuple[Epilogue, list[Image]]:
    """The fused expression, and the images that it reads beside the result."""
    if not isinstance(operator.layer, Fused):
        return Epilogue(), []
    images: list[Image] = []
    while (extra := lowering.argument(operator, f"extra{len(images) + 1}")) is not None:
        images.append(lowering.image(extra))
    return Epilogue(operator.layer.text, tuple(image.layout for image in images)), images


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
    if layer.mode != "constant":
        return False
    outputs, inputs = weight.shape[0] // layer.groups, weight.shape[1]
    lanes = lowering.target.lanes
    if layer.groups == 1:
        return True
    wide = inputs % lanes == 0 and outputs % lanes == 0
    narrow = inputs == outputs and lanes % inputs == 0
    return wide or narrow


def _halo(lowering: Lowering, operator: RuntimeOperator, index: int) -> Halo:
    if index > 0 or not _is_image_convolution(lowering, operator):
        return NO_HALO
    layer = base_of(operator)
    (top, bottom), (left, right) = layer.pads(operator.attributes["weight"].shape[2:])
    return (top, left, bottom, right)


@lowers(Conv, layout=_is_image_convolution, halo=_halo, reads_image=True)
def lower_convolution(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """A 2-d convolution with constant weights."""
    if not _is_image_convolution(lowering, operator):
        return False
    layer, source = base_of(operator), operator.input_operands_seq[0]
    weight = as_float32(operator.attributes["weight"].data)
    bias = operator.attributes["bias"].data if "bias" in operator.attributes else None
    halo = _halo(lowering, operator, 0)
    image = (
        _first_image(lowering, source, halo) if weight.shape[1] * layer.groups <= 4 else lowering.image(source, halo)
    )
    epilogue, extras = epilogue_of(lowering, operator)
    out = lowering.new_image(operator.output_operands[0])
    spec = plan_direct(lowering, image.layout, out.layout, layer, weight.shape, epilogue)
    lanes = lowering.target.lanes
    lowering.add(
        spec,
        image.ref,
        lowering.constant(pack_weights(weight, spec, lanes)),
        lowering.constant(pack_bias(None if bias is None else as_float32(bias), len(weight), lanes)),
        out.ref,
        *(extra.ref for extra in extras),
        writes=3,
    )
    return True


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
    if pointwise and out.batch == 1 and all(layout.is_dense for layout in everything):
        rows = flat_rows(out.height * out.width, out.blocks, lowering, blocks_a_group)
        source, out, *operands = (layout.as_rows(rows) for layout in everything)
        epilogue = Epilogue(epilogue.text, tuple(operands))
    tile, tile_blocks = choose_tile(out.width, out.blocks, lowering.target, blocks_a_group)
    row_flops = 2 * out.width * tile_blocks * lanes * weight[1] * kernel[0] * kernel[1]
    rows = max(1, min(out.height, round(TASK_FLOPS / row_flops)))
    return DirectConvolutionSpec(
        source, out, kernel, layer.stride, layer.dilation, (top, left), layer.groups, epilogue, tile, tile_blocks, rows
    )


def len_blocks(channels: int, lanes: int) -> int:
    """Blocks of whole vectors that channels fill."""
    return -(-channels // lanes)


def flat_rows(pixels: int, blocks: int, lowering: Lowering, blocks_a_group: int) -> int:
    """Into how many rows of equal length a dense picture is cut, so that tiles waste little and rows are short enough to share."""
    best, best_cost = 1, float("inf")
    for rows in range(1, pixels + 1):
        if pixels % rows or (pixels // rows > 1024 and rows < pixels):
            continue
        width = pixels // rows
        if width < 8 and rows > 1:
            break
        tile, _ = choose_tile(width, blocks, lowering.target, blocks_a_group)
        cost = rows * (-(-width // tile)) * (tile + 1.0)
        if cost < best_cost - 1e-9:
            best, best_cost = rows, cost
    return best
