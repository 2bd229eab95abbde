"""New tensors: from data, of one value, and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import Array, DType, Scalar, c64, cast, dtype_of, f32, f64, narrow, scalar_dtype, to_complex
from ..errors import DTypeError, InputError
from ..layers.creation import ARange, element
from ..memory.shape import Shape
from .casting import DTypeLike, as_dtype, is_number
from .interchange import from_numpy
from .tensor import Tensor
from .wrapping import wrap

# ------------------------------------------------------------------------------------------- from data


def array_of(data: Any, dtype: DType | None) -> Array:
    """Numbers, nested lists, arrays or a tensor as a stored array, which may share their memory."""
    if isinstance(data, Tensor):
        return data.array if dtype is None else cast(data.array, dtype)
    if type(data) in (int, float) and (dtype is f32 or dtype is f64):
        return number_array(data, dtype)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise InputError(f"expected numbers in lists of equal lengths: {error}") from None
    if (
        array.dtype.kind in "uO"
        and array.size
        and _is_python(data)
        and all(isinstance(one, (int, np.integer)) for one in array.flat)
    ):
        raise DTypeError("integers outside of 64 bits do not fit any dtype; expected numbers from -2**63 to 2**63 - 1")
    found = dtype_of(array)
    if dtype is None:
        dtype = found
        if _is_python(data):
            dtype = {f64: f32, to_complex(f64): c64}.get(found, found)
    elif dtype.kind == "int" and found.kind == "int" and not hasattr(data, "dtype"):
        _expect_range(array, dtype)
    return cast(array, dtype)


def _is_python(data: Any) -> bool:
    """Whether the first number of nested lists is one of Python's."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return not hasattr(data, "dtype")


def _expect_range(array: Array, dtype: DType) -> None:
    info = np.iinfo(dtype.storage)
    if array.size and not (info.min <= array.min() and array.max() <= info.max):
        raise DTypeError(
            f"numbers from {array.min()} to {array.max()} do not fit {dtype}, which has {info.min} to {info.max}"
        )


