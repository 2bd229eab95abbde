"""Arrays whose first byte lies on a cache line, as vector loads like it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dtypes import Array
from ..errors import ResourceLimitError

ALIGNMENT = 64  # bytes of a cache line, and of the widest vector register


def align(size: int, alignment: int = ALIGNMENT) -> int:
    """`size` rounded up to a multiple of `alignment`."""
    return -(-size // alignment) * alignment


def aligned_empty(shape: int | Sequence[int], dtype: npt.DTypeLike, alignment: int = ALIGNMENT) -> Array:
    """An uninitialised C-contiguous array whose address is a multiple of `alignment` (a power of two).

    Raises `ResourceLimitError` where the system has no such memory left.
    """
    assert alignment > 0 and alignment & (alignment - 1) == 0, f"alignment {alignment} is not a power of two"
    dimensions = (shape,) if isinstance(shape, int) else tuple(shape)
    element = np.dtype(dtype)
    size = math.prod(dimensions) * element.itemsize
    try:
        raw: npt.NDArray[Any] = np.empty(size + alignment, np.uint8)
    except (MemoryError, ValueError) as error:  # ValueError: larger than an address
        raise ResourceLimitError(f"not enough memory for an array of {size:,} bytes") from error
    start = -raw.ctypes.data % alignment
    array: Array = np.ndarray(dimensions, element, buffer=raw, offset=start)
    return array


def lock(array: Array) -> Array:
    """The array, made read-only together with the memory it looks at: no view of it can be made writable again."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner.flags.writeable = False
        owner = owner.base
    return array
