"""How pooling is lowered."""

from __future__ import annotations

import numpy as np

from ..dtypes import TensorSpec
from ..graph import RuntimeOperator
from ..layers.adaptive_pooling import AdaptiveAvgPool, AdaptiveMaxPool, adaptive_positions
from ..layers.pooling import AvgPool, MaxPool
from .kernels.pooling import AdaptivePoolSpec, GlobalAverageSpec, PoolSpec
from .lowering import Image, Lowering, lowers
from .views import known_argument

TASK_ELEMENTS = 32768  # loads that a task should have


def _is_image(lowering: Lowering, operator: RuntimeOperator) -> bool:
    specs = [lowering.specs[operand] for operand in (operator.input_operands_seq[0], operator.output_operands[0])]
    return all(isinstance(spec, TensorSpec) and spec.ndim == 4 and 0 not in spec.shape for spec in specs)


@lowers(MaxPool, AvgPool, layout=_is_image, reads_image=True)
def lower_pool(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Maximum and average over windows; without indices."""
    layer = operator.layer
    assert isinstance(layer, (MaxPool, AvgPool))
    if layer.ndim != 2 or layer.output_count != 1 or not _is_image(lowering, operator):
        return False
    if isinstance(layer, MaxPool):
        kind, dilation, count_padding, divisor = "max", layer.dilation, False, 0
    else:
        kind, dilation, count_padding, divisor = "average", (1, 1), layer.count_include_pad, layer.divisor_override or 0
    kernel_size, steps = (known_argument(lowering, operator, name) for name in ("kernel_size", "stride"))
    shape = lowering.spec(operator.input_operands_seq[0]).shape
    windows = layer.windows(shape, kernel_size, steps, layer.padding, dilation)
    kernel, stride = (tuple(getattr(axis, name) for axis in windows) for name in ("kernel", "stride"))
    return _add(lowering, operator, kind, kernel, stride, dilation, layer.padding, count_padding, divisor)


@lowers(AdaptiveAvgPool, AdaptiveMaxPool, layout=_is_image, reads_image=True)
def lower_adaptive_pool(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Adaptive pooling; simpler to one element, or where all windows have one size."""
    layer = operator.layer
    assert isinstance(layer, (AdaptiveAvgPool, AdaptiveMaxPool))
    if layer.ndim != 2 or layer.output_count != 1 or not _is_image(lowering, operator):
        return False
    if isinstance(layer, AdaptiveMaxPool) and layer.return_indices:
        return False
    sizes = lowering.spec(operator.input_operands_seq[0]).shape[2:]
    targets = lowering.spec(operator.output_operands[0]).shape[2:]
    kind = "average" if isinstance(layer, AdaptiveAvgPool) else "max"
    if any(size % target for size, target in zip(sizes, targets, strict=True)):
        source, out = lowering.image(operator.input_operands_seq[0]), lowering.new_image(operator.output_operands[0])
        pool_adaptively(lowering, source, out, kind)
        return True
    if targets == (1, 1) and isinstance(layer, AdaptiveAvgPool):
        source = lowering.image(operator.input_operands_seq[0])
        out = lowering.new_image(operator.output_operands[0])
        lowering.add(GlobalAverageSpec(source.layout, out.layout), source.ref, out.ref)
        return True
    kernel = (sizes[0] // targets[0], sizes[1] // targets[1])
    return _add(lowering, operator, kind, kernel, kernel, (1, 1), (0, 0), False, 0)


def pool_adaptively(lowering: Lowering, source: Image, out: Image, kind: str) -> None:
    """Adds a step for windows that are spread evenly over the input, each as large as it comes out."""
    bounds = []
    for size, count in zip(source.layout.shape[2:], out.layout.shape[2:], strict=True):
        inside = adaptive_positions(size, count)
        bounds.append(np.stack([inside[:, 0], inside.max(1) + 1], axis=1).astype(np.int64))
    tables = (lowering.constant(table) for table in bounds)
    lowering.add(AdaptivePoolSpec(source.layout, out.layout, kind), source.ref, *tables, out.ref)


def _add(
    lowering: Lowering,
    operator: RuntimeOperator,
    kind: str,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    padding: tuple[int, ...],
    count_padding: bool,
    divisor: int,
) -> bool:
    source = lowering.image(operator.input_operands_seq[0])
    out = lowering.new_image(operator.output_operands[0])
    work = out.layout.width * kernel[0] * kernel[1] * lowering.target.lanes
    rows = max(1, min(out.layout.height, TASK_ELEMENTS // work))
    pairs = ((kernel[0], kernel[1]), (stride[0], stride[1]), (dilation[0], dilation[1]), (padding[0], padding[1]))
    lowering.add(PoolSpec(source.layout, out.layout, kind, *pairs, count_padding, divisor, rows), source.ref, out.ref)
    return True
