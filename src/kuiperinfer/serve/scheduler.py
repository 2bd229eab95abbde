"""The queue in front of the workers: requests of equal shape are joined along the first dimension and run at once.

A *lane* holds the requests that can be joined with each other. Workers are threads, because a run is native code that does
not hold the interpreter's lock; each takes what has waited longest, and while one waits for a batch to fill, requests of other
lanes go past it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ..dtypes import Array
from ..errors import KuiperError
from .refusals import Refusal, shutting_down, too_late

log = logging.getLogger(__name__)

Outputs: TypeAlias = "list[Array]"
Run: TypeAlias = "Callable[[Sequence[Array]], Outputs]"


@dataclass(eq=False)
class Lane:
    """Requests that one call of `run` may serve together: up to `most_rows` rows, for which the first waits up to `delay`.

    `run` has all threads of a worker. Where there is `alone`, it runs one row with one thread: several rows that wait then have
    a thread each.
    """

    run: Run
    most_rows: int = 1
    delay: float = 0.0
    alone: Run | None = None
    waiting: deque[Job] = field(default_factory=deque)
    rows: int = 0  # of those that wait

    def ready_at(self) -> float:
        """The time at which the first request need not wait any longer for others."""
        return -math.inf if self.rows >= self.most_rows else self.waiting[0].arrived + self.delay

    def take(self, most_rows: int) -> list[Job]:
        """The requests of the next run: at least one, and no more than `most_rows` rows if there are several."""
        taken = [self.waiting.popleft()]
        rows = taken[0].rows
        while self.waiting and rows + self.waiting[0].rows <= most_rows:
            taken.append(self.waiting.popleft())
            rows += taken[-1].rows
        self.rows -= rows
        return taken


@dataclass(frozen=True)
class Timing:
    """Seconds that a request waited, seconds of the run that served it, and whether it is the first of that run's requests."""

    queue: float
    compute: float
    first: bool


@dataclass(eq=False)
class Job:
    """One request in a lane; its future belongs to the event loop."""

    inputs: Sequence[Array]
    rows: int
    arrived: float
    future: asyncio.Future[tuple[Outputs, Timing]]


@dataclass(frozen=True)
class Turn:
    """What is done next: requests, what runs them, and how many threads that takes."""

    run: Run
    jobs: list[Job]
    threads: int


