"""Results on pictures: everything stays within, names stay readable, originals stay as they are."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuiperinfer.vision import Classification, Detections, Segmentation
from kuiperinfer.vision.drawing import (
    _on,
    _Pen,
    _places,
    _touch,
    colour_of,
    draw,
    draw_detections,
    draw_segmentation,
)


def grey(height: int = 200, width: int = 300) -> Any:
    return np.full((height, width, 3), 128, np.uint8)


def detections(*boxes: tuple[float, float, float, float], labels: tuple[str, ...] = ("cat",)) -> Detections:
    count = len(boxes)
    return Detections.of(
        np.array(boxes).reshape(-1, 4), np.linspace(0.9, 0.3, count), np.zeros(count, np.int64), labels
    )


def test_a_box_is_where_it_should_be() -> None:
    before = grey()
    after = draw_detections(before, detections((50, 80, 150, 160)))
    assert (before == 128).all()
    colour = colour_of(0)
    for x, y in ((50, 120), (149, 120), (100, 159), (100, 80)):
        assert tuple(after[y, x]) == colour
    assert (after[90:150, 60:140] == 128).all()  # nothing is drawn within
    changed = np.argwhere((after != 128).any(axis=2))
    assert changed[:, 1].min() >= 49
    assert changed[:, 0].max() <= 160


def test_landmarks_are_points_within_their_box() -> None:
    points = np.array([[[80, 100], [120, 100], [100, 120], [85, 140], [115, 140]]], np.float32)
    box = np.array([[50.0, 80.0, 150.0, 160.0]])
    found = Detections.of(box, np.array([0.9]), np.array([0]), ("face",), points)
    after = draw_detections(grey(), found)
    for x, y in points[0].astype(int):
        assert tuple(after[y, x]) == colour_of(0)
    assert (after[105:115, 85:115] == 128).all()


def test_names_do_not_cover_one_another_or_leave_the_picture() -> None:
    boxes = [
        (50.0, 60.0, 150.0, 160.0),
        (52.0, 62.0, 150.0, 160.0),
        (0.0, 0.0, 300.0, 200.0),
        (250.0, 5.0, 300.0, 60.0),
    ]
    after = draw_detections(grey(), detections(*boxes, labels=("a rather long name of a thing",)))
    text = (after == _on(colour_of(0))).all(axis=2)
    assert text.any(axis=0)[:2].sum() == 0  # no letter at the left and right edges
    assert text.any(axis=0)[-2:].sum() == 0
    assert text[0].sum() == 0


@given(
    st.tuples(st.integers(-50, 400), st.integers(-50, 400), st.integers(-50, 400), st.integers(-50, 400)),
    st.integers(1, 500),
    st.integers(1, 80),
    st.integers(1, 400),
    st.integers(1, 400),
)
def test_places_are_within_the_picture(
    box: tuple[int, int, int, int], width: int, height: int, picture_width: int, picture_height: int
) -> None:
    from PIL import Image

    image = Image.new("L", (picture_width, picture_height))
    left, top = min(box[0], picture_width - 1), min(box[1], picture_height - 1)
    for x0, y0, x1, y1 in _places((max(0, left), max(0, top), box[2], box[3]), width, height, image):
        assert x0 >= 0
        assert y0 >= 0
        assert (x1 <= picture_width) or width > picture_width
        assert (y1 <= picture_height) or height > picture_height


def test_touching() -> None:
    assert _touch((0, 0, 10, 10), (9, 9, 20, 20))
    assert not _touch((0, 0, 10, 10), (10, 0, 20, 10))


@settings(max_examples=25)
@given(
    st.integers(1, 120),
    st.integers(1, 120),
    st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * 4), max_size=4),
    st.text(max_size=30),
)
def test_any_boxes_on_any_picture(
    height: int, width: int, boxes: list[tuple[float, float, float, float]], name: str
) -> None:
    after = draw_detections(grey(height, width), detections(*boxes, labels=(name,)))
    assert after.shape == (height, width, 3)
    assert after.dtype == np.uint8


def test_sizes_follow_the_picture() -> None:
    from PIL import Image

    pens = [_Pen.of(Image.new("L", (side, side))) for side in (50, 400, 1600, 6400)]
    assert [pen.letters for pen in pens] == [10, 11, 44, 178]
    assert [pen.line for pen in pens] == [1, 1, 5, 21]


def test_colours_are_apart_and_letters_readable() -> None:
    def luminance(colour: Any) -> float:
        linear = [(c / 255 / 12.92) if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    colours = [colour_of(index) for index in range(100)]
    assert len(set(colours)) == 100
    for one, other in pairwise(colours):
        assert sum(abs(a - b) for a, b in zip(one, other, strict=True)) > 150
    for colour in colours:
        bright, dark = sorted((luminance(colour), luminance(_on(colour))), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) > 3  # as web accessibility guidelines ask of large letters


def test_masks() -> None:
    indices = np.zeros((200, 300), np.uint16)
    indices[100:150, 200:280] = 2
    after = draw_segmentation(grey(), Segmentation(indices, ("background", "cat", "dog")), opacity=0.5)
    colour = np.array(colour_of(2), float)
    np.testing.assert_allclose(after[125, 240], (128 + colour) / 2, atol=1)
    np.testing.assert_array_equal(after[100, 240], colour)
    assert (after[160:, 200:] == 128).all()
    assert (after[:12, :40] != 128).any()  # the legend
    assert (draw_segmentation(grey(), Segmentation(np.zeros((200, 300), np.uint16), ("background",))) == 128).all()


def test_results_of_every_job() -> None:
    picture = grey()
    assert (draw(picture, (Classification(0, "cat", 0.5),)) != 128).any()
    assert (draw(picture, ()) == 128).all()
    assert (draw(picture, detections((1, 2, 30, 40))) != 128).any()
    assert draw(picture, Segmentation(np.ones((200, 300), np.uint16), ("a", "b"))).shape == picture.shape
    larger = grey(400, 600)
    assert draw(picture, larger) is larger


@pytest.mark.parametrize("size", [(1, 1), (3, 200), (200, 3)], ids=str)
def test_legends_on_tiny_pictures(size: tuple[int, int]) -> None:
    assert draw(grey(*size), (Classification(0, "a name that is too long", 0.5),)).shape == (*size, 3)
