"""How concatenation and splitting are lowered: where layout allows, parts are written into, and read from, one buffer."""

from __future__ import annotations

from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.joining import Cat, Chunk, Split, TensorSplit
from .kernels.copies import ReorderSpec
from .lowering import Home, Image, Lowering, lowers


def _joins_channels(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Whether this is a concatenation of images, or a split of one, along whole blocks of channels."""
    layer = operator.layer
    assert isinstance(layer, (Cat, Chunk, Split, TensorSplit))
    parts = operator.input_operands_seq if isinstance(layer, Cat) else operator.output_operands
    specs = [lowering.specs[part] for part in parts]
    if any(getattr(spec, "ndim", 0) != 4 or 0 in spec.shape for spec in specs) or layer.dim not in (1, -3):
        return False
    return all(spec.shape[1] % lowering.target.lanes == 0 for spec in specs)


def _cat_is_image(lowering: Lowering, operator: RuntimeOperator) -> bool:
    return _joins_channels(lowering, operator) and any(
        lowering.is_image.get(part, False) for part in operator.input_operands_seq
    )


@lowers(Cat, layout=_cat_is_image, reads_image=True)
def lower_cat(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Along channels of images: parts that were written into their slice need no step, the others are copied there."""
    if not _cat_is_image(lowering, operator):
        return False
    output = operator.output_operands[0]
    whole = lowering.cat_image(output)
    lowering.alias(output, Home(image=whole))
    start = 0
    for part in operator.input_operands_seq:
        channels = lowering.spec(part).shape[1]
        place = Image(whole.ref, whole.layout.channel_slice(start, channels))
        start += channels
        if lowering.slices.get(part) != place:
            source = lowering.image(part)
            lowering.add(ReorderSpec(source.layout, place.layout), source.ref, place.ref)
    return True


def _split_is_image(lowering: Lowering, operator: RuntimeOperator) -> bool:
    return _joins_channels(lowering, operator) and lowering.is_image.get(operator.input_operands_seq[0], False)


@lowers(Split, Chunk, TensorSplit, layout=_split_is_image, reads_image=True)
def lower_split(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Along channels of an image: the parts are slices of its buffer."""
    if not _split_is_image(lowering, operator):
        return False
    whole = lowering.image(operator.input_operands_seq[0])
    start = 0
    for part in operator.output_operands:
        channels = lowering.spec(part).shape[1]
        lowering.alias(part, Home(image=Image(whole.ref, whole.layout.channel_slice(start, channels))))
        start += channels
    return True


def plan_slices(lowering: Lowering) -> dict[RuntimeOperand, tuple[RuntimeOperand, int]]:
    """For each operand that can be written straight into a concatenation: its output and the first channel."""
    slices: dict[RuntimeOperand, tuple[RuntimeOperand, int]] = {}
    for operator in lowering.operators:
        if not isinstance(operator.layer, Cat) or not lowering.is_image.get(operator.output_operands[0], False):
            continue
        start = 0
        for part in operator.input_operands_seq:
            if lowering.is_image.get(part, False) and part not in slices and _writes_anywhere(part):
                slices[part] = (operator.output_operands[0], start)
            start += lowering.spec(part).shape[1]
    return slices


def _writes_anywhere(part: RuntimeOperand) -> bool:
    """Whether the producer writes its output where it is told to; views of other memory do not."""
    return not isinstance(part.producer.layer, (Split, Chunk, TensorSplit, Cat)) and part.producer.type != "pnnx.Input"
