"""Many small arrays in few large pieces of memory, which the system can back with large pages."""

from __future__ import annotations

import bisect
import math
import weakref
from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..dtypes import Array
from .aligned import aligned_empty
from .allocator import align

_CHUNK = 64 << 20  # bytes, of which none takes memory before it is touched; NumPy asks for large pages from 4 MiB on


class _Memory(np.ndarray[tuple[int, ...], np.dtype[np.uint8]]):
    """Of a type of its own, so that NumPy lets views of an array in it hold that array, instead of this memory itself."""


class _Chunk:
    """A stretch of memory and what of it is free: offsets and sizes, in order, none next to another."""

    def __init__(self) -> None:
        self.memory = aligned_empty((_CHUNK,), np.uint8).view(_Memory)
        self.free = [(0, _CHUNK)]

    def take(self, size: int) -> int | None:
        """The offset of the first free bytes that are enough; None where there are none."""
        for number, (offset, length) in enumerate(self.free):
            if length >= size:
                self.free[number : number + 1] = [(offset + size, length - size)] if length > size else []
                return offset
        return None

    def give_back(self, offset: int, size: int) -> None:
        """Bytes are free again, together with those before and after them that are."""
        number = bisect.bisect(self.free, (offset, 0))
        first = last = number
        if last < len(self.free) and self.free[last][0] == offset + size:
            size, last = size + self.free[last][1], last + 1
        if first and sum(self.free[first - 1]) == offset:
            first -= 1
            offset, size = self.free[first][0], size + self.free[first][1]
        self.free[first:last] = [(offset, size)]

    @property
    def is_free(self) -> bool:
        """Whether nothing lies here any more."""
        return self.free == [(0, _CHUNK)]


class Pool:
    """Hands out aligned arrays, one behind another, from chunks of memory. For one thread at a time.

    The place of an array is free again when the last view of it is gone, and a chunk's memory when nothing lies there.
    """

    def __init__(self) -> None:
        self._chunks: list[_Chunk] = []
        self._dead: deque[tuple[_Chunk, int, int]] = deque()  # filled by whichever thread lets go of an array

    def take(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """An uninitialised C-contiguous array, aligned to a cache line."""
        element = np.dtype(dtype)
        size = align(max(1, math.prod(shape) * element.itemsize))
        if size > _CHUNK // 2:
            return aligned_empty(tuple(shape), element)
        self._take_back()
        chunk, offset = self._place(size)
        array: Array = np.ndarray(tuple(shape), element, buffer=chunk.memory[offset : offset + size])
        weakref.finalize(array, self._dead.append, (chunk, offset, size)).atexit = False
        return array

    def _place(self, size: int) -> tuple[_Chunk, int]:
        for chunk in self._chunks:
            offset = chunk.take(size)
            if offset is not None:
                return chunk, offset
        chunk = _Chunk()
        self._chunks.append(chunk)
        offset = chunk.take(size)
        assert offset is not None
        return chunk, offset

    def _take_back(self) -> None:
        while self._dead:
            chunk, offset, size = self._dead.popleft()
            chunk.give_back(offset, size)
        self._chunks = [chunk for chunk in self._chunks if not chunk.is_free]
