"""Non-maximum suppression, against what torchvision keeps."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer.errors import InputError
from kuiperinfer.vision.nms import intersection_over_smaller, intersection_over_union, suppress

ROOT = Path(__file__).resolve().parent.parent.parent


def script(name: str) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded() -> tuple[ModuleType, dict[str, list[Any]]]:
    recording = script("record_nms")
    with np.load(Path(__file__).parent / "data" / "nms.npz") as archive:
        assert str(archive["digest"]) == recording.digest(), "the random sets are not those that were recorded"
        kept = {
            name: np.split(archive[name], np.cumsum(archive[f"{name}_counts"])[:-1])
            for name in ("kept", "kept_by_class")
        }
    return recording, kept


def test_torchvision_keeps_the_same_boxes() -> None:
    recording, kept = recorded()
    for number in range(recording.SETS):
        boxes, scores, _, threshold = recording.random_set(number)
        np.testing.assert_array_equal(suppress(boxes, scores, threshold), kept["kept"][number], f"set {number}")


def test_torchvision_keeps_the_same_boxes_of_each_class() -> None:
    recording, kept = recorded()
    for number in range(recording.SETS):
        boxes, scores, classes, threshold = recording.random_set(number)
        found, expected = suppress(boxes, scores, threshold, classes=classes), kept["kept_by_class"][number]
        assert set(found) == set(expected), f"set {number}"
        # torchvision leaves open how boxes of equal scores stand
        np.testing.assert_array_equal(scores[found], scores[expected], f"set {number}")


def test_the_best_of_identical_boxes_stays() -> None:
    boxes = np.tile(np.float32([10, 10, 50, 50]), (4, 1))
    np.testing.assert_array_equal(suppress(boxes, np.float32([0.3, 0.9, 0.9, 0.1]), 0.5), [1])
    np.testing.assert_array_equal(
        suppress(boxes, np.float32([0.3, 0.9, 0.9, 0.1]), 0.5, classes=np.array([0, 1, 1, 2])), [1, 0, 3]
    )


def test_nothing_of_nothing() -> None:
    nothing = suppress(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), 0.5)
    assert nothing.shape == (0,)
    assert nothing.dtype.kind == "i"


def test_nan_scores_come_first_as_in_torchvision() -> None:
    boxes = np.float32([[0, 0, 10, 10], [0, 0, 10, 11], [20, 20, 30, 30]])
    np.testing.assert_array_equal(suppress(boxes, np.float32([0.9, np.nan, 0.5]), 0.5), [1, 2])


def test_overlaps() -> None:
    boxes = np.float32([[0, 0, 10, 10], [5, 0, 15, 10], [2, 2, 4, 4], [20, 20, 30, 30]])
    assert intersection_over_union(boxes[:1], boxes) == pytest.approx(np.float32([[1, 1 / 3, 0.04, 0]]))
    assert intersection_over_smaller(boxes[:1], boxes) == pytest.approx(np.float32([[1, 0.5, 1, 0]]))


def test_an_overlap_of_exactly_the_threshold_is_no_reason() -> None:
    boxes = np.float32([[0, 0, 2, 2], [0, 0, 2, 1]])
    np.testing.assert_array_equal(suppress(boxes, np.float32([0.9, 0.8]), 0.5), [0, 1])
    np.testing.assert_array_equal(suppress(boxes, np.float32([0.9, 0.8]), 0.4999), [0])


@pytest.mark.parametrize(
    ("boxes", "scores", "options"),
    [((3, 5), (3,), {}), ((3, 4), (2,), {}), ((4,), (1,), {}), ((3, 4), (3,), {"classes": np.zeros(2, int)})],
    ids=str,
)
def test_other_shapes(boxes: Any, scores: Any, options: Any) -> None:
    with pytest.raises(InputError, match="expected"):
        suppress(np.zeros(boxes, np.float32), np.zeros(scores, np.float32), 0.5, **options)


def one_by_one(boxes: Any, scores: Any, threshold: float) -> list[int]:
    """The definition: from the best to the worst, a box stays if it is not too close to one that stays."""
    kept: list[int] = []
    for index in sorted(range(len(boxes)), key=lambda i: -scores[i]):
        overlaps = intersection_over_union(boxes[[index]], boxes[kept])[0] if kept else []
        if not any(overlap > threshold for overlap in overlaps):
            kept.append(index)
    return kept


@given(st.integers(0, 2**32 - 1), st.integers(0, 900), st.floats(0, 1), st.integers(1, 50))
def test_the_definition(seed: int, count: int, threshold: float, limit: int) -> None:
    """Over more boxes than are held against one another at once."""
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 100, (count, 2))
    boxes = np.concatenate([corners, corners + random.uniform(0, 80, (count, 2))], axis=1).astype(np.float32)
    scores = random.integers(0, 50, count).astype(np.float32)
    expected = one_by_one(boxes, scores, threshold)
    np.testing.assert_array_equal(suppress(boxes, scores, threshold), expected)
    np.testing.assert_array_equal(suppress(boxes, scores, threshold, limit=limit), expected[:limit])
