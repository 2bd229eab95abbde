"""Memory shared with NumPy and, through DLPack, with other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import Array, bf16, c32, dtype_of
from ..errors import DTypeError, InputError
from ..memory.shape import Shape
from ..memory.storage import Storage
from .tensor import Tensor
from .views import Geometry


class _Span:
    """All bytes from the lowest to the highest element of an array, which it keeps alive."""

    def __init__(self, array: Array) -> None:
        reaches = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
        self.below = -sum(reach for reach in reaches if reach < 0) if array.size else 0
        above = sum(reach for reach in reaches if reach > 0) + array.itemsize if array.size else 0
        self.array = array
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (self.below + above,),
            "data": (array.ctypes.data - self.below, not array.flags.writeable),
        }


def from_numpy(array: Array) -> Tensor:
    """A tensor over the memory of an array: who writes one writes the other.

    `InputError` for arrays that no tensor can share, such as those of the other byte order; `tensor(array)` copies these.
    """
    if not isinstance(array, np.ndarray):
        raise InputError(f"from_numpy: expected an array, found {type(array).__name__}; use tensor(), which copies")
    dtype = dtype_of(array)
    evenly = array.flags.aligned and not any(stride % array.itemsize for stride in array.strides)
    if not array.dtype.isnative or not evenly:
        raise InputError(
            f"from_numpy: an array of dtype {array.dtype} and strides {array.strides} cannot be shared, because its elements "
            "have another byte order, or lie not where whole elements could; use tensor(), which copies"
        )
    span = _Span(array)
    strides = tuple(stride // array.itemsize for stride in array.strides)
    geometry = Geometry(Shape(array.shape), strides, span.below // array.itemsize)
    return Tensor.over(Storage.over(np.asarray(span)), dtype, geometry)


def from_dlpack(source: Any) -> Tensor:
    """A tensor over the memory of any object that speaks DLPack on the CPU, such as a torch tensor."""
    if not hasattr(source, "__dlpack__"):
        raise InputError(f"from_dlpack: expected an object with a method __dlpack__, found {type(source).__name__}")
    try:
        array = np.from_dlpack(source)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"from_dlpack: cannot share the memory of a {type(source).__name__}: {error}") from error
    return from_numpy(array)


def dlpack_capsule(tensor: Tensor, **options: Any) -> Any:
    """What `tensor.__dlpack__` gives away: NumPy's capsule for the same memory."""
    if tensor.dtype in (bf16, c32):
        raise DTypeError(
            f"a tensor of {tensor.dtype} cannot be shared through DLPack; convert it with .to('f32') or .to('c64')"
        )
    return tensor.numpy().__dlpack__(**options)
