"""Pictures for the page: which models take some, and what is shown of their answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from ..dtypes import Array
from ..errors import KuiperError
from ..runtime import Model
from ..settings import settings
from ..vision import preprocess_for, read_labels, read_picture, top_classes
from ..vision.bundled import LABELS
from .refusals import Refusal
from .served_model import ServedModel
from .service import Service

_THREADS = 2
_MOST_WAITING = 16  # pictures that are decoded or wait for it


@dataclass(frozen=True)
class PictureJob:
    """What a model does with a picture: `name` for the page, from pixels to its input, and from its outputs to plain data."""

    name: str
    prepare: Callable[[Array], Array]
    finish: Callable[[Sequence[Array], Array], dict[str, Any]]


def classification(model: Model) -> PictureJob | None:
    """Names what is on the picture, if the model has one input for a picture and one output of a number a class."""
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        return None
    shape = model.outputs[0].shape
    if shape is None or len(shape) not in (2, 4) or shape[0] not in (None, 1) or (shape[1] or 0) < 2:
        return None
    if any(dim != 1 for dim in shape[2:]):
        return None
    try:
        prepare = preprocess_for(model.inputs[0].shape)
    except KuiperError:
        return None
    imagenet = read_labels(LABELS)
    labels = imagenet if shape[1] == len(imagenet) else ()

    def finish(outputs: Sequence[Array], _: Array) -> dict[str, Any]:
        return {"classes": [found.to_dict() for found in top_classes(outputs[0], labels)]}

    return PictureJob("classify", prepare, finish)


class Pictures:
    """Runs picture jobs over a service: decoding in threads, the model in the queue like any other request."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._threads = ThreadPoolExecutor(_THREADS, "kuiper-serve-pictures")
        self._waiting = 0
        self._jobs: WeakKeyDictionary[ServedModel, PictureJob | None] = WeakKeyDictionary()

    def job(self, model: ServedModel) -> PictureJob | None:
        """What a model does with pictures, if it does."""
        if model not in self._jobs:
            self._jobs[model] = classification(model.model)
        return self._jobs[model]

    async def look(self, job: PictureJob, model: ServedModel, data: bytes) -> dict[str, Any]:
        """What a model sees in a picture file, with the picture's size and the seconds that it took.

        Raises `InputError` where it is no picture, and `ResourceLimitError` where it has too many pixels.
        """
        if self._waiting >= _MOST_WAITING:
            raise Refusal(429, "too many pictures wait to be read", retry_after=1)
        start = time.monotonic()
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            picture, prepared = await loop.run_in_executor(self._threads, self._read, job, data)
            began = time.monotonic()
            outputs = await self._service.run(model, [prepared])
            ran = time.monotonic()
            found = await loop.run_in_executor(self._threads, job.finish, outputs, picture)
        finally:
            self._waiting -= 1
        return {
            "job": job.name,
            "height": picture.shape[0],
            "width": picture.shape[1],
            "seconds": time.monotonic() - start,
            "model_seconds": ran - began,
            **found,
        }

    def _read(self, job: PictureJob, data: bytes) -> tuple[Array, Array]:
        with settings(max_image_pixels=self._service.options.limits.pixels):
            picture = read_picture(data)
            return picture, job.prepare(picture)
