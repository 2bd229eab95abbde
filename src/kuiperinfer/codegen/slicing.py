"""How slices are lowered: as views; of images, where whole blocks of channels are kept."""

from __future__ import annotations

from dataclasses import replace

from ..graph import RuntimeOperator
from ..layers.slicing import Narrow, Select, Slice
from .homes import Home, Image, row_major
from .kernels.copies import ReorderSpec
from .layout import NO_HALO, ImageLayout
from .lowering import Lowering, lowers
from .views import alias_views, data_operand, find_views


def _sections(lowering: Lowering, operator: RuntimeOperator) -> list[range] | None:
    """The indices of each dimension of an image that a slice keeps; None where it is no slice of an image."""
    source = data_operand(operator)
    if not lowering.is_image.get(source, False):
        return None
    shape, target = lowering.spec(source).shape, lowering.spec(operator.output_operands[0]).shape
    if len(shape) != 4 or len(target) != 4 or 0 in shape or 0 in target:
        return None
    views = find_views(lowering, operator)
    if views is None or views[0].base is not source:
        return None
    offset, sections = views[0].offset, []
    for size, count, stride, step in zip(shape, target, row_major(shape), views[0].strides, strict=True):
        start, offset = divmod(offset, stride)
        sections.append(range(start, start + count, 1) if count == 1 else range(start, size, step // stride)[:count])
    return sections


def _keeps_blocks(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Whether a slice of an image is an image in memory too: its channels are whole blocks."""
    sections = _sections(lowering, operator)
    if sections is None:
        return False
    lanes, channels = lowering.target.lanes, sections[1]
    total = lowering.spec(data_operand(operator)).shape[1]
    return channels.step == 1 and channels.start % lanes == 0 and (channels.stop % lanes == 0 or channels.stop == total)


@lowers(Slice, Narrow, layout=_keeps_blocks, any_dtype=True)
def lower_slice(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Of an image: a part of its memory, copied where pixels are left out. Else a view."""
    if not _keeps_blocks(lowering, operator):
        return alias_views(lowering, operator)
    sections = _sections(lowering, operator)
    assert sections is not None
    source, output = lowering.image(data_operand(operator)), operator.output_operands[0]
    part = _part(source.layout, sections)
    if all(section.step == 1 for section in sections[2:]):
        lowering.alias(output, Home(image=Image(source.ref, part)))
        return True
    made = lowering.new_image(output)
    lowering.add(ReorderSpec(part, made.layout), source.ref, made.ref)
    return True


def _part(layout: ImageLayout, sections: list[range]) -> ImageLayout:
    samples, channels, rows, columns = sections
    origin = layout.origin + samples.start * layout.image + channels.start // layout.block * layout.block_stride
    origin += rows.start * layout.row + columns.start * layout.pixel
    return replace(
        layout,
        batch=len(samples),
        channels=len(channels),
        height=len(rows),
        width=len(columns),
        image=layout.image * samples.step,
        row=layout.row * rows.step,
        pixel=layout.pixel * columns.step,
        origin=origin,
        halo=NO_HALO,
    )


@lowers(Select, layout=lambda lowering, operator: False, any_dtype=True)
def lower_select(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """A view."""
    return alias_views(lowering, operator)
