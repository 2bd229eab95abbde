"""How reductions are lowered: over strided memory, over the pixels of blocked images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..dtypes import f32
from ..expression import Literal
from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.distance import Normalize
from ..layers.extremum import AMinMax, ArgMax, ArgMin, Max, Min
from ..layers.reduction import AMax, AMin, LogSumExp, Mean, Prod, Sum, reduced_axes
from ..layers.variance import DeviationAndMean, StandardDeviation, Variance, VarianceAndMean
from ..layers.vector import Norm
from .homes import Image, Ref, Strided, row_major
from .kernels.map import MapOperand, plan_map
from .kernels.reduction import ExtremeIndexSpec, ImageReduceSpec, ReduceSpec
from .layout import planar
from .lowering import Lowering, lowers

_KINDS = {Sum: "sum", Mean: "mean", Prod: "prod", AMax: "max", AMin: "min", Max: "max", Min: "min"}
_NORMS: dict[Any, str] = {1.0: "norm1", 2.0: "norm2"}


def _kind(layer: Any) -> str | None:
    """The kernel's name of what a layer calculates; None for norms of other orders."""
    return _NORMS.get(layer.p) if isinstance(layer, (Norm, Normalize)) else _KINDS[type(layer)]


def plan_reduction(
    kind: str,
    shape: Sequence[int],
    strides: Sequence[int],
    axes: Sequence[int],
    lanes: int,
    divisor: float | None = None,
) -> ReduceSpec | None:
    """The spec for strided elements; None where neighbours are nowhere consecutive."""
    dims = [(axis in axes, size, stride) for axis, (size, stride) in enumerate(zip(shape, strides, strict=True))]
    kept = _merge([(size, stride) for is_reduced, size, stride in dims if not is_reduced])
    reduced = [(size, stride) for is_reduced, size, stride in dims if is_reduced]
    reduced = _merge(sorted(reduced, key=lambda dim: -dim[1])) or [(1, 1)]
    if (kept and kept[-1][1] == 1) or reduced[-1][1] == 1:
        return ReduceSpec(kind, tuple(kept), tuple(reduced), lanes, divisor)
    return None


