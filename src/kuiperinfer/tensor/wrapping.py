"""Arrays that were just calculated, as tensors."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import Array, dtype_of
from ..memory.shape import Shape
from ..memory.storage import Storage
from .views import Geometry, contiguous_geometry

if TYPE_CHECKING:
    from .tensor import Tensor


@functools.cache
def tensor_type() -> Any:
    """The class `Tensor`, which stands above this module."""
    from .tensor import Tensor

    return Tensor


def wrap(array: Array) -> Tensor:
    """A tensor over the memory of an array that nobody else writes; transposed ones stay so, others are made dense."""
    if array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous:
        return _over(array.T, Geometry(Shape(array.shape), (1, len(array)), 0))
    return _over(np.ascontiguousarray(array), contiguous_geometry(Shape(array.shape)))


def _over(dense: Array, geometry: Geometry) -> Tensor:
    storage = Storage.over(dense.reshape(-1).view(np.uint8), exposed=False)
    tensor: Tensor = tensor_type().over(storage, dtype_of(dense), geometry)
    return tensor
