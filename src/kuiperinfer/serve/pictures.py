"""Pictures for the page: what a model does with them, and its answers as plain data."""

from __future__ import annotations

import asyncio
import base64
import io
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from ..dtypes import Array
from ..errors import KuiperError, ResourceLimitError
from ..runtime import Model
from ..settings import settings
from ..vision import (
    Classifier,
    Detections,
    Detector,
    Segmentation,
    Segmenter,
    load_classifier,
    load_detector,
    load_segmenter,
    read_picture,
)
from ..vision.bundled import PICTURES
from ..vision.drawing import colour_of
from ..vision.recipe import recipe_beside
from .refusals import Refusal
from .served_model import ServedModel
from .service import Service

log = logging.getLogger(__name__)

PictureJob: TypeAlias = "Classifier | Detector | Segmenter"

_THREADS = 2
_MOST_WAITING = 16  # pictures that are read or wait for it
_MASK_SIDE = 1024  # pixels of the longer side of a mask; browsers enlarge it

_LOADERS: dict[str, Any] = {"classify": load_classifier, "detect": load_detector, "segment": load_segmenter}
_NAMES = {Classifier: "classify", Detector: "detect", Segmenter: "segment"}
EXAMPLES = {name: PICTURES[name] for name in _LOADERS}


def job_of(model: Model, path: Path) -> PictureJob | None:
    """What a model does with pictures: as the recipe beside it says, or as its outputs look; None where it does nothing."""
    try:
        recipe = recipe_beside(path)
        if recipe.job is not None:
            return _LOADERS[recipe.job](model, recipe=recipe) if recipe.job in _LOADERS else None
    except KuiperError as error:
        log.warning("%s is served without its recipe: %s", path.name, error)
        return None
    if len(model.inputs) != 1:
        return None
    for name in ("classify", "detect"):
        if name == "classify" and not _gives_classes(model):
            continue
        try:
            return _LOADERS[name](model, recipe=recipe)
        except KuiperError:  # it is not for pictures, or not for this job
            continue
    return None


def _gives_classes(model: Model) -> bool:
    """Whether the only output has one number a class."""
    shape = model.outputs[0].shape if len(model.outputs) == 1 else None
    return shape is not None and len(shape) in (2, 4) and (shape[1] or 0) > 1 and all(dim == 1 for dim in shape[2:])


def name_of(job: PictureJob) -> str:
    """The name of a job: that of the command which does it."""
    return _NAMES[type(job)]


class Pictures:
    """Runs jobs over a service: decoding in threads, the model in the queue like any other request."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._threads = ThreadPoolExecutor(_THREADS, "kuiper-serve-pictures")
        self._waiting = 0

    async def look(self, job: PictureJob, model: ServedModel, data: bytes) -> dict[str, Any]:
        """What a model sees in a picture file, with the picture's size and the seconds that it took.

        Raises `InputError` where it is no picture, and `Refusal` where it has too many pixels.
        """
        if self._waiting >= _MOST_WAITING:
            raise Refusal(429, "too many pictures wait to be read", retry_after=1)
        start = time.monotonic()
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            (height, width), prepared = await loop.run_in_executor(self._threads, self._read, job, data)
            began = time.monotonic()
            outputs = await self._service.run(model, [prepared])
            ran = time.monotonic()
            found = await loop.run_in_executor(self._threads, _finish, job, outputs, height, width)
        finally:
            self._waiting -= 1
        seconds = {"seconds": time.monotonic() - start, "model_seconds": ran - began}
        return {"job": name_of(job), "height": height, "width": width, **seconds, **found}

    def _read(self, job: PictureJob, data: bytes) -> tuple[tuple[int, ...], Array]:
        limit = self._service.options.limits.pixels
        with settings(max_image_pixels=limit):
            try:
                picture = read_picture(data)
            except ResourceLimitError as error:
                raise Refusal(
                    413, f"the picture has more than {limit:,} pixels, the most that this server takes"
                ) from error
            return picture.shape[:2], job.prepare(picture)


def _finish(job: PictureJob, outputs: Sequence[Array], height: int, width: int) -> dict[str, Any]:
    """The answer as plain data: `classes`, `boxes` with their colours, or `areas` with theirs and a `mask`."""
    if isinstance(job, Segmenter):
        scale = min(1.0, _MASK_SIDE / max(height, width))
        height, width = max(1, round(height * scale)), max(1, round(width * scale))
    blank = np.broadcast_to(np.uint8(0), (height, width, 3))  # of the picture itself, only the size matters
    found = job.finish(tuple(outputs), blank)
    if isinstance(found, Detections):
        return {"boxes": [{**row.to_dict(), "colour": _colour(row.index)} for row in found]}
    if isinstance(found, Segmentation):
        areas = [{**row, "colour": _colour(row["index"])} for row in found.to_dict()["classes"] if row["index"]]
        return {"areas": areas, "mask": _mask(found)}
    return {"classes": [row.to_dict() for row in found]}


def _colour(index: int) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour_of(index))


def _mask(found: Segmentation) -> str:
    """The classes but the background in their colours, as the address of a PNG picture that holds its own data."""
    present = np.unique(found.indices)
    palette = np.array([(*colour_of(index), 160) if index else (0, 0, 0, 0) for index in present.tolist()], np.uint8)
    pixels = palette[np.searchsorted(present, found.indices)]
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
