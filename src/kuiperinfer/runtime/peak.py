"""The most that this machine can do, measured: floating-point operations and bytes of memory a second."""

from __future__ import annotations

import time

import numpy as np

from ..codegen.cache import load_kernels
from ..codegen.kernels.peak import CopyPeakSpec, MultiplyAddPeakSpec
from ..codegen.spec import KernelSpec, kernel_name
from ..codegen.target import Target
from ..dtypes import Array
from ..memory.aligned import aligned_empty
from ..records import dataclass
from .team import team

_TURNS, _REPEATS = 20_000, 20
_COPIED_FLOATS, _COPY_RUN, _COPY_REPEATS = 16 << 20, 64 << 10, 8  # 64 MiB each way: more than caches hold


@dataclass(frozen=True)
class Peak:
    """`flops` a second in float32 with `threads` threads, a multiply-add as two, and `bandwidth`: bytes a second that a copy
    reads and writes in memory that no cache holds."""

    flops: float
    bandwidth: float
    threads: int


def measure_peak(target: Target, threads: int) -> Peak:
    """The best of several runs, which take about a quarter of a second."""
    arithmetic = MultiplyAddPeakSpec(threads, _TURNS, target.registers - 4, target.lanes)
    vector = aligned_empty((target.lanes,), np.float32)
    vector[:] = 2
    flops = arithmetic.flops / _fastest(arithmetic, target, threads, [vector], _REPEATS)
    copy = CopyPeakSpec(_COPIED_FLOATS, _COPY_RUN)
    buffers = [aligned_empty((_COPIED_FLOATS,), np.float32) for _ in range(2)]
    for buffer in buffers:
        buffer[:] = 1
    bandwidth = copy.traffic / _fastest(copy, target, threads, buffers, _COPY_REPEATS)
    return Peak(flops, bandwidth, threads)


def _fastest(spec: KernelSpec, target: Target, threads: int, arrays: list[Array], repeats: int) -> float:
    """The least seconds of a kernel alone."""
    name = kernel_name(spec, target)
    library = load_kernels({name: spec}, target)
    arguments = np.array([array.ctypes.data for array in arrays], np.int64)
    table = np.array([[library.addresses[name], spec.tasks, arguments.ctypes.data]], np.int64)
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        team().run(table, 0, 1, 0, threads)
        best = min(best, time.perf_counter() - start)
    return best
