"""Ways to run several rows at once: one run of a batch, or a run a row, as many at a time as there are threads.

Which is quicker hangs on the model. A batch reads each weight once for all rows; rows apart need no barriers, and what one row
needs stays in a CPU's own cache. Rows apart are the same bit for bit as rows alone, whatever the model.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..dtypes import Array
from ..runtime.comparison import compare
from .scheduler import Outputs, Run

_TURNS = 3


@dataclass(frozen=True)
class Together:
    """Runs of so many rows as `runs` has code for, the largest first: 11 rows are 8, 2 and 1."""

    runs: Mapping[int, Run]

    def __call__(self, inputs: Sequence[Array]) -> Outputs:
        rows, start, shares = inputs[0].shape[0], 0, []
        while start < rows:
            size = max(size for size in self.runs if size <= rows - start)
            shares.append(self.runs[size]([array[start : start + size] for array in inputs]))
            start += size
        return _joined(shares)


@dataclass(frozen=True)
class Apart:
    """A run a row: `wide`, with `threads` threads, for few rows, and for more `narrow`, with one, in the threads of `pool`."""

    wide: Run
    narrow: Run
    threads: int
    pool: ThreadPoolExecutor

    def __call__(self, inputs: Sequence[Array]) -> Outputs:
        rows = [[array[row : row + 1] for array in inputs] for row in range(inputs[0].shape[0])]
        if len(rows) == 1 or 2 * len(rows) <= self.threads:
            return _joined([self.wide(row) for row in rows])
        return _joined(list(self.pool.map(self.narrow, rows)))


def _joined(parts: Sequence[Outputs]) -> Outputs:
    return parts[0] if len(parts) == 1 else [np.concatenate(outputs) for outputs in zip(*parts, strict=True)]


def quickest(ways: Sequence[Run], inputs: Sequence[Array]) -> Run:
    """The way that takes the least time for these inputs; they take turns, so that what else goes on happens to all of them."""
    seconds = [float("inf")] * len(ways)
    for _ in range(_TURNS):
        for number, run in enumerate(ways):
            start = time.perf_counter()
            run(inputs)
            seconds[number] = min(seconds[number], time.perf_counter() - start)
    return ways[seconds.index(min(seconds))]


def same_rows(together: Outputs, alone: Sequence[Outputs], *, exact: bool) -> bool:
    """Whether the outputs of a batch are those of its rows, one below the other: bit for bit, or as near as floats can be."""
    for output, parts in zip(together, zip(*alone, strict=True), strict=True):
        if any(part.ndim == 0 or part.shape[0] != 1 for part in parts) or output.shape[:1] != (len(parts),):
            return False
        if len({part.shape for part in parts}) > 1 or output.shape[1:] != parts[0].shape[1:]:
            return False
        expected = np.concatenate(parts)
        if exact and output.tobytes() != expected.tobytes():
            return False
        if not exact and not compare(output, expected).ok:
            return False
    return bool(together)
