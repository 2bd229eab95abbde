"""Faces by three networks in turn: MTCNN, of Zhang et al., "Joint Face Detection and Alignment …" (2016).

The first looks at windows of 12 pixels in the picture at many sizes, the second and the third at what is left, closer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import Array
from ..errors import InputError
from .detections import Detections
from .job import Job, possible_batch, run_in_batches, the_input_shape
from .nms import intersection_over_smaller, suppress

_WINDOW = 12  # pixels that the first network sees of one place, and the step to the next one
_STEP = 2
_SHRINK = 0.709  # from one size of the picture to the next, half the area
_CROPS = 32  # that are looked at in one inference
_SIDES = (24, 48)  # of what the second and the third network see


class _Level(NamedTuple):
    """The picture at one size, and where it lies on the canvas that holds it at all sizes."""

    scale: float
    left: int
    top: int
    width: int
    height: int


class _Sums:
    """Sums of all that is left of and above each pixel of a picture: means over any rectangles, however large, are cheap.

    The sums are kept modulo 2^32, which differences of them do not notice as long as a rectangle has 16 million pixels at most.
    """

    def __init__(self, picture: Array) -> None:
        self.height, self.width = picture.shape[:2]
        self._sums = np.zeros((self.height + 1, self.width + 1, 3), np.uint32)
        np.cumsum(picture, axis=0, dtype=np.uint32, out=self._sums[1:, 1:])
        np.cumsum(self._sums, axis=1, dtype=np.uint32, out=self._sums)

    def resized(self, part: Sequence[int], width: int, height: int) -> Array:
        """A part of the picture (left, top, right, bottom) as (height, width, 3) float32, normalised.

        Each pixel is the mean of those of the picture that it touches.
        """
        left, top, right, bottom = part
        x0, x1 = _windows(left, right, width)
        y0, y1 = _windows(top, bottom, height)
        upper, lower, at = y0[:, None], y1[:, None], self._sums
        sums = at[lower, x1] - at[lower, x0] - at[upper, x1] + at[upper, x0]
        means = sums / ((lower - upper) * (x1 - x0))[..., None]
        return np.asarray((means - 127.5) / 128, np.float32)


def _windows(first: int, last: int, count: int) -> tuple[Array, Array]:
    """Where each of `count` windows over the pixels from `first` to `last` begins and ends, in whole pixels."""
    edges = np.arange(count + 1) * (last - first)
    return first + edges[:-1] // count, first - -edges[1:] // count


class _Prepared(NamedTuple):
    sums: _Sums
    canvas: Array
    levels: list[_Level]


class _Faces(NamedTuple):
    boxes: Array  # (N, 4)
    scores: Array  # (N)
    moves: Array  # (N, 4): where the edges should be, in shares of width and height
    landmarks: Array  # (N, 5, 2)

    def take(self, indices: Array) -> _Faces:
        return _Faces(*(part[indices] for part in self))

    def moved(self) -> _Faces:
        return self._replace(boxes=_moved(self.boxes, self.moves, extra=1))


@dataclass(frozen=True)
class FaceCascade(Job[Detections]):
    """The three networks of MTCNN: P-Net for any height and width, R-Net for 24 × 24 pixels, O-Net for 48 × 48.

    `thresholds` are the least scores that each lets pass. Faces are looked for from `min_face` pixels on; None: from 20, or
    a 64th of the picture's longer side.
    """

    pnet: Any
    rnet: Any
    onet: Any
    thresholds: tuple[float, float, float] = (0.6, 0.7, 0.7)
    min_face: float | None = None
    label: str = "face"

    def __post_init__(self) -> None:
        if self.min_face is not None and not self.min_face >= _WINDOW:
            raise InputError(f"min_face: expected at least {_WINDOW} pixels, found {self.min_face}")
        if not all(0 <= threshold <= 1 for threshold in self.thresholds):
            raise InputError(f"thresholds: expected numbers from 0 to 1, found {self.thresholds}")

    def prepare(self, picture: Array) -> _Prepared:
        """The picture at all its sizes, side by side on one canvas: the first network runs once."""
        height, width = picture.shape[:2]
        min_face = self.min_face or max(20.0, max(height, width) / 64)
        levels, size = _pack(_scales(height, width, min_face), height, width)
        sums, canvas = _Sums(picture), np.zeros((1, 3, *size), np.float32)
        for level in levels:
            resized = sums.resized((0, 0, width, height), level.width, level.height)
            rows, columns = slice(level.top, level.top + level.height), slice(level.left, level.left + level.width)
            canvas[0, :, rows, columns] = resized.transpose(2, 0, 1)
        return _Prepared(sums, canvas, levels)

    def infer(self, prepared: Sequence[_Prepared], batch: int = 1) -> list[_Faces]:
        """See `Job`."""
        return [self._faces(one) for one in prepared]

    def finish(self, output: _Faces, picture: Array) -> Detections:
        """Within the picture."""
        height, width = picture.shape[:2]
        boxes = np.clip(output.boxes, 0, [width, height, width, height])
        return Detections.of(boxes, output.scores, np.zeros(len(boxes), np.int64), (self.label,), output.landmarks)

    def _faces(self, prepared: _Prepared) -> _Faces:
        boxes = self._propose(prepared)
        found = self._look(self.rnet, prepared.sums, boxes, side=_SIDES[0], threshold=self.thresholds[1])
        boxes = _squares(found.take(suppress(found.boxes, found.scores, 0.7)).moved().boxes)
        found = self._look(self.onet, prepared.sums, boxes, side=_SIDES[1], threshold=self.thresholds[2]).moved()
        return found.take(suppress(found.boxes, found.scores, 0.7, overlap=intersection_over_smaller))

    def _propose(self, prepared: _Prepared) -> Array:
        """Squares (N, 4) that may be faces, by the first network."""
        if not prepared.levels:
            return np.zeros((0, 4), np.float32)
        shifts, faces = _by_width(self.pnet(prepared.canvas), 4, 2, axis=1)
        boxes, scores, moves = [], [], []
        for level in prepared.levels:
            top, left = level.top // _STEP, level.left // _STEP
            rows, columns = ((side - _WINDOW) // _STEP + 1 for side in (level.height, level.width))
            of_level = faces[0, 1, top : top + rows, left : left + columns]
            row, column = np.nonzero(of_level >= self.thresholds[0])
            corner = np.stack([column, row], axis=1) * _STEP
            # the corners are counted from 1, and whole numbers: so the networks were trained
            box = np.floor(np.concatenate([corner + 1, corner + _WINDOW], axis=1) / level.scale).astype(np.float32)
            score = of_level[row, column]
            kept = suppress(box, score, 0.5)
            boxes.append(box[kept])
            scores.append(score[kept])
            moves.append(shifts[0, :, top + row[kept], left + column[kept]].reshape(-1, 4))
        box, move = np.concatenate(boxes), np.concatenate(moves)
        kept = suppress(box, np.concatenate(scores), 0.7)
        return _squares(_moved(box[kept], move[kept], extra=0))

    def _look(self, model: Any, sums: _Sums, boxes: Array, *, side: int, threshold: float) -> _Faces:
        """What a network thinks of the boxes: those that it takes for faces, and where it would put them."""
        boxes = boxes[np.isfinite(boxes).all(axis=1)]
        cuts = _cut(boxes, sums.width, sums.height)
        seen = (cuts[:, 2:] > cuts[:, :2]).all(axis=1)
        boxes, cuts = boxes[seen], cuts[seen].tolist()
        crops = [np.ascontiguousarray(sums.resized(cut, side, side).transpose(2, 0, 1)[None]) for cut in cuts]
        batch = possible_batch(model, (1, 3, side, side), _CROPS)
        outputs = [np.concatenate(parts) for parts in zip(*run_in_batches(model, crops, batch), strict=True)]
        if not outputs:
            return _Faces(*(np.zeros((0, *shape), np.float32) for shape in ((4,), (), (4,), (5, 2))))
        moves, faces = _by_width(outputs, 4, 2, axis=1)
        points = next((output for output in outputs if output.shape[1] == 10), None)
        kept = faces[:, 1] > threshold
        boxes = boxes[kept]
        landmarks = np.zeros((len(boxes), 0, 2), np.float32)
        if points is not None:
            sizes = boxes[:, None, 2:] - boxes[:, None, :2] + 1
            landmarks = boxes[:, None, :2] - 1 + sizes * points[kept].reshape(-1, 2, 5).transpose(0, 2, 1)
        return _Faces(boxes, faces[kept, 1], moves[kept], landmarks)


def cascade_of(models: Sequence[Any], **options: Any) -> FaceCascade:
    """The cascade of three models in any order: the shapes of their inputs tell which is which."""
    sides = [(the_input_shape(model) or (None,) * 4)[2] for model in models]
    wanted = (None, *_SIDES)
    if len(models) != 3 or set(sides) != set(wanted):
        found = ", ".join(str(the_input_shape(model)) for model in models)
        raise InputError(
            "three networks find faces if one takes pictures of any height and width, one of 24 × 24 pixels and one of "
            f"48 × 48 (MTCNN's P-Net, R-Net, O-Net); found inputs {found}"
        )
    return FaceCascade(*(models[sides.index(side)] for side in wanted), **options)


def _scales(height: int, width: int, min_face: float) -> list[float]:
    """Factors by which faces from `min_face` pixels on become the window, until the picture is smaller than that."""
    scales, scale = [], _WINDOW / min_face
    while min(height, width) * scale >= _WINDOW:
        scales.append(scale)
        scale *= _SHRINK
    return scales


def _pack(scales: Sequence[float], height: int, width: int) -> tuple[list[_Level], tuple[int, int]]:
    """The picture's sizes on shelves of one canvas, and the height and width of that."""
    levels: list[_Level] = []
    shelves: list[list[int]] = []  # where the free part of a shelf begins: left, top
    canvas_width, canvas_height = _WINDOW, 0
    for scale in scales:
        size = int(width * scale + 1), int(height * scale + 1)
        canvas_width = max(canvas_width, size[0])
        shelf = next((shelf for shelf in shelves if shelf[0] + size[0] <= canvas_width), None)
        if shelf is None:  # sizes become smaller, so what opens a shelf is the highest on it
            shelves.append(shelf := [0, canvas_height])
            canvas_height += _even(size[1])
        levels.append(_Level(scale, shelf[0], shelf[1], *size))
        shelf[0] += _even(size[0])
    # whole steps, so that pictures of nearly the same size run the same code
    return levels, (_rounded(max(canvas_height, _WINDOW)), _rounded(canvas_width))


