"""The outputs of detectors: which kind they are of, and what they mean, cell by cell as the papers have it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kuiperinfer.dtypes import Array
from kuiperinfer.errors import InputError
from kuiperinfer.vision.heads import (
    YOLOV2_ANCHORS,
    YOLOV3_TINY_ANCHORS,
    YOLOV5_ANCHORS,
    Candidates,
    ColumnsHead,
    FinalHead,
    GridHead,
    RowsHead,
    find_head,
)
from tests.layers.test_yolo import Head

HEIGHT, WIDTH = 64, 96
Row = tuple[float, float, float, float, float, int]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def rows_of(found: Candidates) -> list[Row]:
    """Sorted by score."""
    rows = [(*box, score, index) for box, score, index in zip(*(part.tolist() for part in found), strict=True)]
    return sorted(rows, key=lambda row: row[4])


def check(found: Candidates, expected: list[Row]) -> None:
    assert expected
    np.testing.assert_allclose(rows_of(found), sorted(expected, key=lambda row: row[4]), rtol=2e-4, atol=2e-4)
    assert found.boxes.shape[1] == 4
    assert found.classes.dtype.kind == "i"


def corners(x: float, y: float, w: float, h: float) -> tuple[float, float, float, float]:
    return x - w / 2, y - h / 2, x + w / 2, y + h / 2


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# ------------------------------------------------------------------------------------------- tables


def test_yolov5_rows() -> None:
    rows = np.abs(random(1, 500, 9)) % 1
    rows[0, :, :4] *= 90
    expected = []
    for x, y, w, h, objectness, *classes in rows[0].tolist():
        score = objectness * max(classes)
        if score >= 0.3:
            expected.append((*corners(x, y, w, h), score, classes.index(max(classes))))
    check(RowsHead(0, 4).read([rows], HEIGHT, WIDTH, 0.3), expected)


def test_numbers_for_masks_are_no_classes() -> None:
    rows = np.float32([[[10, 20, 4, 6, 0.9, 0.5, 0.8, 7, 9]]])
    check(RowsHead(0, 2).read([rows], HEIGHT, WIDTH, 0.25), [(8, 17, 12, 23, 0.72, 1)])
    columns = np.float32([[[10], [20], [4], [6], [0.5], [0.8], [7], [9]]])
    check(ColumnsHead(0, 2).read([columns], HEIGHT, WIDTH, 0.25), [(8, 17, 12, 23, 0.8, 1)])


def test_yolov5_rows_without_classes() -> None:
    rows = np.float32([[[10, 20, 4, 6, 0.9], [50, 50, 10, 10, 0.1]]])
    check(RowsHead(0, 0).read([rows], HEIGHT, WIDTH, 0.25), [(8, 17, 12, 23, 0.9, 0)])


@pytest.mark.parametrize("turned", [False, True])
def test_yolov8_columns(turned: bool) -> None:
    columns = np.abs(random(1, 7, 300)) % 1
    columns[0, :4] *= 90
    expected = []
    for x, y, w, h, *classes in columns[0].T.tolist():
        if max(classes) >= 0.8:
            expected.append((*corners(x, y, w, h), max(classes), classes.index(max(classes))))
    given = columns.transpose(0, 2, 1) if turned else columns
    check(ColumnsHead(0, 3, turned).read([given], HEIGHT, WIDTH, 0.8), expected)


def test_final_rows() -> None:
    rows = np.float32([[[1, 2, 3, 4, 0.9, 7], [5, 6, 7, 8, 0.2, 1], [5, 6, 7, 8, 0.5, np.nan]]])
    check(FinalHead(0).read([rows], HEIGHT, WIDTH, 0.25), [(1, 2, 3, 4, 0.9, 7)])


# ------------------------------------------------------------------------------------------- maps


def by_cells(
    maps: list[Array], anchors: Any, box: Callable[..., tuple[float, ...]], shares: Callable[[list[float]], list[float]]
) -> list[Row]:
    """Every anchor of every cell of every scale, one after the other; scores from 0.25 on."""
    found: list[Row] = []
    for cells, of_scale in zip(maps, anchors, strict=True):
        _, channels, height, width = cells.shape
        per_anchor = channels // len(of_scale)
        for a, anchor in enumerate(of_scale):
            for row in range(height):
                for column in range(width):
                    x, y, w, h, objectness, *classes = cells[
                        0, a * per_anchor : (a + 1) * per_anchor, row, column
                    ].tolist()
                    score = sigmoid(objectness) * (max(shares(classes)) if classes else 1)
                    if score >= 0.25:
                        stride = (WIDTH / width, HEIGHT / height)
                        middle_and_size = box(x, y, w, h, column, row, anchor, stride)
                        index = classes.index(max(classes)) if classes else 0
                        found.append((*corners(*middle_and_size), score, index))
    return found


def v5(x: Any, y: Any, w: Any, h: Any, column: Any, row: Any, anchor: Any, stride: Any) -> tuple[float, ...]:
    return (
        (2 * sigmoid(x) - 0.5 + column) * stride[0],
        (2 * sigmoid(y) - 0.5 + row) * stride[1],
        (2 * sigmoid(w)) ** 2 * anchor[0],
        (2 * sigmoid(h)) ** 2 * anchor[1],
    )


def v3(x: Any, y: Any, w: Any, h: Any, column: Any, row: Any, anchor: Any, stride: Any) -> tuple[float, ...]:
    return (
        (sigmoid(x) + column) * stride[0],
        (sigmoid(y) + row) * stride[1],
        math.exp(w) * anchor[0],
        math.exp(h) * anchor[1],
    )


def v2(x: Any, y: Any, w: Any, h: Any, column: Any, row: Any, anchor: Any, stride: Any) -> tuple[float, ...]:
    x, y, w, h = v3(x, y, w, h, column, row, anchor, stride)
    return x, y, w * stride[0], h * stride[1]


def sigmoids(values: list[float]) -> list[float]:
    return [sigmoid(value) for value in values]


def softmax(values: list[float]) -> list[float]:
    powers = [math.exp(value) for value in values]
    return [power / sum(powers) for power in powers]


def maps_of(strides: list[int], channels: int) -> list[Array]:
    return [random(1, channels, HEIGHT // s, WIDTH // s, seed=s) for s in strides]


@pytest.mark.parametrize("five", [False, True])
def test_yolov5_maps(five: bool) -> None:
    maps = maps_of([8, 16, 32], 3 * 7)
    expected = by_cells(maps, YOLOV5_ANCHORS, v5, sigmoids)
    given = [m.reshape(1, 3, 7, *m.shape[2:]).transpose(0, 1, 3, 4, 2) for m in maps] if five else maps
    shuffled = [given[2], given[0], given[1]]
    head = find_head([m.shape for m in shuffled], HEIGHT, WIDTH)
    assert head == GridHead((1, 2, 0), YOLOV5_ANCHORS, 2, doubled=True)
    check(head.read(shuffled, HEIGHT, WIDTH, 0.25), expected)


def test_maps_and_rows_of_the_same_network_say_the_same() -> None:
    """As PyTorch's own head decodes them."""
    head = Head(HEIGHT, WIDTH)
    outputs = [output.numpy() for output in head(*head.features(batch=1))]
    shapes = [output.shape for output in outputs]
    rows, maps = find_head(shapes, HEIGHT, WIDTH), find_head(shapes[:3], HEIGHT, WIDTH)
    assert (rows, maps.classes) == (RowsHead(3, 4), 4)
    check(maps.read(outputs, HEIGHT, WIDTH, 0.2), rows_of(rows.read(outputs, HEIGHT, WIDTH, 0.2)))