class Scheduler:
    """`workers` runs of `threads` threads at a time, and a queue of at most `most_waiting` requests in front of them."""

    def __init__(self, workers: int, threads: int, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._threads_a_run = threads
        self._free = workers * threads  # threads that no run has
        self._lanes: set[Lane] = set()  # those in which something waits
        self._waiting = 0
        self._hurrying = False  # batches do not wait to fill
        self._stopping = False
        self._condition = threading.Condition()
        self._seconds_a_row = 0.01  # a running mean, to tell clients when to come back
        self._threads = [
            threading.Thread(target=self._work, name=f"kuiper-serve-{number}", daemon=True)
            for number in range(self._free)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return self._waiting

    async def run(
        self, lane: Lane, inputs: Sequence[Array], seconds: float, *, spent: float = 0.0
    ) -> tuple[Outputs, Timing]:
        """The outputs for one request. Raises `Refusal`: 429 if the queue is full, 503 if there is no answer after `seconds`.

        Of these, some may be `spent` already. A caller that is cancelled leaves the queue.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[Outputs, Timing]] = loop.create_future()
        # without rows it still takes a turn of its own
        rows = max(1, inputs[0].shape[0]) if inputs and inputs[0].ndim else 1
        self._put(lane, Job(inputs, rows, time.monotonic(), future))

        def give_up() -> None:
            if not future.done():
                future.set_exception(too_late(seconds))

        timer = loop.call_later(max(0.0, seconds - spent), give_up)
        try:
            return await future
        finally:
            timer.cancel()

    def _put(self, lane: Lane, job: Job) -> None:
        with self._condition:
            if self._stopping:
                raise shutting_down()
            if self._waiting >= self._most_waiting:
                seconds = max(1.0, self._waiting * self._seconds_a_row / max(1, len(self._threads)))
                raise Refusal(429, f"the queue is full: {self._waiting} requests wait", retry_after=math.ceil(seconds))
            lane.waiting.append(job)
            lane.rows += job.rows
            self._waiting += 1
            self._lanes.add(lane)
            self._condition.notify()

    def hurry(self) -> None:
        """From now on no run waits for more rows."""
        with self._condition:
            self._hurrying = True
            self._condition.notify_all()

    def stop(self, seconds: float = 5.0) -> None:
        """Lets the workers finish what waits, and waits for them."""
        with self._condition:
            self._hurrying = self._stopping = True
            self._condition.notify_all()
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    # --------------------------------------------------------------------------------------- in the workers' threads

    def _work(self) -> None:
        while (turn := self._next_turn()) is not None:
            try:
                jobs = [job for job in turn.jobs if not job.future.done()]  # nobody waits for the others any more
                if jobs:
                    self._serve(turn.run, jobs)
            finally:
                with self._condition:
                    self._free += turn.threads  # this worker looks for the next turn itself

    def _next_turn(self) -> Turn | None:
        """Waits for the next requests and the threads for them; None once there is nothing left to do."""
        with self._condition:
            while True:
                now = time.monotonic()
                ready = [lane for lane in self._lanes if self._hurrying or lane.ready_at() <= now]
                if ready:
                    lane = min(ready, key=lambda lane: lane.waiting[0].arrived)
                    if self._threads_for(lane) <= self._free:
                        return self._take(lane)
                    self._condition.wait()
                elif self._lanes:
                    self._condition.wait(min(lane.ready_at() for lane in self._lanes) - now)
                elif self._stopping:
                    return None
                else:
                    self._condition.wait()

    def _threads_for(self, lane: Lane) -> int:
        """One for one of several rows that could each have one; else as many as a run may have."""
        several = 2 * self._waiting > self._threads_a_run or self._free < self._threads_a_run
        return 1 if lane.alone is not None and lane.waiting[0].rows == 1 and several else self._threads_a_run

    def _take(self, lane: Lane) -> Turn:
        threads = self._threads_for(lane)
        if lane.alone is not None and threads < self._threads_a_run:
            turn = Turn(lane.alone, lane.take(most_rows=1), threads)
        else:
            turn = Turn(lane.run, lane.take(lane.most_rows), threads)
        if not lane.waiting:
            self._lanes.discard(lane)
        self._waiting -= len(turn.jobs)
        self._free -= threads
        if self._stopping:
            self._condition.notify_all()
        elif self._lanes:  # there may be threads for more
            self._condition.notify()
        return turn

    def _serve(self, run: Run, jobs: list[Job]) -> None:
        start = time.monotonic()
        rows = sum(job.rows for job in jobs)
        try:
            results: list[Outputs | KuiperError] = list(run_jobs(run, jobs))
        except KuiperError as error:
            if len(jobs) > 1:  # one of them is to blame, the others shall have their answers
                for job in jobs:
                    self._serve(run, [job])
                return
            results = [error]
        except MemoryError:
            results = [Refusal(503, "not enough memory for this request", retry_after=1) for _ in jobs]
        except Exception:
            log.exception("a run failed")
            results = [Refusal(500, "internal error; the server's log says more") for _ in jobs]
        end = time.monotonic()
        self._seconds_a_row += 0.1 * ((end - start) / max(1, rows) - self._seconds_a_row)
        timings = [Timing(start - job.arrived, end - start, job is jobs[0]) for job in jobs]
        try:
            jobs[0].future.get_loop().call_soon_threadsafe(_deliver, jobs, results, timings)
        except RuntimeError:  # the loop is closed: the server has gone, and its clients with it
            log.warning("%d answers came after the end", len(jobs))


def run_jobs(run: Run, jobs: Sequence[Job]) -> list[Outputs]:
    """The outputs of each request, from one run of them all."""
    if len(jobs) == 1:
        return [run(jobs[0].inputs)]
    joined = [np.concatenate(parts) for parts in zip(*(job.inputs for job in jobs), strict=True)]
    ends = np.cumsum([job.rows for job in jobs])[:-1]
    parts = [np.split(output, ends) for output in run(joined)]
    return [list(outputs) for outputs in zip(*parts, strict=True)]


def _deliver(jobs: Sequence[Job], results: Sequence[Outputs | KuiperError], timings: Sequence[Timing]) -> None:
    for job, result, timing in zip(jobs, results, timings, strict=True):
        if job.future.done():  # given up
            continue
        if isinstance(result, KuiperError):
            job.future.set_exception(result)
        else:
            job.future.set_result((result, timing))
