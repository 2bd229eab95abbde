"""Packed weights, which the plans of one model share: another input shape needs mostly the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from ..dtypes import Array
from ..memory.pool import Pool

_Key: TypeAlias = "tuple[str, int, tuple[int, ...], str]"


class Constants:
    """Memory for the constants of a model: they lie together, and live as long as a plan that reads them."""

    def __init__(self) -> None:
        self._pool = Pool()
        self._kept: WeakValueDictionary[_Key, Array] = WeakValueDictionary()

    def pack(
        self, operator: str, number: int, shape: tuple[int, ...], dtype: npt.DTypeLike, fill: Callable[[Array], None]
    ) -> Array:
        """What `fill` writes into memory of the given shape: an array that is there already, where that has the same bits.

        `number` tells the constants of one operator apart.
        """
        made = self._pool.take(shape, dtype)
        fill(made)
        key = operator, number, made.shape, made.dtype.str
        kept = self._kept.get(key)
        if kept is not None and np.array_equal(_bits(kept), _bits(made)):
            return kept
        self._kept[key] = made
        return made


def _bits(array: Array) -> Array:
    """The array as integers, for NaN is not what is compared."""
    return array.reshape(-1).view(f"u{array.itemsize}" if array.itemsize <= 8 else np.uint64)