def tensor(data: Any, dtype: DTypeLike | None = None, *, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of the data: a number, nested lists of numbers, an array or another tensor."""
    return Tensor(data, dtype, requires_grad=requires_grad)


def as_tensor(data: Any, dtype: DTypeLike | None = None) -> Tensor:
    """The data as a tensor, without a copy where that is possible: a tensor itself, or one over the memory of an array."""
    if not isinstance(data, Tensor):
        data = from_numpy(data) if isinstance(data, np.ndarray) else Tensor(data, dtype)
    made: Tensor = data
    return made if dtype is None else made.to(dtype)


# ------------------------------------------------------------------------------------------- of one value


def size_of(size: tuple[Any, ...]) -> Shape:
    """A shape whose sizes were given one by one or as one sequence."""
    return Shape.of(size[0] if len(size) == 1 and not hasattr(size[0], "__index__") else size)


def _new(shape: Shape, dtype: DTypeLike, requires_grad: bool) -> Tensor:
    made = Tensor.empty_contiguous(shape, as_dtype(dtype))
    if requires_grad:
        made.requires_grad = True
    return made


def _of_value(shape: Shape, value: Scalar, dtype: DType, requires_grad: bool) -> Tensor:
    made = _new(shape, dtype, requires_grad)
    made.array[...] = number_array(value, dtype)
    return made


def constant(value: Any, dtype: DType) -> Tensor:
    """A number as a tensor without dimensions, which nobody writes."""
    return wrap(number_array(_number(value, "fill_"), dtype))


def number_array(value: Scalar, dtype: DType) -> Array:
    """A number as a stored array without dimensions; `DTypeError` where it is out of the dtype's range."""
    if (dtype is f32 or dtype is f64) and isinstance(value, (int, float)) and -1e38 < value < 1e38:
        return np.asarray(value, dtype.storage)
    return element(value, dtype)


def empty(*size: Any, dtype: DTypeLike = f32, requires_grad: bool = False) -> Tensor:
    """A tensor of whatever the memory holds."""
    return _new(size_of(size), dtype, requires_grad)


def zeros(*size: Any, dtype: DTypeLike = f32, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros."""
    return _of_value(size_of(size), 0, as_dtype(dtype), requires_grad)


def ones(*size: Any, dtype: DTypeLike = f32, requires_grad: bool = False) -> Tensor:
    """A tensor of ones."""
    return _of_value(size_of(size), 1, as_dtype(dtype), requires_grad)


def full(size: Any, value: Any, dtype: DTypeLike | None = None, *, requires_grad: bool = False) -> Tensor:
    """A tensor of one value; without `dtype`, of the dtype that Python's number has in PyTorch."""
    number = _number(value, "full")
    target = scalar_dtype(number) if dtype is None else as_dtype(dtype)
    return _of_value(size_of((size,)), number, target, requires_grad)


def _number(value: Any, operation: str) -> Any:
    if isinstance(value, Tensor) or is_number(value):
        return value.item() if hasattr(value, "item") else value
    raise InputError(f"{operation}: expected a number, found {value!r}")


def empty_like(input: Tensor, dtype: DTypeLike | None = None, *, requires_grad: bool = False) -> Tensor:
    """A tensor of whatever the memory holds, in the shape and dtype of another."""
    return _new(input.shape, dtype or input.dtype, requires_grad)


def zeros_like(input: Tensor, dtype: DTypeLike | None = None, *, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros in the shape and dtype of another."""
    return _of_value(input.shape, 0, as_dtype(dtype or input.dtype), requires_grad)


def ones_like(input: Tensor, dtype: DTypeLike | None = None, *, requires_grad: bool = False) -> Tensor:
    """A tensor of ones in the shape and dtype of another."""
    return _of_value(input.shape, 1, as_dtype(dtype or input.dtype), requires_grad)


def full_like(input: Tensor, value: Any, dtype: DTypeLike | None = None, *, requires_grad: bool = False) -> Tensor:
    """A tensor of one value in the shape and dtype of another."""
    return _of_value(input.shape, _number(value, "full_like"), as_dtype(dtype or input.dtype), requires_grad)


# ------------------------------------------------------------------------------------------- ranges


def arange(*bounds: Any, dtype: DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """start, start + step, … up to but without end: `arange(end)`, `arange(start, end)` or `arange(start, end, step)`.

    Integers give i64; f32 comes out as soon as one of the three is a float.
    """
    if not 1 <= len(bounds) <= 3:
        raise InputError(f"arange: expected end, start and end, or start, end and step; found {len(bounds)} numbers")
    start, end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    layer = ARange(dtype=None if dtype is None else as_dtype(dtype))
    numbers = [_number(bound, "arange") for bound in (end, start, step)]
    spec = layer.infer(*numbers)
    made = _new(Shape(spec.shape), spec.dtype, requires_grad)
    made.array[...] = narrow(layer.forward(*numbers), spec.dtype)
    return made


def linspace(start: float, end: float, steps: int, dtype: DTypeLike = f32, *, requires_grad: bool = False) -> Tensor:
    """`steps` numbers evenly apart, from `start` to `end`, both included."""
    if steps < 0:
        raise InputError(f"linspace: expected at least 0 steps, found {steps}")
    made = _new(Shape((steps,)), dtype, requires_grad)
    made.array[...] = narrow(np.linspace(_number(start, "linspace"), _number(end, "linspace"), steps), made.dtype)
    return made


def eye(n: int, m: int | None = None, dtype: DTypeLike = f32, *, requires_grad: bool = False) -> Tensor:
    """Ones on the diagonal and zeros elsewhere. () -> (n, m), where m is n if not given"""
    made = _of_value(Shape.of((n, n if m is None else m)), 0, as_dtype(dtype), requires_grad)
    made.detach().diagonal().copy_(True)
    return made
