"""The forms in which detectors say what they found, and how each is read: boxes in the pixels of the network's input.

A head is told by the shapes of a network's outputs, or by its name in `HEADS`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..dtypes import Array
from ..errors import InputError, did_you_mean

Shape = tuple[int, ...]
Anchors = tuple[tuple[tuple[float, float], ...], ...]  # widths and heights, a scale, the finest scale first

# Anchors that networks trained on COCO and VOC have where their files do not say it.
YOLOV5_ANCHORS: Anchors = (
    ((10, 13), (16, 30), (33, 23)),
    ((30, 61), (62, 45), (59, 119)),
    ((116, 90), (156, 198), (373, 326)),
)
YOLOV3_TINY_ANCHORS: Anchors = (((10, 14), (23, 27), (37, 58)), ((81, 82), (135, 169), (344, 319)))
YOLOV2_ANCHORS: Anchors = (((1.08, 1.19), (3.42, 4.41), (6.63, 11.38), (9.42, 5.11), (16.62, 10.52)),)


class Candidates(NamedTuple):
    """Boxes (N, 4) as x0, y0, x1, y1 in pixels of the input, scores (N), and classes (N)."""

    boxes: Array
    scores: Array
    classes: Array


class Head(ABC):
    """Reads the outputs of a network for one picture."""

    classes: int  # how many the network knows; 0 where it finds one kind of thing and gives it no number

    @abstractmethod
    def read(self, outputs: Sequence[Array], height: int, width: int, confidence: float) -> Candidates:
        """The boxes whose score is at least `confidence`, from outputs (1, …) for an input of `height` × `width`."""


def _candidates(boxes: Array, scores: Array, classes: Array) -> Candidates:
    """Without the boxes that are no boxes: what comes of weights that overflow."""
    finite = np.isfinite(boxes).all(axis=1)
    return Candidates(boxes[finite], scores[finite], classes[finite])


def _from_middles(middles: Array, sizes: Array) -> Array:
    return np.concatenate([middles - sizes / 2, middles + sizes / 2], axis=1)


@dataclass(frozen=True)
class RowsHead(Head):
    """Rows (1, N, 5 + K): middle, size, objectness and a probability a class, all decoded. YOLOv5 and its kin.

    The score is objectness × class. `output` is the index among the outputs. What follows the classes (the masks of segmenting
    networks) is not read.
    """

    output: int
    classes: int

    def read(self, outputs: Sequence[Array], height: int, width: int, confidence: float) -> Candidates:
        rows = outputs[self.output][0]
        rows = rows[rows[:, 4] >= confidence]
        if self.classes:
            best = rows[:, 5 : 5 + self.classes].argmax(axis=1)
            scores = rows[:, 4] * rows[np.arange(len(rows)), 5 + best]
        else:
            best, scores = np.zeros(len(rows), np.int64), rows[:, 4]
        kept = scores >= confidence
        return _candidates(_from_middles(rows[kept, :2], rows[kept, 2:4]), scores[kept], best[kept])


@dataclass(frozen=True)
class ColumnsHead(Head):
    """Columns (1, 4 + K, N): middle, size, and a probability a class, all decoded. YOLOv8, YOLO11 and their kin.

    `rows`: the two dimensions are the other way round. What follows the classes is not read.
    """

    output: int
    classes: int
    rows: bool = False

    def read(self, outputs: Sequence[Array], height: int, width: int, confidence: float) -> Candidates:
        columns = outputs[self.output][0].T if self.rows else outputs[self.output][0]
        of_classes = columns[4 : 4 + self.classes]
        kept = np.flatnonzero(of_classes.max(axis=0) >= confidence)
        of_classes = of_classes[:, kept]
        best = of_classes.argmax(axis=0)
        boxes = columns[:4, kept].T
        return _candidates(_from_middles(boxes[:, :2], boxes[:, 2:]), of_classes[best, np.arange(len(kept))], best)


@dataclass(frozen=True)
class FinalHead(Head):
    """Rows (1, N, 6): left, top, right, bottom, score, class. YOLOv10, YOLO26, and exports with suppression built in."""

    output: int
    classes: int = -1  # not to be seen from the shape

    def read(self, outputs: Sequence[Array], height: int, width: int, confidence: float) -> Candidates:
        rows = outputs[self.output][0]
        rows = rows[(rows[:, 4] >= confidence) & np.isfinite(rows[:, 5])]
        return _candidates(rows[:, :4], rows[:, 4], rows[:, 5].astype(np.int64))


def _sigmoid(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-values)))


def _softmax(values: Array) -> Array:
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class GridHead(Head):
    """Maps of cells, one a scale, as convolutions give them: for each anchor of a cell x, y, w, h, objectness and K classes.

    Maps are (1, A (5 + K), H, W) or (1, A, H, W, 5 + K). With s the sigmoid of a number, the middle of a box in cells and its
    size are: cell + s and anchor * exp (YOLOv2, YOLOv3), or cell - 0.5 + 2 s and anchor * (2 s)^2 (YOLOv5, `doubled`). Sizes of
    anchors are in pixels, or in cells (YOLOv2, `in_cells`), whose classes are a softmax too (`exclusive`).
    """

    outputs: tuple[int, ...]  # the indices of the maps, the finest first
    anchors: Anchors
    classes: int
    doubled: bool = False
    in_cells: bool = False
    exclusive: bool = False

    def read(self, outputs: Sequence[Array], height: int, width: int, confidence: float) -> Candidates:
        scales = [
            self._read_scale(outputs[index], np.array(anchors, np.float32), height, width, confidence)
            for index, anchors in zip(self.outputs, self.anchors, strict=True)
        ]
        return Candidates(*(np.concatenate(parts) for parts in zip(*scales, strict=True)))

    def _read_scale(self, cells: Array, anchors: Array, height: int, width: int, confidence: float) -> Candidates:
        cells = self._by_anchor(cells, len(anchors))
        # where sigmoid(x) >= confidence may hold, by its inverse; only those cells are looked at any further
        share = min(confidence, 1 - 1e-7)
        least = math.log(share / (1 - share)) - 1e-3 if share > 0 else -math.inf
        anchor, row, column = np.nonzero(cells[..., 4] >= np.float32(least))
        found = cells[anchor, row, column].astype(np.float32)
        cell = np.stack([column, row], axis=1).astype(np.float32)
        stride = np.array([width / cells.shape[2], height / cells.shape[1]], np.float32)
        unit = stride if self.in_cells else np.float32(1)
        with np.errstate(over="ignore"):
            if self.doubled:
                middles = (cell - 0.5 + 2 * _sigmoid(found[:, :2])) * stride
                sizes = anchors[anchor] * unit * (2 * _sigmoid(found[:, 2:4])) ** 2
            else:
                middles = (cell + _sigmoid(found[:, :2])) * stride
                sizes = anchors[anchor] * unit * np.exp(found[:, 2:4])
        scores = _sigmoid(found[:, 4])
        best = np.zeros(len(found), np.int64)
        if self.classes:
            best = found[:, 5:].argmax(axis=1)
            shares = (_softmax if self.exclusive else _sigmoid)(found[:, 5:])
            scores = scores * shares[np.arange(len(found)), best]
        kept = scores >= confidence
        return _candidates(_from_middles(middles[kept], sizes[kept]), scores[kept], best[kept])

    @staticmethod
    def _by_anchor(cells: Array, anchors: int) -> Array:
        """(A, H, W, 5 + K)"""
        if cells.ndim == 5:
            return cells[0]
        _, channels, height, width = cells.shape
        return cells[0].reshape(anchors, channels // anchors, height, width).transpose(0, 2, 3, 1)


# ------------------------------------------------------------------------------------------- which head it is


@dataclass(frozen=True)
class _Question:
    """What is known of a network when its head is looked for."""

    shapes: Sequence[Shape]
    cells: int  # of strides 8, 16 and 32 together
    anchors: Anchors | None
    classes: int | None

    def tables(self) -> list[int]:
        """The outputs (1, M, N)."""
        return [index for index, shape in enumerate(self.shapes) if len(shape) == 3]

    def maps(self) -> list[int]:
        """The outputs (1, C, H, W) and (1, A, H, W, C), the finest first."""
        found = [index for index, shape in enumerate(self.shapes) if len(shape) in (4, 5)]
        return sorted(
            found, key=lambda index: -math.prod(self.shapes[index][-2 - (len(self.shapes[index]) == 5) :][:2])
        )

    def masks(self) -> int:
        """How many numbers a box has for its mask: the channels of the one map, of which masks are made."""
        maps = self.maps()
        return self.shapes[maps[0]][1] if len(maps) == 1 and self.tables() else 0

    def agrees(self, classes: int) -> bool:
        """Whether a head may have that many classes."""
        return classes >= 0 and self.classes in (None, classes, classes or 1)


def _rows(question: _Question) -> Head | None:
    for index in question.tables():
        _, rows, columns = question.shapes[index]
        classes = columns - 5 - question.masks()
        if rows > columns and question.agrees(classes):
            return RowsHead(index, classes)
    return None


def _columns(question: _Question) -> Head | None:
    for index in question.tables():
        _, rows, columns = question.shapes[index]
        if columns == question.cells or (rows != question.cells and rows < columns):
            turned, classes = False, rows - 4 - question.masks()
        else:
            turned, classes = True, columns - 4 - question.masks()
        if classes >= 1 and question.agrees(classes):
            return ColumnsHead(index, classes, turned)
    return None


def _final(question: _Question) -> Head | None:
    for index in question.tables():
        if question.shapes[index][2] == 6:
            return FinalHead(index)
    return None


def _grid(standard: Anchors, **rules: bool) -> Callable[[_Question], Head | None]:
    def find(question: _Question) -> Head | None:
        maps, anchors = question.maps(), question.anchors or standard
        if len(maps) != len(anchors):
            return None
        found = set()
        for index, of_scale in zip(maps, anchors, strict=True):
            shape = question.shapes[index]
            count = shape[1] * shape[4] if len(shape) == 5 else shape[1]
            if count % len(of_scale) or (len(shape) == 5 and shape[1] != len(of_scale)):
                return None
            found.add(count // len(of_scale) - 5)
        if len(found) != 1 or not question.agrees(*found):
            return None
        return GridHead(tuple(maps), anchors, found.pop(), **rules)

    return find


# Name -> what makes the head where the shapes allow it.
HEADS: dict[str, Callable[[_Question], Head | None]] = {
    "yolov5": _rows,
    "yolov8": _columns,
    "final": _final,
    "yolov5-raw": _grid(YOLOV5_ANCHORS, doubled=True),
    "yolov3": _grid(YOLOV3_TINY_ANCHORS),
    "yolov2": _grid(YOLOV2_ANCHORS, in_cells=True, exclusive=True),
}


def _order(question: _Question) -> list[str]:
    """The heads to try, the likeliest first."""
    tables = question.tables()
    if not tables:
        return {1: ["yolov2"], 2: ["yolov3"], 3: ["yolov5-raw"]}.get(len(question.maps()), [])
    _, rows, columns = question.shapes[tables[0]]
    if question.cells in (rows, columns):
        return ["yolov8", "yolov5"]
    if columns == 6 and rows <= 1000 and rows % question.cells:
        return ["final"]
    return ["yolov5", "yolov8"] if rows > columns else ["yolov8"]


def find_head(
    shapes: Sequence[Shape],
    height: int,
    width: int,
    *,
    kind: str | None = None,
    anchors: Anchors | None = None,
    classes: int | None = None,
) -> Head:
    """The head of a network with outputs of the given shapes, for an input of `height` × `width`.

    `kind` is a name in `HEADS`, told by the shapes where it is not given; `anchors` stand for the usual ones; `classes` is
    how many labels there are, if any. Raises `InputError` where no head fits.
    """
    cells = sum((height // stride) * (width // stride) for stride in (8, 16, 32))
    question = _Question(shapes, cells, anchors, classes)
    if kind is not None and kind not in HEADS:
        raise InputError(
            f"there is no detector of the kind '{kind}', only {', '.join(HEADS)}{did_you_mean(kind, HEADS)}"
        )
    for name in [kind] if kind is not None else _order(question):
        if (head := HEADS[name](question)) is not None:
            return head
    listed = ", ".join(map(str, shapes))
    labels = "" if classes is None else f", with {classes} labels"
    known = ", ".join(HEADS) if kind is None else kind
    scales = "" if anchors is None else f" and anchors for {len(anchors)} scales"
    raise InputError(
        f"the outputs {listed} for an input of {height}×{width}{labels}{scales} are not those of a detector of a known kind "
        f"({known}); were the labels or the anchors meant for another model?"
    )
