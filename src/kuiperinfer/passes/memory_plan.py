"""Where buffers lie in one arena: lifetimes in steps, offsets in bytes."""

from __future__ import annotations

from collections.abc import Sequence

from ..records import dataclass

ALIGNMENT = 64


@dataclass(frozen=True)
class Lifetime:
    """A buffer of `nbytes` that lives from step `first` to step `last`, both included."""

    nbytes: int
    first: int
    last: int

    @property
    def padded(self) -> int:
        """Bytes rounded up to the alignment."""
        return -(-self.nbytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class MemoryPlan:
    """An offset for each lifetime, the size of the arena, and the most that is alive at one time (no plan can be smaller)."""

    offsets: tuple[int, ...]
    nbytes: int
    lower_bound: int


def plan_memory(lifetimes: Sequence[Lifetime]) -> MemoryPlan:
    """Offsets for all lifetimes such that those that overlap in time do not overlap in memory.

    Several orders of placing are tried, each buffer at the lowest gap that fits, and the smallest arena wins.
    """
    orders = (
        sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].padded, lifetimes[i].first, i)),
        sorted(range(len(lifetimes)), key=lambda i: (lifetimes[i].first, -lifetimes[i].padded, i)),
        sorted(
            range(len(lifetimes)),
            key=lambda i: (-lifetimes[i].padded * (lifetimes[i].last - lifetimes[i].first + 1), lifetimes[i].first, i),
        ),
    )
    plans = [_place(lifetimes, order) for order in orders]
    offsets = min(plans, key=lambda plan: _extent(lifetimes, plan))
    return MemoryPlan(tuple(offsets), _extent(lifetimes, offsets), live_peak(lifetimes))


def live_peak(lifetimes: Sequence[Lifetime]) -> int:
    """The most bytes that are alive during one step."""
    changes: dict[int, int] = {}
    for lifetime in lifetimes:
        changes[lifetime.first] = changes.get(lifetime.first, 0) + lifetime.padded
        changes[lifetime.last + 1] = changes.get(lifetime.last + 1, 0) - lifetime.padded
    alive = peak = 0
    for step in sorted(changes):
        alive += changes[step]
        peak = max(peak, alive)
    return peak


def _extent(lifetimes: Sequence[Lifetime], offsets: Sequence[int]) -> int:
    return max((offset + life.padded for offset, life in zip(offsets, lifetimes, strict=True)), default=0)


def _place(lifetimes: Sequence[Lifetime], order: Sequence[int]) -> list[int]:
    offsets = [0] * len(lifetimes)
    placed: list[int] = []  # sorted by offset
    for index in order:
        life = lifetimes[index]
        offset = 0
        for other in placed:
            neighbour = lifetimes[other]
            if neighbour.last < life.first or life.last < neighbour.first:
                continue
            if offset + life.padded <= offsets[other]:
                break
            offset = max(offset, offsets[other] + neighbour.padded)
        offsets[index] = offset
        placed.append(index)
        placed.sort(key=offsets.__getitem__)
    return offsets
