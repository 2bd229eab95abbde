"""Which models there are, and which of them are loaded.

A request names a model; it never names a file. Files are found by listing the folders that the server was started with.

Repository: NAME.pnnx.param, NAME/*.pnnx.param, or NAME/VERSION/*.pnnx.param with VERSION a number, in one folder.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from ..errors import InputError, KuiperError, did_you_mean
from ..runtime import load
from .options import Options
from .refusals import Refusal, not_found
from .scheduler import Lane
from .served_model import ServedModel, Shapes

log = logging.getLogger(__name__)

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_VERSION = re.compile(r"[1-9][0-9]{0,8}")
_SUFFIX = ".pnnx.param"
_MOST_SHAPES_WAITING = 8  # input shapes that wait to be compiled

Versions = dict[str, Path]
Result = TypeVar("Result")


def model_name(path: Path) -> str:
    """The name under which a model file is served: its own, without the endings."""
    name = path.name.removesuffix(_SUFFIX)
    if not NAME.fullmatch(name):
        raise InputError(f"{path}: '{name}' is no name for a model; expected letters, digits, '.', '_' and '-'")
    return name


def find_models(repository: Path) -> dict[str, Versions]:
    """Model name -> version -> file of all that lie in a repository; what has no valid name is left out."""
    try:
        entries = sorted(repository.iterdir())
    except OSError as error:
        raise InputError(f"{repository}: cannot be read as a folder of models ({error.strerror or error})") from error
    found: dict[str, Versions] = {}
    for entry in entries:
        name = entry.name.removesuffix(_SUFFIX)
        if not NAME.fullmatch(name):
            continue
        try:
            versions = _versions(entry)
        except OSError as error:
            log.warning("%s is left out: %s", entry, error.strerror or error)
            continue
        if versions:
            found.setdefault(name, {}).update(versions)
    return found


def _versions(entry: Path) -> Versions:
    if not entry.is_dir():
        return {"1": entry} if entry.name.endswith(_SUFFIX) else {}
    own = _only_model(entry)
    found: Versions = {"1": own} if own else {}
    for folder in sorted(entry.iterdir()):
        if _VERSION.fullmatch(folder.name) and folder.is_dir() and (file := _only_model(folder)):
            found[folder.name] = file
    return found


def _only_model(folder: Path) -> Path | None:
    files = sorted(folder.glob(f"*{_SUFFIX}"))
    return files[0] if len(files) == 1 else None


class Catalogue:
    """The models of a server: `models` given by file, and those of a folder, which is looked at anew each time.

    Loading happens in one thread of its own, a model after the other; requests go on meanwhile.
    """

    def __init__(self, models: Mapping[str, Path], repository: Path | None, options: Options) -> None:
        self._given: dict[str, Versions] = {name: {"1": path} for name, path in models.items()}
        self._repository = repository
        self._options = options
        self._loaded: dict[str, dict[str, ServedModel]] = {}
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
        versions = self._loaded.get(name)
        if not versions:
            raise not_found(self._no_model(name))
        wanted = version or max(versions, key=int)
        if wanted not in versions:
            raise not_found(f"model '{name}' has no version '{wanted[:20]}', only {', '.join(versions)}")
        return versions[wanted]

    def versions(self, name: str) -> list[str]:
        """The loaded versions of a model."""
        return sorted(self._loaded.get(name, {}), key=int)

    def _no_model(self, name: str) -> str:
        known = self.names()
        shown = name if len(name) <= 80 else f"{name[:77]}…"
        listed = ", ".join(known) or "none"
        return f"there is no model '{shown}' here; loaded are {listed}{did_you_mean(shown, known)}"

    def _known(self) -> dict[str, Versions]:
        """All that could be loaded. Looks into the file system: to be called in a thread."""
        return (find_models(self._repository) if self._repository else {}) | self._given

    async def index(self, *, only_ready: bool = False) -> list[dict[str, str]]:
        """The protocol's repository index: name, version, state and reason of all versions."""
        known = await self._in_thread(self._known)
        rows = []
        for name in sorted({*known, *self._loaded}):
            for version in sorted({*known.get(name, {}), *self._loaded.get(name, {})}, key=int):
                ready = version in self._loaded.get(name, {})
                reason = "" if ready else self._reasons.get((name, version), "not loaded")
                if ready or not only_ready:
                    state = "READY" if ready else "UNAVAILABLE"
                    rows.append({"name": name, "version": version, "state": state, "reason": reason})
        return rows

    # ------------------------------------------------------------------------------------------- load and unload

    async def start(self) -> None:
        """Loads all that is known. What of the repository cannot be loaded stands in the index with the reason.

        Raises the error of a model that was given by its file.
        """
        for name in await self._in_thread(self._known):
            try:
                await self.load(name)
            except KuiperError as error:
                if name in self._given:
                    raise
                log.error("%s", error)
        self.started = True

    async def load(self, name: str) -> None:
        """Loads all versions of a model, or loads them anew: the old ones serve until the new ones are ready."""
        async with self._lock:
            known = await self._in_thread(self._known)
            if name not in known:
                near = did_you_mean(name[:80], known)
                raise not_found(
                    f"there is no model '{name[:80]}' to load; known are {', '.join(known) or 'none'}{near}"
                )
            made: dict[str, ServedModel] = {}
            for version, path in known[name].items():
                try:
                    made[version] = await self._in_thread(self._load, name, version, path)
                except Exception as error:
                    if not isinstance(error, (KuiperError, MemoryError)):
                        log.exception("model '%s' cannot be loaded", name)
                    status, reason = _reason_of(error, path)
                    self._reasons[name, version] = reason
                    raise Refusal(status, f"model '{name}' cannot be loaded: {reason}") from error
                self._reasons.pop((name, version), None)
            self._loaded[name] = made

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
