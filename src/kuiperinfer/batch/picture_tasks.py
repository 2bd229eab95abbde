"""The jobs of `vision` as tasks: the answer for a picture as columns of a table."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from ..dtypes import Array
from ..settings import settings
from ..vision import Classification, Detections, Job, Segmentation, read_picture
from ..vision.drawing import draw
from .predictor import RESULT_SETTINGS
from .sources import Row
from .tasks import Task, picture_of


@dataclass(frozen=True)
class Answers:
    """How the results of one kind of job become columns: their schema, and their values for a result."""

    schema: Any
    values: Callable[[Any], dict[str, Any]]


def _classes(found: Sequence[Classification]) -> dict[str, Any]:
    best = found[0]
    return {"label": best.label, "probability": best.probability, "classes": [one.to_dict() for one in found]}


def _detections(found: Detections) -> dict[str, Any]:
    return {"detections": [{"landmarks": []} | one.to_dict() for one in found]}


def _segmentation(found: Segmentation) -> dict[str, Any]:
    small = len(found.labels) <= 256
    mask = io.BytesIO()
    Image.fromarray(found.indices.astype(np.uint8) if small else found.indices).save(mask, "PNG")
    return {"mask": mask.getvalue(), "classes": found.to_dict()["classes"]}


def _structs(*fields: tuple[str, Any]) -> Any:
    return pa.list_(pa.struct([("index", pa.int32()), ("label", pa.string()), *fields]))


# A box is left, top, right, bottom in pixels; a landmark is x, y; a mask is a PNG whose pixels are the indices of classes.
_BOX = pa.list_(pa.float32())
_LANDMARKS = pa.list_(pa.list_(pa.float32()))
ANSWERS = {
    "classify": Answers(
        pa.schema(
            [
                ("label", pa.string()),
                ("probability", pa.float64()),
                ("classes", _structs(("probability", pa.float64()))),
            ]
        ),
        _classes,
    ),
    "detect": Answers(
        pa.schema([("detections", _structs(("score", pa.float32()), ("box", _BOX), ("landmarks", _LANDMARKS)))]),
        _detections,
    ),
    "segment": Answers(
        pa.schema([("mask", pa.binary()), ("classes", _structs(("share", pa.float64()), ("box", _BOX)))]),
        _segmentation,
    ),
}


class PictureTask(Task):
    """The answer of a job of `vision` (`kind` is a name in `ANSWERS`) for the picture in each row.

    `threads` are those of one inference of up to `batch` pictures. The settings that results hang on are those of the moment
    when this was made.
    """

    records_at_once = 32

    def __init__(self, kind: str, job: Job[Any], batch: int, threads: int, picture_column: str = "image") -> None:
        self.kind = kind
        self.job = job
        self.batch = batch
        self.columns = (picture_column,)
        self.schema = ANSWERS[kind].schema
        self._settings = {"threads": threads} | {name: getattr(settings, name) for name in RESULT_SETTINGS}

    def prepare(self, row: Row) -> tuple[Array, Any]:
        """The picture, and what the network needs of it."""
        picture = read_picture(picture_of(row, self.columns[0]))
        return picture, self.job.prepare(picture)

    def infer(self, prepared: Sequence[tuple[Array, Any]]) -> list[Any]:
        """One output of the network for each."""
        with settings(**self._settings):
            return self.job.infer([inputs for _, inputs in prepared], self.batch)

    def finish(self, prepared: tuple[Array, Any], output: Any) -> dict[str, Any]:
        """The values of the columns; beside them, the answer itself."""
        result = self.job.finish(output, prepared[0])
        return ANSWERS[self.kind].values(result) | {_RESULT: result}

    def annotate(self, prepared: tuple[Array, Any], record: Mapping[str, Any]) -> Array:
        """The picture with its answer drawn on it."""
        return draw(prepared[0], record[_RESULT])


_RESULT = ""  # the name of no column
