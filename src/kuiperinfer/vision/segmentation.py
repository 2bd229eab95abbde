"""Which pixels of a picture belong to what, by one network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from ..dtypes import Array
from ..errors import InputError, ResourceLimitError
from ..runtime import Model
from ..settings import settings
from .detections import supervision
from .job import NetworkJob
from .preprocess import Preprocess

OUTPUTS = ("probabilities", "logits")
_MOST_CLASSES = 4096


@dataclass(frozen=True, eq=False)
class Segmentation:
    """The class of each pixel of a picture: `indices` (H, W) uint16, and the names of all classes.

    Class 0 is the background, with which nothing is drawn.
    """

    indices: Array
    labels: tuple[str, ...]

    def mask(self, index: int = 1) -> Array:
        """Where a class is: (H, W) bool."""
        return np.asarray(self.indices == index)

    def share(self, index: int = 1) -> float:
        """The part of the picture that a class covers, from 0 to 1."""
        return float(self.mask(index).mean())

    def box(self, index: int = 1) -> tuple[int, int, int, int] | None:
        """The least box around a class, as left, top, right, bottom in pixels; None where the class is nowhere."""
        rows, columns = (np.flatnonzero(self.mask(index).any(axis=axis)) for axis in (1, 0))
        if not rows.size:
            return None
        return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, without the pixels: which classes there are, the share and the box of each."""
        present = np.unique(self.indices).tolist()
        found = [
            {
                "index": index,
                "label": self.labels[index],
                "share": self.share(index),
                "box": list(self.box(index) or ()),
            }
            for index in present
        ]
        return {"classes": sorted(found, key=lambda of_class: -of_class["share"])}

    def to_supervision(self) -> Any:
        """The same as `supervision.Detections` with a mask a class but the background. Needs the package supervision."""
        present = [index for index in np.unique(self.indices).tolist() if index]
        height, width = self.indices.shape
        return supervision().Detections(
            xyxy=np.array([self.box(index) for index in present], np.float32).reshape(-1, 4),
            mask=np.array([self.mask(index) for index in present], bool).reshape(-1, height, width),
            class_id=np.array(present, int),
            data={"class_name": np.array([self.labels[index] for index in present], dtype=str)},
        )


@dataclass(frozen=True)
class Segmenter(NetworkJob[Segmentation]):
    """A network with a map a class: (1, C, H, W) -> (1, K, H', W').

    With one map (K = 1), pixels belong to the one class where its probability is above `threshold`; `output` says whether
    the network gives "probabilities" or "logits" (None: as its last operator has it). With several, a pixel belongs to the
    class whose map is the largest. `labels` are the names of the classes, with that of the background first.
    """

    model: Any
    preprocess: Preprocess
    labels: Sequence[str] = ()
    threshold: float = 0.5
    output: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise InputError(f"threshold: expected a number between 0 and 1, found {self.threshold}")
        if self.output not in (None, *OUTPUTS):
            raise InputError(f"output: expected one of {', '.join(OUTPUTS)}, found '{self.output}'")

    def finish(self, output: Sequence[Array], picture: Array) -> Segmentation:
        """The maps, resized to the picture and compared there: edges are smooth where the picture is larger than the maps."""
        maps = _maps(output[0])
        size = self.preprocess
        tall, wide = maps.shape[1] * size.width, maps.shape[2] * size.height
        if not tall < 2 * wide < 4 * tall:  # (1, numbers, boxes) of a detector, say
            raise InputError(
                f"this model's output {output[0].shape} is not a map of its input of {size.height}×{size.width} pixels; "
                "expected shape (1, classes, H, W) in its proportions"
            )
        height, width = picture.shape[:2]
        if len(maps) == 1:
            above = self._as_probabilities(self._to_picture(maps[0], height, width)) > self.threshold
            return Segmentation(above.astype(np.uint16), self._names(2))
        best = self._to_picture(maps[0], height, width)
        indices = np.zeros((height, width), np.uint16)
        for index, of_class in enumerate(maps[1:], 1):
            values = self._to_picture(of_class, height, width)
            better = values > best
            indices[better] = index
            np.copyto(best, values, where=better)
        return Segmentation(indices, self._names(len(maps)))

    def _names(self, classes: int) -> tuple[str, ...]:
        if self.labels and len(self.labels) != classes:
            raise InputError(f"the model tells {classes} classes apart, but there are {len(self.labels)} labels")
        if self.labels:
            return tuple(self.labels)
        return ("background", *(f"class {index}" for index in range(1, classes)))

    def _as_probabilities(self, values: Array) -> Array:
        given = self.output or ("probabilities" if _ends_in_probabilities(self.model, values) else "logits")
        if given == "probabilities":
            return values
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-values)))

    def _to_picture(self, values: Array, height: int, width: int) -> Array:
        """A map as it lies on the picture: the part that is not beside it, resized."""
        placement = self.preprocess.placement(width, height)
        factor_x, factor_y = values.shape[1] / self.preprocess.width, values.shape[0] / self.preprocess.height
        left, top, right, bottom = placement.to_input(np.array([0, 0, width, height]))
        box = (left * factor_x, top * factor_y, right * factor_x, bottom * factor_y)
        return _resampled(np.asarray(values, np.float32), box, height, width)


def _maps(output: Array) -> Array:
    """(K, H, W) of an output (1, K, H, W) or (1, H, W). Raises `InputError` for others."""
    maps = output[0] if output.ndim == 4 else output
    if (
        output.ndim not in (3, 4)
        or output.shape[0] != 1
        or not 1 <= len(maps) <= _MOST_CLASSES
        or output.dtype.kind != "f"
    ):
        raise InputError(
            f"this model's output {output.shape} {output.dtype} is not a map a class; expected shape (1, classes, H, W)"
        )
    return np.asarray(maps)


def _resampled(values: Array, box: tuple[float, ...], height: int, width: int) -> Array:
    """A part of a map, which may reach beyond it (there, the map goes on as it ends), as (height, width)."""
    if height * width > settings.max_image_pixels:
        raise ResourceLimitError(
            f"a map of {width}×{height} pixels exceeds settings.max_image_pixels={settings.max_image_pixels:,}"
        )
    beyond = [max(0, -box[0]), max(0, -box[1]), max(0, box[2] - values.shape[1]), max(0, box[3] - values.shape[0])]
    left, top, right, bottom = (int(np.ceil(round(side, 6))) for side in beyond)
    padded = np.pad(values, ((top, bottom), (left, right)), mode="edge") if any((left, top, right, bottom)) else values
    moved = (
        max(0.0, box[0] + left),
        max(0.0, box[1] + top),
        min(float(padded.shape[1]), box[2] + left),
        min(float(padded.shape[0]), box[3] + top),
    )
    image = Image.fromarray(padded).resize((width, height), Image.Resampling.BILINEAR, box=moved)
    return np.array(image)


_GIVES_PROBABILITIES = ("F.sigmoid", "nn.Sigmoid", "F.softmax", "nn.Softmax", "torch.sigmoid", "F.hardsigmoid")


def _ends_in_probabilities(model: Any, values: Array) -> bool:
    """Whether the last operator of a model has outputs from 0 to 1; of what is no `Model`, whether these are."""
    if not isinstance(model, Model):
        return bool(values.min(initial=0.0) >= 0 and values.max(initial=0.0) <= 1)
    producer = model.graph.output_operators[0].input_operands_seq[0].producer
    return producer.type in _GIVES_PROBABILITIES
