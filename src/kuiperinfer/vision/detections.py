"""What a detector finds in a picture: boxes, how sure it is of each, and what is in it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from ..dtypes import Array
from ..errors import InputError


def supervision() -> Any:
    """The package of that name. Raises `InputError` where it is not installed."""
    try:
        return importlib.import_module("supervision")
    except ImportError as error:
        raise InputError("to_supervision needs the package supervision: pip install supervision") from error


@dataclass(frozen=True)
class Detection:
    """One object: its box in pixels of the picture, as left, top, right, bottom; its score, from 0 to 1; its class.

    `landmarks` are points (x, y) that some detectors find beside the box: of a face, the eyes, the nose, the corners of
    the mouth.
    """

    box: tuple[float, float, float, float]
    score: float
    index: int
    label: str
    landmarks: tuple[tuple[float, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        data: dict[str, Any] = {"index": self.index, "label": self.label, "score": self.score, "box": list(self.box)}
        if self.landmarks:
            data["landmarks"] = [list(point) for point in self.landmarks]
        return data


@dataclass(frozen=True, eq=False)
class Detections(Sequence[Detection]):
    """All objects in a picture, the surest first: a sequence of `Detection`, kept as arrays.

    boxes (N, 4) float32, scores (N) float32, indices (N) int64, labels N names, landmarks (N, P, 2) float32 with P 0 for most
    detectors.
    """

    boxes: Array
    scores: Array
    indices: Array
    labels: tuple[str, ...]
    landmarks: Array

    @classmethod
    def of(
        cls, boxes: Array, scores: Array, indices: Array, names: Sequence[str] = (), landmarks: Array | None = None
    ) -> Detections:
        """Detections whose labels are taken from the names of all classes; without names, ``class 7``."""
        labels = tuple(names[index] if names else f"class {index}" for index in indices.tolist())
        points = np.zeros((len(boxes), 0, 2), np.float32) if landmarks is None else landmarks
        arrays = (
            boxes.astype(np.float32),
            scores.astype(np.float32),
            indices.astype(np.int64),
            points.astype(np.float32),
        )
        for array in arrays:
            array.flags.writeable = False
        return cls(arrays[0], arrays[1], arrays[2], labels, arrays[3])

    def __len__(self) -> int:
        return len(self.boxes)

    @overload
    def __getitem__(self, index: int) -> Detection: ...

    @overload
    def __getitem__(self, index: slice) -> Detections: ...

    def __getitem__(self, index: int | slice) -> Detection | Detections:
        if isinstance(index, slice):
            return Detections(
                self.boxes[index],
                self.scores[index],
                self.indices[index],
                self.labels[index],
                self.landmarks[index],
            )
        left, top, right, bottom = self.boxes[index].tolist()
        points = tuple((x, y) for x, y in self.landmarks[index].tolist())
        return Detection(
            (left, top, right, bottom), float(self.scores[index]), int(self.indices[index]), self.labels[index], points
        )

    def __iter__(self) -> Iterator[Detection]:
        return (self[index] for index in range(len(self)))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data: ``{"detections": [...]}``."""
        return {"detections": [found.to_dict() for found in self]}

    def to_supervision(self) -> Any:
        """The same as `supervision.Detections`, with names under ``data["class_name"]``. Needs the package supervision."""
        return supervision().Detections(
            xyxy=np.array(self.boxes).reshape(-1, 4),
            confidence=np.array(self.scores),
            class_id=np.array(self.indices),
            data={"class_name": np.array(self.labels, dtype=str)},
        )
