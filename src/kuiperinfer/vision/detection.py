"""What is in a picture, and where, by one network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import Array
from ..errors import InputError, did_you_mean
from .detections import Detections
from .heads import Head
from .job import NetworkJob
from .nms import suppress
from .preprocess import Preprocess

MOST_CANDIDATES = 30_000  # of which the best are looked at, where a confidence near 0 lets all boxes pass


@dataclass(frozen=True)
class Detector(NetworkJob[Detections]):
    """A network that finds objects: `head` reads its outputs.

    Boxes below `confidence` are dropped; of boxes of one class (with `class_agnostic`, of all) that overlap by more than `iou`,
    the best stays; at most `max_detections` are returned, of the classes `only` if these are given. `labels` may be empty, and
    classes are then called by their index.
    """

    model: Any
    preprocess: Preprocess
    head: Head
    labels: Sequence[str] = ()
    confidence: float = 0.25
    iou: float = 0.45
    class_agnostic: bool = False
    max_detections: int = 300
    only: frozenset[int] | None = None

    def __post_init__(self) -> None:
        for name in ("confidence", "iou"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name}: expected a number from 0 to 1, found {getattr(self, name)}")
        if self.max_detections < 1:
            raise InputError(f"max_detections: expected at least 1, found {self.max_detections}")
        if self.labels and self.head.classes >= 0 and len(self.labels) != max(self.head.classes, 1):
            raise InputError(
                f"the model has {max(self.head.classes, 1)} classes, but there are {len(self.labels)} labels"
            )

    def finish(self, output: Sequence[Array], picture: Array) -> Detections:
        """The outputs of the network for one picture -> what is in it."""
        found = self.head.read(output, self.preprocess.height, self.preprocess.width, self.confidence)
        if (
            self.labels
            and found.classes.size
            and not 0 <= found.classes.min() <= found.classes.max() < len(self.labels)
        ):
            raise InputError(f"the model found class {found.classes.max()}, but there are {len(self.labels)} labels")
        if self.only is not None:
            found = type(found)(*(part[np.isin(found.classes, list(self.only))] for part in found))
        if len(found.scores) > MOST_CANDIDATES:
            best = np.argsort(-found.scores, kind="stable")[:MOST_CANDIDATES]
            found = type(found)(*(part[best] for part in found))
        kept = suppress(
            found.boxes,
            found.scores,
            self.iou,
            classes=None if self.class_agnostic else found.classes,
            limit=self.max_detections,
        )
        height, width = picture.shape[:2]
        boxes = self.preprocess.placement(width, height).to_picture(found.boxes[kept])
        return Detections.of(boxes, found.scores[kept], found.classes[kept], self.labels)


def class_indices(names: Sequence[str], labels: Sequence[str]) -> frozenset[int]:
    """The indices of classes that are given by name, or by index. Raises `InputError` for those that are not there."""
    found: set[int] = set()
    for name in names:
        if name in labels:
            found.update(index for index, label in enumerate(labels) if label == name)
        elif name.isascii() and name.isdigit() and len(name) < 10 and (not labels or int(name) < len(labels)):
            found.add(int(name))
        else:
            raise InputError(f"there is no class '{name}'{did_you_mean(name, labels)}")
    return frozenset(found)
