"""Many pictures: threads read and prepare the next ones while the network runs on these and the caller looks at the last."""

from __future__ import annotations

import contextvars
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from ..codegen.processors import allowed_cpus
from ..dtypes import Array
from ..errors import KuiperError
from .job import Job
from .pictures import PictureSource, named_errors, read_picture

Result = TypeVar("Result")
Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Outcome(Generic[Result]):
    """What came of one picture: `result` and the `picture` (H, W, 3), or the `error` that kept it from being worked on.

    `seconds` is what it took to read it, its share of its inference, and what it took to read the outputs.
    """

    source: PictureSource
    result: Result | None = None
    picture: Array | None = None
    error: KuiperError | None = None
    seconds: float = 0.0


class _Read(NamedTuple):
    source: PictureSource
    picture: Array | None
    prepared: Any
    error: KuiperError | None
    seconds: float


def stream(
    job: Job[Result], sources: Iterable[PictureSource], *, batch: int = 1, readers: int | None = None
) -> Iterator[Outcome[Result]]:
    """The outcome of each picture, in their order. A picture that cannot be read is an outcome with an error; the rest go on.

    `batch` pictures go into one inference where the model allows it, and `readers` threads read them (None: one a processor but
    one, at most four); no more than two batches and a few pictures are held at once, so `sources` may be endless. What is wrong
    with the model or the job itself is raised.
    """
    if readers is None:  # more of them would take processors from the inference and give nothing
        readers = min(4, max(1, allowed_cpus() - 1))
    size = job.possible_batch(batch)
    ahead = max(2 * size, readers + 1)
    waiting = iter(sources)
    reading: deque[Future[_Read]] = deque()
    running: deque[tuple[list[_Read], Future[tuple[list[Any], float]]]] = deque()
    with _pool(readers, "kuiper-read") as read_pool, _pool(1, "kuiper-infer") as run_pool:
        while True:
            for source in islice(waiting, ahead - len(reading)):
                reading.append(_submit(read_pool, _read, job, source))
            group: list[_Read] = []
            while reading and sum(one.error is None for one in group) < size:
                group.append(reading.popleft().result())
                for source in islice(waiting, 1):
                    reading.append(_submit(read_pool, _read, job, source))
            if group:
                running.append((group, _submit(run_pool, _run, job, group, size)))
            while running and (len(running) == 2 or not group):
                done, future = running.popleft()
                yield from _finished(job, done, *future.result())
            if not group:
                return


class _pool(ThreadPoolExecutor):
    """Threads that leave what is not begun undone when the caller has gone."""

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, thread_name_prefix=name)

    def __exit__(self, *_: object) -> None:
        self.shutdown(wait=True, cancel_futures=True)


def _submit(pool: ThreadPoolExecutor, function: Callable[..., Value], *arguments: Any) -> Future[Value]:
    """The settings of this thread hold in the pool's too."""
    return pool.submit(contextvars.copy_context().run, function, *arguments)


def _read(job: Job[Any], source: PictureSource) -> _Read:
    start = time.perf_counter()
    try:
        picture = read_picture(source)
        with named_errors(source):
            prepared = job.prepare(picture)
    except KuiperError as error:
        return _Read(source, None, None, error, time.perf_counter() - start)
    return _Read(source, picture, prepared, None, time.perf_counter() - start)


def _run(job: Job[Any], group: list[_Read], batch: int) -> tuple[list[Any], float]:
    """The outputs for the pictures that could be read, and the seconds that each took."""
    start = time.perf_counter()
    prepared = [one.prepared for one in group if one.error is None]
    outputs = job.infer(prepared, batch) if prepared else []
    return outputs, (time.perf_counter() - start) / max(len(prepared), 1)


def _finished(job: Job[Result], group: list[_Read], outputs: list[Any], seconds: float) -> Iterator[Outcome[Result]]:
    remaining = iter(outputs)
    for one in group:
        if one.picture is None:
            yield Outcome(one.source, error=one.error, seconds=one.seconds)
            continue
        start = time.perf_counter()
        result = job.finish(next(remaining), one.picture)
        total = one.seconds + seconds + time.perf_counter() - start
        yield Outcome(one.source, result, one.picture, seconds=total)
