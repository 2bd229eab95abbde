"""From a picture to the input of a network, as the network was trained: resize, centre crop, normalise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from ..dtypes import Array
from ..errors import InputError, ResourceLimitError
from ..settings import settings

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocess:
    """Resize the shorter side to `resize`, cut `height` × `width` from the centre, then (x / 255 - mean) / std a channel.

    The resize is Pillow's bilinear one, which averages where it makes smaller: what torchvision does to Pillow images.
    `mean` and `std` have three entries (RGB), or one (the picture is turned to grey).
    """

    height: int
    width: int
    resize: int
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    def __post_init__(self) -> None:
        if min(self.height, self.width) < 1:
            raise InputError(f"preprocessing: the size must be positive, found {self.height}×{self.width}")
        if self.resize < 1:
            raise InputError(f"preprocessing: resize must be positive, found {self.resize}")
        if len(self.mean) != len(self.std) or len(self.mean) not in (1, 3):
            raise InputError(
                f"preprocessing: mean and std need 3 numbers each (or 1 for grey), found {len(self.mean)} and {len(self.std)}"
            )
        if not all(np.isfinite([*self.mean, *self.std])) or not all(self.std):
            raise InputError(
                f"preprocessing: mean and std must be finite and std not 0, found {self.mean} and {self.std}"
            )

    def __call__(self, picture: Array) -> Array:
        """(H, W, 3) uint8 -> (1, C, height, width) float32."""
        image = Image.fromarray(picture)
        if len(self.mean) == 1:
            image = image.convert("L")
        image = image.resize(self._resized(*image.size), Image.Resampling.BILINEAR)
        left, top = round((image.width - self.width) / 2), round((image.height - self.height) / 2)
        image = image.crop((left, top, left + self.width, top + self.height))
        pixels = np.asarray(image, np.float32).reshape(self.height, self.width, len(self.mean)) / np.float32(255)
        normalized = (pixels - np.asarray(self.mean, np.float32)) / np.asarray(self.std, np.float32)
        return np.ascontiguousarray(normalized.transpose(2, 0, 1)[None])

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        """The size after the resize: the shorter side is `resize`, and no side is less than what is cut out."""
        shorter = min(width, height)
        resized = (
            max(int(self.resize * width / shorter), self.width),
            max(int(self.resize * height / shorter), self.height),
        )
        if resized[0] * resized[1] > settings.max_image_pixels:
            raise ResourceLimitError(
                f"a picture of {width}×{height} pixels would be resized to {resized[0]}×{resized[1]}, which exceeds "
                f"settings.max_image_pixels={settings.max_image_pixels:,}"
            )
        return resized


def preprocess_for(
    shape: Sequence[int | None] | None,
    *,
    size: tuple[int, int] | None = None,
    resize: int | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> Preprocess:
    """The preprocessing for a network whose input has the given shape (1, C, H, W), None where a dimension is free.

    What is not given is as ImageNet classifiers have it: `size` 224 × 224 where the shape leaves it free, `resize` 256 for 224
    and in proportion (for networks below 128 pixels, the size itself), ImageNet's mean and std for colour and 0 and 1 for grey.
    Raises `InputError` where the network does not take one picture.
    """
    batch, channels, height, width = _four_dimensions(shape)
    if batch not in (None, 1):
        raise InputError(
            f"the model takes {batch} pictures at once, {tuple(shape or ())}; convert it with a batch of 1"
        )
    if channels not in (None, 1, 3):
        raise InputError(
            f"the model's input has {channels} channels, {tuple(shape or ())}; expected 3 (RGB) or 1 (grey)"
        )
    wanted = size or (height or 224, width or 224)
    if height not in (None, wanted[0]) or width not in (None, wanted[1]):
        raise InputError(f"the model takes pictures of {height}×{width} pixels, not of {wanted[0]}×{wanted[1]}")
    if channels is not None and mean is not None and len(mean) != channels:
        raise InputError(f"the model's input has {channels} channels, but mean has {len(mean)} numbers")
    smaller = min(wanted)
    grey = channels == 1
    return Preprocess(
        *wanted,
        resize=resize or (round(smaller * 256 / 224) if smaller >= 128 else smaller),
        mean=mean or ((0.0,) if grey else IMAGENET_MEAN),
        std=std or ((1.0,) if grey else IMAGENET_STD),
    )


def _four_dimensions(shape: Sequence[int | None] | None) -> Sequence[int | None]:
    if shape is None:
        return (None, None, None, None)
    if len(shape) != 4:
        raise InputError(f"the model's input has the shape {tuple(shape)}; pictures need (1, C, H, W)")
    return shape
