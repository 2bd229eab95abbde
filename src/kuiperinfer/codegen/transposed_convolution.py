"""How transposed convolutions are lowered: as ordinary convolutions, one for each place of an output pixel within a stride.

Output pixels whose distance is a multiple of the stride read the input through the same taps of the kernel. These taps, turned
round, are the kernel of an ordinary convolution of stride 1, whose results lie a stride apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from ..dtypes import Array
from ..graph import RuntimeOperator
from ..layers.convolution import ConvTranspose
from ..records import dataclass
from .convolution import TASK_FLOPS, base_of, epilogue_of, len_blocks
from .epilogue import Epilogue
from .kernels.depthwise import DepthwiseSpec, pack_depthwise
from .kernels.direct_convolution import DirectConvolutionSpec, choose_tile, pack_bias, pack_weights
from .kernels.transposed_convolution import TransposedConvolutionSpec, pack_transposed
from .layout import NO_HALO, Halo, ImageLayout
from .lowering import Image, Lowering, Ref, as_float32, lowers


@dataclass(frozen=True)
class Phase:
    """The outputs ``first + stride * m``, m = 0 … count - 1, of one dimension.

    Output m is the sum over `taps` (indices of the kernel) number t of the input ``m + start + t * step``.
    """

    first: int
    count: int
    taps: tuple[int, ...]
    start: int
    step: int


def phases_of(output: int, kernel: int, stride: int, padding: int, dilation: int) -> list[Phase]:
    """The phases of a dimension with `output` elements, at most as many as the stride."""
    phases = []
    for first in range(min(stride, output)):
        taps = [tap for tap in reversed(range(kernel)) if (first + padding - tap * dilation) % stride == 0]
        start = (first + padding - taps[0] * dilation) // stride if taps else 0
        step = dilation // math.gcd(dilation, stride)
        phases.append(Phase(first, -(-(output - first) // stride), tuple(taps), start, step))
    return phases


def _is_image(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Whether the kernels take this operator on."""
    layer, spec = base_of(operator), lowering.spec(operator.input_operands_seq[0])
    weight = operator.attributes.get("weight")
    output = lowering.spec(operator.output_operands[0])
    if weight is None or layer.ndim != 2 or spec.ndim != 4 or 0 in spec.shape or 0 in output.shape:
        return False
    inputs, outputs, lanes = weight.shape[0] // layer.groups, weight.shape[1], lowering.target.lanes
    wide = inputs % lanes == 0 and outputs % lanes == 0
    narrow = inputs == outputs and lanes % inputs == 0
    return layer.groups == 1 or wide or narrow


def _phases(lowering: Lowering, operator: RuntimeOperator) -> list[list[Phase]]:
    """The phases of height and width."""
    layer: ConvTranspose = base_of(operator)
    sizes = lowering.spec(operator.output_operands[0]).shape[2:]
    kernel = operator.attributes["weight"].shape[2:]
    return [
        phases_of(*numbers) for numbers in zip(sizes, kernel, layer.stride, layer.padding, layer.dilation, strict=True)
    ]


def _halo(lowering: Lowering, operator: RuntimeOperator, index: int) -> Halo:
    """How far the taps of all phases reach beyond the input."""
    if index > 0 or not _is_image(lowering, operator):
        return NO_HALO
    sizes = lowering.spec(operator.input_operands_seq[0]).shape[2:]
    before, after = [0, 0], [0, 0]
    for dim, phases in enumerate(_phases(lowering, operator)):
        for phase in phases:
            if phase.taps:
                end = phase.count - 1 + phase.start + (len(phase.taps) - 1) * phase.step
                before[dim] = max(before[dim], -phase.start)
                after[dim] = max(after[dim], end - (sizes[dim] - 1))
    return (before[0], before[1], after[0], after[1])


