"""Arrays whose first byte lies on a cache line, as vector loads like it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dtypes import Array
from .allocator import ALIGNMENT, Memory, allocator


def aligned_empty(
    shape: int | Sequence[int], dtype: npt.DTypeLike, alignment: int = ALIGNMENT, *, lasting: bool = False
) -> Array:
    """An uninitialised C-contiguous array whose address is a multiple of `alignment` (a power of two).

    Its memory comes from the process's allocator; `lasting` memory is not counted as a leak. Raises `ResourceLimitError`
    where the system has no such memory left.
    """
    assert alignment > 0 and alignment & (alignment - 1) == 0, f"alignment {alignment} is not a power of two"
    dimensions = (shape,) if isinstance(shape, int) else tuple(shape)
    element = np.dtype(dtype)
    size = math.prod(dimensions) * element.itemsize
    if alignment <= ALIGNMENT:
        return np.ndarray(dimensions, element, allocator.allocate(size, lasting=lasting))
    raw = allocator.allocate(size + alignment, lasting=lasting)
    return np.ndarray(dimensions, element, raw, -int(raw.ctypes.data) % alignment)


def lock(array: Array) -> Array:
    """The array, made read-only together with the memory it looks at: no view of it can be made writable again."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner.flags.writeable = False
        if isinstance(owner, Memory):
            owner.is_locked = True
        owner = owner.base
    return array
