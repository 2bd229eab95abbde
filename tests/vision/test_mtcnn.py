"""MTCNN's parts; what it finds in photographs is in test_models.py."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer import load
from kuiperinfer.errors import InputError
from kuiperinfer.vision import FaceCascade, bundled
from kuiperinfer.vision.mtcnn import _pack, _scales, _Sums, cascade_of


def noise(height: int, width: int) -> Any:
    return np.random.default_rng(height * 1000 + width).integers(0, 256, (height, width, 3), dtype=np.uint8)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 60), st.integers(1, 60), st.data())
def test_parts_are_resized_like_adaptive_pooling(height: int, width: int, rows: int, columns: int, data: Any) -> None:
    picture = noise(height, width)
    left, top = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    right, bottom = data.draw(st.integers(left + 1, width)), data.draw(st.integers(top + 1, height))
    found = _Sums(picture).resized((left, top, right, bottom), columns, rows)
    part = torch.from_numpy(picture[top:bottom, left:right].astype(np.float32)).permute(2, 0, 1)
    expected = (torch.nn.functional.adaptive_avg_pool2d(part, (rows, columns)) - 127.5) / 128
    np.testing.assert_allclose(found, expected.permute(1, 2, 0), atol=1e-5)


def test_sums_may_overflow() -> None:
    """Those of 17 million white pixels do; means do not."""
    sums = _Sums(noise(30, 40))
    before = sums.resized((2, 3, 33, 29), 5, 4)
    sums._sums += np.uint32(2**32 - 1000)
    np.testing.assert_array_equal(sums.resized((2, 3, 33, 29), 5, 4), before)


@given(st.integers(1, 5000), st.integers(1, 5000), st.floats(12, 300))
def test_sizes_lie_side_by_side(height: int, width: int, min_face: float) -> None:
    levels, (rows, columns) = _pack(_scales(height, width, min_face), height, width)
    assert rows % 32 == columns % 32 == 0
    for level in levels:
        assert level.left % 2 == level.top % 2 == 0
        assert level.left + level.width <= columns
        assert level.top + level.height <= rows
        assert min(level.width, level.height) >= 12
    for one, other in itertools.combinations(levels, 2):
        apart_x = one.left + one.width <= other.left or other.left + other.width <= one.left
        apart_y = one.top + one.height <= other.top or other.top + other.height <= one.top
        assert apart_x or apart_y
    area = sum(level.width * level.height for level in levels)
    assert rows * columns <= 1.7 * area + 64 * (rows + columns) + 32 * 32


def nobody(*shapes: tuple[int, ...]) -> Any:
    return lambda x: tuple(np.zeros((len(x), *shape), np.float32) for shape in shapes)


def p_net(faces: float) -> Any:
    def run(x: Any) -> Any:
        rows, columns = ((side - 12) // 2 + 1 for side in x.shape[2:])
        return np.zeros((1, 4, rows, columns), np.float32), np.full((1, 2, rows, columns), faces, np.float32)

    return run


@pytest.mark.parametrize("size", [(1, 1), (11, 400), (12, 12), (90, 70)], ids=str)
@pytest.mark.parametrize("faces", [0.0, 1.0])
def test_pictures_without_faces(size: tuple[int, int], faces: float) -> None:
    """Also those that are too small for any, and where the first network sees faces everywhere."""
    find = FaceCascade(p_net(faces), nobody((4,), (2,)), nobody((4,), (10,), (2,)))
    found = find(noise(*size))
    assert len(found) == 0
    assert found.to_dict() == {"detections": []}


def test_impossible_options() -> None:
    for options in ({"min_face": 5}, {"thresholds": (0.5, 2.0, 0.5)}, {"min_face": float("nan")}):
        with pytest.raises(InputError, match="expected"):
            FaceCascade(None, None, None, **options)


def test_models_that_are_no_cascade() -> None:
    models = [load(bundled.MODEL_FILES[job]) for job in ("detect", "segment", "upscale")]
    with pytest.raises(InputError, match="three networks find faces if one takes pictures of any height and width"):
        cascade_of(models)


def test_networks_with_other_outputs() -> None:
    with pytest.raises(InputError, match=r"expected outputs of \(4, 2\) numbers a window"):
        FaceCascade(lambda x: (x, x), None, None)(noise(60, 60))
