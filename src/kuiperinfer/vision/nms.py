"""Non-maximum suppression: of boxes that overlap, the best one stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..dtypes import Array
from ..errors import InputError

_BLOCK = 256  # boxes that are held against one another at once


def intersection_over_union(boxes: Array, others: Array) -> Array:
    """How much boxes (N, 4) and (M, 4), as x0, y0, x1, y1, overlap: (N, M), from 0 to 1. NaN where both are empty."""
    common = _intersections(boxes, others)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(common / (_areas(boxes)[:, None] + _areas(others) - common))


def intersection_over_smaller(boxes: Array, others: Array) -> Array:
    """The same, of the smaller box's area: 1 for a box within another one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(_intersections(boxes, others) / np.minimum(_areas(boxes)[:, None], _areas(others)))


def _areas(boxes: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))


def _intersections(boxes: Array, others: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        width = np.minimum(boxes[:, None, 2], others[:, 2]) - np.maximum(boxes[:, None, 0], others[:, 0])
        height = np.minimum(boxes[:, None, 3], others[:, 3]) - np.maximum(boxes[:, None, 1], others[:, 1])
        zero = boxes.dtype.type(0)
        return np.asarray(np.maximum(width, zero) * np.maximum(height, zero))


def suppress(
    boxes: Array,
    scores: Array,
    threshold: float,
    *,
    classes: Array | None = None,
    limit: int | None = None,
    overlap: Callable[[Array, Array], Array] = intersection_over_union,
) -> Array:
    """The indices of the boxes that stay, best first: none overlaps a better one (of its class) by more than `threshold`.

    Boxes (N, 4) as x0, y0, x1, y1, scores (N), classes (N) of whole numbers -> at most `limit` indices. As
    `torchvision.ops.nms` has it: of equal scores the first one counts as better, and NaN is better than all. `overlap` is
    one of the functions of this module. Raises `InputError` for other shapes.
    """
    if boxes.ndim != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise InputError(f"expected boxes (N, 4) and scores (N), found {boxes.shape} and {scores.shape}")
    if classes is not None and classes.shape != scores.shape:
        raise InputError(f"expected classes {scores.shape}, as many as scores, found {classes.shape}")
    order = np.argsort(-scores, kind="stable")
    if unordered := int(np.isnan(scores).sum()):  # they stand last
        order = np.roll(order, unordered)
    kept = order[:0]

    def too_close(some: Array, others: Array) -> Array:
        close = overlap(boxes[some], boxes[others]) > np.float64(threshold)
        if classes is not None:
            close &= classes[some][:, None] == classes[others]
        return np.asarray(close)

    for start in range(0, len(order), _BLOCK):
        if limit is not None and len(kept) >= limit:
            break
        block = order[start : start + _BLOCK]
        if len(kept):
            block = block[~too_close(kept, block).any(axis=0)]
        suppressed = np.triu(too_close(block, block), 1)  # of each box, the worse ones that are too close
        alive = np.ones(len(block), bool)
        for index in np.flatnonzero(suppressed.any(axis=1)):
            if alive[index]:
                alive &= ~suppressed[index]
        kept = np.concatenate([kept, block[alive]])
    return kept[:limit]
