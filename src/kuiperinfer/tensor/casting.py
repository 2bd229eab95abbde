"""Element types in every spelling that users have for them, and the methods that convert to them."""

from __future__ import annotations

import builtins
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .. import dtypes
from ..dtypes import DType, dtype_from_name, dtype_of
from ..errors import DTypeError

if TYPE_CHECKING:
    from .tensor import Tensor

DTypeLike: TypeAlias = "DType | str | type | np.dtype[Any]"

_PYTHON_TYPES = {bool: dtypes.bool_, int: dtypes.i64, float: dtypes.f32, complex: dtypes.c64}


def as_dtype(value: Any) -> DType:
    """The dtype meant by a `DType`, by a name (``"f32"``, ``"float32"``, ``"torch.float32"``), by a torch or NumPy dtype, or
    by a Python type."""
    if isinstance(value, DType):
        return value
    if isinstance(value, type) and value in _PYTHON_TYPES:
        return _PYTHON_TYPES[value]
    text = str(value)
    if isinstance(value, str) or text.startswith("torch."):
        try:
            return dtype_from_name(f"torch.{text}")
        except DTypeError:
            return dtype_from_name(text)
    try:
        return dtype_of(np.dtype(object if value is None else value))  # to NumPy None means float64
    except TypeError:
        raise DTypeError(f"expected a dtype such as kuiperinfer.dtypes.f32 or 'f32', found {value!r}") from None


class CastMethods:
    """`to`, and a short name for each dtype."""

    __slots__ = ()

    def to(self, dtype: DTypeLike) -> Tensor:
        raise NotImplementedError

    def type_as(self, other: Tensor) -> Tensor:
        """In the dtype of another tensor."""
        return self.to(other.dtype)

    def float(self) -> Tensor:
        """As f32."""
        return self.to(dtypes.f32)

    def double(self) -> Tensor:
        """As f64."""
        return self.to(dtypes.f64)

    def half(self) -> Tensor:
        """As f16."""
        return self.to(dtypes.f16)

    def bfloat16(self) -> Tensor:
        """As bf16."""
        return self.to(dtypes.bf16)

    def long(self) -> Tensor:
        """As i64."""
        return self.to(dtypes.i64)

    def int(self) -> Tensor:
        """As i32."""
        return self.to(dtypes.i32)

    def short(self) -> Tensor:
        """As i16."""
        return self.to(dtypes.i16)

    def char(self) -> Tensor:
        """As i8."""
        return self.to(dtypes.i8)

    def byte(self) -> Tensor:
        """As u8."""
        return self.to(dtypes.u8)

    def bool(self) -> Tensor:
        """As bool: whether each element is not zero."""
        return self.to(dtypes.bool_)


def is_number(value: Any) -> builtins.bool:
    """Whether a value is one Python or NumPy number."""
    return isinstance(value, (builtins.bool, builtins.int, builtins.float, complex, np.generic))


def is_real(value: Any) -> builtins.bool:
    """Whether a value is one Python or NumPy number that is not complex."""
    return isinstance(value, Real)
