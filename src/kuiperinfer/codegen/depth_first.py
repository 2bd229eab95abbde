"""Steps that go through the cache together: a convolution, and the depthwise convolution or pooling that alone reads it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TypeAlias

from .convolution import microseconds
from .homes import Buffer
from .kernels.copies import FillHaloSpec
from .kernels.depth_first import DepthFirstSpec
from .kernels.depthwise import DepthwiseSpec
from .kernels.direct_convolution import DirectConvolutionSpec, choose_tile
from .kernels.pooling import PoolSpec
from .layout import NO_HALO, ImageLayout, blocked
from .lowering import KernelStep, Place, Step
from .shares import TEAMS, team_time
from .spec import KernelSpec
from .target import Target

Windows: TypeAlias = "DepthwiseSpec | PoolSpec"

_STEP = 2.0  # microseconds that threads need to go from one step to the next, and to fill a halo
_BYTES = (
    4e4  # bytes a microsecond that a picture needs to go out to the caches further away, and to come back: measured
)


def fuse_depth_first(steps: list[Step], target: Target) -> list[Step]:
    """The steps with each such pair as one; the memory between them, and the filling of its halo, are gone."""
    uses = Counter(ref.buffer for step in steps if not _fills_halo(step) for ref in step.refs)
    result: list[Step] = []
    for step in steps:
        result.append(step)
        before = _producer(result, uses)
        if before is None or not isinstance(step, KernelStep):
            continue
        spec = _fused_spec(before.spec, step.spec, target)
        if spec is not None:
            refs = tuple(ref for index, ref in enumerate(before.refs) if index != before.writes) + step.refs[1:]
            result = [one for one in result if all(ref.buffer is not step.refs[0].buffer for ref in one.refs)]
            result.append(KernelStep(step.operator, spec, refs, len(before.refs) + step.writes - 2, before.operator))
    return result


def _fills_halo(step: Step) -> bool:
    return isinstance(step, KernelStep) and isinstance(step.spec, FillHaloSpec)


def _producer(steps: list[Step], uses: Counter[Buffer]) -> KernelStep | None:
    """The step before the last one, if it writes what the last one reads first, for it alone."""
    *earlier, step = steps
    before = next((one for one in reversed(earlier) if not _fills_halo(one)), None)
    if not isinstance(step, KernelStep) or not isinstance(before, KernelStep):
        return None
    between = step.refs[0].buffer
    alone = between.place is Place.ARENA and uses[between] == 2
    return before if alone and before.refs[before.writes].buffer is between else None


def _fused_spec(first: KernelSpec, then: KernelSpec, target: Target) -> DepthFirstSpec | None:
    """The spec of both, or None where they are no such pair, or better stay apart."""
    if not isinstance(first, DirectConvolutionSpec) or not isinstance(then, (DepthwiseSpec, PoolSpec)):
        return None
    picture, tasks = then.input, (first.tasks, then.tasks)
    if first.columns:
        first = _as_picture(first, picture.height, picture.width)
    if first.groups != 1 or first.output.shape != picture.shape:
        return None
    if first.tile_rows == 1:
        tile, tile_blocks = choose_tile(picture.width, first.output.blocks, target)
        first = replace(first, tile=tile, tile_blocks=tile_blocks)
    rows = _choose_rows(first, then, tasks, target)
    if rows == 0:
        return None
    halo = NO_HALO
    if isinstance(then, DepthwiseSpec):
        left, seen = then.padding[1], _extent(then, 1, then.output.width)
        halo = (0, left, 0, max(0, seen - left - picture.width))
    shape = (1, first.tile_blocks * target.lanes, _extent(then, 0, rows), picture.width)
    strip = blocked(shape, target.lanes, halo)
    between = replace(strip, batch=picture.batch, channels=picture.channels, height=picture.height)
    return DepthFirstSpec(replace(first, output=between), replace(then, input=between), strip, rows)


def _as_picture(first: DirectConvolutionSpec, height: int, width: int) -> DirectConvolutionSpec:
    """A convolution of a row of pixels as one of a picture."""

    def grown(layout: ImageLayout) -> ImageLayout:
        if (layout.height, layout.width) != (1, height * width):
            return layout
        return replace(layout, height=height, width=width, row=width * layout.pixel)

    epilogue = replace(first.epilogue, operands=tuple(map(grown, first.epilogue.operands)))
    return replace(first, input=grown(first.input), output=grown(first.output), epilogue=epilogue, columns=0)


def _extent(then: Windows, dim: int, outputs: int) -> int:
    """How many rows (`dim` 0) or columns (1) of its input the windows of so many outputs in a line see."""
    return (outputs - 1) * then.stride[dim] + (then.kernel[dim] - 1) * then.dilation[dim] + 1


def _choose_rows(first: DirectConvolutionSpec, then: Windows, tasks: tuple[int, int], target: Target) -> int:
    """Output rows of a task: little is calculated twice, threads have the same to do, and a strip stays in the cache.

    0 where this takes longer than two steps with so many `tasks`, between which the picture goes to memory and back.
    """
    picture, out, lanes = then.input, then.output, target.lanes
    inputs = first.input_blocks * first.channels_a_block * first.kernel[0] * first.kernel[1]
    row = microseconds(2 * picture.width * inputs * first.tile_blocks * lanes)
    own = microseconds(6 * out.width * then.kernel[0] * then.kernel[1] * first.tile_blocks * lanes)
    sets = out.batch * first.block_groups

    def cost(rows: int) -> float:
        calculated = min(_extent(then, 0, rows), picture.height)
        return team_time(sets * -(-out.height // rows), calculated * row + rows * own)

    most = target.l2 // 4 // (4 * first.tile_blocks * lanes * picture.width)
    candidates = {-(-out.height // chunks) for chunks in range(1, 65)}
    fitting = [rows for rows in candidates if _extent(then, 0, rows) <= most]
    rows = min(fitting, key=lambda rows: (cost(rows), -rows), default=0)
    works = (sets * picture.height * row, sets * out.height * own)
    apart = sum(team_time(count, work / count) for count, work in zip(tasks, works, strict=True))
    saved = len(TEAMS) * (_STEP + 8 * math.prod(picture.shape) / _BYTES)
    return rows if rows and cost(rows) < apart + saved else 0
