"""The element types of the Open Inference Protocol, and arrays of them as JSON numbers and as bytes.

https://github.com/kserve/open-inference-protocol: bytes are little-endian and in row-major order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..dtypes import Array, DType
from ..errors import InputError, did_you_mean
from .refusals import Refusal, bad_request

_DTYPES: dict[str, DType] = {
    "BOOL": dtypes.bool_,
    "UINT8": dtypes.u8,
    "INT8": dtypes.i8,
    "INT16": dtypes.i16,
    "INT32": dtypes.i32,
    "INT64": dtypes.i64,
    "FP16": dtypes.f16,
    "FP32": dtypes.f32,
    "FP64": dtypes.f64,
    "BF16": dtypes.bf16,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_WITHOUT_DTYPE = ("UINT16", "UINT32", "UINT64", "BYTES")  # of the protocol, but no model of this engine takes them


def datatype_name(dtype: DType) -> str:
    """The protocol's name of a dtype. Raises `InputError` for complex numbers, which it cannot carry."""
    if dtype not in _NAMES:
        raise InputError(f"the protocol has no datatype for {dtype.name}, so this model cannot be served")
    return _NAMES[dtype]


def dtype_named(name: Any) -> DType:
    """The dtype of a datatype in a request."""
    if isinstance(name, str) and name in _DTYPES:
        return _DTYPES[name]
    expected = ", ".join(_DTYPES)
    if name in _WITHOUT_DTYPE:
        raise bad_request(f"datatype {name} is not supported: no model here takes it; expected one of {expected}")
    near = did_you_mean(name, _DTYPES) if isinstance(name, str) else ""
    raise bad_request(f"datatype: expected one of {expected}, found {_shown(name)}{near}")


def _shown(value: Any) -> str:
    """A value of a request for a message: short, and nothing that a terminal or a log takes for a command."""
    text = "null" if value is None else "a boolean" if isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


# ------------------------------------------------------------------------------------------- bytes


def from_bytes(data: memoryview, shape: Sequence[int], dtype: DType) -> Array:
    """The array that lies in `data`, which is as long as shape and dtype say. It is not copied, and may not be aligned."""
    array = np.frombuffer(data, dtype.storage).reshape(shape)
    if dtype is dtypes.bool_ and array.view(np.uint8).max(initial=0) > 1:
        raise bad_request("BOOL bytes must be 0 or 1")
    return array


def to_bytes(array: Array) -> bytes:
    """The elements of an array, in row-major order."""
    return array.tobytes()


# ------------------------------------------------------------------------------------------- JSON

_JSON_KINDS = {"bool": "b", "int": "iu", "float": "iuf"}


def from_json(data: Any, shape: Sequence[int], dtype: DType) -> Array:
    """The array of JSON numbers, nested as its shape or flat. Raises `Refusal` where they do not fit shape or dtype."""
    if not isinstance(data, list):
        raise bad_request(f"data: expected a list, found {_shown(data)}")
    try:
        found = np.array(data) if data else np.zeros(0, dtype.compute)
    except (ValueError, OverflowError, TypeError, RecursionError):
        raise bad_request("data: expected numbers in lists of equal length, nested as the shape or flat") from None
    if found.size and (found.dtype.kind not in _JSON_KINDS[dtype.kind] or (dtype.kind != "bool" and _has_bool(data))):
        raise _misfit(dtype, *_first_misfit(data, dtype))
    if found.shape != tuple(shape) and found.shape != (math.prod(shape),):
        raise bad_request(
            f"data: expected {math.prod(shape)} elements for shape {list(shape)}, found {list(found.shape)}"
        )
    array = _converted(found, dtype)
    fits = _fits(found, array, dtype)
    if not fits.all():
        place = tuple(np.argwhere(~fits)[0].tolist())
        raise _misfit(dtype, place, found[place].item())
    return array.reshape(shape)


def _has_bool(data: list[Any]) -> bool:
    """Whether ``true`` or ``false`` stands among numbers: NumPy would take them for 1 and 0."""
    kinds = set(map(type, data))
    return bool in kinds or (list in kinds and any(_has_bool(value) for value in data))


def _first_misfit(data: list[Any], dtype: DType, outer: tuple[int, ...] = ()) -> tuple[tuple[int, ...], Any]:
    """Place and value of the first element that is no JSON number, or boolean, for `dtype`."""
    wanted = {"bool": (bool,), "int": (int,), "float": (int, float)}[dtype.kind]
    limits = np.iinfo(dtype.storage) if dtype.kind == "int" else None
    for index, value in enumerate(data):
        place = (*outer, index)
        if type(value) is list:
            inner = _first_misfit(value, dtype, place)
            if inner[0]:
                return inner
        elif type(value) not in wanted or (limits is not None and not limits.min <= value <= limits.max):
            return place, value
    return (), None


def _misfit(dtype: DType, place: Sequence[int], value: Any) -> Refusal:
    name = datatype_name(dtype)
    if dtype.kind == "int":
        limits = np.iinfo(dtype.storage)
        expected = f"whole numbers from {limits.min} to {limits.max} for {name}"
    elif dtype.kind == "bool":
        expected = f"true and false for {name}"
    else:
        expected = f"numbers in the range of {name}" if type(value) in (int, float) else f"numbers for {name}"
    where = "".join(f"[{index}]" for index in place)
    return bad_request(f"data{where}: expected {expected}, found {_shown(value)}")


def _fits(found: Array, converted: Array, dtype: DType) -> Array:
    """Which of the numbers are in the range of `dtype`."""
    if dtype.kind == "int":
        limits = np.iinfo(dtype.storage)
        return np.asarray((found >= limits.min) & (found <= limits.max))
    if dtype.kind == "float":  # 3.4028235e38 is how the largest number of FP32 is written, and a little more than it
        return np.isfinite(dtypes.widen(converted))
    return np.ones(found.shape, np.bool_)


def _converted(found: Array, dtype: DType) -> Array:
    """JSON numbers as elements of `dtype`, each rounded once to nearest even."""
    with np.errstate(over="ignore"):
        if dtype in (dtypes.f16, dtypes.bf16):
            return dtypes.narrow(_to_odd_float32(found.astype(np.float64)), dtype)
        return found.astype(dtype.storage)


def _to_odd_float32(wide: Array) -> Array:
    """Float64 as float32, rounded to odd: rounding it again, to fewer bits, then gives what rounding once would have given."""
    near = wide.astype(np.float32)
    other = np.nextafter(near, np.where(wide > near, np.float32(np.inf), np.float32(-np.inf)))
    return np.where((near != wide) & (near.view(np.uint32) & 1 == 0), other, near)


def to_json(array: Array, name: str) -> Array:
    """The elements as a flat array whose numbers JSON writes so that they are read back exactly.

    Raises `Refusal` for NaN and infinity, which JSON has no number for.
    """
    flat = dtypes.widen(array).reshape(-1)
    if flat.dtype.kind != "f":
        return flat
    if not np.isfinite(flat).all():
        raise bad_request(
            f"output '{name}' has NaN or infinity in it, which JSON cannot carry: ask for it with binary_data"
        )
    return flat.astype(np.float64)
