"""Memory for the runs of a model: as many arenas as runs go on at the same time, whatever their plans."""

from __future__ import annotations

import numpy as np

from ..dtypes import Array
from ..locks import Lock
from ..memory import aligned_empty

_MOST_FREE = 8


class Arenas:
    """Lends arenas. One that is free is lent again, whichever plan it was for; it grows where it is too small."""

    def __init__(self) -> None:
        self._free: list[Array] = []
        self._lock = Lock()

    def take(self, nbytes: int) -> Array:
        """An arena of at least so many bytes: the one that was given back last."""
        with self._lock:
            arena = self._free.pop() if self._free else None
        if arena is None or arena.nbytes < nbytes:
            arena = None  # its memory goes before there is more
            arena = aligned_empty((_rounded(nbytes),), np.uint8)
        return arena

    def give_back(self, arena: Array) -> None:
        """The arena is free again."""
        with self._lock:
            if len(self._free) < _MOST_FREE:
                self._free.append(arena)

    def trim(self, nbytes: int) -> None:
        """Lets go of free arenas that are more than four times as large as any plan needs, which is `nbytes`."""
        with self._lock:
            self._free = [arena for arena in self._free if arena.nbytes <= 4 * _rounded(nbytes)]


def _rounded(nbytes: int) -> int:
    """One of few sizes, four between a power of two and the next: what one arena leaves, another one takes.

    Memory that nobody touches costs nothing.
    """
    step = 1 << max(0, nbytes.bit_length() - 3)
    return max(-(-nbytes // step) * step, 4096)
