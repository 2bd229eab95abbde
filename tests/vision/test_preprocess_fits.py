"""The ways in which a picture comes into an input, and the way back of boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from kuiperinfer.dtypes import Array
from kuiperinfer.errors import InputError
from kuiperinfer.vision import Preprocess
from kuiperinfer.vision.preprocess import FILTERS, FITS

PLAIN = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}


def noise(height: int, width: int) -> Array:
    return np.random.default_rng(height * 1000 + width).integers(0, 256, (height, width, 3), dtype=np.uint8)


def pixels(made: Array) -> Array:
    """(1, C, H, W) of plain preprocessing -> (H, W, C) uint8."""
    return np.asarray((made[0].transpose(1, 2, 0) * 255).round().astype(np.uint8))


def resized(picture: Array, width: int, height: int) -> Array:
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BILINEAR))


def test_letterbox() -> None:
    picture = noise(30, 60)
    found = pixels(Preprocess(64, 96, fit="letterbox", **PLAIN)(picture))
    np.testing.assert_array_equal(found[8:56], resized(picture, 96, 48))
    assert (found[:8] == 114).all()
    assert (found[56:] == 114).all()


def test_the_smaller_half_of_an_odd_band_is_above_or_left() -> None:
    found = pixels(Preprocess(33, 20, fit="letterbox", fill=0, **PLAIN)(np.full((20, 20, 3), 255, np.uint8)))
    np.testing.assert_array_equal(np.flatnonzero(found.any(axis=(1, 2))), range(6, 26))
    found = pixels(Preprocess(20, 33, fit="letterbox", fill=0, **PLAIN)(np.full((20, 20, 3), 255, np.uint8)))
    np.testing.assert_array_equal(np.flatnonzero(found.any(axis=(0, 2))), range(6, 26))


def test_small_pictures_stay_small_where_that_is_asked_for() -> None:
    picture = noise(10, 20)
    found = pixels(Preprocess(40, 40, fit="letterbox", enlarge=False, **PLAIN)(picture))
    np.testing.assert_array_equal(found[15:25, 10:30], picture)
    large = noise(50, 80)
    for enlarge in (False, True):
        found = pixels(Preprocess(40, 40, fit="letterbox", enlarge=enlarge, **PLAIN)(large))
        np.testing.assert_array_equal(found[7:32], resized(large, 40, 25))


def test_corner() -> None:
    picture = noise(30, 60)
    found = pixels(Preprocess(64, 96, fit="corner", fill=7, **PLAIN)(picture))
    np.testing.assert_array_equal(found[:48], resized(picture, 96, 48))
    assert (found[48:] == 7).all()


def test_stretch() -> None:
    picture = noise(30, 60)
    np.testing.assert_array_equal(pixels(Preprocess(64, 50, fit="stretch", **PLAIN)(picture)), resized(picture, 50, 64))


def test_order_of_the_colours() -> None:
    picture, numbers = noise(5, 5), {"mean": (0.1, 0.2, 0.3), "std": (0.5, 1.0, 2.0)}
    found = Preprocess(5, 5, fit="stretch", order="bgr", **numbers)(picture)[0]
    for channel in range(3):
        expected = (picture[..., 2 - channel] / 255 - numbers["mean"][channel]) / numbers["std"][channel]
        np.testing.assert_allclose(found[channel], expected, atol=1e-6)


@pytest.mark.parametrize("name", FILTERS)
def test_filters_keep_an_even_colour_and_a_picture_that_fits(name: str) -> None:
    preprocess = Preprocess(12, 17, fit="stretch", filter=name, **PLAIN)
    assert (pixels(preprocess(np.full((30, 23, 3), 99, np.uint8))) == 99).all()
    picture = noise(12, 17)
    np.testing.assert_array_equal(pixels(preprocess(picture)), picture)


def test_the_linear_filter_is_that_of_pytorch_without_antialias() -> None:
    torch = pytest.importorskip("torch")
    for size in ((20, 31), (64, 100)):
        picture = noise(41, 57)
        found = pixels(Preprocess(*size, fit="stretch", filter="linear", **PLAIN)(picture))
        image = torch.from_numpy(picture).permute(2, 0, 1)[None].float()
        expected = torch.nn.functional.interpolate(image, size, mode="bilinear").numpy()[0].transpose(1, 2, 0)
        assert np.abs(found - expected).max() <= 1.01  # to whole levels


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"fit": "letterbx"}, "fit must be one of .*'letterbx'; did you mean 'letterbox'"),
        ({"filter": "linaer"}, "did you mean 'linear'"),
        ({"order": "rbg"}, "order must be one of rgb, bgr"),
        ({"fill": 256}, "fill must be from 0 to 255"),
        ({"fill": -1}, "fill must be from 0 to 255"),
    ],
    ids=str,
)
def test_impossible_settings(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Preprocess(8, 8, **wrong)


# ------------------------------------------------------------------------------------------- the way back

sides = st.integers(8, 3000)
preprocesses = st.builds(
    Preprocess,
    height=st.integers(16, 400),
    width=st.integers(16, 400),
    resize=st.one_of(st.none(), st.integers(16, 400)),
    fit=st.sampled_from(list(FITS)),
    enlarge=st.booleans(),
)


@given(preprocesses, sides, sides, st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_boxes_come_back_to_where_they_were(
    preprocess: Preprocess, width: int, height: int, shares: list[float]
) -> None:
    placement = preprocess.placement(width, height)
    box = np.array([shares]) * [width, height, width, height]
    np.testing.assert_allclose(placement.to_picture(placement.to_input(box)), box, atol=1e-6 * max(width, height))
    # as float32, in which networks calculate, still within half a pixel
    through = placement.to_input(box).astype(np.float32)
    assert np.abs(placement.to_picture(through) - box).max() < 0.5


@given(preprocesses, sides, sides)
def test_boxes_never_leave_the_picture(preprocess: Preprocess, width: int, height: int) -> None:
    placement = preprocess.placement(width, height)
    found = placement.to_picture(np.array([[-1e6, -1e6, 1e6, 1e6], [5, 1e9, -1e9, 3]]))
    np.testing.assert_array_equal(found[0], [0, 0, width, height])
    assert (found >= 0).all()
    assert (found <= [width, height, width, height]).all()


@pytest.mark.parametrize("fit", FITS)
@given(st.integers(24, 160), st.integers(24, 160), st.integers(24, 90), st.integers(24, 90), st.data())
def test_pixels_lie_where_the_placement_says(
    fit: str, height: int, width: int, input_height: int, input_width: int, data: st.DataObject
) -> None:
    """The middle of a bright patch, seen in the input and mapped back, is its middle within half a pixel of either."""
    preprocess = Preprocess(input_height, input_width, fit=fit, fill=0, mean=(0.0,), std=(1.0,))
    placement = preprocess.placement(width, height)
    # somewhere where all of it is to be seen
    first = placement.to_picture(np.array([2.0, 2.0]))
    last = placement.to_picture(np.array([input_width - 2.0, input_height - 2.0]))
    sizes = [max(4, -(-4 // scale)) for scale in (placement.scale_x, placement.scale_y)]
    lefts = [int(np.ceil(edge)) for edge in first]
    rights = [int(np.floor(edge - size)) for edge, size in zip(last, sizes, strict=True)]
    if any(right < left for left, right in zip(lefts, rights, strict=True)):
        return
    left, top = (data.draw(st.integers(a, b)) for a, b in zip(lefts, rights, strict=True))
    picture = np.zeros((height, width, 3), np.uint8)
    picture[top : top + int(sizes[1]), left : left + int(sizes[0])] = 255
    seen = preprocess(picture)[0, 0].astype(np.float64)
    rows, columns = np.mgrid[:input_height, :input_width] + 0.5
    middle = np.array([(columns * seen).sum(), (rows * seen).sum()]) / seen.sum()
    expected = np.array([left + int(sizes[0]) / 2, top + int(sizes[1]) / 2])
    tolerance = 0.5 * np.maximum(1, [1 / placement.scale_x, 1 / placement.scale_y])
    assert (np.abs(placement.to_picture(middle) - expected) <= tolerance).all()
