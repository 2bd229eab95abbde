"""How joining and parting are lowered: where layout allows, parts are written into, and read from, one buffer."""

from __future__ import annotations

from ..dtypes import TensorSpec
from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.base import normalize_dim
from ..layers.joining import Cat, Chunk, Split, Stack, TensorSplit, Unbind
from .homes import Home, Image, Strided, is_row_major, row_major
from .kernels.copies import ReorderSpec
from .layout import NO_HALO, Halo
from .lowering import Lowering, lowers
from .views import alias_views, data_operand

# ------------------------------------------------------------------------------------------- images


def _joins_channels(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Whether this is a concatenation of images, or a split of one, along whole blocks of channels."""
    layer = operator.layer
    assert isinstance(layer, (Cat, Chunk, Split, TensorSplit))
    parts = operator.input_operands_seq if isinstance(layer, Cat) else operator.output_operands
    specs = [lowering.specs[part] for part in parts]
    if any(not isinstance(spec, TensorSpec) or spec.ndim not in (3, 4) or 0 in spec.shape for spec in specs):
        return False
    if layer.dim not in (1, 1 - specs[0].ndim):
        return False
    return all(spec.shape[1] % lowering.target.lanes == 0 for spec in specs)


def _cat_is_image(lowering: Lowering, operator: RuntimeOperator) -> bool:
    return _joins_channels(lowering, operator) and any(
        lowering.is_image.get(part, False) for part in operator.input_operands_seq
    )


def _split_is_image(lowering: Lowering, operator: RuntimeOperator) -> bool:
    return _joins_channels(lowering, operator) and lowering.is_image.get(operator.input_operands_seq[0], False)


@lowers(Cat, layout=_cat_is_image, reads_image=True, any_dtype=True)
def lower_cat(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Parts that were written into their place need no step, the others are copied there."""
    if not lowering.is_image.get(operator.output_operands[0], False):
        return _join_rows(lowering, operator)
    output = operator.output_operands[0]
    whole = lowering.cat_image(output)
    lowering.alias(output, Home(image=whole))
    start = 0
    for part in operator.input_operands_seq:
        channels = lowering.spec(part).shape[1]
        place = Image(whole.ref, whole.layout.channel_slice(start, channels))
        start += channels
        if place not in (lowering.slices.get(part), lowering.homes[part].image):
            source = lowering.image(part)
            lowering.add(ReorderSpec(source.layout, place.layout), source.ref, place.ref)
    return True


def _split_halo(lowering: Lowering, operator: RuntimeOperator, index: int) -> Halo:
    """What is wanted around the parts."""
    if index > 0 or not _split_is_image(lowering, operator):
        return NO_HALO
    wanted = [lowering.halos.get(part, NO_HALO) for part in operator.output_operands]
    top, left, bottom, right = (max(sides) for sides in zip(*wanted, strict=True))
    return (top, left, bottom, right)


@lowers(Split, Chunk, TensorSplit, layout=_split_is_image, halo=_split_halo, reads_image=True, any_dtype=True)
def lower_split(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Along channels of an image: the parts are slices of its buffer. Else they are views."""
    if not _split_is_image(lowering, operator):
        return alias_views(lowering, operator)
    whole = lowering.image(data_operand(operator))
    start = 0
    for part in operator.output_operands:
        channels = lowering.spec(part).shape[1]
        lowering.alias(part, Home(image=Image(whole.ref, whole.layout.channel_slice(start, channels))))
        start += channels
    return True


# ------------------------------------------------------------------------------------------- rows


@lowers(Stack, layout=lambda lowering, operator: False, any_dtype=True)
def lower_stack(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Parts that were written into their place need no step, the others are copied there."""
    return _join_rows(lowering, operator)


@lowers(Unbind, layout=lambda lowering, operator: False, any_dtype=True)
def lower_unbind(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """The parts are views."""
    return alias_views(lowering, operator)


def _parts(lowering: Lowering, operator: RuntimeOperator) -> list[tuple[RuntimeOperand, int, tuple[int, ...]]] | None:
    """The parts of a concatenation or a stack, with their first element in the output and their strides there.

    None where the parts are not tensors of the output's dtype.
    """
    layer, output = operator.layer, lowering.specs[operator.output_operands[0]]
    assert isinstance(layer, (Cat, Stack))
    parts = list(operator.input_operands_seq)
    if len(parts) == 1 and parts[0] in lowering.homes and lowering.homes[parts[0]].parts is not None:
        parts = lowering.homes[parts[0]].parts or []
    specs = [lowering.specs.get(part) if isinstance(part, RuntimeOperand) else None for part in parts]
    if not isinstance(output, TensorSpec):
        return None
    strides = row_major(output.shape)
    axis = normalize_dim(layer.dim, output.ndim)
    found: list[tuple[RuntimeOperand, int, tuple[int, ...]]] = []
    start = 0
    for part, spec in zip(parts, specs, strict=True):
        if not isinstance(spec, TensorSpec) or spec.dtype is not output.dtype:
            return None
        if isinstance(layer, Cat) and spec.shape == (0,):
            continue
        is_stack = isinstance(layer, Stack)
        found.append((part, start * strides[axis], strides[:axis] + strides[axis + 1 :] if is_stack else strides))
        start += 1 if is_stack else spec.shape[axis]
    return found


def _join_rows(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Copies the parts to where they belong, except those that were written there."""
    parts, output = _parts(lowering, operator), operator.output_operands[0]
    if parts is None:
        return False
    whole, itemsize = lowering.cat_rows(output), lowering.spec(output).dtype.itemsize
    lowering.alias(output, Home(rows=whole))
    for part, start, strides in parts:
        home, place = lowering.homes[part], whole.further(start * itemsize)
        if home.rows == place:
            continue
        lowering.copy(part, Strided(place, strides))
        if (
            home.rows is None
            and part not in lowering.output_numbers
            and is_row_major(lowering.spec(part).shape, strides)
        ):
            home.rows = place
    return True


# ------------------------------------------------------------------------------------------- planning


def plan_slices(lowering: Lowering) -> dict[RuntimeOperand, tuple[RuntimeOperand, int]]:
    """For each operand that can be written straight into a concatenation: its output, and the first channel of an image, or the
    first element of rows."""
    slices: dict[RuntimeOperand, tuple[RuntimeOperand, int]] = {}
    for operator in lowering.operators:
        if isinstance(operator.layer, Cat) and lowering.is_image.get(operator.output_operands[0], False):
            _plan_image_slices(lowering, operator, slices)
        elif isinstance(operator.layer, (Cat, Stack)):
            _plan_row_slices(lowering, operator, slices)
    return slices


def _plan_image_slices(
    lowering: Lowering, operator: RuntimeOperator, slices: dict[RuntimeOperand, tuple[RuntimeOperand, int]]
) -> None:
    parts, start = list(operator.input_operands_seq), 0
    for index, part in enumerate(parts):
        split = part.producer
        if part is split.output_operands[0] and isinstance(split.layer, (Split, Chunk, TensorSplit)):
            count = len(split.output_operands)
            if parts[index : index + count] == split.output_operands:  # all of a split image, side by side as before
                part = data_operand(split)
        if lowering.is_image.get(part, False) and part not in slices and _writes_anywhere(part):
            slices[part] = (operator.output_operands[0], start)
        start += lowering.spec(parts[index]).shape[1]


def _plan_row_slices(
    lowering: Lowering, operator: RuntimeOperator, slices: dict[RuntimeOperand, tuple[RuntimeOperand, int]]
) -> None:
    """Parts that are contiguous within the concatenation, since the dimensions before are of size 1."""
    for part, start, strides in _parts(lowering, operator) or ():
        spec = lowering.spec(part)
        is_free = part not in slices and part not in lowering.output_numbers
        if is_free and spec.size and is_row_major(spec.shape, strides):
            slices[part] = (operator.output_operands[0], start)


def _writes_anywhere(part: RuntimeOperand) -> bool:
    """Whether the producer writes its output where it is told to; views of other memory do not."""
    return not isinstance(part.producer.layer, (Split, Chunk, TensorSplit, Cat)) and part.producer.type != "pnnx.Input"
