"""From pictures to inputs: sizes, crops, normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from kuiperinfer import settings
from kuiperinfer.errors import InputError
from kuiperinfer.vision import Preprocess, preprocess_for
from kuiperinfer.vision.preprocess import FILTERS, IMAGENET_MEAN, IMAGENET_STD

PLAIN = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}


def noise(height: int, width: int) -> Any:
    return np.random.default_rng(height * 1000 + width).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize(("height", "width"), [(300, 451), (451, 300), (224, 224), (256, 256), (97, 103), (33, 500)])
def test_shorter_side_then_centre(height: int, width: int) -> None:
    picture = noise(height, width)
    found = Preprocess(224, 224, 256, **PLAIN)(picture)
    assert found.shape == (1, 3, 224, 224)
    assert found.dtype == np.float32
    if height <= width:
        resized = (256 * width // height, 256)
    else:
        resized = (256, 256 * height // width)
    image = Image.fromarray(picture).resize(resized, Image.Resampling.BILINEAR)
    left, top = round((image.width - 224) / 2), round((image.height - 224) / 2)
    expected = np.asarray(image)[top : top + 224, left : left + 224].transpose(2, 0, 1)
    np.testing.assert_array_equal(np.rint(found[0] * 255), expected)


def test_nothing_is_resampled_where_sizes_agree() -> None:
    picture = noise(32, 32)
    found = Preprocess(32, 32, 32, **PLAIN)(picture)
    np.testing.assert_array_equal(found[0], picture.transpose(2, 0, 1) / np.float32(255))


def test_normalisation_by_hand() -> None:
    picture = np.array([[[0, 128, 255]]], np.uint8)
    found = Preprocess(1, 1, 1)(picture)[0, :, 0, 0]
    expected = [
        (value / 255 - mean) / std for value, mean, std in zip((0, 128, 255), IMAGENET_MEAN, IMAGENET_STD, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_grey_networks_get_one_channel() -> None:
    picture = np.full((8, 8, 3), (10, 200, 30), np.uint8)
    found = Preprocess(4, 4, 4, mean=(0.0,), std=(1.0,))(picture)
    assert found.shape == (1, 1, 4, 4)
    np.testing.assert_allclose(found * 255, round(0.299 * 10 + 0.587 * 200 + 0.114 * 30), atol=0.6)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 500), (500, 1), (3, 7)])
def test_tiny_and_thin_pictures(height: int, width: int) -> None:
    found = Preprocess(32, 48, 32, **PLAIN)(noise(height, width))
    assert found.shape == (1, 3, 32, 48)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize(("height", "width"), [(1, 200), (200, 1), (2, 301), (5, 640)])
def test_of_a_strip_only_the_middle_is_resized(height: int, width: int, filter: str) -> None:
    """The result is that of a resize and a crop, as torchvision has them, but for the rounding of places."""
    preprocess, picture = Preprocess(56, 48, 64, filter=filter, **PLAIN), noise(height, width)
    expected = preprocess(picture) * 255
    with settings(max_image_pixels=4000):
        found = preprocess(picture) * 255
    assert found.shape == (1, 3, 56, 48)
    assert np.abs(found - expected).max() <= 1.001


def test_a_strip_is_not_blown_up() -> None:
    for height, width in ((1, 5000), (5000, 1)):
        strip = np.repeat(np.arange(5000, dtype=np.uint32) * 255 // 4999, 3).astype(np.uint8).reshape(height, width, 3)
        found = Preprocess(224, 224, 256, **PLAIN)(strip)  # resized whole, it would have 328 million pixels
        np.testing.assert_array_equal(found, np.float32(127 / 255))


@pytest.mark.parametrize(
    "wrong",
    [
        {"height": 0},
        {"width": -1},
        {"resize": 0},
        {"mean": (0.0, 0.0)},
        {"mean": (0.0,)},
        {"std": (1.0, 0.0, 1.0)},
        {"std": (1.0, float("nan"), 1.0)},
        {"mean": (float("inf"),) * 3},
    ],
    ids=str,
)
def test_impossible_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="preprocessing: "):
        Preprocess(**{"height": 8, "width": 8, "resize": 8} | wrong)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 3, 224, 224), (224, 224, 256)),
        ((None, 3, 224, 224), (224, 224, 256)),
        ((1, 3, 384, 384), (384, 384, 439)),
        ((1, 3, 32, 32), (32, 32, 32)),
        ((1, 3, 48, 192), (48, 192, 48)),
        ((1, 3, None, None), (224, 224, 256)),
        ((1, None, None, 160), (224, 160, 183)),
        (None, (224, 224, 256)),
    ],
    ids=str,
)
def test_what_a_network_asks_for(shape: Any, expected: tuple[int, int, int]) -> None:
    made = preprocess_for(shape)
    assert (made.height, made.width, made.resize) == expected
    assert (made.mean, made.std) == (IMAGENET_MEAN, IMAGENET_STD)


def test_what_the_caller_asks_for() -> None:
    made = preprocess_for((1, 3, None, None), size=(64, 96), resize=70, mean=(0.5,) * 3, std=(0.25,) * 3)
    assert made == Preprocess(64, 96, 70, (0.5,) * 3, (0.25,) * 3)
    assert preprocess_for((1, 1, 28, 28)) == Preprocess(28, 28, 28, (0.0,), (1.0,))


@pytest.mark.parametrize(
    ("shape", "options", "complaint"),
    [
        ((1, 4, 224, 224), {}, "has 4 channels"),
        ((1, 10), {}, "pictures need (N, C, H, W)"),
        ((1, 3, 224, 224), {"size": (256, 256)}, "takes pictures of 224×224 pixels, not of 256×256"),
        ((1, 3, 224, 224), {"mean": (0.5,), "std": (0.5,)}, "3 channels, but mean has 1 numbers"),
    ],
    ids=str,
)
def test_networks_that_take_no_picture(shape: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        preprocess_for(shape, **options)
    assert complaint in str(caught.value)
