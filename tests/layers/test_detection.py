"""Detection operators against recorded answers of torchvision (see data/make_detection.py), and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kuiperinfer.errors import DTypeError, InputError, KuiperError, ModelFileError, ShapeError

from .data import detection_cases as cases
from .harness import Case, assert_equal, run

ANSWERS = np.load(Path(__file__).parent / "data" / "detection.npz")
ROI_ALIGN = list(enumerate(cases.roi_align_params()))
DEFORM_CONV = list(enumerate(cases.deform_conv_cases()))


def result(type_name: str, inputs: Any, params: Any, **more: Any) -> Any:
    def unused(*_: Any) -> Any:
        raise AssertionError

    return run(Case(type_name, unused, inputs, params, **more))[0]


# ------------------------------------------------------------------------------------------- features of regions


@pytest.mark.parametrize(("index", "params"), ROI_ALIGN, ids=str)
def test_roi_align(index: int, params: Any) -> None:
    answer = ANSWERS[f"roi_align_{index}"]
    assert_equal(result("torchvision.ops.RoIAlign", [cases.FEATURES, cases.BOXES], params), answer)
    numbered = {
        "arg_2": params["spatial_scale"],
        "arg_3": params["output_size"][0],
        "arg_4": params["output_size"][1],
        "arg_5": params["sampling_ratio"],
        "arg_6": params["aligned"],
    }
    names = ["arg_0", "arg_1"]
    function = result("pnnx.custom_op.torchvision.roi_align", [cases.FEATURES, cases.BOXES], numbered, names=names)
    assert_equal(function, answer)


def test_roi_align_of_lists_of_boxes() -> None:
    params = {"output_size": 3, "spatial_scale": 0.25, "sampling_ratio": 2}
    indexed = result("torchvision.ops.RoIAlign", [cases.FEATURES, cases.BOXES[[0, 2, 1]]], params)
    listed = [cases.BOXES[[0, 2], 1:], cases.BOXES[[1], 1:]]
    assert_equal(result("torchvision.ops.RoIAlign", [cases.FEATURES, listed], params), indexed)


def test_roi_align_of_no_boxes() -> None:
    params = {"output_size": (2, 3), "spatial_scale": 1.0, "sampling_ratio": -1}
    assert result("torchvision.ops.RoIAlign", [cases.FEATURES, cases.BOXES[:0]], params).shape == (0, 3, 2, 3)


def test_roi_align_by_hand() -> None:
    ramp = np.tile(np.arange(8, dtype=np.float32), (1, 1, 8, 1))
    boxes = np.array([[0, 1, 1, 5, 5]], np.float32)
    params = {"output_size": (2, 2), "spatial_scale": 1.0, "sampling_ratio": 2}
    assert result("torchvision.ops.RoIAlign", [ramp, boxes], params)[0, 0].tolist() == [[2.0, 4.0], [2.0, 4.0]]
    aligned = result("torchvision.ops.RoIAlign", [ramp, boxes], {**params, "aligned": True})
    assert aligned[0, 0].tolist() == [[1.5, 3.5], [1.5, 3.5]]


def refusals_of_roi_align() -> list[tuple[Any, Any, Any, type[KuiperError], str]]:
    features, boxes = cases.FEATURES, cases.BOXES
    params = {"output_size": (3, 3), "spatial_scale": 1.0, "sampling_ratio": -1}
    broken, far, huge = boxes.copy(), boxes.copy(), boxes.copy()
    broken[0, 1], far[0, 0], huge[0, 3] = np.nan, 2, 1e9
    return [
        (features[0], boxes, params, ShapeError, "expected 4 dimensions"),
        (features, boxes[:, 1:], params, ShapeError, r"shape \(K, 5\)"),
        (features, [boxes[:, 1:]], params, ShapeError, "found 1 for 2 pictures"),
        (features, boxes.astype(np.float64), params, DTypeError, "of one float dtype"),
        (features, broken, params, InputError, "is no box in one of 2 pictures"),
        (features, far, params, InputError, "is no box in one of 2 pictures"),
        (features, huge, params, InputError, "the limit is"),
        (features, boxes, {**params, "output_size": (0, 3)}, ModelFileError, "positive sizes"),
    ]


@pytest.mark.parametrize(("features", "boxes", "params", "error", "message"), refusals_of_roi_align())
def test_roi_align_refuses(features: Any, boxes: Any, params: Any, error: type[KuiperError], message: str) -> None:
    with pytest.raises(error, match=message):
        result("torchvision.ops.RoIAlign", [features, boxes], params)


# ------------------------------------------------------------------------------------------- deformable convolution


def module_form(case: cases.DeformConvCase) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """Inputs, parameters and weights of a case as torchvision.ops.DeformConv2d."""
    arrays = case.arrays
    inputs = [arrays[name] for name in ("input", "offset", "mask") if name in arrays]
    weights = {name: arrays[name] for name in ("weight", "bias") if name in arrays}
    filters, channels = arrays["weight"].shape[0], arrays["input"].shape[1]
    params = {"in_channels": channels, "out_channels": filters, "bias": "bias" in arrays, "groups": case.groups}
    params |= {
        "kernel_size": case.kernel_size,
        "stride": case.stride,
        "padding": case.padding,
        "dilation": case.dilation,
    }
    return inputs, params, weights


@pytest.mark.parametrize(("index", "case"), DEFORM_CONV, ids=lambda value: str(value) if isinstance(value, int) else "")
def test_deform_conv(index: int, case: cases.DeformConvCase) -> None:
    inputs, params, weights = module_form(case)
    answer = ANSWERS[f"deform_conv_{index}"]
    assert_equal(result("torchvision.ops.DeformConv2d", inputs, params, weights=weights), answer)
    arrays = {"mask": np.zeros((1, 1), np.float32), "bias": np.zeros(len(answer[0]), np.float32), **case.arrays}
    numbers = [*case.stride, *case.padding, *case.dilation, case.groups, 1]
    numbered: dict[str, Any] = {f"arg_{i}": number for i, number in enumerate(numbers, start=5)}
    numbered["arg_13"] = "mask" in case.arrays
    operands = [arrays[name] for name in ("input", "weight", "offset", "mask", "bias")]
    names = [f"arg_{i}" for i in range(5)]
    assert_equal(result("pnnx.custom_op.torchvision.deform_conv2d", operands, numbered, names=names), answer)


def test_without_offsets_it_is_a_convolution() -> None:
    case = DEFORM_CONV[0][1]
    inputs, params, weights = module_form(case)
    plain = {**params, "padding_mode": "zeros"}
    expected = result("nn.Conv2d", inputs[:1], plain, weights=weights)
    assert_equal(result("torchvision.ops.DeformConv2d", [inputs[0], inputs[1] * 0], params, weights=weights), expected)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"groups": 0}, "groups: expected a positive number"),
        ({"groups": 3}, "does not fit 4 channels in 3 groups"),
        ({"stride": (0, 1)}, "stride: expected two numbers of at least 1"),
        ({"padding": (-1, 1)}, "padding: expected two numbers of at least 0"),
        ({"in_channels": 5}, "in_channels=5 out_channels=6, but the input has 4 channels"),
        ({"dilation": (9, 9)}, "the kernel is larger than the padded input"),
        ({"stride": (2, 2)}, r"offset: expected shape \(2, 18, 4, 4\)"),
        ({"bias": True}, "bias=True, but the weight 'bias' is missing"),
    ],
)
def test_deform_conv_refuses(changed: Any, message: str) -> None:
    inputs, params, weights = module_form(DEFORM_CONV[0][1])
    with pytest.raises((ShapeError, ModelFileError), match=message):
        result("torchvision.ops.DeformConv2d", inputs, {**params, **changed}, weights=weights)


def test_deform_conv_refuses_operands() -> None:
    inputs, params, weights = module_form(DEFORM_CONV[0][1])
    mask = np.ones((2, 8, 7, 8), np.float32)
    for operands, error, message in [
        ([inputs[0], inputs[1], mask], ShapeError, "mask: expected shape"),
        ([inputs[0], inputs[1][:, :10]], ShapeError, "offset: .* does not fit 4 channels"),
        ([inputs[0].astype(np.float64), inputs[1]], DTypeError, "tensors of one float dtype"),
    ]:
        with pytest.raises(error, match=message):
            result("torchvision.ops.DeformConv2d", operands, params, weights=weights)


# ------------------------------------------------------------------------------------------- non-maximum suppression


@pytest.mark.parametrize(("index", "threshold"), list(enumerate(cases.NMS_THRESHOLDS)))
def test_nms(index: int, threshold: float) -> None:
    inputs, names = [cases.NMS_BOXES, cases.NMS_SCORES], ["arg_0", "arg_1"]
    kept = result("pnnx.custom_op.torchvision.nms", inputs, {"arg_2": threshold}, names=names)
    assert_equal(kept, ANSWERS[f"nms_{index}"])


def test_nms_of_nothing_and_of_what_does_not_fit() -> None:
    type_name, names = "pnnx.custom_op.torchvision.nms", ["arg_0", "arg_1"]
    nothing = [cases.NMS_BOXES[:0], cases.NMS_SCORES[:0]]
    assert result(type_name, nothing, {"arg_2": 0.5}, names=names).shape == (0,)
    with pytest.raises(ShapeError, match="expected boxes"):
        result(type_name, [cases.NMS_BOXES, cases.NMS_SCORES[:3]], {"arg_2": 0.5}, names=names)
