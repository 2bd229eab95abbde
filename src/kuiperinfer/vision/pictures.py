"""Pictures from files, read with Pillow: whatever is in the file, out come red, green and blue of 8 bits, upright."""

from __future__ import annotations

import io
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from ..dtypes import Array
from ..errors import InputError, KuiperError, ResourceLimitError
from ..settings import settings

try:
    from PIL import Image, UnidentifiedImageError
except ImportError as error:
    raise ImportError("kuiperinfer.vision reads pictures with Pillow: pip install 'kuiperinfer[image]'") from error

PictureSource: TypeAlias = "str | os.PathLike[str] | bytes | BinaryIO | Array"

# What Pillow may decode. Of the others, some start programs (PostScript), and none is what a photograph comes in.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "WEBP", "TIFF", "JPEG2000", "AVIF")

# EXIF orientation -> what turns the picture upright; 1 is upright.
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ORIENTATION_TAG = 0x0112


def read_picture(source: PictureSource) -> Array:
    """A picture as (H, W, 3) uint8 in RGB, from a path, bytes, a binary file, or an array that is such a picture.

    Turned upright as its EXIF orientation asks; transparent parts are laid on white; of an animation, the first frame; 16 bits
    are scaled to 8. Raises `InputError` where it cannot be read, and `ResourceLimitError` above `settings.max_image_pixels`.
    """
    if isinstance(source, np.ndarray):
        return _checked_array(source)
    with named_errors(source), _translated_errors(), Image.open(_opened(source), formats=FORMATS) as image:
        width, height = image.size
        if width * height > settings.max_image_pixels:
            limit = settings.max_image_pixels
            raise ResourceLimitError(f"{width}×{height} pixels exceed settings.max_image_pixels={limit:,}")
        _refuse_unknown_range(image)
        image.load()  # here, for the search for EXIF data would load it too, and keep quiet about broken pixels
        return np.array(_to_rgb(_turn_upright(image)))


@contextmanager
def named_errors(source: PictureSource) -> Iterator[None]:
    """Errors of this package that are raised within tell which picture they are about."""
    try:
        yield
    except KuiperError as error:
        error.at(_name(source))
        raise


def _name(source: PictureSource) -> str:
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    return str(getattr(source, "name", "picture"))


def _opened(source: str | os.PathLike[str] | bytes | BinaryIO) -> Path | BinaryIO:
    if isinstance(source, bytes):
        return io.BytesIO(source)
    if not isinstance(source, (str, os.PathLike)):
        return source
    path = Path(source)
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
        raise InputError(f"expected a picture, found a {'folder' if path.is_dir() else 'special file'}")
    return path


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pictures that are large, which our own limit judges, or oddly tagged
            yield
    except KuiperError:
        raise
    except Image.DecompressionBombError as error:
        raise ResourceLimitError(f"{error}; this limit of Pillow's is PIL.Image.MAX_IMAGE_PIXELS") from error
    except UnidentifiedImageError as error:
        raise InputError(f"no picture of a known format; expected one of {', '.join(FORMATS)}") from error
    except FileNotFoundError as error:
        raise InputError("no such file") from error
    except Exception as error:  # Pillow's decoders raise nearly everything on broken data
        raise InputError(f"the picture cannot be read ({error or type(error).__name__})") from error


def _refuse_unknown_range(image: Image.Image) -> None:
    kind = {"F": "floating-point numbers", "I": "32-bit integers" if image.format == "TIFF" else ""}.get(image.mode)
    if kind:  # "I" is 16 bits in other formats, which have no more
        raise InputError(f"its pixels are {kind} of unknown range; convert it to 8 or 16 bits first")


def _turn_upright(image: Image.Image) -> Image.Image:
    try:
        orientation = int(image.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:  # broken EXIF data do not make the picture unreadable
        return image
    transpose = _UPRIGHT.get(orientation)
    return image if transpose is None else image.transpose(transpose)


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        image = _from_16_bits(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    return image if image.mode == "RGB" else image.convert("RGB")


def _from_16_bits(image: Image.Image) -> Image.Image:
    values = np.asarray(image).astype(np.int64)
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))


def _checked_array(array: np.ndarray[Any, np.dtype[Any]]) -> Array:
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or array.size == 0:
        raise InputError(f"expected a picture of shape (H, W, 3) and dtype uint8, found {array.shape} {array.dtype}")
    return array
