"""A picture made larger, with details that a network learned to expect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from ..dtypes import Array
from ..errors import InputError, ResourceLimitError
from ..settings import settings
from .job import NetworkJob, in_groups, run_in_batches
from .preprocess import Preprocess


class _Span(NamedTuple):
    """One tile along one axis: where it begins, and the part of it that is kept."""

    start: int
    first: int
    last: int


class _Tile(NamedTuple):
    number: int  # of the picture
    rows: _Span
    columns: _Span


@dataclass(frozen=True)
class Upscaler(NetworkJob[Array]):
    """A network (1, C, H, W) -> (1, C, factor * H, factor * W), run on overlapping tiles of a picture of any size.

    `preprocess` has the size of a tile, and what makes pixels the network's numbers; the way back gives pixels again. Of
    each tile, `overlap` pixels at edges within the picture are only seen, not kept: where the network sees no further, no
    seam is left. With C = 1 the network gets the brightness, and the colours are resized bicubically.
    """

    model: Any
    preprocess: Preprocess
    factor: int
    overlap: int = 16

    def __post_init__(self) -> None:
        smaller = min(self.preprocess.height, self.preprocess.width)
        if not 0 <= self.overlap < (smaller + 1) // 2:
            raise InputError(f"overlap: expected from 0 to {(smaller - 1) // 2} pixels, found {self.overlap}")
        if self.factor < 1:
            raise InputError(f"factor: expected at least 1, found {self.factor}")

    def prepare(self, picture: Array) -> Array:
        """The picture, if the larger one is not too large."""
        height, width = (self.factor * side for side in picture.shape[:2])
        if height * width > settings.max_image_pixels:
            raise ResourceLimitError(
                f"the picture would have {width}×{height} pixels, which exceeds "
                f"settings.max_image_pixels={settings.max_image_pixels:,}"
            )
        return picture

    def infer(self, prepared: Sequence[Array], batch: int = 1) -> list[Array]:
        """See `Job`; `batch` tiles in one inference, of one picture or of several."""
        factor, channels = self.factor, len(self.preprocess.mean)
        made = [np.empty((p.shape[0] * factor, p.shape[1] * factor, channels), np.uint8) for p in prepared]
        tiles = [tile for number, picture in enumerate(prepared) for tile in self._tiles(number, picture)]
        for group in in_groups(tiles, batch):
            inputs = [self.preprocess(self._cut(prepared[tile.number], tile)) for tile in group]
            for tile, (output, *_) in zip(group, run_in_batches(self.model, inputs, batch), strict=True):
                self._put(self._pixels(output), tile, made[tile.number])
        return made

    def finish(self, output: Array, picture: Array) -> Array:
        """(factor * H, factor * W, 3) uint8."""
        if output.shape[2] == 3:
            return output
        _, *colours = Image.fromarray(picture).convert("YCbCr").split()
        brightness = Image.fromarray(output[:, :, 0])
        planes = [brightness, *(plane.resize(brightness.size, Image.Resampling.BICUBIC) for plane in colours)]
        return np.array(Image.merge("YCbCr", planes).convert("RGB"))

    def _tiles(self, number: int, picture: Array) -> Iterator[_Tile]:
        rows = _spans(picture.shape[0], self.preprocess.height, self.overlap)
        columns = _spans(picture.shape[1], self.preprocess.width, self.overlap)
        return (_Tile(number, *spans) for spans in product(rows, columns))

    def _cut(self, picture: Array, tile: _Tile) -> Array:
        """The pixels of a tile; where the picture is smaller than that, it goes on as it ends."""
        height, width = self.preprocess.height, self.preprocess.width
        cut = picture[tile.rows.start : tile.rows.start + height, tile.columns.start : tile.columns.start + width]
        missing = (height - cut.shape[0], width - cut.shape[1])
        if any(missing):
            cut = np.pad(cut, ((0, missing[0]), (0, missing[1]), (0, 0)), mode="edge")
        return np.ascontiguousarray(cut)

    def _pixels(self, output: Array) -> Array:
        """(1, C, H, W) -> (H, W, C) uint8."""
        size = self.preprocess
        channels = len(size.mean)
        expected = (1, channels, self.factor * size.height, self.factor * size.width)
        if output.shape != expected:
            raise InputError(f"expected an output of shape {expected} from this model, found {output.shape}")
        std, mean = (np.array(values, np.float32)[:, None, None] for values in (size.std, size.mean))
        levels = (output[0] * std + mean) * 255
        ordered = levels[::-1] if size.order == "bgr" else levels
        return np.asarray(np.nan_to_num(ordered).round().clip(0, 255).astype(np.uint8).transpose(1, 2, 0))

    def _put(self, pixels: Array, tile: _Tile, picture: Array) -> None:
        def of(span: _Span, start: int) -> slice:
            return slice(self.factor * (span.first - start), self.factor * (span.last - start))

        rows, columns = tile.rows, tile.columns
        picture[of(rows, 0), of(columns, 0)] = pixels[of(rows, rows.start), of(columns, columns.start)]


def _spans(length: int, tile: int, overlap: int) -> list[_Span]:
    """Tiles that cover `length` pixels. Neighbours meet in the middle of what both see, at least `overlap` from their ends."""
    starts = [*range(0, max(length - tile, 0), tile - 2 * overlap), max(length - tile, 0)]
    meetings = [(start + tile + following) // 2 for start, following in pairwise(starts)]
    return [_Span(*span) for span in zip(starts, [0, *meetings], [*meetings, length], strict=True)]


def factor_of(input_shape: Sequence[int], output_shape: Sequence[int]) -> int:
    """How many times larger the output (1, C, H', W') is than the input (1, C, H, W). Raises `InputError` where it is not."""
    if len(output_shape) == 4 and tuple(output_shape[:2]) == tuple(input_shape[:2]):
        factor = output_shape[2] // input_shape[2]
        if factor >= 1 and tuple(output_shape[2:]) == (factor * input_shape[2], factor * input_shape[3]):
            return factor
    raise InputError(
        f"a model that makes pictures larger has an output (1, C, factor * H, factor * W), this one makes "
        f"{tuple(output_shape)} of {tuple(input_shape)}"
    )
