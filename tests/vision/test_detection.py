"""From a picture to what is in it: thresholds, suppression, classes, and boxes where they belong."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kuiperinfer.errors import InputError
from kuiperinfer.vision import Detection, Detections, Detector, Preprocess, class_indices
from kuiperinfer.vision.heads import ColumnsHead, FinalHead, RowsHead

PLAIN = Preprocess(64, 64, fit="letterbox", mean=(0.0,) * 3, std=(1.0,) * 3)
# middle, size, objectness, and the shares of two classes, for an input of 64 × 64
ROWS = np.float32(
    [
        [
            [32, 32, 16, 8, 0.9, 0.2, 0.9],  # 0.81, class 1
            [33, 32, 16, 8, 0.8, 0.1, 0.9],  # 0.72, class 1, on top of it
            [32, 32, 16, 8, 0.5, 0.9, 0.1],  # 0.45, class 0, likewise
            [10, 20, 30, 10, 0.6, 0.9, 0.1],  # 0.54, class 0, partly left of the picture
            [50, 50, 4, 4, 0.3, 0.5, 0.1],  # 0.15
        ]
    ]
)
PICTURE = np.zeros((32, 64, 3), np.uint8)  # 16 rows of a band above and below


def detector(**options: Any) -> Detector:
    return Detector(lambda x: ROWS, PLAIN, RowsHead(0, 2), **options)


def test_detections() -> None:
    found = detector(labels=("cat", "dog"))(PICTURE)
    assert [(one.label, one.index, round(one.score, 2)) for one in found] == [
        ("dog", 1, 0.81),
        ("cat", 0, 0.54),
        ("cat", 0, 0.45),
    ]
    assert found[0].box == pytest.approx((24, 12, 40, 20))
    assert found[1].box == pytest.approx((0, 0, 25, 9))
    assert len(found) == 3


@pytest.mark.parametrize(
    ("options", "scores"),
    [
        ({}, [0.81, 0.54, 0.45]),
        ({"class_agnostic": True}, [0.81, 0.54]),
        ({"iou": 1.0}, [0.81, 0.72, 0.54, 0.45]),
        ({"confidence": 0.5}, [0.81, 0.54]),
        ({"confidence": 0.1}, [0.81, 0.54, 0.45, 0.15]),
        ({"confidence": 0.95}, []),
        ({"max_detections": 1}, [0.81]),
        ({"only": frozenset({0})}, [0.54, 0.45]),
        ({"only": frozenset()}, []),
    ],
    ids=str,
)
def test_limits(options: Any, scores: list[float]) -> None:
    assert [one.score for one in detector(**options)(PICTURE)] == pytest.approx(scores)


def test_classes_without_names() -> None:
    assert [one.label for one in detector()(PICTURE)] == ["class 1", "class 0", "class 0"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"confidence": 1.5}, "confidence: expected a number from 0 to 1"),
        ({"iou": float("nan")}, "iou: expected a number from 0 to 1"),
        ({"max_detections": 0}, "max_detections: expected at least 1"),
        ({"labels": ("a",)}, "the model has 2 classes, but there are 1 labels"),
    ],
    ids=str,
)
def test_impossible_options(options: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        detector(**options)


def test_a_class_beyond_the_labels() -> None:
    rows = np.float32([[[1, 2, 30, 40, 0.9, 5]]])
    found = Detector(lambda x: rows, PLAIN, FinalHead(0))
    assert found(PICTURE)[0].label == "class 5"
    with pytest.raises(InputError, match="found class 5, but there are 2 labels"):
        replace(found, labels=("a", "b"))(PICTURE)


def test_any_number_of_candidates() -> None:
    """A confidence of 0 lets all boxes pass; the best ones are looked at."""
    random = np.random.default_rng(0)
    columns = random.uniform(5, 60, (1, 6, 40_000)).astype(np.float32)
    columns[0, 4:] = random.random((2, 40_000))
    found = Detector(lambda x: columns, PLAIN, ColumnsHead(0, 2), confidence=0.0, iou=0.9)(PICTURE)
    assert len(found) == 300
    assert found.scores[0] == columns[0, 4:].max()
    assert (np.diff(found.scores) <= 0).all()


def test_classes_by_name_and_index() -> None:
    assert class_indices(["dog", "2"], ("cat", "dog", "cow", "dog")) == {1, 2, 3}
    assert class_indices(["7"], ()) == {7}
    for name, labels in (("cta", ("cat", "dog")), ("2", ("cat", "dog")), ("dog", ()), ("-1", ("cat",))):
        with pytest.raises(InputError, match=f"there is no class '{name}'"):
            class_indices([name], labels)


# ------------------------------------------------------------------------------------------- results


def some() -> Detections:
    points = np.arange(20).reshape(2, 5, 2)
    return Detections.of(
        np.array([[1, 2, 3, 4], [5, 6, 7, 8.5]]), np.array([0.75, 0.5]), np.array([1, 0]), ("cat", "dog"), points
    )


def test_detections_are_a_sequence() -> None:
    found = some()
    assert found[-1] == Detection((5, 6, 7, 8.5), 0.5, 0, "cat", ((10, 11), (12, 13), (14, 15), (16, 17), (18, 19)))
    assert [one.label for one in found] == ["dog", "cat"]
    assert [one.label for one in reversed(found)] == ["cat", "dog"]
    assert [one.score for one in found[:1]] == [0.75]
    assert not Detections.of(np.zeros((0, 4)), np.zeros(0), np.zeros(0, int))
    with pytest.raises(IndexError):
        found[2]
    with pytest.raises(ValueError, match="read-only"):
        found.boxes[0] = 0


def test_plain_data() -> None:
    data = json.loads(json.dumps(some().to_dict()))
    assert data["detections"][0] == {
        "index": 1,
        "label": "dog",
        "score": 0.75,
        "box": [1, 2, 3, 4],
        "landmarks": [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]],
    }
    assert "landmarks" not in detector()(PICTURE).to_dict()["detections"][0]


def test_supervision() -> None:
    supervision = pytest.importorskip("supervision")
    made = some().to_supervision()
    assert isinstance(made, supervision.Detections)
    np.testing.assert_array_equal(made.xyxy, [[1, 2, 3, 4], [5, 6, 7, 8.5]])
    np.testing.assert_array_equal(made.confidence, [0.75, 0.5])
    assert made["class_name"].tolist() == ["dog", "cat"]
    assert len(detector(confidence=1.0)(PICTURE).to_supervision()) == 0


def test_without_supervision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "supervision", None)
    with pytest.raises(InputError, match="pip install supervision"):
        some().to_supervision()
