"""Pictures of every kind come out as upright RGB of 8 bits; broken ones as errors that name them."""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from kuiperinfer import settings
from kuiperinfer.errors import InputError, ResourceLimitError
from kuiperinfer.vision import bundled, read_picture

RED, GREEN, BLUE, WHITE, GREY = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (128, 128, 128)


def encoded(image: Image.Image, format: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def picture(*rows: list[tuple[int, ...]], mode: str = "RGB") -> Image.Image:
    array = np.array(rows, np.uint8)
    image = Image.new(mode, (array.shape[1], array.shape[0]))
    image.putdata([tuple(pixel) if len(pixel) > 1 else pixel[0] for row in rows for pixel in row])
    return image


CORNERS = picture([RED, GREEN, BLUE], [WHITE, GREY, GREY])


def test_sources(tmp_path: Path) -> None:
    data = encoded(CORNERS)
    path = tmp_path / "a.png"
    path.write_bytes(data)
    expected = np.array([[RED, GREEN, BLUE], [WHITE, GREY, GREY]], np.uint8)
    with open(path, "rb") as file:
        for source in (path, str(path), data, io.BytesIO(data), file, expected):
            found = read_picture(source)
            assert found.dtype == np.uint8
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("format", ["PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP", "JPEG", "JPEG2000", "AVIF"])
def test_formats(format: str) -> None:
    found = read_picture(encoded(Image.new("RGB", (16, 8), (200, 100, 50)), format))
    assert found.shape == (8, 16, 3)
    assert np.abs(found.astype(int) - (200, 100, 50)).max() <= 6


@pytest.mark.parametrize("format", ["EPS", "PDF", "PCX", "ICO"])
def test_formats_that_no_photograph_has_are_refused(format: str) -> None:
    with pytest.raises(InputError, match="no picture of a known format"):
        read_picture(encoded(Image.new("RGB", (16, 16), RED), format))


ORIENTED = {
    1: [[RED, GREEN, BLUE], [WHITE, GREY, GREY]],
    2: [[BLUE, GREEN, RED], [GREY, GREY, WHITE]],
    3: [[GREY, GREY, WHITE], [BLUE, GREEN, RED]],
    4: [[WHITE, GREY, GREY], [RED, GREEN, BLUE]],
    5: [[RED, WHITE], [GREEN, GREY], [BLUE, GREY]],
    6: [[WHITE, RED], [GREY, GREEN], [GREY, BLUE]],
    7: [[GREY, BLUE], [GREY, GREEN], [WHITE, RED]],
    8: [[BLUE, GREY], [GREEN, GREY], [RED, WHITE]],
}


@pytest.mark.parametrize("orientation", [*ORIENTED, 0, 9, 65535])
def test_exif_orientation(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    found = read_picture(encoded(CORNERS, exif=exif))
    np.testing.assert_array_equal(found, ORIENTED.get(orientation, ORIENTED[1]))


def test_broken_exif_data_do_not_matter() -> None:
    for exif in (
        b"Exif\0\0",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x02\0\0\0\x01ab\0\0",
        b"x" * 99,
    ):
        assert read_picture(encoded(CORNERS, "JPEG", exif=exif)).shape == (2, 3, 3)


def test_grey_is_repeated() -> None:
    for image in (picture([(7,), (200,)], mode="L"), picture([(7, 255), (200, 255)], mode="LA")):
        np.testing.assert_array_equal(read_picture(encoded(image)), [[[7, 7, 7], [200, 200, 200]]])


def test_black_and_white() -> None:
    image = Image.fromarray(np.array([[0, 255]], np.uint8)).convert("1")
    np.testing.assert_array_equal(read_picture(encoded(image)), [[[0, 0, 0], [255, 255, 255]]])


def test_transparent_parts_are_laid_on_white() -> None:
    image = picture([(255, 0, 0, 255), (255, 0, 0, 0), (0, 0, 0, 128)], mode="RGBA")
    np.testing.assert_array_equal(read_picture(encoded(image)), [[RED, WHITE, (127, 127, 127)]])
    half = picture([(100, 255), (100, 0)], mode="LA")
    np.testing.assert_array_equal(read_picture(encoded(half)), [[[100, 100, 100], WHITE]])


def test_palettes_with_and_without_a_transparent_colour() -> None:
    image = CORNERS.quantize(8)
    np.testing.assert_array_equal(read_picture(encoded(image)), np.asarray(CORNERS))
    red = image.getpixel((0, 0))
    found = read_picture(encoded(image, transparency=red))
    np.testing.assert_array_equal(found[0], [WHITE, GREEN, BLUE])


def test_sixteen_bits_are_scaled() -> None:
    values = np.array([[0, 257, 12850, 65535, 128, 129]], np.uint16)
    for format in ("PNG", "TIFF"):
        found = read_picture(encoded(Image.fromarray(values), format))
        np.testing.assert_array_equal(found[0, :, 0], [0, 1, 50, 255, 0, 1])


def test_pixels_of_unknown_range_are_refused() -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    for values in (np.zeros((2, 2), np.float32), *(np.full((2, 2), value, np.int32) for value in (70000, 255, -1))):
        for options in ({}, {"exif": turned}):
            with pytest.raises(InputError, match=r"^picture: its pixels are .* of unknown range"):
                read_picture(encoded(Image.fromarray(values), "TIFF", **options))


def test_sixteen_bits_of_a_netpbm_file() -> None:
    np.testing.assert_array_equal(read_picture(b"P5\n2 1\n1023\n\x03\xff\x00\x00")[0, :, 0], [255, 0])


def test_cmyk() -> None:
    image = Image.new("CMYK", (4, 4), (0, 255, 255, 0))
    for format in ("JPEG", "TIFF"):
        found = read_picture(encoded(image, format)).astype(int)
        assert np.abs(found - RED).max() < 10


def test_the_first_frame_of_an_animation() -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in (RED, BLUE)]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    np.testing.assert_array_equal(read_picture(data)[0, 0], RED)


# ------------------------------------------------------------------------------------------- broken ones


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"])
def test_cut_pictures_are_errors(tmp_path: Path, format: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    data = encoded(Image.fromarray(noise), format)
    path = tmp_path / "cut.picture"
    for length in (0, 1, 8, 30, len(data) // 2):
        path.write_bytes(data[:length])
        with pytest.raises(InputError) as caught:
            read_picture(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"])
def test_flipped_bytes_give_a_picture_or_an_error_of_ours(format: str) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    data = encoded(Image.fromarray(noise), format)
    for place in range(len(data)):
        broken = bytearray(data)
        broken[place] ^= 0xFF
        try:
            found = read_picture(bytes(broken))
        except (InputError, ResourceLimitError):
            continue
        assert found.ndim == 3
        assert found.dtype == np.uint8


def test_broken_pixels_are_an_error_though_the_header_is_fine(tmp_path: Path) -> None:
    rows = zlib.compress(b"".join(b"\0" + bytes(range(120)) for _ in range(40)), 0)
    damaged = rows[:2] + b"\xff" + rows[3:]  # the first block says that it is of a kind that does not exist
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 40, 40, 8, 2, 0, 0, 0))
    path = tmp_path / "damaged.png"
    for pixels, readable in ((rows, True), (damaged, False)):
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))
        if readable:
            assert read_picture(path)[0, 0].tolist() == [0, 1, 2]
        else:
            with pytest.raises(InputError, match="cannot be read") as caught:
                read_picture(path)
            assert str(caught.value).startswith(f"{path}: ")


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def huge_png(width: int, height: int) -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


def test_the_pixel_limit_is_checked_before_anything_is_decoded() -> None:
    with (
        settings(max_image_pixels=5),
        pytest.raises(ResourceLimitError, match=r"3×2 pixels exceed settings\.max_image_pixels=5"),
    ):
        read_picture(encoded(CORNERS))
    with settings(max_image_pixels=6):
        read_picture(encoded(CORNERS))
    with pytest.raises(ResourceLimitError):
        read_picture(huge_png(100_000, 100_000))
    with pytest.raises(InputError, match="cannot be read"):
        read_picture(huge_png(10_000, 10_000))  # within the limit, above Pillow's warning, and empty


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_picture(tmp_path / "missing.png")
    with pytest.raises(InputError, match="found a folder"):
        read_picture(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="found a special file"):
        read_picture(tmp_path / "pipe")


@pytest.mark.parametrize(
    "array",
    [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)],
    ids=["grey", "four channels", "float", "empty"],
)
def test_arrays_that_are_no_pictures(array: Any) -> None:
    with pytest.raises(InputError, match="expected a picture"):
        read_picture(array)


def test_the_bundled_photograph() -> None:
    assert read_picture(bundled.PHOTOGRAPH).shape == (300, 451, 3)
