"""Many small arrays in few large pieces of memory, which the system can back with large pages."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..dtypes import Array
from .aligned import aligned_empty
from .allocator import ALIGNMENT, align

_CHUNK = 64 << 20  # bytes, of which none takes memory before it is touched; NumPy asks for large pages from 4 MiB on


class Pool:
    """Hands out aligned arrays one after another from chunks of memory; a chunk lives as long as one of its arrays."""

    def __init__(self) -> None:
        self._chunk = np.empty(0, np.uint8)
        self._used = 0

    def take(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """An uninitialised C-contiguous array, aligned to a cache line."""
        element = np.dtype(dtype)
        size = align(math.prod(shape) * element.itemsize, ALIGNMENT)
        if size > _CHUNK // 2:
            return aligned_empty(tuple(shape), element)
        if self._used + size > self._chunk.nbytes:
            self._chunk, self._used = aligned_empty((_CHUNK,), np.uint8), 0
        array: Array = np.ndarray(tuple(shape), element, buffer=self._chunk, offset=self._used)
        self._used += size
        return array

    def give_back(self, array: Array) -> None:
        """Takes back the array that was handed out last: its memory goes to whoever asks next."""
        size = align(array.nbytes, ALIGNMENT)
        if array.ctypes.data + size == self._chunk.ctypes.data + self._used:  # else it has memory of its own
            self._used -= size