def test_yolov3_tiny_maps() -> None:
    maps = maps_of([32, 16], 3 * 6)
    head = find_head([m.shape for m in maps], HEIGHT, WIDTH)
    assert head == GridHead((1, 0), YOLOV3_TINY_ANCHORS, 1)
    check(head.read(maps, HEIGHT, WIDTH, 0.25), by_cells(maps[::-1], YOLOV3_TINY_ANCHORS, v3, sigmoids))


@pytest.mark.parametrize("classes", [0, 1, 4])
def test_yolov2_map(classes: int) -> None:
    maps = maps_of([32], 5 * (5 + classes))
    head = find_head([m.shape for m in maps], HEIGHT, WIDTH)
    assert head == GridHead((0,), YOLOV2_ANCHORS, classes, in_cells=True, exclusive=True)
    check(head.read(maps, HEIGHT, WIDTH, 0.25), by_cells(maps, YOLOV2_ANCHORS, v2, softmax))


def test_yolov3_with_three_scales_by_its_name() -> None:
    maps = maps_of([8, 16, 32], 3 * 6)
    head = find_head([m.shape for m in maps], HEIGHT, WIDTH, kind="yolov3", anchors=YOLOV5_ANCHORS)
    check(head.read(maps, HEIGHT, WIDTH, 0.25), by_cells(maps, YOLOV5_ANCHORS, v3, sigmoids))


@pytest.mark.parametrize("confidence", [0.0, 1.0])
def test_the_ends_of_confidence(confidence: float) -> None:
    maps = maps_of([32], 5 * 5)
    maps[0][0, 4] = 90  # of which the sigmoid is 1 in float32
    found = GridHead((0,), YOLOV2_ANCHORS, 0).read(maps, HEIGHT, WIDTH, confidence)
    assert len(found.scores) == (30 if confidence == 0 else 6)


