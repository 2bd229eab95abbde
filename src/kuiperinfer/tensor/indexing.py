"""Basic indexing: integers, slices, None and `...` as one view."""

from __future__ import annotations

import operator
from typing import Any

from ..errors import InputError
from .views import VIEWS, Geometry, select, slice_, unsqueeze


def is_basic(item: Any) -> bool:
    """Whether an item of an index says where to look, so that a view will do; tensors, arrays, lists and bools do not."""
    return item is None or item is Ellipsis or isinstance(item, slice) or _is_integer(item)


def _is_integer(item: Any) -> bool:
    return hasattr(item, "__index__") and not isinstance(item, bool) and getattr(item, "ndim", 0) == 0


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


def as_numpy_index(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index with tensors in it as NumPy takes it."""
    return tuple(getattr(item, "array", item) for item in items)
