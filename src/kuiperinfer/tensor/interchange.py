"""Elements as Python's, NumPy's and other libraries' own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import Array, dtype_of, widen
from ..errors import InputError
from ..memory.shape import Shape
from ..memory.storage import Storage
from .tensor import Tensor
from .views import Geometry


def python_values(array: Array) -> Any:
    """A stored array as Python numbers: nested lists, or one number where it has no dimensions."""
    return widen(array).tolist()


class _Span:
    """All bytes between the lowest and the highest element of an array, which it keeps alive."""

    def __init__(self, array: Array) -> None:
        reaches = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
        below = -sum(reach for reach in reaches if reach < 0) if array.size else 0
        above = sum(reach for reach in reaches if reach > 0) + array.itemsize if array.size else 0
        self.array = array
        self.below = below
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (below + above,),
            "data": (array.ctypes.data - below, not array.flags.writeable),
        }


def over_array(array: Array) -> Tensor:
    """A tensor over the memory of an array: who writes one writes the other."""
    dtype = dtype_of(array)
    if array.dtype.byteorder not in ("=", "|") or any(stride % array.itemsize for stride in array.strides):
        raise InputError(
            f"the elements of an array of dtype {array.dtype} and strides {array.strides} do not lie whole elements apart in "
            "this machine's byte order, so no tensor can share them; use kuiperinfer.tensor.tensor(array), which copies"
        )
    span = _Span(array)
    strides = tuple(stride // array.itemsize for stride in array.strides)
    geometry = Geometry(Shape(array.shape), strides, span.below // array.itemsize)
    return Tensor.over(Storage.over(np.asarray(span)), dtype, geometry)
