"""What the server does, without HTTP: models, the queue, and the numbers about both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..dtypes import Array
from ..errors import KuiperError
from .bodies import BodyReader
from .catalogue import Catalogue
from .metrics import Metrics
from .options import Options
from .refusals import too_late
from .scheduler import Outputs, Scheduler
from .served_model import ServedModel


class Service:
    """Models by name and by file, and those of a repository; `start` loads them."""

    def __init__(
        self, models: Mapping[str, Path], repository: Path | None = None, options: Options | None = None
    ) -> None:
        self.options = options or Options()
        self.catalogue = Catalogue(models, repository, self.options)
        self.scheduler = Scheduler(self.options.worker_count, self.options.threads, self.options.limits.waiting)
        self.metrics = Metrics(lambda: self.scheduler.waiting, lambda: len(self.catalogue.loaded()))
        self.parser = ThreadPoolExecutor(
            1, "kuiper-serve-json"
        )  # one, since JSON takes many times its size when it is read
        self.bodies = BodyReader(self.options.limits)
        self.hosts = self.options.hosts
        self.draining = False
        self.failure: KuiperError | None = None  # of a model without which there is nothing to serve

    @property
    def ready(self) -> bool:
        """Whether all models that could be loaded are, and are warm."""
        return self.catalogue.started and not self.draining

    async def start(self) -> None:
        """Loads the models. One that was asked for by its file and cannot be loaded is a `failure` of the whole server."""
        try:
            await self.catalogue.start()
        except KuiperError as error:
            self.failure = error

    async def run(self, model: ServedModel, inputs: Sequence[Array], seconds: float | None = None) -> Outputs:
        """A model's outputs for inputs in file order, within `seconds` or the server's own limit, whichever is less.

        Raises `Refusal` where the queue is full or the time is over, and whatever the model says of these inputs.
        """
        limit = self.options.limits.answer_seconds
        limit = limit if seconds is None else min(seconds, limit)
        start = time.monotonic()
        shapes = tuple(array.shape for array in inputs)
        lane = model.lane(shapes)
        if lane is None:
            try:
                lane = await asyncio.wait_for(self.catalogue.open_lane(model, shapes), limit)
            except asyncio.TimeoutError:
                raise too_late(limit) from None
        outputs, timing = await self.scheduler.run(lane, inputs, limit, spent=time.monotonic() - start)
        rows = inputs[0].shape[0] if inputs and inputs[0].ndim else 1
        self.metrics.run(model.name, model.version, timing, rows)
        return outputs

    async def unload(self, name: str) -> None:
        """Takes a model away."""
        versions = self.catalogue.versions(name)
        await self.catalogue.unload(name)
        self.metrics.forget(name, versions)

    def close(self) -> None:
        """Answers what waits, and ends all threads."""
        self.scheduler.stop()
        self.parser.shutdown(wait=False, cancel_futures=True)
        self.catalogue.close()