def _even(size: int) -> int:
    return size + size % _STEP


def _rounded(size: int, step: int = 32) -> int:
    return math.ceil(size / step) * step


def _by_width(outputs: Sequence[Array], *widths: int, axis: int) -> list[Array]:
    """The outputs that have the given lengths along an axis."""
    found = [next((output for output in outputs if output.shape[axis] == width), None) for width in widths]
    if any(output is None for output in found):
        raise InputError(f"expected outputs of {widths} numbers a window, found shapes {[o.shape for o in outputs]}")
    return [output for output in found if output is not None]


def _moved(boxes: Array, moves: Array, *, extra: int) -> Array:
    """Boxes whose edges move by shares of their width and height; `extra` pixels belong to these."""
    sizes = boxes[:, 2:] - boxes[:, :2] + extra
    return np.asarray(boxes + moves * np.tile(sizes, 2))


def _squares(boxes: Array) -> Array:
    """The squares around boxes of the same middles."""
    sizes = boxes[:, 2:] - boxes[:, :2]
    side = sizes.max(axis=1, keepdims=True, initial=0)
    corner = boxes[:, :2] + sizes / 2 - side / 2
    return np.concatenate([corner, corner + side], axis=1)


def _cut(boxes: Array, width: int, height: int) -> Array:
    """The whole pixels of boxes within the picture: left, top, right, bottom, the first two counted from 1 before."""
    whole = np.trunc(np.clip(boxes, -(2.0**30), 2.0**30)).astype(int)
    return np.concatenate([np.maximum(whole[:, :2], 1) - 1, np.minimum(whole[:, 2:], [width, height])], axis=1)
