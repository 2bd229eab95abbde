"""The head of YOLOv5, where the user asked the converter to keep it whole (`moduleop=models.yolo.Detect`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..dtypes import Array, TensorSpec
from ..errors import DTypeError, ModelFileError, ShapeError
from ..expression.activations import sigmoid
from ..records import dataclass
from .base import Layer, expect_rank, register


@dataclass(frozen=True)
class _Stage:
    """One scale: a 1×1 convolution, the pixels from one cell to the next, and what is stored for each cell.

    `grid` has the (x, y) of the cells, `anchors` the sizes of the anchor boxes in pixels, both (1, A, H, W, 2).
    """

    weight: Array
    bias: Array
    stride: float
    grid: Array
    anchors: Array

    def at_size(self, height: int, width: int) -> tuple[Array, Array]:
        """Grid and anchors for a map of cells: the stored ones where they fit, else new ones."""
        if self.grid.shape[2:4] == (height, width):
            return self.grid, self.anchors
        y, x = np.mgrid[:height, :width].astype(self.grid.dtype)
        return np.stack([x, y], axis=-1) + self.grid[:, :1, :1, :1], self.anchors[:, :, :1, :1]


def _count_stages(weights: Mapping[str, TensorSpec] | Mapping[str, Array]) -> int:
    count = 0
    while f"m.{count}.weight" in weights and f"m.{count}.bias" in weights:
        count += 1
    return count


def _stages(weights: Mapping[str, Array]) -> list[_Stage]:
    """The stages, put together from weights of which only the convolutions have a telling name.

    The other weights are the strides and, for each stage, a grid and its anchors, in the order in which the converter met them.
    A smaller stride goes with a larger grid, and a grid begins at (0, 0) or half a cell before, where no anchor box could.
    """
    count = _count_stages(weights)
    others = [array for name, array in weights.items() if not name.startswith("m.")]
    strides = next(array.reshape(-1) for array in others if array.ndim == 1)
    cells = sorted((array for array in others if array.ndim == 5), key=lambda a: (-a.size, a[0, :, 0, 0].min()))
    of_stride = dict(zip(np.argsort(strides, kind="stable").tolist(), range(count), strict=True))
    return [
        _Stage(
            weights[f"m.{stage}.weight"],
            weights[f"m.{stage}.bias"],
            float(strides[stage]),
            cells[2 * of_stride[stage]],
            cells[2 * of_stride[stage] + 1],
        )
        for stage in range(count)
    ]


@register("models.yolo.Detect", "yolov5.models.yolo.Detect")
@dataclass(frozen=True, kw_only=True)
class Detect(Layer):
    """Boxes, objectness and classes of every anchor box of every cell. YOLOv5's models/yolo.py, from version 6.1 on

    Feature maps (N, C_i, H_i, W_i) -> (N, sum of A * H_i * W_i, 5 + classes). With s the sigmoid of a 1×1 convolution: the
    middle of a box is (2 s + grid) * stride, its size (2 s)^2 * anchor, in pixels. Further outputs, where the model has them,
    are the convolutions as (N, A, H_i, W_i, 5 + classes), and come first.
    """

    def infer(self, *features: TensorSpec, **weights: TensorSpec) -> tuple[TensorSpec, ...]:
        count = _count_stages(weights)
        others = [spec for name, spec in weights.items() if not name.startswith("m.")]
        cells = [spec for spec in others if spec.ndim == 5 and spec.size and spec.shape[::4] == (1, 2)]
        strides = [spec for spec in others if spec.shape == (count,)]
        if not count or len(cells) != 2 * count or len(strides) != 1 or len(others) != 2 * count + 1:
            raise ModelFileError(
                "expected weights m.0, m.1, … of as many stages, a vector of their strides, and two (1, A, H, W, 2) for each: "
                f"its grid and its anchors; found {', '.join(f'{name}={spec}' for name, spec in weights.items())}"
            )
        if len(features) != count or self.output_count not in (1, count + 1):
            raise ModelFileError(
                f"expected {count} inputs and 1 or {count + 1} outputs, found {len(features)} and {self.output_count}"
            )
        anchors = cells[0].shape[1]
        channels = weights["m.0.weight"].shape[0]
        maps = []
        for stage, feature in enumerate(features):
            expect_rank(feature, 4, what=f"input {stage}")
            weight, bias = weights[f"m.{stage}.weight"], weights[f"m.{stage}.bias"]
            if {feature.dtype.kind, weight.dtype.kind, bias.dtype.kind} != {"float"}:
                raise DTypeError(f"stage {stage}: expected floats, found {feature}, {weight}, {bias}")
            if weight.shape != (channels, feature.shape[1], 1, 1) or bias.shape != (channels,) or channels % anchors:
                raise ShapeError(
                    f"stage {stage}: weight {weight.shape} and bias {bias.shape} do not fit an input {feature.shape} and "
                    f"{anchors} anchors a cell"
                )
            batch, _, height, width = feature.shape
            maps.append(feature.like((batch, anchors, height, width, channels // anchors)))
        rows = sum(spec.size // max(spec.shape[0] * spec.shape[-1], 1) for spec in maps)
        found = features[0].like((features[0].shape[0], rows, channels // anchors))
        return (found,) if self.output_count == 1 else (*maps, found)

    def forward(self, *features: Array, **weights: Array) -> tuple[Array, ...]:
        maps, found = [], []
        for feature, stage in zip(features, _stages(weights), strict=True):
            batch, channels, height, width = feature.shape
            filters, anchors = stage.weight.shape[0], stage.grid.shape[1]
            convolved = (
                stage.weight.reshape(filters, channels) @ feature.reshape(batch, channels, -1) + stage.bias[:, None]
            )
            cells = convolved.reshape(batch, anchors, filters // anchors, height, width).transpose(0, 1, 3, 4, 2)
            grid, anchor_sizes = stage.at_size(height, width)
            shares = sigmoid(cells)
            middle = (2 * shares[..., :2] + grid) * stage.stride
            size = (2 * shares[..., 2:4]) ** 2 * anchor_sizes
            boxes = np.concatenate([middle, size, shares[..., 4:]], axis=-1)
            maps.append(cells)
            found.append(boxes.reshape(batch, anchors * height * width, filters // anchors))
        joined = np.concatenate(found, axis=1)
        return (joined,) if self.output_count == 1 else (*maps, joined)
