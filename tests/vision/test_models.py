"""Every model beside the checkout does its job on its picture, by both engines, and gives the answer that its notes have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kuiperinfer
from kuiperinfer.dtypes import Array
from kuiperinfer.vision import (
    Detections,
    bundled,
    load_classifier,
    load_detector,
    load_mtcnn,
    load_segmenter,
    load_upscaler,
    read_picture,
)

from .shared_models import FOLDER, model, needs_models

pytestmark = needs_models


@pytest.fixture(params=["compiled", "reference"], autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    with kuiperinfer.settings(engine=request.param):
        yield request.param


def arrays(name: str, kind: str) -> dict[str, Array]:
    with np.load(FOLDER / name / f"{kind}.npz") as archive:
        return dict(archive)


def only_input(name: str) -> Array:
    return arrays(name, "inputs")["in0"]


def check(found: Detections, expected: list[tuple[str, float, tuple[float, ...]]]) -> None:
    """Classes, scores within 0.01, and boxes within a pixel."""
    assert [one.label for one in found] == [label for label, _, _ in expected]
    for one, (_, score, box) in zip(found, expected, strict=True):
        assert one.score == pytest.approx(score, abs=0.01)
        assert one.box == pytest.approx(box, abs=1)


def test_mobilenet_v2() -> None:
    classify = load_classifier(model("mobilenet_v2"))
    found = classify(FOLDER / "mobilenet_v2" / "chelsea.png", top=3)
    assert [one.label for one in found] == ["Egyptian cat", "tiger cat", "tabby"]
    assert [one.probability for one in found] == pytest.approx([0.714, 0.146, 0.132], abs=0.01)


def test_mobilenet_v2_on_twenty_pictures_with_labels() -> None:
    data = arrays("mobilenet_v2", "eval20")
    classify = load_classifier(model("mobilenet_v2"), resize=224)  # the pictures are cut already
    found = [[one.index for one in result] for result in classify.many(list(data["images"]), batch=1)]
    assert sum(top[0] == label for top, label in zip(found, data["labels"], strict=True)) == 18
    assert sum(label in top for top, label in zip(found, data["labels"], strict=True)) == 20


def test_cifar10_resnet20() -> None:
    names = "airplane automobile bird cat deer dog frog horse ship truck".split()
    classify = load_classifier(model("cifar10_resnet20"), labels=tuple(names))
    picture = read_picture(FOLDER / "cifar10_resnet20" / "cifar10_00_3.png")
    np.testing.assert_allclose(classify.prepare(picture), only_input("cifar10_resnet20"), atol=1e-5)
    assert classify(picture, top=1)[0].label == "cat"
    data = arrays("cifar10_resnet20", "eval20")
    found = [result[0].index for result in classify.many(list(data["images"]), batch=4)]
    np.testing.assert_array_equal(found, data["labels"])


def test_ppocr_cls() -> None:
    half = (0.5,) * 3
    options: dict[str, Any] = {"fit": "stretch", "filter": "bicubic", "order": "bgr", "mean": half, "std": half}
    classify = load_classifier(model("ppocr_cls"), labels=("0", "180"), **options)
    line = read_picture(FOLDER / "ppocr_cls" / "line.png")
    line = np.ascontiguousarray(line[:, : round(line.shape[0] * 192 / 48)])  # as much as fits, in its proportions
    np.testing.assert_allclose(classify.prepare(line), only_input("ppocr_cls"), atol=1e-6)
    upright = classify(line, top=1)[0]
    assert upright.label == "0"
    assert upright.probability == pytest.approx(0.993, abs=0.01)
    turned = classify(np.ascontiguousarray(line[::-1, ::-1]), top=1)[0]
    assert turned.label == "180"
    assert turned.probability == pytest.approx(1, abs=0.01)


BUS = [
    ("person", 0.896, (671.0, 384.6, 810.0, 880.0)),
    ("person", 0.883, (221.5, 407.2, 343.7, 856.2)),
    ("person", 0.873, (50.2, 397.7, 244.5, 905.4)),
    ("bus", 0.836, (30.9, 231.2, 800.7, 777.7)),
    ("person", 0.43, (0.5, 549.1, 59.2, 868.3)),
]
ZIDANE = [
    ("person", 0.82, (748.6, 41.6, 1144.3, 710.8)),
    ("person", 0.82, (112.3, 197.2, 1112.8, 711.1)),
    ("tie", 0.30, (436.1, 437.4, 523.0, 714.5)),
]


def test_yolov8n_coco() -> None:
    detect = load_detector(model("yolov8n_coco"))
    bus = read_picture(FOLDER / "yolov8n_coco" / "bus.jpg")
    np.testing.assert_allclose(detect.prepare(bus), only_input("yolov8n_coco"), atol=1e-6)
    check(detect(bus), BUS)
    check(detect(FOLDER / "mtcnn_pnet" / "zidane.jpg"), ZIDANE)
    (cat,) = detect(FOLDER / "mobilenet_v2" / "chelsea.png")
    assert (cat.label, cat.score) == ("cat", pytest.approx(0.884, abs=0.01))


def test_tiny_face_detector() -> None:
    detect = load_detector(model("tiny_face_detector"))  # known by its build
    zidane = read_picture(FOLDER / "tiny_face_detector" / "zidane.jpg")
    np.testing.assert_allclose(detect.prepare(zidane), only_input("tiny_face_detector"), atol=1e-6)
    check(detect(zidane), [("face", 0.881, (876, 110, 1088, 301))])
    (face,) = detect(bundled.PICTURES["detect"])
    assert face.score == pytest.approx(0.973, abs=0.01)


# What facenet-pytorch 2.6.0 finds in these pictures, with all of its defaults.
FACES = {
    "yolov8n_coco/bus.jpg": [
        ("face", 1.0, (118.4, 423.5, 152.5, 467.8)),
        ("face", 0.9992, (272.3, 428.4, 304.9, 470.2)),
    ],
    "mtcnn_pnet/zidane.jpg": [
        ("face", 1.0, (909.2, 97.0, 1047.7, 285.1)),
        ("face", 0.997, (559.2, 262.3, 670.0, 430.4)),
        ("face", 0.7759, (783.2, 262.5, 849.0, 336.1)),
        ("face", 0.7649, (271.1, 0.0, 386.2, 143.2)),
    ],
    "esrgan_slim_x4/lr_astronaut.png": [("face", 0.999, (45.0, 16.2, 66.7, 44.1))],
}
EYES_NOSE_MOUTH = [(964.9, 165.3), (1025.7, 169.9), (1001.9, 202.4), (960.1, 233.6), (1016.3, 236.5)]


def test_mtcnn() -> None:
    find = load_mtcnn(model("mtcnn_onet"), model("mtcnn_pnet"), model("mtcnn_rnet"))
    for picture, expected in FACES.items():
        found = find(FOLDER / picture)
        check(found, expected)
        assert found.landmarks.shape == (len(expected), 5, 2)
        if "zidane" in picture:
            np.testing.assert_allclose(found[0].landmarks, EYES_NOSE_MOUTH, atol=1)


def test_unet_pupil() -> None:
    segment = load_segmenter(model("unet_pupil"))
    assert segment.labels == ("background", "pupil")
    eye = read_picture(FOLDER / "unet_pupil" / "cat_eye.png")
    np.testing.assert_allclose(segment.prepare(eye), only_input("unet_pupil"), atol=1e-6)
    expected = arrays("unet_pupil", "outputs")["out0"][0, 0] > 0.5
    # a picture of the size of the network's input, whose map is the picture's
    (output,) = segment.infer([only_input("unet_pupil")])
    found = segment.finish(output, np.zeros((148, 148, 3), np.uint8)).mask()
    assert (found & expected).sum() / (found | expected).sum() >= 0.99
    assert segment(eye).share() == pytest.approx(expected.mean(), abs=0.002)


def test_esrgan_slim_x4() -> None:
    upscale = load_upscaler(model("esrgan_slim_x4"))
    small = read_picture(FOLDER / "esrgan_slim_x4" / "lr_astronaut.png")
    np.testing.assert_allclose(upscale.preprocess(small), only_input("esrgan_slim_x4"), atol=1e-6)
    expected = arrays("esrgan_slim_x4", "outputs")["out0"][0].transpose(1, 2, 0).clip(0, 1) * 255
    found = upscale(small)
    assert found.shape == (512, 512, 3)
    assert np.abs(found - expected).max() <= 0.51
