"""Pictures made larger: tiles leave no seams, whatever the size."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from kuiperinfer import settings
from kuiperinfer.errors import InputError, ResourceLimitError
from kuiperinfer.vision import Preprocess, Upscaler, bundled, bundled_upscaler, load_upscaler, read_picture
from kuiperinfer.vision.upscaling import _spans, factor_of
from tests.small_models import write_model


def preprocess(tile: int = 16, channels: int = 3, **options: Any) -> Preprocess:
    return Preprocess(tile, tile, fit="stretch", mean=(0.0,) * channels, std=(1.0,) * channels, **options)


def repeated(x: Any) -> Any:
    return x.repeat(3, axis=2).repeat(3, axis=3)


def noise(height: int, width: int) -> Any:
    return np.random.default_rng(height * 1000 + width).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("size", [(16, 16), (1, 1), (5, 40), (40, 5), (16, 17), (33, 48), (50, 61)], ids=str)
@pytest.mark.parametrize("overlap", [0, 2, 7])
def test_every_pixel_comes_from_its_own(size: tuple[int, int], overlap: int) -> None:
    picture = noise(*size)
    found = Upscaler(repeated, preprocess(), 3, overlap)(picture)
    np.testing.assert_array_equal(found, picture.repeat(3, axis=0).repeat(3, axis=1))


def test_the_order_and_the_range_that_the_network_has() -> None:
    seen: list[Any] = []

    def network(x: Any) -> Any:
        seen.append(x)
        return repeated(x)

    numbers = Preprocess(16, 16, fit="stretch", mean=(0.5, 0.4, 0.3), std=(0.5, 0.2, 0.1), order="bgr")
    picture = noise(20, 20)
    np.testing.assert_array_equal(Upscaler(network, numbers, 3, 2)(picture)[::3, ::3], picture)
    np.testing.assert_allclose(seen[0][0, 2], (picture[:16, :16, 0] / 255 - 0.3) / 0.1, atol=1e-5)


def test_what_the_network_overdoes_is_cut() -> None:
    def network(x: Any) -> Any:
        y = repeated(x) * 4 - 1
        y[..., 0, 0] = np.nan
        return y

    found = Upscaler(network, preprocess(4), 3, 0)(np.full((4, 4, 3), 200, np.uint8))
    assert found[0, 0].tolist() == [0, 0, 0]
    assert (found[1:] == 255).all()


def test_brightness_alone() -> None:
    picture = np.array(Image.open(bundled.PICTURES["upscale"]).convert("RGB"))[20:60, 30:80]
    found = Upscaler(repeated, preprocess(16, channels=1), 3, 2)(picture)
    assert found.shape == (120, 150, 3)
    before, after = (np.array(Image.fromarray(p).convert("L")).astype(int) for p in (picture, found))
    assert np.abs(after[1::3, 1::3] - before).mean() < 3


@given(st.integers(1, 400), st.integers(1, 64), st.data())
def test_spans_cover_a_length_once(length: int, tile: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, (tile - 1) // 2))
    spans = _spans(length, tile, overlap)
    assert spans[0].first == 0
    assert spans[-1].last == length
    for one, other in pairwise(spans):
        assert one.last == other.first
        # what is kept is as far from the tiles' ends as was asked for
        assert one.start + tile - one.last >= overlap
        assert other.first - other.start >= overlap
    for span in spans:
        assert 0 <= span.start <= span.first < span.last <= span.start + tile
        assert span.start + tile <= max(length, tile)


def test_impossible_options() -> None:
    for overlap in (-1, 8):
        with pytest.raises(InputError, match="overlap: expected from 0 to 7 pixels"):
            Upscaler(repeated, preprocess(16), 3, overlap)
    with pytest.raises(InputError, match="factor: expected at least 1"):
        Upscaler(repeated, preprocess(16), 0, 0)
    with pytest.raises(
        InputError, match=r"expected an output of shape \(1, 3, 32, 32\) from this model, found \(1, 3, 48, 48\)"
    ):
        Upscaler(repeated, preprocess(16), 2, 0)(noise(4, 4))
    with settings(max_image_pixels=3599), pytest.raises(ResourceLimitError, match="would have 60×60 pixels"):
        Upscaler(repeated, preprocess(16), 3, 0)(noise(20, 20))


@pytest.mark.parametrize("output", [(1, 3, 20, 24), (1, 1, 20, 20), (1, 3, 5, 5), (1, 1000), (1, 3, 25, 25)], ids=str)
def test_what_makes_no_larger_pictures(output: Any) -> None:
    with pytest.raises(InputError, match="makes pictures larger"):
        factor_of((1, 3, 10, 10), output)
    assert factor_of((1, 3, 10, 20), (1, 3, 20, 40)) == 2


# Twice as large, by a convolution that sees three pixels.
SHUFFLE = """7767517
4 3
pnnx.Input       pnnx_input_0  0 1 0 #0=(1,3,?,?)f32
nn.Conv2d        conv          1 1 0 1 bias=False dilation=(1,1) groups=1 in_channels=3 kernel_size=(3,3) out_channels=12 padding=(1,1) padding_mode=zeros stride=(1,1) @weight=(12,3,3,3)f32 #0=(1,3,?,?)f32 #1=(1,12,?,?)f32
nn.PixelShuffle  shuffle       1 1 1 2 upscale_factor=2 #1=(1,12,?,?)f32 #2=(1,3,?,?)f32
pnnx.Output      pnnx_output_0 1 0 2 #2=(1,3,?,?)f32
"""  # noqa: E501


def test_tiles_in_batches_are_the_whole_picture(tmp_path: Path) -> None:
    weight = np.abs(np.random.default_rng(0).standard_normal((12, 3, 3, 3))).astype(np.float32) / 30
    upscale = load_upscaler(write_model(tmp_path, SHUFFLE, {"conv.weight": weight}), size=(32, 32), overlap=1)
    assert upscale.factor == 2
    assert upscale.possible_batch(4) == 4
    picture = noise(70, 90)
    whole = upscale.model(picture.transpose(2, 0, 1)[None].astype(np.float32) / 255)
    expected = (whole[0].transpose(1, 2, 0) * 255).clip(0, 255)
    for found in upscale.many([picture, picture], batch=4):
        assert np.abs(found - expected).max() <= 0.501


def test_small_tiles_have_small_overlaps(tmp_path: Path) -> None:
    weight = np.zeros((12, 3, 3, 3), np.float32)
    path = write_model(tmp_path, SHUFFLE, {"conv.weight": weight})
    assert [load_upscaler(path, size=size).overlap for size in ((10, 20), (33, 33), (128, 128))] == [4, 16, 16]


def test_the_bundled_upscaler() -> None:
    small = read_picture(bundled.PICTURES["upscale"])
    large = bundled_upscaler()(small).astype(float)
    original = read_picture(bundled.PICTURES["detect"]).astype(float)

    def noise_ratio(picture: Any) -> float:
        return float(10 * np.log10(255**2 / ((picture - original) ** 2).mean()))

    bicubic = np.asarray(Image.fromarray(small).resize((512, 512), Image.Resampling.BICUBIC)).astype(float)
    assert noise_ratio(large) == pytest.approx(25.4, abs=0.3)
    assert noise_ratio(large) > noise_ratio(bicubic)
