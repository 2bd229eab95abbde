"""New tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import Array, DType, cast, dtype_of, f32
from ..errors import InputError
from ..memory.shape import Shape
from .casting import DTypeLike, as_dtype
from .tensor import Tensor


def array_of(data: Any, dtype: DType | None) -> Array:
    """Numbers, nested lists, arrays or a tensor as an array; Python floats are f32, as in PyTorch."""
    if isinstance(data, Tensor):
        array = data.array
    else:
        try:
            array = np.asarray(data)
        except ValueError as error:
            raise InputError(f"expected numbers in lists of equal lengths: {error}") from None
        if not isinstance(data, (np.ndarray, np.generic)) and array.dtype == np.float64 and dtype is None:
            dtype = f32
    return cast(array, dtype or dtype_of(array))


def tensor(data: Any, dtype: DTypeLike | None = None, *, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of the data."""
    return Tensor(data, dtype, requires_grad=requires_grad)


def full(size: Any, value: Any, dtype: DTypeLike | None = None, *, requires_grad: bool = False) -> Tensor:
    """A tensor of one value."""
    shape = Shape.of((size,) if isinstance(size, int) else size)
    number = array_of(value, None if dtype is None else as_dtype(dtype))
    made = Tensor.empty_contiguous(shape, dtype_of(number))
    made.array[...] = number
    made.requires_grad = requires_grad
    return made


def _size(size: tuple[Any, ...]) -> Any:
    return size[0] if len(size) == 1 and not isinstance(size[0], int) else size


def zeros(*size: Any, dtype: DTypeLike = f32, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros."""
    return full(_size(size), 0, dtype, requires_grad=requires_grad)


def ones(*size: Any, dtype: DTypeLike = f32, requires_grad: bool = False) -> Tensor:
    """A tensor of ones."""
    return full(_size(size), 1, dtype, requires_grad=requires_grad)


def empty(*size: Any, dtype: DTypeLike = f32, requires_grad: bool = False) -> Tensor:
    """A tensor of nobody knows what."""
    made = Tensor.empty_contiguous(Shape.of(_size(size)), as_dtype(dtype))
    made.requires_grad = requires_grad
    return made


def from_numpy(array: Array) -> Tensor:
    """A tensor over the memory of an array."""
    from .interchange import over_array

    return over_array(array)
