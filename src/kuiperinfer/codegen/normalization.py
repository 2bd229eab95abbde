"""How normalisation by moments of the values themselves is lowered."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import Array
from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.normalization import GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from .homes import Ref
from .kernels.normalization import ImageNormSpec, RowNormSpec
from .lowering import Lowering, as_float32, lowers


def _affine(lowering: Lowering, operator: RuntimeOperator) -> tuple[Any, Any]:
    """Weight and bias: operands, constants or None."""
    return lowering.argument(operator, "weight"), lowering.argument(operator, "bias")


def _ref(lowering: Lowering, value: RuntimeOperand | Array) -> Ref:
    return lowering.constant(as_float32(value)) if isinstance(value, np.ndarray) else lowering.rows(value)


def _add_rows(
    lowering: Lowering,
    operator: RuntimeOperator,
    length: int,
    run: int = 1,
    groups: int = 1,
    eps: float = 0.0,
    centred: bool = True,
) -> bool:
    """Normalises each `length` neighbours."""
    source, output = operator.input_operands_seq[0], operator.output_operands[0]
    size = lowering.spec(source).size
    if size == 0:
        return False
    weight, bias = _affine(lowering, operator)
    spec = RowNormSpec(size // length, length, run, groups, centred, eps, weight is not None, bias is not None)
    refs = [_ref(lowering, value) for value in (weight, bias) if value is not None]
    lowering.add(spec, lowering.rows(source), *refs, lowering.new_rows(output))
    return True


@lowers(LayerNorm, layout=lambda lowering, operator: False)
def lower_layer_norm(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Over the last dimensions."""
    layer = operator.layer
    assert isinstance(layer, LayerNorm)
    return _add_rows(lowering, operator, math.prod(layer.normalized_shape), eps=layer.eps)


@lowers(RMSNorm, layout=lambda lowering, operator: False)
def lower_rms_norm(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Over the last dimensions, by the mean square."""
    layer = operator.layer
    assert isinstance(layer, RMSNorm)
    eps = float(np.finfo(np.float32).eps) if layer.eps is None else layer.eps
    return _add_rows(lowering, operator, math.prod(layer.normalized_shape), eps=eps, centred=False)


def _takes_moments(operator: RuntimeOperator) -> bool:
    """Whether it is the values' own moments that count, not running statistics."""
    layer = operator.layer
    assert operator.binding is not None
    statistics = "running_mean" in operator.binding.named
    return isinstance(layer, GroupNorm) or (
        isinstance(layer, InstanceNorm) and (layer.use_input_stats or not statistics)
    )


def _is_image(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Whether the kernel for images takes this on: groups fill blocks, or blocks hold whole groups."""
    layer, source = operator.layer, operator.input_operands_seq[0]
    assert isinstance(layer, (GroupNorm, InstanceNorm))
    spec = lowering.spec(source)
    if not lowering.is_image.get(source, False) or spec.ndim != 4 or 0 in spec.shape or layer.eps <= 0:
        return False
    if any(isinstance(value, RuntimeOperand) for value in _affine(lowering, operator)):
        return False
    channels = spec.shape[1] // layer.num_groups if isinstance(layer, GroupNorm) else 1
    lanes = lowering.target.lanes
    return _takes_moments(operator) and (channels % lanes == 0 or lanes % channels == 0)


@lowers(GroupNorm, InstanceNorm, layout=_is_image)
def lower_group_norm(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Over each group of channels of each sample, or over each channel."""
    layer, source = operator.layer, operator.input_operands_seq[0]
    assert isinstance(layer, (GroupNorm, InstanceNorm))
    if not _takes_moments(operator):
        return False
    shape = lowering.spec(source).shape
    if isinstance(layer, InstanceNorm) and layer.is_unbatched(lowering.spec(source)):
        shape = (1, *shape)
    groups = layer.num_groups if isinstance(layer, GroupNorm) else shape[1]
    if not _is_image(lowering, operator):
        run = math.prod(shape[2:])
        return _add_rows(lowering, operator, shape[1] // groups * run, run, groups, layer.eps)
    image = lowering.image(source)
    out = lowering.new_image(operator.output_operands[0])
    refs = []
    for value, default in zip(_affine(lowering, operator), (1.0, 0.0), strict=True):
        padded = np.zeros(image.layout.blocks * lowering.target.lanes, np.float32)
        padded[: shape[1]] = default if value is None else as_float32(value)
        refs.append(lowering.constant(padded))
    lowering.add(ImageNormSpec(image.layout, out.layout, groups, layer.eps), image.ref, *refs, out.ref)
    return True
