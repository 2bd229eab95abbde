"""How many processors this process may use."""

from __future__ import annotations

import contextlib
import functools
import os


def allowed_cpus() -> int:
    """CPUs that this process may use: its affinity, cut by a cgroup's quota; at least 1."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, count if quota is None else min(count, int(quota + 0.5)))


@functools.cache
def _cgroup_quota() -> float | None:
    with contextlib.suppress(OSError, ValueError):
        limit, period = _read_words("/sys/fs/cgroup/cpu.max")[:2]
        return None if limit == "max" else int(limit) / int(period)
    with contextlib.suppress(OSError, ValueError):
        microseconds = int(_read_words("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")[0])
        every = int(_read_words("/sys/fs/cgroup/cpu/cpu.cfs_period_us")[0])
        return None if microseconds <= 0 else microseconds / every
    return None


def _read_words(path: str) -> list[str]:
    with open(path, encoding="ascii") as file:
        return file.read().split()
