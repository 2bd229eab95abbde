"""How resizing is lowered: blocked images, with tables of positions and weights made beforehand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..dtypes import Array
from ..graph import RuntimeOperator
from ..layers.resize import Resize
from .kernels.resize import GatherPixelsSpec, WeighPixelsSpec, offsets
from .lowering import Image, Lowering, lowers
from .pooling import pool_adaptively
from .views import data_operand, known_argument

_MODES = ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "area")


def _is_image(lowering: Lowering, operator: RuntimeOperator) -> bool:
    layer, spec = operator.layer, lowering.spec(data_operand(operator))
    return isinstance(layer, Resize) and layer.mode in _MODES and spec.ndim in (3, 4) and 0 not in spec.shape


@lowers(Resize, layout=_is_image)
def lower_resize(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Nearest, linear and cubic interpolation of signals and images, and averages of areas."""
    if not _is_image(lowering, operator):
        return False
    layer, source = operator.layer, data_operand(operator)
    assert isinstance(layer, Resize)
    size, factor = (known_argument(lowering, operator, name) for name in ("size", "scale_factor"))
    axes = layer.axes(lowering.spec(source).shape, size, factor)
    image, out = lowering.image(source), lowering.new_image(operator.output_operands[0])
    if layer.mode == "area":
        pool_adaptively(lowering, image, out, "average")
        return True
    if layer.mode.startswith("nearest"):
        positions = layer.nearest(axes, np.float32)
        gather_pixels(lowering, image, out, positions if len(positions) == 2 else [np.zeros(1, np.int64), *positions])
        return True
    taps = [(taps.positions, taps.weights) for taps in layer.taps(axes, np.float32)]
    if len(taps) == 1:
        taps.insert(0, (np.zeros((1, 1), np.int64), np.ones((1, 1), np.float32)))
    tables = [
        lowering.constant(table)
        for (positions, weights), stride in zip(taps, (image.layout.row, image.layout.pixel), strict=True)
        for table in (offsets(positions, stride), np.ascontiguousarray(weights, np.float32))
    ]
    counts = (taps[0][1].shape[1], taps[1][1].shape[1])
    lowering.add(WeighPixelsSpec(image.layout, out.layout, counts), image.ref, *tables, out.ref)
    return True


def gather_pixels(lowering: Lowering, image: Image, out: Image, positions: Sequence[Array]) -> None:
    """Adds a step that takes each output pixel from the row and column of the input that `positions` has for its own."""
    rows, columns = positions
    tables = (offsets(rows, image.layout.row), offsets(columns, image.layout.pixel))
    spec = GatherPixelsSpec(image.layout, out.layout)
    lowering.add(spec, image.ref, *(lowering.constant(table) for table in tables), out.ref)
