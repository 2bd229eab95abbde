"""Runs a job on Ray: its workers are a pool of Ray Data's actors, each with the model loaded once."""

from __future__ import annotations

import logging
import os
import pickle
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from typing import Any

from ..errors import InputError, KuiperError
from .job import BatchJob, Progress, Runner
from .local import worker_count
from .output import Finished
from .part import run_part
from .sources import Slice

_ANSWER_SECONDS = 12.0  # of a cluster that is asked whether it is there
_MOST_ATTEMPTS = 5  # at one part: Ray would give what kills its worker to another one for ever


class PartActor:
    """What Ray Data calls with the number and the slices of a part; answers with the numbers of its rows."""

    def __init__(self, shipped: Sequence[Any]) -> None:
        import ray

        self._job: BatchJob = ray.get(shipped[0])

    def __call__(self, columns: Mapping[str, Any]) -> dict[str, list[Any]]:
        """One part. An error that concerns the whole job is an answer too, so that its message reaches the user."""
        number = int(columns["part"][0])
        done = self._job.output.finished(number)  # by a worker that was lost before it could say so
        try:
            done = done or self._run(number, pickle.loads(columns["slices"][0]))
        except KuiperError as error:
            return {"part": [number], "rows": [0], "errors": [0], "problem": [str(error)]}
        return {"part": [number], "rows": [done.rows], "errors": [len(done.errors)], "problem": [""]}

    def _run(self, number: int, slices: Sequence[Slice]) -> Finished:
        if self._job.output.count_attempt(number) > _MOST_ATTEMPTS:
            first, last = slices[0], slices[-1]
            raise KuiperError(
                f"{_MOST_ATTEMPTS} workers were lost at part {number}, from {first.source.path} (row {first.start}) to "
                f"{last.source.path} (row {last.stop - 1}): look for what kills them, such as too little memory for --actors"
            )
        return run_part(self._job, number, slices, lambda rows, errors: None)


def ray_runner(address: str, actors: int | None, threads: int) -> Runner:
    """A runner on the Ray cluster at `address`, or on one within this machine for ``"local"``.

    `actors` workers (as many as the cluster's CPUs allow, if None) of `threads` CPUs each; Ray restarts those that are lost,
    and gives their part to another. All machines need this package, and the paths of the inputs and of the output folder.
    Raises `InputError` where there is no cluster, or no machine with so many CPUs.
    """
    if address == "local":
        actors = worker_count(actors, threads)

    def run(job: BatchJob, parts: Mapping[int, Sequence[Slice]], progress: Progress) -> None:
        if parts:
            with _connected(address, actors, threads):
                _run(job, parts, progress, actors, threads)

    return run


@contextmanager
def _connected(address: str, actors: int | None, threads: int) -> Iterator[None]:
    import ray

    if ray.is_initialized():  # by the program that we are a part of
        yield
        return
    _check_address(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    logging.getLogger("ray._private.authentication").setLevel(logging.ERROR)  # that a token is used is no warning
    local = {"num_cpus": (actors or 1) * threads, "include_dashboard": False} if address == "local" else {}
    with redirect_stdout(sys.stderr):  # where Ray reports workers that were lost
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING, **local)
        except Exception as error:  # Ray raises it itself where a cluster does not start in time
            what = "started" if address == "local" else "reached"
            raise InputError(f"--ray {address}: there is no Ray cluster to be {what} ({error})") from error
        try:
            yield
        finally:
            ray.shutdown()


def _check_address(address: str) -> None:
    """Raises `InputError` where no cluster answers soon: Ray itself tries to reach it for minutes."""
    host_and_port = re.fullmatch(r"(ray://)?\[?([^\s/]+?)\]?:([0-9]+)", address)
    try:
        if host_and_port:
            socket.create_connection((host_and_port[2], int(host_and_port[3])), _ANSWER_SECONDS).close()
        if address == "auto" or (host_and_port and not host_and_port[1]):  # whatever it says of a cluster, there is one
            status = [sys.executable, "-m", "ray.scripts.scripts", "status", "--address", address]
            told = subprocess.run(status, capture_output=True, timeout=_ANSWER_SECONDS, check=False).stderr
            if b"AuthenticationError" in told:
                raise InputError(
                    f"--ray {address}: the cluster lets in only those who show its token; expected RAY_AUTH_MODE=token, "
                    f"and the token in ~/.ray/auth_token or RAY_AUTH_TOKEN"
                )
    except (OSError, OverflowError, UnicodeError, subprocess.TimeoutExpired) as error:
        reason = f"no answer within {_ANSWER_SECONDS:g} s" if isinstance(error, subprocess.TimeoutExpired) else error
        raise InputError(
            f"--ray {address}: there is no Ray cluster to be reached ({reason}); expected the head's address as "
            f"`ray start --head` shows it (port 6379 by default), auto on one of its machines, or local for one within this"
        ) from error


def _run(
    job: BatchJob, parts: Mapping[int, Sequence[Slice]], progress: Progress, actors: int | None, threads: int
) -> None:
    import ray
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False  # `progress` hears of everything
    largest = max((int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]), default=0)
    if threads > largest:
        raise InputError(
            f"threads: expected 1 to {largest}, the CPUs of the cluster's largest machine, found {threads}"
        )
    room = max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)
    most = min(actors or room, len(parts))
    rows = [{"part": number, "slices": pickle.dumps(slices)} for number, slices in parts.items()]
    shipped = ray.put(replace(job, sources=()))  # once, with the weights of the model; the slices name their sources
    done = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        PartActor,
        fn_constructor_args=([shipped],),
        batch_size=1,
        num_cpus=threads,
        compute=ray.data.ActorPoolStrategy(min_size=min(most, room), max_size=most),
    )
    heard: set[int] = set()
    try:
        for batch in done.iter_batches(batch_size=None, prefetch_batches=0):
            for number, count, errors, problem in zip(*(batch[name] for name in _ANSWER), strict=True):
                if problem:
                    raise KuiperError(str(problem))
                if int(number) not in heard:
                    heard.add(int(number))
                    progress(int(count), int(errors))
    except ray.exceptions.RayError as error:
        text = str(error).strip()
        reason = text.splitlines()[-1] if "Traceback" in text else text  # what a worker raised stands last
        raise KuiperError(
            f"Ray gave up on the job ({type(error).__name__}: {reason}); what is finished stays, start the job again"
        ) from error


_ANSWER = ("part", "rows", "errors", "problem")
