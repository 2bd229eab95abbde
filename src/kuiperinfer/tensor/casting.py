"""Names of element types, in every spelling that users have for them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..dtypes import DType, dtype_from_name, dtype_of
from ..errors import DTypeError

DTypeLike: TypeAlias = "DType | str | type | np.dtype[Any]"

_PYTHON_TYPES = {bool: "bool", int: "i64", float: "f32", complex: "c64"}


def as_dtype(value: Any) -> DType:
    """The dtype meant by a `DType`, a name (``"f32"``, ``"float32"``, ``"torch.float32"``), a torch or NumPy dtype or a
    Python type."""
    if isinstance(value, DType):
        return value
    if isinstance(value, type) and value in _PYTHON_TYPES:
        return dtype_from_name(_PYTHON_TYPES[value])
    if isinstance(value, str):
        try:
            return dtype_from_name(value)
        except DTypeError as error:
            try:
                return dtype_from_name(f"torch.{value}")
            except DTypeError:
                raise error from None
    if str(value).startswith("torch."):
        return dtype_from_name(str(value))
    try:
        return dtype_of(np.dtype(value))
    except TypeError:
        raise DTypeError(f"expected a dtype such as kuiperinfer.dtypes.f32 or 'f32', found {value!r}") from None
