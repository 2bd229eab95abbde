"""From a picture to the input of a network, as the network was trained: fit it into the input's size, normalise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from ..dtypes import Array
from ..errors import InputError, did_you_mean
from ..settings import settings

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
LETTERBOX_GREY = 114

# How a picture comes into the input's size.
FITS = {
    "crop": "the shorter side becomes `resize`, and the centre is cut out",
    "stretch": "both sides become the input's, whatever the proportions",
    "letterbox": "all of the picture in its proportions, in the middle; bands of `fill` above and below, or left and right",
    "corner": "all of the picture in its proportions, in the upper left corner; the rest is `fill`",
}
_Box = tuple[float, float, float, float]
_Resize = Callable[[Image.Image, "tuple[int, int]", _Box], Image.Image]


def _pillow(resampling: Image.Resampling) -> _Resize:
    return lambda image, size, box: image.resize(size, resampling, box)


def _linear(image: Image.Image, size: tuple[int, int], box: _Box) -> Image.Image:
    """Samples between four pixels, however much smaller the picture becomes."""
    left, top, right, bottom = box
    steps = ((right - left) / size[0], 0.0, left, 0.0, (bottom - top) / size[1], top)
    return image.transform(size, Image.Transform.AFFINE, steps, resample=Image.Resampling.BILINEAR)


# How the pixels within a box are resampled. All but `nearest` and `linear` average where the picture becomes smaller.
FILTERS: dict[str, _Resize] = {
    "bilinear": _pillow(Image.Resampling.BILINEAR),  # Pillow's, and torchvision's where it antialiases
    "bicubic": _pillow(Image.Resampling.BICUBIC),
    "lanczos": _pillow(Image.Resampling.LANCZOS),
    "area": _pillow(Image.Resampling.BOX),
    "nearest": _pillow(Image.Resampling.NEAREST),
    "linear": _linear,  # OpenCV's INTER_LINEAR
}


@dataclass(frozen=True)
class Placement:
    """Where a picture of `width` × `height` pixels lies in a network's input: input = picture * scale + offset, an axis.

    Coordinates are those of edges, as boxes have them: the first pixel reaches from 0 to 1.
    """

    width: int
    height: int
    scale_x: float
    scale_y: float
    offset_x: float
    offset_y: float

    def to_input(self, boxes: Array) -> Array:
        """Boxes (…, 4) or points (…, 2), as x, y, x, y, from the picture into the input."""
        scale, offset = self._along(boxes)
        return np.asarray(boxes, np.float64) * scale + offset

    def to_picture(self, boxes: Array) -> Array:
        """Boxes (…, 4) or points (…, 2), as x, y, x, y, from the input into the picture, and not beyond its edges."""
        scale, offset = self._along(boxes)
        limits = np.resize([self.width, self.height], boxes.shape[-1])
        return np.clip((np.asarray(boxes, np.float64) - offset) / scale, 0, limits)

    def _along(self, boxes: Array) -> tuple[Array, Array]:
        count = boxes.shape[-1]
        return np.resize([self.scale_x, self.scale_y], count), np.resize([self.offset_x, self.offset_y], count)


@dataclass(frozen=True)
class Preprocess:
    """Fit a picture into `height` × `width`, then (x / 255 - mean) / std, a channel.

    `fit` and `filter` are names in `FITS` and `FILTERS`. `resize` is for the fit "crop" (None: the shorter side of the input);
    `fill` (0 to 255) and `enlarge` (whether small pictures are scaled up) are for "letterbox" and "corner". `mean` and `std`
    have three entries in the order of the channels, `order` "rgb" or "bgr", or one (the picture is turned to grey).
    """

    height: int
    width: int
    resize: int | None = None
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    fit: str = "crop"
    filter: str = "bilinear"
    order: str = "rgb"
    fill: int = LETTERBOX_GREY
    enlarge: bool = True

    def __post_init__(self) -> None:
        if min(self.height, self.width) < 1:
            raise InputError(f"preprocessing: the size must be positive, found {self.height}×{self.width}")
        if self.resize is not None and self.resize < 1:
            raise InputError(f"preprocessing: resize must be positive, found {self.resize}")
        if len(self.mean) != len(self.std) or len(self.mean) not in (1, 3):
            raise InputError(
                f"preprocessing: mean and std need 3 numbers each (or 1 for grey), found {len(self.mean)} and {len(self.std)}"
            )
        if not all(np.isfinite([*self.mean, *self.std])) or not all(self.std):
            raise InputError(
                f"preprocessing: mean and std must be finite and std not 0, found {self.mean} and {self.std}"
            )
        if not 0 <= self.fill <= 255:
            raise InputError(f"preprocessing: fill must be from 0 to 255, found {self.fill}")
        for what, known in (("fit", list(FITS)), ("filter", list(FILTERS)), ("order", ["rgb", "bgr"])):
            if (name := getattr(self, what)) not in known:
                raise InputError(
                    f"preprocessing: {what} must be one of {', '.join(known)}, found '{name}'{did_you_mean(name, known)}"
                )

    def __call__(self, picture: Array) -> Array:
        """(H, W, 3) uint8 -> (1, C, height, width) float32."""
        image = Image.fromarray(picture)
        if len(self.mean) == 1:
            image = image.convert("L")
        size, left, top = self._resized(image.width, image.height)
        if self.fit == "crop" and size[0] * size[1] > settings.max_image_pixels:
            resized = self._cut_first(image, size, left, top)
        else:
            resized = image if size == image.size else FILTERS[self.filter](image, size, (0, 0, *image.size))
        if resized.size != (self.width, self.height):
            canvas = Image.new(resized.mode, (self.width, self.height), (self.fill,) * len(resized.getbands()))
            canvas.paste(resized, (left, top))
            resized = canvas
        made = np.empty((1, len(self.mean), self.height, self.width), np.float32)
        planes = resized.split()
        for channel, plane in enumerate(planes[::-1] if self.order == "bgr" else planes):
            self._normalize(np.asarray(plane), channel, made[0, channel])
        return made

    def _cut_first(self, image: Image.Image, size: tuple[int, int], left: int, top: int) -> Image.Image:
        """What the crop leaves of a picture that would be too large in between, as a thin strip of one is."""
        across, down = image.width / size[0], image.height / size[1]
        box = (-left * across, -top * down, (self.width - left) * across, (self.height - top) * down)
        return FILTERS[self.filter](image, (self.width, self.height), box)

    def placement(self, width: int, height: int) -> Placement:
        """Where a picture of this size lies in what this preprocessing makes of it."""
        size, left, top = self._resized(width, height)
        return Placement(width, height, size[0] / width, size[1] / height, left, top)

    def _normalize(self, plane: Array, channel: int, out: Array) -> None:
        """In place, and without what changes nothing: this is half of what preparing a picture costs."""
        mean, std = np.float32(self.mean[channel]), np.float32(self.std[channel])
        np.divide(plane, np.float32(255), out=out)
        if mean:
            out -= mean
        if std != 1:
            out /= std

    def _resized(self, width: int, height: int) -> tuple[tuple[int, int], int, int]:
        """Width and height after the resize, and where the upper left corner then lies in the input."""
        if self.fit == "stretch":
            return (self.width, self.height), 0, 0
        if self.fit == "crop":
            size = self._around_crop(width, height)
            return size, -round((size[0] - self.width) / 2), -round((size[1] - self.height) / 2)
        scale = min(self.width / width, self.height / height)
        if not self.enlarge:
            scale = min(scale, 1.0)
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        if self.fit == "corner":
            return size, 0, 0
        # where a band cannot be halved, its smaller half is left or above, as YOLOv5 has it
        return size, (self.width - size[0]) // 2, (self.height - size[1]) // 2

    def _around_crop(self, width: int, height: int) -> tuple[int, int]:
        """The size whose shorter side is `resize`, and of which no side is less than what is cut out."""
        shorter, wanted = min(width, height), self.resize or min(self.width, self.height)
        return max(int(wanted * width / shorter), self.width), max(int(wanted * height / shorter), self.height)


def preprocess_for(
    shape: Sequence[int | None] | None,
    *,
    size: tuple[int, int] | None = None,
    resize: int | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    **others: Any,
) -> Preprocess:
    """The preprocessing for a network whose input has the given shape (N, C, H, W), None where a dimension is free.

    What is not given is as ImageNet classifiers have it: `size` 224 × 224 where the shape leaves it free, `resize` 256 for 224
    and in proportion (for networks below 128 pixels, the size itself), ImageNet's mean and std for colour and 0 and 1 for grey.
    `others` are fields of `Preprocess`. Raises `InputError` where the network does not take pictures.
    """
    _, channels, height, width = _four_dimensions(shape)
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
        **others,
    )


def _four_dimensions(shape: Sequence[int | None] | None) -> Sequence[int | None]:
    if shape is None:
        return (None, None, None, None)
    if len(shape) != 4:
        raise InputError(f"the model's input has the shape {tuple(shape)}; pictures need (N, C, H, W)")
    return shape
