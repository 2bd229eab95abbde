"""Which models there are, and which of them are loaded.

A request names a model; it never names a file. Files are found by listing the folders that the server was started with.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from ..errors import KuiperError, did_you_mean
from ..runtime import load
from .options import Options
from .refusals import Refusal, not_found
from .repository import Versions, find_models
from .scheduler import Lane
from .served_model import ServedModel, Shapes

log = logging.getLogger(__name__)

_MOST_SHAPES_WAITING = 8  # input shapes that wait to be compiled

Result = TypeVar("Result")


class Catalogue:
    """The models of a server: `models` given by file, and those of a folder, which is looked at anew each time.

    Loading happens in one thread of its own, a model after the other; requests go on meanwhile.
    """

    def __init__(self, models: Mapping[str, Path], repository: Path | None, options: Options) -> None:
        self._given: dict[str, Versions] = {name: {"1": path} for name, path in models.items()}
        self._repository = repository
        self._options = options
        self._loaded: dict[str, dict[str, ServedModel]] = {}
        self._seen: dict[str, Versions] = self._given  # what could be loaded when it was looked at last
        self._left_out: dict[Path, str] = {}  # of the repository, and why
        self._reasons: dict[tuple[str, str], str] = {}  # why a version is not there
        self._thread = ThreadPoolExecutor(1, "kuiper-serve-load")
        self._pool = ThreadPoolExecutor(options.worker_count * options.threads, "kuiper-serve-row")
        self._lock = asyncio.Lock()  # models are loaded and unloaded one after the other
        self._opening: dict[tuple[ServedModel, Shapes], asyncio.Task[Lane]] = {}
        self.started = False

    # ------------------------------------------------------------------------------------------- what is there

    def names(self) -> list[str]:
        """The names of the loaded models."""
        return sorted(self._loaded)

    def loaded(self) -> list[ServedModel]:
        """All versions of all loaded models."""
        return [model for name in self.names() for model in self._loaded[name].values()]

    def get(self, name: str, version: str | None = None) -> ServedModel:
        """A loaded model, of several versions the latest. Raises `Refusal` 404 where it is not there."""
        versions = self._loaded.get(name, {})
        wanted = version or max(versions or self._seen.get(name, {}), key=int, default="")
        if wanted not in versions:
            raise not_found(self._absence(name, wanted))
        return versions[wanted]

    def versions(self, name: str) -> list[str]:
        """The loaded versions of a model."""
        return sorted(self._loaded.get(name, {}), key=int)

    def _absence(self, name: str, version: str) -> str:
        """Why there is no such model, or no such version of it."""
        if version in self._seen.get(name, {}):
            return f"version {version} of model '{name}' is not loaded: {self._reason(name, version)}"
        if versions := self.versions(name):
            return f"model '{name}' has no version '{version[:20]}', only {', '.join(versions)}"
        known = self.names()
        shown = name if len(name) <= 80 else f"{name[:77]}…"
        return f"there is no model '{shown}' here; loaded are {', '.join(known) or 'none'}{did_you_mean(shown, known)}"

    def _reason(self, name: str, version: str) -> str:
        """Why a version that is known is not loaded."""
        default = "it came after the server's start" if self.started else "the server is starting"
        return self._reasons.get((name, version), default)

    def _known(self) -> dict[str, Versions]:
        """All that could be loaded. Looks into the file system: to be called in the thread."""
        if self._repository is not None:
            found = find_models(self._repository)
            for name in found.models.keys() & self._given.keys():
                for path in found.models[name].values():
                    found.left_out[path] = f"the server was started with another model '{name}'"
            for entry, reason in found.left_out.items():
                if self._left_out.get(entry) != reason:  # once, and not each time that somebody asks
                    log.warning("%s is left out: %s", entry, reason)
            self._left_out = found.left_out
            self._seen = found.models | self._given
        return self._seen

    async def index(self, *, only_ready: bool = False) -> list[dict[str, str]]:
        """The protocol's repository index: name, version, state and reason of all versions."""
        known = await self._in_thread(self._known)
        rows = []
        for name in sorted({*known, *self._loaded}):
            for version in sorted({*known.get(name, {}), *self._loaded.get(name, {})}, key=int):
                ready = version in self._loaded.get(name, {})
                reason = "" if ready else self._reason(name, version)
                if ready or not only_ready:
                    state = "READY" if ready else "UNAVAILABLE"
                    rows.append({"name": name, "version": version, "state": state, "reason": reason})
        return rows

    # ------------------------------------------------------------------------------------------- load and unload

    async def start(self) -> None:
        """Loads all that is known. What of the repository cannot be loaded stands in the index with the reason.

        Raises the error of a model that was given by its file.
        """
        async with self._lock:
            for name, versions in (await self._in_thread(self._known)).items():
                made, refusals = await self._load_versions(name, versions)
                for refusal in refusals:
                    if name in self._given:
                        raise refusal
                    log.error("%s", refusal)
                if made:
                    self._loaded[name] = made
        self.started = True

    async def load(self, name: str) -> None:
        """Loads all versions of a model, or loads them anew: the old ones serve until the new ones are ready.

        Raises the error of a version that cannot be loaded; then nothing has changed.
        """
        async with self._lock:
            known = await self._in_thread(self._known)
            if name not in known:
                near = did_you_mean(name[:80], known)
                raise not_found(
                    f"there is no model '{name[:80]}' to load; known are {', '.join(sorted(known)) or 'none'}{near}"
                )
            made, refusals = await self._load_versions(name, known[name])
            if refusals:
                for version in made:
                    self._reasons[name, version] = f"not loaded, since {refusals[0]}"
                raise refusals[0]
            self._loaded[name] = made

    async def _load_versions(self, name: str, versions: Versions) -> tuple[dict[str, ServedModel], list[Refusal]]:
        """The versions that can be loaded, and why others cannot."""
        made: dict[str, ServedModel] = {}
        refusals: list[Refusal] = []
        for version in sorted(versions, key=int):
            path = versions[version]
            try:
                made[version] = await self._in_thread(self._load, name, version, path)
            except Exception as error:
                if not isinstance(error, (KuiperError, MemoryError)):
                    log.exception("model '%s' cannot be loaded", name)
                status, reason = _reason_of(error, path)
                self._reasons[name, version] = reason
                which = f"version {version} of model" if len(versions) > 1 else "model"
                refusals.append(Refusal(status, f"{which} '{name}' cannot be loaded: {reason}"))
                refusals[-1].__cause__ = error
            else:
                self._reasons.pop((name, version), None)
        return made, refusals

    def _load(self, name: str, version: str, path: Path) -> ServedModel:
        model = ServedModel(name, version, load(path), self._options, self._pool)
        model.warm_up()
        if find_spec("PIL") is not None:
            from .pictures import job_of

            model.job = job_of(model.model, path)
        log.info("loaded %s version %s: %s", name, version, model.how)
        return model

    async def unload(self, name: str) -> None:
        """Takes a model away; requests that wait for it are still answered."""
        async with self._lock:
            for version in self._loaded.pop(name, {}):
                self._reasons[name, version] = "unloaded"
            await self._in_thread(gc.collect)  # a model and its plans refer to each other

    async def open_lane(self, model: ServedModel, shapes: Shapes) -> Lane:
        """A lane for requests with input shapes that are new to a model, which is compiled for them.

        Raises `Refusal` 429 where many other shapes wait for that, and whatever the model says of these shapes.
        """
        opening = self._opening.get((model, shapes))
        if opening is None:
            if len(self._opening) >= _MOST_SHAPES_WAITING:
                raise Refusal(429, "too many new input shapes wait to be compiled", retry_after=5)
            opening = self._opening[model, shapes] = asyncio.ensure_future(self._compile_lane(model, shapes))
            # whoever waits for it may have gone, and then nobody would look at an error
            opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(opening)  # others may wait for it too

    async def _compile_lane(self, model: ServedModel, shapes: Shapes) -> Lane:
        try:
            lane = await self._in_thread(model.compile_lane, shapes)
            model.keep_lane(shapes, lane)
            return lane
        finally:
            del self._opening[model, shapes]

    async def _in_thread(self, function: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def close(self) -> None:
        """Ends the threads; a model that is being loaded is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._pool.shutdown()


def _reason_of(error: Exception, path: Path) -> tuple[int, str]:
    """Status and words for a model that cannot be loaded; where it lies is nobody's business."""
    if isinstance(error, KuiperError):
        return 400, str(error).replace(f"{path.parent}/", "")
    if isinstance(error, MemoryError):
        return 503, "not enough memory"
    return 500, "internal error; the server's log says more"
