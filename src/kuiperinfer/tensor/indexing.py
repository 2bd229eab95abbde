"""Indexing: integers, slices, None and `...` are one view; tensors, lists and masks gather, as in NumPy and PyTorch."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..dtypes import Array
from ..errors import InputError
from ..memory.shape import Shape
from .views import VIEWS, Geometry, select, slice_, unsqueeze


def is_basic(items: tuple[Any, ...]) -> bool:
    """Whether an index only says where to look, so that a view will do."""
    return all(item is None or item is Ellipsis or isinstance(item, slice) or _is_integer(item) for item in items)


def _is_integer(item: Any) -> bool:
    if hasattr(item, "dtype"):
        return not item.ndim and item.dtype.kind in ("int", "i", "u")
    return isinstance(item, int) and not isinstance(item, bool)


def spread(items: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """An index with `...` replaced by as many full slices as it stands for; one is put at the end where it is missing."""
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > ndim:
        raise InputError(f"too many indices: {used} for a tensor of {ndim} dimensions")
    ellipses = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise InputError("an index can have only one '...'")
    place = ellipses[0] if ellipses else len(items)
    return (*items[:place], *[slice(None)] * (ndim - used), *items[place + 1 :])


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


def gathering_index(items: tuple[Any, ...], shape: Shape) -> tuple[Any, ...]:
    """An index with tensors, lists or masks in it as NumPy takes it; `InputError` where it does not fit the shape."""
    index = tuple(_as_array(item) if _gathers(item) else item for item in items)
    shape_of_index(index, shape)
    return index


def shape_of_index(index: tuple[Any, ...], shape: Shape) -> tuple[int, ...]:
    """The shape of what an index for NumPy shows; `InputError` where it does not fit."""
    try:
        return np.broadcast_to(np.empty((), np.bool_), shape)[index].shape
    except (IndexError, ValueError, TypeError) as error:
        raise InputError(f"index does not fit shape {shape}: {error}") from None


def _gathers(item: Any) -> bool:
    return not (item is None or item is Ellipsis or isinstance(item, slice))


def _as_array(item: Any) -> Array:
    array = np.array(item.array if hasattr(item, "writable_array") else item)
    return array.astype(np.int64) if not array.size and array.dtype.kind == "f" else array  # an empty list


def as_numpy_index(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index that was made for NumPy already, or one with tensors in it."""
    return tuple(_as_array(item) if _gathers(item) else item for item in items)
