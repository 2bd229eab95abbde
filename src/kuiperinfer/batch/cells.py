"""Arrow's columns as NumPy's arrays and back: what stands in the cells of Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..dtypes import Array
from ..errors import InputError

Shape = Sequence[int | None]

# ------------------------------------------------------------------------------------------- reading


def cell(scalar: Any) -> Any:
    """What a cell holds: text, bytes, a number or a (nested) list as an array, or a dict of these. `InputError` if null."""
    if not scalar.is_valid:
        raise InputError("the cell is empty")
    kind = scalar.type
    if isinstance(kind, pa.FixedShapeTensorType):
        return scalar.to_numpy()
    if isinstance(kind, pa.BaseExtensionType):
        return cell(scalar.value)
    if pa.types.is_struct(kind):
        return {field.name: cell(scalar[field.name]) for field in kind if scalar[field.name].is_valid}
    if _is_list(kind):
        return _nested(scalar.values)
    if _is_number(kind):
        return np.asarray(scalar.as_py(), kind.to_pandas_dtype())
    return scalar.as_py()


def _is_list(kind: Any) -> bool:
    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


def _is_number(kind: Any) -> bool:
    return any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean))


def _nested(values: Any) -> Array:
    """Lists within lists as one array of as many dimensions."""
    if values.null_count:
        raise InputError("there are empty entries within the cell's list")
    if not _is_list(values.type):
        if not _is_number(values.type):
            raise InputError(f"expected lists of numbers, found {values.type}")
        return np.asarray(values.to_numpy(zero_copy_only=False))
    lengths = {len(item.values) for item in values}
    if len(lengths) > 1:
        raise InputError(f"the cell's lists have different lengths: {', '.join(map(str, sorted(lengths)))}")
    inner = _nested(values.flatten())
    return inner.reshape(len(values), lengths.pop() if lengths else 0, *inner.shape[1:])


def in_shape(array: Array, shape: Shape) -> Array:
    """A row in the shape that a model declares for it: a flat list is folded, if the shape is fixed and the numbers are enough.

    Raises `InputError` where the shape is another.
    """
    fixed = tuple(dim for dim in shape if dim is not None)
    if array.ndim == 1 and len(fixed) == len(shape) != 1 and array.size == int(np.prod(fixed)):
        return array.reshape(fixed)
    if array.ndim != len(shape) or any(want not in (None, dim) for want, dim in zip(shape, array.shape, strict=True)):
        wanted = ", ".join("?" if dim is None else str(dim) for dim in shape)
        raise InputError(f"expected a row of shape ({wanted}), found {array.shape}")
    return array


# ------------------------------------------------------------------------------------------- writing


def column_type(shape: Shape | None, dtype: np.dtype[Any]) -> Any:
    """The Arrow type of a column whose rows have the given shape: numbers, tensors, or shape and values where it is free."""
    if dtype.kind == "c":  # Arrow has no complex numbers: a trailing dimension of 2 stands for them
        return column_type(None if shape is None else (*shape, 2), np.empty(0, dtype).real.dtype)
    number = pa.from_numpy_dtype(dtype)
    if shape is None or any(dim is None for dim in shape):
        return pa.struct([("shape", pa.list_(pa.int32())), ("values", pa.list_(number))])
    if not shape:
        return number
    if number == pa.bool_():
        number = pa.uint8()
    return pa.fixed_shape_tensor(number, [dim for dim in shape if dim is not None])


def column(rows: Sequence[Array], kind: Any) -> Any:
    """Rows as an Arrow array of a type of `column_type`. Raises `InputError` where a row's shape is another."""
    parts = [np.stack([row.real, row.imag], axis=-1) if row.dtype.kind == "c" else row for row in rows]
    if pa.types.is_struct(kind):
        return pa.array([{"shape": row.shape, "values": row.reshape(-1)} for row in parts], kind)
    if isinstance(kind, pa.FixedShapeTensorType):
        wanted = tuple(kind.shape)
        if strange := next((row.shape for row in parts if row.shape != wanted), None):
            raise InputError(f"expected outputs of shape {wanted} in all rows, found {strange}")
        flat = np.concatenate([np.ascontiguousarray(row).reshape(-1) for row in parts])
        values = pa.array(flat.astype(kind.value_type.to_pandas_dtype(), copy=False))
        size = int(np.prod(wanted))
        return pa.ExtensionArray.from_storage(kind, pa.FixedSizeListArray.from_arrays(values, size))
    return pa.array(np.asarray([row[()] for row in parts]), kind)
