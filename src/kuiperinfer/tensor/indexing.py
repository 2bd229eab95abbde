"""Indexing: integers, slices, None and `...` are one view; tensors, lists and masks gather from it, as in PyTorch."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..dtypes import Array
from ..errors import InputError
from .views import VIEWS, Geometry, select, slice_, unsqueeze

_BASIC = (int, slice, type(None), type(...))  # and not bool, which is a mask


def is_basic(items: tuple[Any, ...]) -> bool:
    """Whether an index only says where to look, so that a view will do."""
    return all(type(item) in _BASIC or _is_integer(item) for item in items)


def _is_integer(item: Any) -> bool:
    if hasattr(item, "dtype"):
        return not item.ndim and item.dtype.kind in ("int", "i", "u")
    return isinstance(item, int) and not isinstance(item, bool)


def spread(items: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """An index with `...` replaced by as many full slices as it stands for; one is put at the end where it is missing."""
    used = sum(_dimensions_used(item) for item in items)
    if used > ndim:
        raise InputError(f"too many indices: {used} for a tensor of {ndim} dimensions")
    ellipses = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise InputError("an index can have only one '...'")
    place = ellipses[0] if ellipses else len(items)
    return (*items[:place], *[slice(None)] * (ndim - used), *items[place + 1 :])


def _dimensions_used(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype == np.bool_ else 1


def index(geometry: Geometry, items: tuple[Any, ...]) -> Geometry:
    """What an index of integers, slices, None and at most one `...` shows, as in NumPy."""
    dim = 0
    for item in spread(items, len(geometry.shape)):
        if item is None:
            geometry = unsqueeze(geometry, dim)
            dim += 1
        elif isinstance(item, slice):
            if item != slice(None):
                geometry = slice_(geometry, dim, item.start, item.stop, item.step)
            dim += 1
        else:
            geometry = select(geometry, dim, operator.index(item))
    return geometry


VIEWS["index"] = index


# ------------------------------------------------------------------------------------------- gathering


def divide(items: tuple[Any, ...], ndim: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """An index with arrays in it as a basic index, and an index of arrays and full slices for what that one shows.

    Integers belong to the first, as in PyTorch; NumPy counts them as arrays.
    """
    arrays = tuple(item if is_basic((item,)) else _index_array(item) for item in items)
    basic: list[Any] = []
    gathering: list[Any] = []
    for item in spread(arrays, ndim):
        if isinstance(item, np.ndarray):
            dimensions = _dimensions_used(item)
            basic += [slice(None)] * dimensions or [None]
            gathering.append(item if dimensions else item.reshape(1))
        else:
            basic.append(item)
            if not _is_integer(item):
                gathering.append(slice(None))
    return tuple(basic), tuple(gathering)


def _index_array(item: Any) -> Array:
    """A copy, since what is recorded for gradients must not change."""
    try:
        array = np.array(item.array if hasattr(item, "writable_array") else item)
    except ValueError as error:
        raise InputError(f"an index of lists needs lists of equal lengths: {error}") from None
    if not array.size and array.dtype.kind == "f":  # an empty list
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub":
        raise InputError(f"an index is made of integers, slices, None, ... or bools; found {item!r}")
    return array


def gathered(array: Array, gathering: tuple[Any, ...]) -> Array:
    """The elements at an index of arrays; `InputError` where it does not fit."""
    try:
        return array[gathering]
    except IndexError as error:
        raise InputError(f"index does not fit shape {array.shape}: {error}") from None


def shape_of_gathered(shape: tuple[int, ...], gathering: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape of what `gathered` gives."""
    return gathered(np.broadcast_to(np.empty((), np.bool_), shape), gathering).shape
