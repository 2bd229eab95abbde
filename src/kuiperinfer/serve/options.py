"""How a server runs, and what it refuses to be asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import InputError
from ..runtime.team import allowed_cpus, default_threads


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request, and all of them together, may take; a request is data from a stranger."""

    head_bytes: int = 64 << 10  # of a request line and headers, or of what else frames a body
    body_bytes: int = 64 << 20
    json_bytes: int = 8 << 20  # of a body; larger tensors are sent in the binary form
    elements: int = 1 << 24  # of one tensor
    pixels: int = 50_000_000  # of one picture
    bytes_in_flight: int = 512 << 20  # of all bodies that are read or wait
    waiting: int = 256  # requests in the queue
    connections: int = 512
    head_seconds: float = 10.0  # until a request's head is there
    body_seconds: float = 30.0  # until its body is there; also how long a client may take nothing of its answer
    answer_seconds: float = 30.0  # from then on, until its answer is ready
    drain_seconds: float = 60.0  # what a shutdown waits for requests that were accepted


@dataclass(frozen=True, kw_only=True)
class Options:
    """`workers` runs go on at the same time, each with `threads` threads; together never more than the allowed CPUs.

    Up to `max_batch` rows of requests of equal shape are run at once; a worker that is free waits up to `max_delay` seconds
    for so many. `exact` batches only models whose rows are the same bit for bit in a batch as alone. `token` is what clients
    have to show, empty for none; `hosts` are the names by which clients may call the server, empty for those
    that go with its address (see `names_of`).
    """

    threads: int = field(default_factory=default_threads)
    workers: int = 0
    max_batch: int = 8
    max_delay: float = 0.0
    exact: bool = True
    token: str = ""
    hosts: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        allowed = allowed_cpus()
        if not 1 <= self.threads <= allowed:
            raise InputError(
                f"threads: expected 1 to {allowed}, the CPUs that this process may use, found {self.threads}"
            )
        if not 0 <= self.workers * self.threads <= allowed:
            raise InputError(
                f"{self.workers} workers of {self.threads} threads exceed the {allowed} CPUs that this process may use"
            )
        if self.max_batch < 1:
            raise InputError(f"max_batch: expected at least 1, found {self.max_batch}")
        if not 0 <= self.max_delay <= self.limits.answer_seconds:
            raise InputError(
                f"max_delay: expected 0 to {self.limits.answer_seconds:g} seconds, found {self.max_delay:g}"
            )

    @property
    def worker_count(self) -> int:
        """`workers`, or as many as there are CPUs for."""
        return self.workers or max(1, allowed_cpus() // self.threads)
