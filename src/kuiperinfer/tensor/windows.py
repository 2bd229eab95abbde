"""Gradients of views, as parts of the gradients of what they look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..dtypes import Array, DType, dtype_of, narrow, widen
from ..memory.storage import Storage
from . import lazy
from .views import Geometry, contiguous_geometry

if TYPE_CHECKING:
    from .tensor import Tensor


class Layout(NamedTuple):
    """How a tensor lies in its storage, and its dtype."""

    geometry: Geometry
    dtype: DType

    @staticmethod
    def of(tensor: Tensor) -> Layout:
        """That of a tensor."""
        return Layout(Geometry(tensor._shape, tensor._strides, tensor._offset), tensor._dtype)

    @staticmethod
    def spread(tensor: Tensor) -> Layout:
        """That of a tensor, or, where it shows memory several times, one in which each of its elements has its own place."""
        layout = Layout.of(tensor)
        return layout if _is_injective(layout.geometry) else Layout(contiguous_geometry(tensor._shape), tensor._dtype)

    def zeros(self) -> Tensor:
        """A gradient for all elements, laid out like the tensor, so that its views lie in it as they lie in the tensor."""
        from .tensor import Tensor

        shape, strides, _ = self.geometry
        reaches = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)] if shape.dsize else []
        first = -sum(reach for reach in reaches if reach < 0)
        storage = Storage((first + sum(reach for reach in reaches if reach > 0) + 1) * self.dtype.itemsize)
        storage.block.data[...] = 0
        return Tensor.over(storage, self.dtype, Geometry(shape, strides, first))

    def part(self, whole: Tensor, view: Geometry) -> Tensor:
        """What a view of the tensor is in a gradient that `zeros` made."""
        offset = view.offset - self.geometry.offset + whole._offset
        return whole.over(whole.storage, whole._dtype, Geometry(view.shape, view.strides, offset))


class Window:
    """The gradient of a view: what is to be added to a part of the gradient of the tensor that it looks at."""

    __slots__ = ("gradient", "view", "whole")

    def __init__(self, whole: Layout, view: Geometry, gradient: Tensor) -> None:
        self.whole, self.view, self.gradient = whole, view, gradient

    def add_to(self, gradient: Tensor) -> None:
        """Adds this to a gradient that `whole.zeros` made."""
        part = self.whole.part(gradient, self.view)
        if _is_injective(self.view):
            lazy.write(part, part + self.gradient)
            return
        places = np.full(self.view.shape, part._offset, np.int64)
        for dim, (size, stride) in enumerate(zip(self.view.shape, self.view.strides, strict=True)):
            places += (np.arange(size) * stride).reshape(-1, *[1] * (len(self.view.shape) - dim - 1))
        part.storage.begin_write()
        elements = np.frombuffer(part.storage.block.data, part._dtype.storage)
        add_at(elements, places, self.gradient.array)


def add_at(array: Array, places: Any, values: Array) -> None:
    """`array[places] += values`, where a place that is named several times receives all of its values."""
    sums = widen(array)
    np.add.at(sums, places, widen(values))
    if sums is not array:
        array[...] = narrow(sums, dtype_of(array))


def _is_injective(view: Geometry) -> bool:
    """Whether no element is shown twice (some that show none twice are not recognised)."""
    reach = 0
    for stride, size in sorted((abs(stride), size) for size, stride in zip(view.shape, view.strides, strict=True)):
        if size > 1:
            if stride <= reach:
                return False
            reach += stride * (size - 1)
    return True
