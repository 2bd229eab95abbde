"""What a monitor wants to know, in the form that Prometheus reads; seconds and bytes, no other units."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from .scheduler import Timing

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_RECENT = 512  # requests of a model whose latency the page shows

# HTTP status -> outcome of a request
_OUTCOMES = {200: "ok", 429: "queue_full", 503: "unavailable", 499: "client_gone"}


def outcome_of(status: int) -> str:
    """The outcome by which a request is counted."""
    return _OUTCOMES.get(status, "invalid" if status < 500 else "error")


@dataclass
class Recent:
    """Seconds that a model's latest requests took, and when each was answered."""

    answered: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def figures(self) -> dict[str, float | int]:
        """Median and 99th percentile in seconds, of how many requests, and requests per second over the last ten."""
        seconds = sorted(spent for _, spent in self.answered)
        if not seconds:
            return {"count": 0}
        now = time.monotonic()
        lately = sum(1 for when, _ in self.answered if now - when <= 10)
        return {
            "count": len(seconds),
            "median": seconds[len(seconds) // 2],
            "p99": seconds[min(len(seconds) - 1, int(len(seconds) * 0.99))],
            "rate": lately / 10,
        }


class Metrics:
    """The counters of one server. Only names of models that were loaded become labels, so that strangers cannot add any."""

    def __init__(self, waiting: Callable[[], int], loaded: Callable[[], int]) -> None:
        self.registry = registry = CollectorRegistry()
        model = ("model", "version")
        self._requests = Counter(
            "kuiper_requests", "Inference requests, by outcome", (*model, "outcome"), registry=registry
        )
        self._inferences = Counter("kuiper_inferences", "Rows inferred", model, registry=registry)
        self._executions = Counter(
            "kuiper_executions", "Runs of the model; one may serve many", model, registry=registry
        )

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(f"kuiper_{name}_seconds", text, model, buckets=_SECONDS, registry=registry)

        self._queue = histogram("queue", "Seconds from a request's arrival to the begin of its run")
        self._compute = histogram("compute", "Seconds of the run that served a request")
        self._total = histogram("request", "Seconds from the begin of a request's body to its answer")
        Gauge("kuiper_queue_length", "Requests in the queue", registry=registry).set_function(waiting)
        Gauge("kuiper_loaded_models", "Versions of models that are loaded", registry=registry).set_function(loaded)
        ProcessCollector(registry=registry)  # process_resident_memory_bytes, process_cpu_seconds_total, …
        self._recent: dict[tuple[str, str], Recent] = {}

    def request(self, name: str, version: str, status: int, seconds: float) -> None:
        """Counts a request that was answered with an HTTP status after so many seconds."""
        self._requests.labels(name, version, outcome_of(status)).inc()
        if status == 200:
            self._total.labels(name, version).observe(seconds)
            self.recent(name, version).answered.append((time.monotonic(), seconds))

    def run(self, name: str, version: str, timing: Timing, rows: int) -> None:
        """Counts a request's share of a run."""
        self._inferences.labels(name, version).inc(rows)
        if timing.first:
            self._executions.labels(name, version).inc()
        self._queue.labels(name, version).observe(timing.queue)
        self._compute.labels(name, version).observe(timing.compute)

    def recent(self, name: str, version: str) -> Recent:
        """A model's latest requests."""
        return self._recent.setdefault((name, version), Recent())

    def forget(self, name: str, versions: Sequence[str]) -> None:
        """Drops what the page shows of a model that is gone; counters stay, as counters do."""
        for version in versions:
            self._recent.pop((name, version), None)

    def text(self) -> bytes:
        """All metrics in the text form of Prometheus."""
        return generate_latest(self.registry)