def _merge(dims: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbours that are walked through without a gap become one; dimensions of size 1 fall away."""
    merged: list[tuple[int, int]] = []
    for size, stride in dims:
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        elif size > 1:
            merged.append((size, stride))
    return merged


def _add_reduction(
    lowering: Lowering,
    kind: str,
    source: RuntimeOperand,
    axes: Sequence[int],
    out: Ref,
    centre: Sequence[Ref] = (),
    divisor: float | None = None,
) -> None:
    """Reads a view where it lies, unless nothing is consecutive there."""
    shape, lanes = lowering.spec(source).shape, lowering.target.lanes
    place = lowering.strided(source)
    spec = plan_reduction(kind, shape, place.strides, axes, lanes, divisor)
    if spec is None:
        place = Strided(lowering.rows(source), row_major(shape))
        spec = plan_reduction(kind, shape, place.strides, axes, lanes, divisor)
    assert spec is not None
    lowering.add(spec, place.ref, *centre, out)


def _keeps_image(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Whether an image is reduced over its pixels, and stays one."""
    layer: Any = operator.layer
    return _is_of_pixels(lowering, operator) and layer.keepdim and layer.output_count == 1


def _is_of_pixels(lowering: Lowering, operator: RuntimeOperator) -> bool:
    source = operator.input_operands_seq[0]
    spec = lowering.spec(source)
    if not lowering.is_image.get(source, False) or spec.ndim != 4 or 0 in spec.shape or spec.dtype is not f32:
        return False
    layer: Any = operator.layer
    return _kind(layer) is not None and tuple(sorted(layer.axes(4))) == (2, 3)


@lowers(Sum, Mean, Prod, AMax, AMin, Norm, layout=_keeps_image, reads_image=True)
def lower_reduction(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Over any dimensions; over the pixels of an image where it lies blocked."""
    layer: Any = operator.layer
    source, output = operator.input_operands_seq[0], operator.output_operands[0]
    kind, shape = _kind(layer), lowering.spec(source).shape
    if kind is None or 0 in shape:
        return False
    if _is_of_pixels(lowering, operator):
        _add_pixels(lowering, operator, kind)
        return True
    _add_reduction(lowering, kind, source, layer.axes(len(shape)), lowering.new_rows(output))
    return True


def _add_pixels(lowering: Lowering, operator: RuntimeOperator, kind: str) -> None:
    image = lowering.image(operator.input_operands_seq[0])
    output = operator.output_operands[0]
    if _keeps_image(lowering, operator):
        out = lowering.new_image(output)
    else:
        batch, channels = image.layout.shape[:2]
        out = Image(lowering.new_rows(output), planar((batch, channels, 1, 1)))
    lowering.add(ImageReduceSpec(kind, image.layout, out.layout), image.ref, out.ref)


# ------------------------------------------------------------------------------------------- about a centre


@lowers(LogSumExp)
def lower_logsumexp(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """About the largest element."""
    layer: Any = operator.layer
    return _add_centred(
        lowering, operator, "max", "logsumexp", layer.axes(lowering.spec(operator.input_operands_seq[0]).ndim)
    )


@lowers(Variance, StandardDeviation, VarianceAndMean, DeviationAndMean)
def lower_variance(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """About the mean, which may be asked for too."""
    layer: Any = operator.layer
    shape = lowering.spec(operator.input_operands_seq[0]).shape
    axes = layer.axes(len(shape))
    divisor = max(0.0, math.prod(shape[axis] for axis in axes) - layer.lost_degrees)
    kind = "deviation" if isinstance(layer, (StandardDeviation, DeviationAndMean)) else "variance"
    return _add_centred(lowering, operator, "mean", kind, axes, divisor)


def _add_centred(
    lowering: Lowering,
    operator: RuntimeOperator,
    centre: str,
    kind: str,
    axes: Sequence[int],
    divisor: float | None = None,
) -> bool:
    source, outputs = operator.input_operands_seq[0], operator.output_operands
    if 0 in lowering.spec(source).shape:
        return False
    between = lowering.temporary(lowering.spec(outputs[0]).nbytes)
    if len(outputs) == 2:
        between = lowering.new_rows(outputs[1])
    _add_reduction(lowering, centre, source, axes, between)
    _add_reduction(lowering, kind, source, axes, lowering.new_rows(outputs[0]), [between], divisor)
    return True


# ------------------------------------------------------------------------------------------- extremes and their places


def _is_reducible(lowering: Lowering, operator: RuntimeOperator) -> bool:
    spec = lowering.spec(operator.input_operands_seq[0])
    return spec.dtype is f32 and 0 not in spec.shape


@lowers(Max, Min, layout=_keeps_image, reads_image=True, any_dtype=True)
def lower_extreme(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """The extreme, and with a second output its index."""
    layer: Any = operator.layer
    if not _is_reducible(lowering, operator):
        return False
    if _is_of_pixels(lowering, operator):
        _add_pixels(lowering, operator, _KINDS[type(layer)])
        return True
    source, outputs = operator.input_operands_seq[0], operator.output_operands
    axes = layer.axes(lowering.spec(source).ndim)
    _add_reduction(lowering, _KINDS[type(layer)], source, axes, lowering.new_rows(outputs[0]))
    if len(outputs) == 2:
        _add_index(lowering, source, layer, outputs[1])
    return True


@lowers(AMinMax)
def lower_both_extremes(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """The smallest, then the largest."""
    layer: Any = operator.layer
    if not _is_reducible(lowering, operator):
        return False
    source = operator.input_operands_seq[0]
    for kind, output in zip(("min", "max"), operator.output_operands, strict=True):
        axes = layer.axes(lowering.spec(source).ndim)
        _add_reduction(lowering, kind, source, axes, lowering.new_rows(output))
    return True


@lowers(ArgMax, ArgMin, any_dtype=True)
def lower_extreme_index(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Along one dimension, or over all elements."""
    if not _is_reducible(lowering, operator):
        return False
    _add_index(lowering, operator.input_operands_seq[0], operator.layer, operator.output_operands[0])
    return True


def _add_index(lowering: Lowering, source: RuntimeOperand, layer: Any, output: RuntimeOperand) -> None:
    shape = lowering.spec(source).shape
    axes = layer.axes(len(shape))
    if layer.dim is None or not shape:
        outer, length, inner = 1, math.prod(shape), 1
    else:
        (axis,) = axes
        outer, length, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    spec = ExtremeIndexSpec(outer, length, inner, layer.largest, lowering.target.lanes)
    lowering.add(spec, lowering.rows(source), lowering.new_rows(output))


# ------------------------------------------------------------------------------------------- vectors of length 1


@lowers(Normalize)
def lower_normalize(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """The lengths, then quotients."""
    layer, source, output = operator.layer, operator.input_operands_seq[0], operator.output_operands[0]
    assert isinstance(layer, Normalize)
    shape, kind = lowering.spec(source).shape, _kind(layer)
    if kind is None or 0 in shape or not shape:
        return False
    axes = reduced_axes(layer.dim, len(shape))
    lengths = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    between = lowering.temporary(4 * math.prod(lengths))
    _add_reduction(lowering, kind, source, axes, between)
    place = lowering.strided(source)
    steps = tuple(0 if axis in axes else stride for axis, stride in enumerate(row_major(lengths)))
    plan = plan_map(
        f"div(@0,max(@1,{Literal(layer.eps)}))",
        shape,
        [MapOperand(place.strides), MapOperand(steps)],
        MapOperand(row_major(shape)),
    )
    lowering.add(plan, place.ref, between, lowering.new_rows(output))
    return True
