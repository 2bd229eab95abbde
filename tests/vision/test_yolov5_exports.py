"""One YOLOv5 head with the same weights, exported in its three forms: the same boxes come out of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kuiperinfer.vision import Detections, Detector, load_detector
from kuiperinfer.vision.heads import YOLOV5_ANCHORS, GridHead, RowsHead
from tests.small_models import write_model

SIDE, STRIDES, CLASSES = 96, (8, 16, 32), 3
FILTERS = 3 * (5 + CLASSES)

POOLS = "\n".join(
    f"F.avg_pool2d pool{i} 1 1 0 {1 + i} kernel_size=({s},{s}) stride=({s},{s}) padding=(0,0) ceil_mode=False "
    f"count_include_pad=True divisor_override=None #0=(1,3,96,96)f32 #{1 + i}=(1,3,{SIDE // s},{SIDE // s})f32"
    for i, s in enumerate(STRIDES)
)
GRIDS = " ".join(
    f"@pnnx_{1 + 2 * i}=(1,3,{SIDE // s},{SIDE // s},2)f32 @pnnx_{2 + 2 * i}=(1,3,{SIDE // s},{SIDE // s},2)f32"
    for i, s in enumerate(STRIDES)
)
CONVOLUTIONS = " ".join(f"@m.{i}.bias=({FILTERS})f32 @m.{i}.weight=({FILTERS},3,1,1)f32" for i in range(3))
DETECT = f"""7767517
6 5
pnnx.Input pnnx_input_0 0 1 0 #0=(1,3,96,96)f32
{POOLS}
models.yolo.Detect head 3 1 1 2 3 4 {CONVOLUTIONS} @pnnx_0=(3)f32 {GRIDS}
pnnx.Output pnnx_output_0 1 0 4
"""
RAW = f"""7767517
9 8
pnnx.Input pnnx_input_0 0 1 0 #0=(1,3,96,96)f32
{POOLS}
""" + "\n".join(
    f"nn.Conv2d conv{i} 1 1 {1 + i} {4 + i} bias=True dilation=(1,1) groups=1 in_channels=3 kernel_size=(1,1) "
    f"out_channels={FILTERS} padding=(0,0) padding_mode=zeros stride=(1,1) @bias=({FILTERS})f32 "
    f"@weight=({FILTERS},3,1,1)f32"
    for i in range(3)
)
RAW += """
prim::TupleConstruct both 3 1 4 5 6 7
pnnx.Output pnnx_output_0 1 0 7
"""


@pytest.fixture
def weights() -> list[tuple[Any, Any]]:
    random = np.random.default_rng(3)
    return [
        (random.normal(0, 3, (FILTERS, 3, 1, 1)).astype(np.float32), random.normal(-1, 1, FILTERS).astype(np.float32))
        for _ in STRIDES
    ]


def detect_operator(folder: Path, weights: list[tuple[Any, Any]]) -> Path:
    given: dict[str, Any] = {"head.pnnx_0": np.float32(STRIDES)}
    for stage, ((weight, bias), stride) in enumerate(zip(weights, STRIDES, strict=True)):
        cells = SIDE // stride
        y, x = np.mgrid[:cells, :cells]
        grid = np.broadcast_to(np.stack([x, y], axis=-1) - 0.5, (1, 3, cells, cells, 2))
        anchors = np.broadcast_to(np.array(YOLOV5_ANCHORS[stage])[None, :, None, None], grid.shape)
        given[f"head.m.{stage}.weight"], given[f"head.m.{stage}.bias"] = weight, bias
        given[f"head.pnnx_{1 + 2 * stage}"] = np.ascontiguousarray(grid, np.float32)
        given[f"head.pnnx_{2 + 2 * stage}"] = np.ascontiguousarray(anchors, np.float32)
    return write_model(folder, DETECT, given)


def raw_maps(folder: Path, weights: list[tuple[Any, Any]]) -> Path:
    given: dict[str, Any] = {}
    for stage, (weight, bias) in enumerate(weights):
        given[f"conv{stage}.weight"], given[f"conv{stage}.bias"] = weight, bias
    return write_model(folder, RAW, given)


def check(found: Detections, expected: Detections) -> None:
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)
    np.testing.assert_allclose(found.boxes, expected.boxes, atol=0.02)


def test_three_forms_of_one_network(tmp_path: Path, weights: list[tuple[Any, Any]]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (70, 130, 3), dtype=np.uint8)
    whole = load_detector(detect_operator(tmp_path / "whole", weights), confidence=0.4)
    raw = load_detector(raw_maps(tmp_path / "raw", weights), confidence=0.4)
    assert whole.head == RowsHead(0, CLASSES)
    assert isinstance(raw.head, GridHead)
    assert raw.head.doubled
    assert raw.head.classes == CLASSES
    found = whole(picture)
    assert len(found) > 5
    check(raw(picture), found)
    # decoded outside of the model, beside the maps: as TorchScript exports give it
    decoded = Detector(
        lambda x: (*raw.model(x), whole.model(x)), whole.preprocess, RowsHead(3, CLASSES), confidence=0.4
    )
    check(decoded(picture), found)
    for job in (whole, raw):
        assert job.possible_batch(2) in (1, 2)
        for one in job.many([picture, picture], batch=2):
            check(one, found)
