"""How shuffles of channels and pixels are lowered: as copies with strides; between images, as lanes in another order."""

from __future__ import annotations

from ..graph import RuntimeOperator
from ..layers.base import Ints
from ..layers.pixel import ChannelShuffle, PixelShuffle, PixelUnshuffle
from .homes import row_major
from .kernels.pixel_shuffle import PixelShuffleSpec
from .kernels.strided_copy import plan_copy
from .lowering import Lowering, lowers
from .views import data_operand

_MOST_FACTOR = 4  # of a shuffle between images: its square of vectors is in registers


def _is_image(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Whether both sides are images in memory: not where the blocks of the one with fewer channels would be half empty."""
    layer, source = operator.layer, data_operand(operator)
    if not lowering.is_image.get(source, False) or lowering.spec(source).ndim != 4:
        return False
    assert isinstance(layer, (PixelShuffle, PixelUnshuffle))
    channels = min(lowering.spec(operand).shape[1] for operand in (source, operator.output_operands[0]))
    return 1 < _factor(layer) <= _MOST_FACTOR and 2 * channels >= lowering.target.lanes


def _factor(layer: PixelShuffle | PixelUnshuffle) -> int:
    return layer.upscale_factor if isinstance(layer, PixelShuffle) else layer.downscale_factor


@lowers(PixelShuffle, PixelUnshuffle, layout=_is_image, any_dtype=True)
def lower_pixel_shuffle(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Between images, or as a copy."""
    layer = operator.layer
    assert isinstance(layer, (PixelShuffle, PixelUnshuffle))
    if not _is_image(lowering, operator):
        return lower_shuffle(lowering, operator)
    source, out = lowering.image(data_operand(operator)), lowering.new_image(operator.output_operands[0])
    lowering.add(PixelShuffleSpec(source.layout, out.layout, _factor(layer)), source.ref, out.ref)
    return True


@lowers(ChannelShuffle, layout=lambda lowering, operator: False, any_dtype=True)
def lower_shuffle(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """One copy: the input's dimensions, split, in the order of the output."""
    layer, source, output = operator.layer, data_operand(operator), operator.output_operands[0]
    spec, place = lowering.spec(output), lowering.new_rows(output)
    if not spec.size:
        return True
    start, shape = lowering.strided(source), lowering.spec(source).shape
    if isinstance(layer, ChannelShuffle):
        axis, groups = 1, layer.groups
        step, to = start.strides[axis], row_major(spec.shape)[axis]
        each = shape[axis] // groups
        split = [(groups, each * step, to), (each, step, groups * to)]
        dims = [
            *zip(shape[:axis], start.strides[:axis], row_major(spec.shape)[:axis], strict=True),
            *split,
            *zip(shape[axis + 1 :], start.strides[axis + 1 :], row_major(spec.shape)[axis + 1 :], strict=True),
        ]
    elif isinstance(layer, PixelShuffle):
        dims = _pixels(shape, start.strides, spec.shape, row_major(spec.shape), layer.upscale_factor)
    else:
        assert isinstance(layer, PixelUnshuffle)
        swapped = _pixels(spec.shape, row_major(spec.shape), shape, start.strides, layer.downscale_factor)
        dims = [(size, step, to) for size, to, step in swapped]
    sizes, steps, target = zip(*dims, strict=True)
    lowering.add(plan_copy(sizes, steps, target, spec.dtype.itemsize, lowering.target.lanes), start.ref, place)
    return True


def _pixels(many: Ints, many_strides: Ints, few: Ints, few_strides: Ints, factor: int) -> list[tuple[int, int, int]]:
    """Sizes and strides of what a tensor of many channels (*, C * r * r, H, W) and one of few (*, C, H * r, W * r) share."""
    *batch, channel, row, pixel = many_strides
    *few_batch, few_channel, few_row, few_pixel = few_strides
    *samples, _, height, width = many
    return [
        *zip(samples, batch, few_batch, strict=True),
        (few[-3], factor * factor * channel, few_channel),
        (height, row, factor * few_row),
        (factor, factor * channel, few_row),
        (width, pixel, factor * few_pixel),
        (factor, channel, few_pixel),
    ]
