"""Results drawn on the pictures they belong to: boxes with names, masks, classes. All sizes follow the picture's."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ..dtypes import Array
from .classification import Classification
from .detections import Detection, Detections
from .segmentation import Segmentation

Colour = tuple[int, int, int]
_Box = tuple[float, float, float, float]

_WHITE, _BLACK = (255, 255, 255), (16, 16, 16)
_GOLDEN = (
    0.618033988749895  # hues that follow one another by this part of the circle stay apart, however many there are
)


def colour_of(index: int) -> Colour:
    """The colour of a class: neighbours in number are no neighbours in hue."""
    red, green, blue = colorsys.hsv_to_rgb((0.58 + index * _GOLDEN) % 1, 0.82, 0.95)
    return round(red * 255), round(green * 255), round(blue * 255)


def _on(colour: Colour) -> Colour:
    """White, or black where white could not be read well: on a relative luminance (Rec. 709) from 0.3 on."""
    red, green, blue = ((level / 255) ** 2.2 for level in colour)
    return _BLACK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.295 else _WHITE


@lru_cache(maxsize=32)
def _font(size: int) -> Any:
    return ImageFont.load_default(size)


@dataclass(frozen=True)
class _Pen:
    """Line width, letter height and margins for a picture."""

    line: int
    letters: int

    @classmethod
    def of(cls, image: Image.Image) -> _Pen:
        side = (image.width * image.height) ** 0.5
        return cls(line=max(1, round(side / 300)), letters=max(10, round(side / 36)))

    @property
    def margin(self) -> int:
        return max(2, round(self.letters * 0.25))


def draw_detections(picture: Array, found: Detections) -> Array:
    """A copy of a picture (H, W, 3) with boxes, and over each its class and score; landmarks as points.

    Names stand above their box, below or within it where there is no room, and not on one another as long as any place is free.
    """
    image = Image.fromarray(picture)
    pen, draw = _Pen.of(image), ImageDraw.Draw(image)
    for detection in reversed(found):
        colour = colour_of(detection.index)
        _outline(draw, detection.box, colour, pen, image)
        for x, y in detection.landmarks:
            radius = max(1.5, pen.line * 1.2)
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour, outline=_on(colour))
    taken: list[_Box] = []
    for detection in found:
        taken.append(_name(draw, detection, pen, image, taken))
    return np.array(image)


def _outline(draw: ImageDraw.ImageDraw, box: _Box, colour: Colour, pen: _Pen, image: Image.Image) -> None:
    """The edge of a box, within the picture, with a thin dark line on both of its sides to be seen on any ground."""
    left, top, right, bottom = _whole(box, image)
    for inset, width, shade in ((-1, pen.line + 2, _BLACK), (0, pen.line, colour)):
        edge = (left + inset, top + inset, right - inset, bottom - inset)
        if edge[2] >= edge[0] and edge[3] >= edge[1]:
            draw.rectangle(edge, outline=shade, width=width)


def _whole(box: _Box, image: Image.Image) -> tuple[int, int, int, int]:
    """The first and the last pixel of a box."""
    left, top = (max(0, min(round(value), side - 1)) for value, side in zip(box[:2], image.size, strict=True))
    right, bottom = (max(0, min(round(value) - 1, side - 1)) for value, side in zip(box[2:], image.size, strict=True))
    return left, top, max(left, right), max(top, bottom)


def _name(
    draw: ImageDraw.ImageDraw, detection: Detection, pen: _Pen, image: Image.Image, taken: Sequence[_Box]
) -> _Box:
    """Writes class and score; returns where."""
    colour, font = colour_of(detection.index), _font(pen.letters)
    text = _fitting(f"{detection.label} {detection.score:.2f}", font, image.width - 2 * pen.margin)
    left, _, right, _ = font.getbbox(text, anchor="ls")
    ascent, descent = font.getmetrics()
    width, height = right - left + 2 * pen.margin, ascent + descent + pen.margin
    places = _places(_whole(detection.box, image), width, height, image)
    place = next((place for place in places if not any(_touch(place, other) for other in taken)), places[0])
    draw.rectangle((place[0], place[1], place[2] - 1, place[3] - 1), fill=colour)
    baseline = place[1] + pen.margin / 2 + ascent
    draw.text((place[0] + pen.margin - left, baseline), text, fill=_on(colour), font=font, anchor="ls")
    return place


def _places(box: tuple[int, int, int, int], width: float, height: float, image: Image.Image) -> list[_Box]:
    """Where a name may stand, the best place first; all within the picture."""
    left, top, right, bottom = box
    corners = [(x, y) for y in (top - height, bottom + 1, top, bottom + 1 - height) for x in (left, right + 1 - width)]
    inside = [(x, y) for x, y in corners if 0 <= y <= image.height - height] or [(left, 0)]
    moved = [(max(0, min(x, image.width - width)), y) for x, y in inside]
    return [(x, y, x + width, y + height) for x, y in moved]


def _touch(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _fitting(text: str, font: Any, width: float) -> str:
    """The text, cut short where it is wider than that."""
    text = "".join(character if character.isprintable() else "?" for character in text[:200])
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text + "…"


def draw_segmentation(picture: Array, found: Segmentation, opacity: float = 0.45) -> Array:
    """A copy of a picture (H, W, 3) with each class but the background in its colour, an edge around it, and a legend."""
    image = Image.fromarray(picture)
    pen = _Pen.of(image)
    present = [index for index in np.unique(found.indices).tolist() if index]
    made = picture.astype(np.float32)
    for index in present:
        mask, colour = found.mask(index), np.array(colour_of(index), np.float32)
        made[mask] += opacity * (colour - made[mask])
        made[_edge(mask, pen.line)] = colour
    image = Image.fromarray(made.round().astype(np.uint8))
    lines = [(colour_of(index), f"{found.labels[index]} {found.share(index):.1%}") for index in present]
    _legend(image, lines, pen)
    return np.array(image)


def _edge(mask: Array, width: int) -> Array:
    """The pixels of a mask that are at most `width` from what is not it."""
    inner = np.pad(mask, width, mode="edge")
    for axis in (0, 1):
        length = inner.shape[axis] - 2 * width
        shifted = [np.take(inner, range(start, start + length), axis) for start in range(2 * width + 1)]
        inner = np.logical_and.reduce(shifted)
    return np.asarray(mask & ~inner)


def draw_classes(picture: Array, found: Sequence[Classification]) -> Array:
    """A copy of a picture (H, W, 3) with its classes and their probabilities in a corner."""
    image = Image.fromarray(picture)
    lines = [(colour_of(one.index), f"{one.label} {one.probability:.1%}") for one in found]
    _legend(image, lines, _Pen.of(image))
    return np.array(image)


def _legend(image: Image.Image, lines: Sequence[tuple[Colour, str]], pen: _Pen) -> None:
    """Lines of text, each with a spot of its colour, on a dark ground in the upper left corner; those that fit."""
    font, draw = _font(pen.letters), ImageDraw.Draw(image, "RGBA")
    ascent, descent = font.getmetrics()
    step, spot = ascent + descent, round(ascent * 0.7)
    beside = 3 * pen.margin + spot  # of the text, to the left
    lines = lines[: max(0, (image.height - 2 * pen.margin) // step)]
    if not lines:
        return
    texts = [_fitting(text, font, image.width - beside - pen.margin) for _, text in lines]
    width = beside + pen.margin + max(font.getlength(text) for text in texts)
    draw.rectangle((0, 0, round(width), 2 * pen.margin + step * len(lines)), fill=(16, 16, 16, 170))
    for number, ((colour, _), text) in enumerate(zip(lines, texts, strict=True)):
        baseline = pen.margin + step * number + ascent
        draw.rectangle(
            (2 * pen.margin - pen.margin // 2, baseline - spot, 2 * pen.margin - pen.margin // 2 + spot, baseline),
            fill=colour,
        )
        draw.text((beside, baseline), text, fill=_WHITE, font=font, anchor="ls")


def draw(picture: Array, result: Any) -> Array:
    """A copy of a picture with the result of any job drawn on it; what an upscaler returns is itself the picture."""
    if isinstance(result, Detections):
        return draw_detections(picture, result)
    if isinstance(result, Segmentation):
        return draw_segmentation(picture, result)
    if isinstance(result, np.ndarray):
        return result
    return draw_classes(picture, result)