def test_numbers_that_overflow_are_no_boxes() -> None:
    maps = maps_of([32], 5 * 5)
    maps[0][0, 2:4] = 1e30
    found = GridHead((0,), YOLOV2_ANCHORS, 0).read(maps, HEIGHT, WIDTH, 0.0)
    assert len(found.scores) == 24
    for bad in (np.nan, np.inf):
        rows = np.float32([[[10, bad, 4, 6, 0.9, 0.9], [10, 10, 4, 6, bad * 0, 0.9], [10, 10, 4, 6, 0.9, 0.9]]])
        assert len(RowsHead(0, 1).read([rows], HEIGHT, WIDTH, 0.25).scores) == 1
        columns = rows.transpose(0, 2, 1)[:, [0, 1, 2, 3, 4]]
        assert len(ColumnsHead(0, 1).read([columns], HEIGHT, WIDTH, 0.25).scores) == 1


# ------------------------------------------------------------------------------------------- which it is


@pytest.mark.parametrize(
    ("shapes", "options", "expected"),
    [
        ([(1, 25200, 85)], {}, RowsHead(0, 80)),
        ([(1, 25200, 6)], {}, RowsHead(0, 1)),
        ([(1, 25200, 5)], {}, RowsHead(0, 0)),
        ([(1, 3, 80, 80, 85), (1, 3, 40, 40, 85), (1, 3, 20, 20, 85), (1, 25200, 85)], {}, RowsHead(3, 80)),
        ([(1, 84, 8400)], {}, ColumnsHead(0, 80)),
        ([(1, 5, 8400)], {}, ColumnsHead(0, 1)),
        ([(1, 8400, 84)], {}, ColumnsHead(0, 80, rows=True)),
        ([(1, 116, 8400), (1, 32, 160, 160)], {}, ColumnsHead(0, 80)),
        ([(1, 84, 8400), (1, 144, 80, 80), (1, 144, 40, 40), (1, 144, 20, 20)], {}, ColumnsHead(0, 80)),
        ([(1, 25200, 117), (1, 32, 160, 160)], {}, RowsHead(0, 80)),
        ([(1, 8400, 85)], {"classes": 80}, RowsHead(0, 80)),
        ([(1, 8400, 85)], {"kind": "yolov5"}, RowsHead(0, 80)),
        ([(1, 12000, 84)], {"kind": "yolov8"}, ColumnsHead(0, 80, rows=True)),
        ([(1, 300, 6)], {}, FinalHead(0)),
        (
            [(1, 255, 80, 80), (1, 255, 40, 40), (1, 255, 20, 20)],
            {},
            GridHead((0, 1, 2), YOLOV5_ANCHORS, 80, doubled=True),
        ),
        ([(1, 18, 20, 20), (1, 18, 40, 40)], {}, GridHead((1, 0), YOLOV3_TINY_ANCHORS, 1)),
        ([(1, 125, 20, 20)], {}, GridHead((0,), YOLOV2_ANCHORS, 20, in_cells=True, exclusive=True)),
        (
            [(1, 14, 20, 20)],
            {"anchors": (((1, 1), (2, 2)),)},
            GridHead((0,), (((1, 1), (2, 2)),), 2, in_cells=True, exclusive=True),
        ),
    ],
    ids=str,
)
def test_recognised_by_shapes(shapes: Any, options: Any, expected: Any) -> None:
    assert find_head(shapes, 640, 640, **options) == expected


def test_a_small_input_of_as_many_columns_as_cells() -> None:
    assert find_head([(1, 84, 84)], 64, 64) == ColumnsHead(0, 80)


@pytest.mark.parametrize(
    ("shapes", "options", "complaint"),
    [
        ([(1, 1000)], {}, "outputs .1, 1000. for an input of 640×640 are not those of a detector"),
        ([(1, 84, 8400)], {"classes": 3}, "with 3 labels are not those"),
        ([(1, 84, 8400)], {"kind": "yolov2"}, r"\(yolov2\)"),
        ([(1, 84, 8400)], {"kind": "yolo8"}, "no detector of the kind 'yolo8'.*did you mean 'yolov8'"),
        ([(1, 26, 13, 13)], {}, "not those of a detector"),
        ([(1, 144, 80, 80), (1, 144, 40, 40), (1, 144, 20, 20)], {"classes": 80}, "not those of a detector"),
        ([(1, 25, 13, 13)], {"anchors": (((1, 1),), ((2, 2),))}, "anchors for 2 scales"),
        ([(1, 2, 80, 80, 85), (1, 2, 40, 40, 85), (1, 2, 20, 20, 85)], {}, "not those of a detector"),
        ([], {}, "not those of a detector"),
    ],
    ids=str,
)
def test_what_is_no_detector(shapes: Any, options: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        find_head(shapes, 640, 640, **options)
