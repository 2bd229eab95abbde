"""The head of YOLOv5 against a small PyTorch version of it, with its weights named as converters have named them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kuiperinfer.errors import DTypeError, KuiperError, ModelFileError, ShapeError

from .harness import Case, check, random, run

ANCHORS = [[(10, 13), (16, 30), (33, 23)], [(30, 61), (62, 45), (59, 119)], [(116, 90), (156, 198), (373, 326)]]


class Head:
    """YOLOv5's head for pictures of one size: convolutions, strides, and anchors."""

    def __init__(
        self, height: int, width: int, classes: int = 4, anchors: Any = ANCHORS, strides: Any = (8, 16, 32)
    ) -> None:
        self.strides = strides
        self.anchors = [torch.tensor(a, dtype=torch.float32) for a in anchors]
        self.channels = [6 + 2 * i for i in range(len(strides))]
        self.sizes = [(height // s, width // s) for s in strides]
        filters = len(anchors[0]) * (5 + classes)
        self.weights = [random(filters, c, 1, 1, seed=i) for i, c in enumerate(self.channels)]
        self.biases = [random(filters, seed=i) for i in range(len(strides))]

    def features(self, batch: int = 2, scale: float = 1.0) -> list[torch.Tensor]:
        sizes = [(int(h * scale), int(w * scale)) for h, w in self.sizes]
        return [random(batch, c, *size, seed=5) for c, size in zip(self.channels, sizes, strict=True)]

    def grid(self, height: int, width: int) -> torch.Tensor:
        y, x = torch.meshgrid(torch.arange(height).float(), torch.arange(width).float(), indexing="ij")
        return (torch.stack([x, y], 2) - 0.5).expand(1, len(self.anchors[0]), height, width, 2)

    def anchor_grid(self, stage: int, height: int, width: int) -> torch.Tensor:
        return self.anchors[stage].view(1, -1, 1, 1, 2).expand(1, -1, height, width, 2)

    def __call__(self, *features: torch.Tensor) -> tuple[torch.Tensor, ...]:
        maps, found = [], []
        for stage, feature in enumerate(features):
            batch, _, height, width = feature.shape
            cells = torch.nn.functional.conv2d(feature, self.weights[stage], self.biases[stage])
            cells = cells.view(batch, len(self.anchors[0]), -1, height, width).permute(0, 1, 3, 4, 2)
            s = cells.sigmoid()
            middle = (s[..., :2] * 2 + self.grid(height, width)) * self.strides[stage]
            size = (s[..., 2:4] * 2) ** 2 * self.anchor_grid(stage, height, width)
            maps.append(cells)
            found.append(torch.cat([middle, size, s[..., 4:]], -1).reshape(batch, -1, cells.shape[-1]))
        return (*maps, torch.cat(found, 1))

    def stored(self, names: dict[str, tuple[str, int]]) -> dict[str, torch.Tensor]:
        """The weights as a file has them: `names` says which constant has which name."""
        weights = {f"m.{i}.weight": weight for i, weight in enumerate(self.weights)}
        weights |= {f"m.{i}.bias": bias for i, bias in enumerate(self.biases)}
        for name, (what, stage) in names.items():
            if what == "strides":
                weights[name] = torch.tensor(self.strides, dtype=torch.float32)
            elif what == "grid":
                weights[name] = self.grid(*self.sizes[stage]).contiguous()
            else:
                weights[name] = self.anchor_grid(stage, *self.sizes[stage]).contiguous()
        return dict(sorted(weights.items()))


IN_ORDER = {"pnnx_00": ("grid", 0), "pnnx_01": ("strides", 0), "pnnx_02": ("anchors", 0), "pnnx_03": ("grid", 1)}
IN_ORDER |= {"pnnx_04": ("anchors", 1), "pnnx_05": ("grid", 2), "pnnx_06": ("anchors", 2)}
BACKWARDS = {"pnnx_0": ("anchors", 2), "pnnx_1": ("grid", 2), "pnnx_2": ("anchors", 1), "pnnx_3": ("grid", 1)}
BACKWARDS |= {"pnnx_4": ("anchors", 0), "pnnx_5": ("strides", 0), "pnnx_6": ("grid", 0)}


def case(head: Head, names: dict[str, tuple[str, int]], outputs: int = 1, scale: float = 1.0) -> Case:
    call = head if outputs > 1 else lambda *features: head(*features)[-1]
    return Case("models.yolo.Detect", call, head.features(scale=scale), weights=head.stored(names), outputs=outputs)


@pytest.mark.parametrize("names", [IN_ORDER, BACKWARDS])
@pytest.mark.parametrize(("height", "width"), [(64, 96), (32, 32), (160, 64)])
def test_boxes(names: Any, height: int, width: int) -> None:
    check(case(Head(height, width), names))


@pytest.mark.parametrize("names", [IN_ORDER, BACKWARDS])
@pytest.mark.parametrize("scale", [0.5, 1.5, 2.0])
def test_pictures_of_another_size(names: Any, scale: float) -> None:
    check(case(Head(64, 128), names, scale=scale))


def test_the_maps_as_further_outputs() -> None:
    check(case(Head(64, 96), IN_ORDER, outputs=4))


def test_other_numbers_of_stages_anchors_and_classes() -> None:
    two = {"a": ("grid", 0), "b": ("anchors", 0), "c": ("strides", 0), "d": ("anchors", 1), "e": ("grid", 1)}
    anchors = [[(10, 13), (16, 30)], [(30, 61), (62, 45)]]
    check(case(Head(64, 64, classes=1, anchors=anchors, strides=(16, 32)), two))
    check(case(Head(64, 64, classes=1, anchors=anchors, strides=(32, 16)), two))


def test_the_size_that_everybody_uses() -> None:
    head = Head(640, 640, classes=80)
    boxes = run(Case("models.yolo.Detect", head, head.features(batch=1), weights=head.stored(IN_ORDER)))[0]
    assert boxes.shape == (1, 25200, 85)


def test_a_box_by_hand() -> None:
    head = Head(64, 64)
    for weight, bias in zip(head.weights, head.biases, strict=True):
        weight.zero_()
        bias.zero_()
    boxes = run(Case("models.yolo.Detect", head, head.features(batch=1), weights=head.stored(IN_ORDER)))[0]
    assert boxes[0, 0].tolist() == [4.0, 4.0, 10.0, 13.0] + [0.5] * 5  # in the middle of the first cell of 8 pixels
    assert boxes[0, -1].tolist() == [48.0, 48.0, 373.0, 326.0] + [0.5] * 5


def refusals() -> list[tuple[Any, Any, int, type[KuiperError], str]]:
    head = Head(64, 64)
    features, weights = head.features(), head.stored(IN_ORDER)
    without = {name: weight for name, weight in weights.items() if name != "pnnx_03"}
    return [
        (features, without, 1, ModelFileError, "expected weights m.0, m.1"),
        (features, {**weights, "anchors": torch.zeros(3, 3, 2)}, 1, ModelFileError, r"anchors=\(3,3,2\)f32"),
        (features[:2], weights, 1, ModelFileError, "expected 3 inputs and 1 or 4 outputs, found 2 and 1"),
        (features, weights, 2, ModelFileError, "found 3 and 2"),
        ([features[0][0], *features[1:]], weights, 1, ShapeError, "input 0: expected 4 dimensions"),
        ([features[1], *features[1:]], weights, 1, ShapeError, "stage 0: weight .* do not fit"),
        (features, {**weights, "m.1.bias": torch.zeros(3)}, 1, ShapeError, "stage 1: .* bias"),
        ([features[0].long(), *features[1:]], weights, 1, DTypeError, "stage 0: expected floats"),
    ]


@pytest.mark.parametrize(("features", "weights", "outputs", "error", "message"), refusals())
def test_refuses(features: Any, weights: Any, outputs: int, error: type[KuiperError], message: str) -> None:
    with pytest.raises(error, match=message):
        run(Case("models.yolo.Detect", np.zeros, features, weights=weights, outputs=outputs))
