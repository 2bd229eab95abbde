"""From maps to the class of each pixel of a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kuiperinfer import settings
from kuiperinfer.errors import InputError, ResourceLimitError
from kuiperinfer.vision import Preprocess, Segmentation, Segmenter, bundled, bundled_segmenter, load_segmenter
from tests.small_models import write_model

PLAIN = Preprocess(8, 8, fit="stretch", mean=(0.0,) * 3, std=(1.0,) * 3)
LETTERBOX = Preprocess(8, 8, fit="letterbox", mean=(0.0,) * 3, std=(1.0,) * 3)


def segmenter(maps: Any, preprocess: Preprocess = PLAIN, **options: Any) -> Segmenter:
    return Segmenter(lambda x: np.asarray(maps, np.float32)[None], preprocess, **options)


def blank(height: int = 8, width: int = 8) -> Any:
    return np.zeros((height, width, 3), np.uint8)


def test_one_map_of_probabilities_or_logits() -> None:
    values = np.zeros((1, 8, 8))
    values[0, 2:5, 3] = 0.7
    found = segmenter(values)(blank())
    np.testing.assert_array_equal(found.mask(), values[0] > 0.5)
    assert found.labels == ("background", "class 1")
    assert not segmenter(values, threshold=0.8)(blank()).mask().any()
    values[0, 0, 0] = -3  # now these can only be logits, and 0 is 0.5
    found = segmenter(values)(blank())
    np.testing.assert_array_equal(found.mask(), values[0] > 0)
    values[0, 0, 0] = 0
    np.testing.assert_array_equal(segmenter(values, output="logits")(blank()).mask(), values[0] > 0)


def test_the_largest_of_several_maps() -> None:
    maps = np.random.default_rng(0).standard_normal((5, 8, 8))
    found = segmenter(maps)(blank())
    np.testing.assert_array_equal(found.indices, maps.argmax(axis=0))
    assert found.labels == ("background", "class 1", "class 2", "class 3", "class 4")
    equal = segmenter(np.zeros((3, 8, 8)))(blank())
    assert (equal.indices == 0).all()


def test_two_maps_as_the_course_has_them() -> None:
    maps = np.random.default_rng(1).standard_normal((2, 8, 8))
    np.testing.assert_array_equal(segmenter(maps)(blank()).mask(), maps[1] > maps[0])


def test_maps_are_resized_before_they_are_compared() -> None:
    values = np.zeros((1, 8, 8))
    values[0, :, 4:] = 1
    found = segmenter(values)(blank(40, 80))
    assert found.indices.shape == (40, 80)
    np.testing.assert_array_equal(found.mask(), np.arange(80)[None].repeat(40, 0) >= 40)
    half = segmenter(values[:, ::2, ::2])(blank(40, 80))  # a network whose maps are half as large as its input
    np.testing.assert_array_equal(half.mask(), found.mask())


def test_bands_are_no_part_of_the_picture() -> None:
    values = np.zeros((1, 8, 8))
    values[0, :2] = 1  # the band above
    values[0, 6:] = 1  # and below
    values[0, 3, 2] = 1
    found = segmenter(values, LETTERBOX)(blank(4, 8))
    np.testing.assert_array_equal(found.mask(), values[0, 2:6] > 0)


def test_what_a_crop_does_not_show_goes_on_as_it_ends() -> None:
    values = np.zeros((1, 8, 8))
    values[0, :, :3] = 1
    found = segmenter(values, Preprocess(8, 8, 8, mean=(0.0,) * 3, std=(1.0,) * 3))(blank(8, 20))
    np.testing.assert_array_equal(found.mask(), np.arange(20)[None].repeat(8, 0) < 9)


@pytest.mark.parametrize(
    ("maps", "options", "complaint"),
    [
        (np.zeros((8, 8)), {"labels": ("a", "b", "c")}, "there are 3 labels"),
        (np.zeros((84, 8400)), {}, r"\(1, 84, 8400\) is not a map of its input of 8×8 pixels"),
        (np.zeros((1, 0, 0)), {}, r"\(1, 1, 0, 0\) is not a map of its input"),
        (np.zeros((1, 2, 8, 8)), {}, "is not a map a class"),
        (np.zeros(()), {}, "is not a map a class"),
        (np.zeros((0, 8, 8)), {}, "is not a map a class"),
        (np.zeros((3, 8, 8)), {"labels": ("a", "b")}, "tells 3 classes apart, but there are 2 labels"),
    ],
    ids=str,
)
def test_what_are_no_maps(maps: Any, options: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        segmenter(maps, **options)(blank())


def test_pictures_larger_than_the_limit() -> None:
    with settings(max_image_pixels=99), pytest.raises(ResourceLimitError, match="a map of 10×10 pixels exceeds"):
        segmenter(np.zeros((1, 8, 8)))(blank(10, 10))


def test_impossible_options() -> None:
    with pytest.raises(InputError, match="threshold: expected a number between 0 and 1"):
        segmenter(np.zeros((1, 8, 8)), threshold=1.0)
    with pytest.raises(InputError, match="output: expected one of probabilities, logits"):
        segmenter(np.zeros((1, 8, 8)), output="logit")


# ------------------------------------------------------------------------------------------- results


def some() -> Segmentation:
    indices = np.zeros((4, 6), np.uint16)
    indices[1:3, 2:5] = 2
    indices[0, 0] = 1
    return Segmentation(indices, ("background", "cat", "dog", "cow"))


def test_plain_data() -> None:
    data = json.loads(json.dumps(some().to_dict()))
    assert data["classes"] == [
        {"index": 0, "label": "background", "share": 17 / 24, "box": [0, 0, 6, 4]},
        {"index": 2, "label": "dog", "share": 0.25, "box": [2, 1, 5, 3]},
        {"index": 1, "label": "cat", "share": 1 / 24, "box": [0, 0, 1, 1]},
    ]
    assert some().box(3) is None


def test_supervision() -> None:
    supervision = pytest.importorskip("supervision")
    made = some().to_supervision()
    assert isinstance(made, supervision.Detections)
    np.testing.assert_array_equal(made.xyxy, [[0, 0, 1, 1], [2, 1, 5, 3]])
    np.testing.assert_array_equal(made.mask[1], some().mask(2))
    assert made["class_name"].tolist() == ["cat", "dog"]
    assert len(Segmentation(np.zeros((4, 6), np.uint16), ("background", "cat")).to_supervision()) == 0


# ------------------------------------------------------------------------------------------- models

SIGMOID = """7767517
3 2
pnnx.Input  pnnx_input_0  0 1 0 #0=(1,3,?,?)f32
{operator} last 1 1 0 1 {parameters} #0=(1,3,?,?)f32 #1=(1,3,?,?)f32
pnnx.Output pnnx_output_0 1 0 1 #1=(1,3,?,?)f32
"""


@pytest.mark.parametrize(
    ("operator", "parameters", "probabilities"),
    [
        ("nn.Sigmoid", "", True),
        ("F.softmax", "dim=1", True),
        ("nn.ReLU", "", False),
        ("pnnx.Expression", "expr=add(@0,exp(@0))", False),
    ],
)
def test_the_last_operator_tells_whether_outputs_are_probabilities(
    tmp_path: Path, operator: str, parameters: str, probabilities: bool
) -> None:
    """Where the values themselves do not: all are between 0 and 1."""
    path = write_model(tmp_path, SIGMOID.format(operator=operator, parameters=parameters))
    job = load_segmenter(path, size=(8, 8))
    with settings(engine="reference"):
        found = job.finish([np.full((1, 1, 8, 8), 0.3, np.float32)], blank())
    assert found.mask().all() == (not probabilities)


def test_the_bundled_segmenter() -> None:
    found = bundled_segmenter()(bundled.PICTURES["segment"])
    assert found.labels == ("background", "pupil")
    assert found.share(1) == pytest.approx(0.062, abs=0.005)
    assert found.box(1) == pytest.approx((31, 18, 74, 59), abs=2)
