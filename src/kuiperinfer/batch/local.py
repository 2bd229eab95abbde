"""Runs a job in this process: its workers are threads, which share one model."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from ..errors import InputError
from ..runtime.team import allowed_cpus, default_threads
from .job import BatchJob, Progress, Runner
from .part import run_part
from .sources import Slice


class _Stopped(Exception):
    """Raised within workers whose work is not wanted any more."""


def worker_count(workers: int | None, threads: int) -> int:
    """`workers`, or as many as there are CPUs for.

    Raises `InputError` where workers of `threads` threads need more CPUs than this process may use: they would only wait for
    each other.
    """
    allowed = allowed_cpus()
    if threads > allowed:
        raise InputError(f"threads: expected 1 to {allowed}, the CPUs that this process may use, found {threads}")
    if workers is not None and workers * threads > allowed:
        raise InputError(
            f"{workers} workers of {threads} threads exceed the {allowed} CPUs that this process may use; "
            f"expected at most {allowed // threads} workers"
        )
    return workers or max(1, default_threads() // threads)


def local_runner(workers: int) -> Runner:
    """A runner with the given number of worker threads."""

    def run(job: BatchJob, parts: Mapping[int, Sequence[Slice]], progress: Progress) -> None:
        stopped, lock = threading.Event(), threading.Lock()

        def advance(rows: int, errors: int) -> None:
            if stopped.is_set():
                raise _Stopped
            with lock:
                progress(rows, errors)

        with ThreadPoolExecutor(workers, "kuiper-batch") as pool:
            try:
                futures = [
                    pool.submit(contextvars.copy_context().run, run_part, job, number, slices, advance)
                    for number, slices in parts.items()
                ]
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    return run
