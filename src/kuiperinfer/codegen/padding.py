"""How padding is lowered: zeros around an image are its halo, other borders are gathered; rows are copied piece by piece."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..dtypes import TensorSpec, f32, narrow
from ..graph import RuntimeOperator
from ..layers.base import DataDependent
from ..layers.padding import Pad, Pads, pads_of, source_positions
from .copying import Run, copy_runs, fill_around, runs_of
from .homes import Home, Image, Strided, row_major
from .kernels.copies import ReorderSpec
from .kernels.strided_copy import plan_copy
from .layout import NO_HALO, Halo, ImageLayout
from .lowering import Lowering, lowers
from .resize import gather_pixels
from .views import data_operand, known_argument


def _pads(lowering: Lowering, operator: RuntimeOperator) -> Pads | None:
    """How much is padded before and after each dimension; None where that is not known beforehand."""
    layer, spec = operator.layer, lowering.specs[data_operand(operator)]
    assert isinstance(layer, Pad)
    try:
        return pads_of(layer.amounts(known_argument(lowering, operator, "pad")), spec.ndim)
    except DataDependent:
        return None


def _is_image(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Whether height and width of an image are padded, and nothing is cut off."""
    source = data_operand(operator)
    spec, pads = lowering.specs[source], None
    if isinstance(spec, TensorSpec) and spec.dtype is f32 and lowering.is_image.get(source, False):
        pads = _pads(lowering, operator)
    return pads is not None and 0 not in spec.shape and min(map(min, pads)) >= 0 and pads[:2] == ((0, 0), (0, 0))


def _borders(lowering: Lowering, operator: RuntimeOperator) -> Halo:
    """Amounts at the top, left, bottom and right of an image."""
    pads = _pads(lowering, operator)
    assert pads is not None
    (top, bottom), (left, right) = pads[2:] if len(pads) == 4 else ((0, 0), pads[2])
    return (top, left, bottom, right)


def _is_halo(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Whether the padding can be the zeros that lie around the image anyway."""
    layer = operator.layer
    assert isinstance(layer, Pad)
    try:
        zeros = layer.mode == "constant" and layer.fill(known_argument(lowering, operator, "value")) == 0
    except DataDependent:
        zeros = False
    return zeros and _is_image(lowering, operator)


def _halo(lowering: Lowering, operator: RuntimeOperator, index: int) -> Halo:
    if index > 0 or not _is_halo(lowering, operator):
        return NO_HALO
    further = lowering.halos.get(operator.output_operands[0], NO_HALO)
    top, left, bottom, right = (a + b for a, b in zip(_borders(lowering, operator), further, strict=True))
    return (top, left, bottom, right)


@lowers(Pad, layout=_is_image, halo=_halo, any_dtype=True)
def lower_pad(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """All modes, as far as amounts and value are known beforehand."""
    layer, source = operator.layer, data_operand(operator)
    assert isinstance(layer, Pad)
    pads = _pads(lowering, operator)
    if pads is None:
        return False
    try:
        number = layer.fill(known_argument(lowering, operator, "value")) if layer.mode == "constant" else 0
    except DataDependent:
        return False
    dtype = lowering.spec(source).dtype
    value = narrow(np.asarray(number, np.complex128 if isinstance(number, complex) else np.float64), dtype)
    if not _is_image(lowering, operator):
        _pad_rows(lowering, operator, pads, value)
    elif layer.mode != "constant":
        image, out = lowering.image(source), lowering.new_image(operator.output_operands[0])
        sizes = lowering.image_shape(source)[2:]
        top, left, bottom, right = _borders(lowering, operator)
        amounts = ((top, bottom), (left, right))
        positions = [source_positions(size, *pair, layer.mode) for size, pair in zip(sizes, amounts, strict=True)]
        gather_pixels(lowering, image, out, positions)
    elif _is_halo(lowering, operator):
        image = lowering.image(source, _borders(lowering, operator))
        layout = _grown(image.layout, _borders(lowering, operator))
        lowering.alias(operator.output_operands[0], Home(image=Image(image.ref, layout)))
    else:
        _pad_image(lowering, operator, float(value))
    return True


def _grown(layout: ImageLayout, borders: Halo) -> ImageLayout:
    """An image together with a part of its halo."""
    top, left, bottom, right = borders
    have = layout.halo
    return replace(
        layout,
        height=layout.height + top + bottom,
        width=layout.width + left + right,
        origin=layout.origin - top * layout.row - left * layout.pixel,
        halo=(have[0] - top, have[1] - left, have[2] - bottom, have[3] - right),
    )


def _pad_image(lowering: Lowering, operator: RuntimeOperator, value: float) -> None:
    """Fills a picture with a number, in all lanes that are channels, and copies the image into its middle."""
    image, out = lowering.image(data_operand(operator)), lowering.new_image(operator.output_operands[0])
    layout, lanes = out.layout, lowering.target.lanes
    numbers = np.zeros(layout.blocks * lanes, np.float32)
    numbers[: layout.channels] = value
    sizes = (layout.batch, layout.blocks, layout.height, layout.width, lanes)
    strides = (layout.image, layout.block_stride, layout.row, layout.pixel, 1)
    spec = plan_copy(sizes, (0, lanes, 0, 0, 1), strides, 4, lanes)
    lowering.add(spec, lowering.constant(numbers), out.ref.further(4 * layout.origin))
    top, left, _, _ = _borders(lowering, operator)
    origin = layout.origin + top * layout.row + left * layout.pixel
    middle = replace(layout, height=image.layout.height, width=image.layout.width, origin=origin)
    lowering.add(ReorderSpec(image.layout, middle), image.ref, out.ref)


def _pad_rows(lowering: Lowering, operator: RuntimeOperator, pads: Pads, value: np.ndarray) -> None:
    """Copies what is kept, and the borders after it."""
    source, output = data_operand(operator), operator.output_operands[0]
    shape, spec, mode = lowering.spec(source).shape, lowering.spec(output), getattr(operator.layer, "mode", "")
    place = lowering.new_rows(output)
    if not spec.size:
        return
    target = Strided(place, row_major(spec.shape))
    if mode == "constant":
        kept = [
            Run(max(before, 0), size + min(before, 0) + min(after, 0), max(-before, 0))
            for size, (before, after) in zip(shape, pads, strict=True)
        ]
        fill_around(lowering, target, spec.shape, kept, value)
        runs = [[run] for run in kept]
    else:
        runs = [
            runs_of(source_positions(size, before, after, mode))
            for size, (before, after) in zip(shape, pads, strict=True)
        ]
    if 0 not in shape:
        copy_runs(lowering, lowering.strided(source), target, runs, spec.dtype.itemsize)