@lowers(ConvTranspose, layout=_is_image, halo=_halo, reads_image=True)
def lower_transposed_convolution(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """A 2-d transposed convolution with constant weights."""
    if not _is_image(lowering, operator):
        return False
    layer: ConvTranspose = base_of(operator)
    weight = as_float32(operator.attributes["weight"].data)
    image = lowering.image(operator.input_operands_seq[0], _halo(lowering, operator, 0))
    epilogue, extras = epilogue_of(lowering, operator)
    out = lowering.new_image(operator.output_operands[0])
    bias = operator.attributes["bias"].data if "bias" in operator.attributes else None
    outputs = weight.shape[1] * layer.groups
    packed = pack_bias(None if bias is None else as_float32(bias), outputs, lowering.target.lanes)
    operands = (lowering.constant(packed), out.ref, *(extra.ref for extra in extras))
    exact = tuple(size * step for size, step in zip(image.layout.shape[2:], layer.stride, strict=True))
    if layer.groups == 1 and layer.stride == weight.shape[2:] and out.layout.shape[2:] == exact:
        spec = _plan_rectangles(lowering, image.layout, out.layout, weight.shape, epilogue)
        lowering.add(
            spec,
            image.ref,
            lowering.constant(pack_transposed(weight, spec, lowering.target.lanes)),
            *operands,
            writes=3,
        )
        return True
    filters = _as_convolution(weight, layer.groups)
    for rows, columns in product(*_phases(lowering, operator)):
        part = _every(out.layout, layer.stride, rows, columns)
        operands_there = tuple(_every_operand(layout, layer.stride, rows, columns) for layout in epilogue.operands)
        own = replace(epilogue, operands=operands_there)
        taps = np.ascontiguousarray(filters[:, :, rows.taps][:, :, :, columns.taps])
        _add_phase(lowering, image, part, taps, (rows, columns), layer.groups, own, operands)
    return True


def _plan_rectangles(
    lowering: Lowering, source: ImageLayout, out: ImageLayout, weight: Sequence[int], epilogue: Epilogue
) -> TransposedConvolutionSpec:
    tile, tile_blocks = choose_tile(source.width, out.blocks, lowering.target)
    row_flops = 2 * source.width * tile_blocks * lowering.target.lanes * weight[0] * weight[2] * weight[3]
    rows = max(1, min(source.height, round(TASK_FLOPS / row_flops)))
    return TransposedConvolutionSpec(source, out, (weight[2], weight[3]), epilogue, tile, tile_blocks, rows)


def _add_phase(
    lowering: Lowering,
    image: Image,
    out: ImageLayout,
    weight: Array,
    phases: tuple[Phase, Phase],
    groups: int,
    epilogue: Epilogue,
    operands: tuple[Ref, ...],
) -> None:
    """One step: an ordinary convolution."""
    target = lowering.target
    kernel, dilation = (weight.shape[2], weight.shape[3]), (phases[0].step, phases[1].step)
    padding, ones = (-phases[0].start, -phases[1].start), (1, 1)
    row_flops = 2 * out.width * kernel[0] * kernel[1] * target.lanes
    if groups > 1 and weight.shape[1] == 1:
        tile = max(1, min(out.width, (target.registers - 2 * kernel[1] - 2) // 2))
        rows = max(1, min(out.height, round(TASK_FLOPS / 4 / max(row_flops, 1))))
        depthwise = DepthwiseSpec(image.layout, out, kernel, ones, dilation, padding, epilogue, tile, rows)
        packed = pack_depthwise(weight, target.lanes)
        lowering.add(depthwise, image.ref, lowering.constant(packed), *operands, writes=3)
        return
    blocks_a_group = 0 if groups == 1 else max(1, len_blocks(len(weight) // groups, target.lanes))
    tile, tile_blocks = choose_tile(out.width, out.blocks, target, blocks_a_group)
    rows = max(1, min(out.height, round(TASK_FLOPS / max(row_flops * tile_blocks * weight.shape[1], 1))))
    spec = DirectConvolutionSpec(
        image.layout, out, kernel, ones, dilation, padding, groups, epilogue, tile, tile_blocks, rows
    )
    packed = pack_weights(weight, spec, target.lanes)
    lowering.add(spec, image.ref, lowering.constant(packed), *operands, writes=3)


def _as_convolution(weight: Array, groups: int) -> Array:
    """Weights (C, O / groups, KH, KW) in the order of an ordinary convolution: (O, C / groups, KH, KW)."""
    inputs, outputs, *kernel = weight.shape
    grouped = weight.reshape(groups, inputs // groups, outputs, *kernel).swapaxes(1, 2)
    return grouped.reshape(groups * outputs, inputs // groups, *kernel)


def _every(layout: ImageLayout, stride: Sequence[int], rows: Phase, columns: Phase) -> ImageLayout:
    """The pixels of a phase."""
    return replace(
        layout,
        height=rows.count,
        width=columns.count,
        row=layout.row * stride[0],
        pixel=layout.pixel * stride[1],
        origin=layout.origin + rows.first * layout.row + columns.first * layout.pixel,
    )


def _every_operand(layout: object, stride: Sequence[int], rows: Phase, columns: Phase) -> ImageLayout:
    assert isinstance(layout, ImageLayout)
    return layout if (layout.height, layout.width) == (1, 1) else _every(layout, stride, rows, columns)
