"""Copies of rows that are put together from pieces of a tensor: rolled, padded from their own elements, filled."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from ..dtypes import Array
from ..records import dataclass
from .homes import Ref, Strided
from .kernels.strided_copy import plan_copy
from .lowering import Lowering


@dataclass(frozen=True)
class Run:
    """`count` elements of a dimension, from `first` on, which are the elements `source`, `source + step`, … of another."""

    first: int
    count: int
    source: int
    step: int = 1


def runs_of(positions: Array) -> list[Run]:
    """The runs that a list of positions consists of."""
    runs: list[Run] = []
    first = 0
    while first < len(positions):
        end, step = first + 1, 1
        if end < len(positions):
            step = int(positions[end] - positions[first])
            while end < len(positions) and positions[end] - positions[end - 1] == step:
                end += 1
        runs.append(Run(first, end - first, int(positions[first]), step))
        first = end
    return runs


def copy_runs(
    lowering: Lowering, source: Strided, target: Strided, runs: Sequence[Sequence[Run]], itemsize: int
) -> None:
    """Copies every combination of runs, one list of them a dimension."""
    for combination in product(*runs):
        sizes = [run.count for run in combination]
        if 0 in sizes:
            continue
        steps = [run.step * stride for run, stride in zip(combination, source.strides, strict=True)]
        spec = plan_copy(sizes, steps, target.strides, itemsize, lowering.target.lanes)
        lowering.add(
            spec,
            _at(source, [run.source for run in combination], itemsize),
            _at(target, [run.first for run in combination], itemsize),
        )


def fill_around(lowering: Lowering, target: Strided, shape: Sequence[int], inner: Sequence[Run], value: Array) -> None:
    """Fills the elements of `target` outside of the inner runs with a value (0-d, of the target's dtype)."""
    number = lowering.constant(np.array(value).reshape(1))
    ranges = [Run(0, size, 0, 0) for size in shape]
    for dim, run in enumerate(inner):
        after = run.first + run.count
        for part in (Run(0, run.first, 0, 0), Run(after, shape[dim] - after, 0, 0)):
            around = [[run] for run in (*ranges[:dim], part, *ranges[dim + 1 :])]
            copy_runs(lowering, Strided(number, (0,) * len(shape)), target, around, value.itemsize)
        ranges[dim] = Run(run.first, run.count, 0, 0)


def _at(place: Strided, indices: Sequence[int], itemsize: int) -> Ref:
    return place.ref.further(itemsize * sum(i * stride for i, stride in zip(indices, place.strides, strict=True)))
