"""Element types, and how PyTorch promotes them.

`DType` is one element type of the PNNX format. NumPy has no bfloat16 and no complex32: arrays of these have a
structured *storage* dtype, which keeps them from being mistaken for integers, and are widened to a *compute* dtype
(`widen`) before anything is calculated. Half precision takes the same road, because PyTorch on a CPU calculates
its operators in float32 and rounds once, at the end (`narrow`).

`TensorSpec` is what is known of a tensor before it is calculated: shape, dtype, and its value where that is known too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .errors import DTypeError, ShapeError, did_you_mean

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class DType:
    """One element type: PNNX `name` and `code`, PyTorch names, NumPy dtypes to store it and to calculate in it.

    `kind` is one of ``"bool" "int" "float" "complex"``. Compared by identity: there is one object a type.
    """

    name: str
    code: int
    kind: str
    storage: np.dtype[Any]
    compute: np.dtype[Any]
    torch_names: tuple[str, ...]

    @property
    def itemsize(self) -> int:
        """Bytes of one stored element."""
        return self.storage.itemsize

    @property
    def torch_name(self) -> str:
        """PyTorch's own spelling, such as ``torch.float32``."""
        return f"torch.{self.torch_names[0]}"

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return dtype_from_name, (self.name,)


def _dtype(name: str, code: int, kind: str, storage: Any, compute: Any, *torch_names: str) -> DType:
    little = np.dtype(storage).newbyteorder("=")
    return DType(name, code, kind, little, np.dtype(compute), torch_names)


# Arrays of these two are recognised by their field name; no arithmetic is defined on them.
BFLOAT16_STORAGE = np.dtype([("bfloat16", np.uint16)])
COMPLEX32_STORAGE = np.dtype([("real", np.float16), ("imag", np.float16)])

f32 = _dtype("f32", 1, "float", np.float32, np.float32, "float32", "float")
f64 = _dtype("f64", 2, "float", np.float64, np.float64, "float64", "double")
f16 = _dtype("f16", 3, "float", np.float16, np.float32, "float16", "half")
i32 = _dtype("i32", 4, "int", np.int32, np.int32, "int32", "int")
i64 = _dtype("i64", 5, "int", np.int64, np.int64, "int64", "long")
i16 = _dtype("i16", 6, "int", np.int16, np.int16, "int16", "short")
i8 = _dtype("i8", 7, "int", np.int8, np.int8, "int8")
u8 = _dtype("u8", 8, "int", np.uint8, np.uint8, "uint8")
bool_ = _dtype("bool", 9, "bool", np.bool_, np.bool_, "bool")
c64 = _dtype("c64", 10, "complex", np.complex64, np.complex64, "complex64", "cfloat")
c128 = _dtype("c128", 11, "complex", np.complex128, np.complex128, "complex128", "cdouble")
c32 = _dtype("c32", 12, "complex", COMPLEX32_STORAGE, np.complex64, "complex32", "chalf")
bf16 = _dtype("bf16", 13, "float", BFLOAT16_STORAGE, np.float32, "bfloat16")

ALL: tuple[DType, ...] = (f32, f64, f16, i32, i64, i16, i8, u8, bool_, c64, c128, c32, bf16)
_BY_NAME = {dtype.name: dtype for dtype in ALL}
_BY_TORCH_NAME = {name: dtype for dtype in ALL for name in dtype.torch_names}
_BY_STORAGE = {dtype.storage: dtype for dtype in ALL}


def dtype_from_name(name: str) -> DType:
    """The dtype of a PNNX suffix (``f32``) or of a PyTorch name (``torch.float``, ``torch.float32``)."""
    found = _BY_TORCH_NAME.get(name[6:]) if name.startswith("torch.") else _BY_NAME.get(name)
    if found is None:
        known = list(_BY_NAME) + [f"torch.{n}" for n in _BY_TORCH_NAME]
        raise DTypeError(f"unknown dtype '{name}'{did_you_mean(name, known)}")
    return found


def dtype_of(array: Array | np.dtype[Any]) -> DType:
    """The dtype of an array (or of a NumPy dtype), any byte order; arrays of ``ml_dtypes.bfloat16`` count as bf16."""
    numpy_dtype = array if isinstance(array, np.dtype) else array.dtype
    found = _BY_STORAGE.get(numpy_dtype) or _BY_STORAGE.get(numpy_dtype.newbyteorder("="))
    if found is None and numpy_dtype.name == "bfloat16":
        found = bf16
    if found is None:
        expected = ", ".join(dtype.name for dtype in ALL)
        raise DTypeError(f"arrays of NumPy dtype '{numpy_dtype}' are not supported; expected one of {expected}")
    return found


# ------------------------------------------------------------------------------------------- storage and compute


def widen(array: Array) -> Array:
    """A stored array as one that NumPy calculates with: f16 and bf16 become float32, c32 complex64, others stay."""
    if array.dtype == BFLOAT16_STORAGE:
        bits: Array = np.asarray(array["bfloat16"].astype(np.uint32) << np.uint32(16))  # a 0-d array stays one
        return bits.view(np.float32)
    if array.dtype == COMPLEX32_STORAGE:
        wide = np.empty(array.shape, np.complex64)
        wide.real, wide.imag = array["real"], array["imag"]
        return wide
    return array.astype(np.float32) if array.dtype == np.float16 else array


def narrow(array: Array, dtype: DType) -> Array:
    """A calculated array in the storage of `dtype`, rounded to nearest even; the array itself where nothing changes.

    Values are converted as PyTorch converts them: floats are cut to integers, a complex number loses its imaginary part.
    """
    if array.dtype == dtype.storage:
        return array
    if array.dtype.kind == "c" and dtype.kind in ("int", "float"):
        array = array.real  # NumPy warns of the imaginary part, which PyTorch loses in silence
    with np.errstate(all="ignore"):
        wide = array.astype(dtype.compute, copy=False)
        if dtype is bf16:
            return _round_to_bfloat16(wide)
        if dtype is c32:
            half = np.empty(wide.shape, COMPLEX32_STORAGE)
            half["real"], half["imag"] = wide.real, wide.imag
            return half
        return wide.astype(dtype.storage, copy=False)


def cast(array: Array, dtype: DType) -> Array:
    """A stored array in the storage of another dtype; the array itself where it has that already."""
    return array if array.dtype == dtype.storage else narrow(widen(array), dtype)


def largest_finite(dtype: DType) -> float:
    """The largest finite number of a float dtype."""
    return 255 * 2.0**120 if dtype is bf16 else float(np.finfo(dtype.storage).max)


def _round_to_bfloat16(wide: Array) -> Array:
    bits = np.ascontiguousarray(wide, np.float32).view(np.uint32).reshape(wide.shape)
    to_even = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + np.uint32(0x7FFF) + to_even) >> np.uint32(16)).astype(np.uint16)
    rounded = np.where(np.isnan(wide), np.uint16(0x7FC0), rounded)
    return np.asarray(rounded, np.uint16).view(BFLOAT16_STORAGE).reshape(wide.shape)


def from_bits(bits: Array, dtype: DType) -> Array:
    """A bf16 or c32 array from its bit patterns: uint16 of the same shape, for c32 with a trailing dimension of 2."""
    shape = bits.shape[:-1] if dtype is c32 else bits.shape
    return np.ascontiguousarray(bits, np.uint16).view(dtype.storage).reshape(shape)


def to_bits(array: Array) -> Array:
    """The bit patterns of a bf16 or c32 array, the inverse of `from_bits`."""
    dtype = dtype_of(array)
    bits = np.ascontiguousarray(array).view(np.uint16)
    return bits.reshape((*array.shape, 2) if dtype is c32 else array.shape)


# ------------------------------------------------------------------------------------------- what is known beforehand


@dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of a tensor, and its `value` (in storage dtype) where that is known too.

    Equality looks at shape and dtype alone.
    """

    shape: tuple[int, ...]
    dtype: DType
    value: Array | None = field(default=None, compare=False, repr=False)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        size = 1
        for dim in self.shape:
            size *= dim
        return size

    @property
    def nbytes(self) -> int:
        """Bytes of the stored elements."""
        return self.size * self.dtype.itemsize

    def like(self, shape: Iterable[int] | None = None, dtype: DType | None = None) -> TensorSpec:
        """The same with another shape or dtype; the value is not kept."""
        return TensorSpec(self.shape if shape is None else tuple(shape), self.dtype if dtype is None else dtype)

    def __str__(self) -> str:
        return f"({','.join(map(str, self.shape))}){self.dtype.name}"

    @staticmethod
    def of(array: Array) -> TensorSpec:
        """The spec of an array at hand, which is its value."""
        return TensorSpec(array.shape, dtype_of(array), array)


class DataDependent(Exception):
    """Raised where a spec hangs on a tensor's value that is not known yet; never leaves the package."""


Scalar: TypeAlias = bool | int | float | complex

_PROMOTION_ORDER = {"bool": 0, "int": 1, "float": 2, "complex": 3}
_COMPLEX_OF = {f16: c32, bf16: c64, f32: c64, f64: c128}
_REAL_OF = {c32: f16, c64: f32, c128: f64}


def to_complex(dtype: DType) -> DType:
    """The complex dtype with parts of the given float dtype (bf16 -> c64); complex dtypes stay, integers give c64."""
    return dtype if dtype.kind == "complex" else _COMPLEX_OF.get(dtype, c64)


def to_real(dtype: DType) -> DType:
    """The float dtype of a complex dtype's parts; other dtypes stay."""
    return _REAL_OF.get(dtype, dtype)


def to_float(dtype: DType) -> DType:
    """What an operator such as `sqrt` or true division gives: integers and bool become f32, others stay."""
    return dtype if dtype.kind in ("float", "complex") else f32


def promote(a: DType, b: DType) -> DType:
    """PyTorch's `torch.promote_types`."""
    if a is b:
        return a
    if _PROMOTION_ORDER[a.kind] < _PROMOTION_ORDER[b.kind]:
        a, b = b, a
    if a.kind == "complex":
        parts = to_real(b) if b.kind in ("float", "complex") else None
        return a if parts is None else to_complex(_promote_floats(to_real(a), parts))
    if a.kind == "float":
        return _promote_floats(a, b) if b.kind == "float" else a
    if b.kind == "bool":
        return a
    if u8 in (a, b):
        other = b if a is u8 else a
        return i16 if other is i8 else other
    return a if a.itemsize >= b.itemsize else b


def _promote_floats(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if a.itemsize == b.itemsize:  # f16 with bf16
        return f32
    return a if a.itemsize > b.itemsize else b


def scalar_dtype(value: Scalar) -> DType:
    """The dtype that a Python number has on its own."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return i64
    return f32 if isinstance(value, float) else c64


def result_type(*operands: TensorSpec | Scalar) -> DType:
    """PyTorch's `torch.result_type` of any number of operands.

    Tensors with dimensions weigh more than 0-d tensors, and these more than Python numbers: the lighter ones
    change the result only where they are of a higher kind (bool < int < float < complex).
    """
    groups: list[DType | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, TensorSpec):
            group, dtype = (0 if operand.shape else 1), operand.dtype
        else:
            group, dtype = 2, scalar_dtype(operand)
        present = groups[group]
        groups[group] = dtype if present is None else promote(present, dtype)
    dimensioned, zero_dim, number = groups
    result = _combine(dimensioned, _combine(zero_dim, number))
    if result is None:
        raise DTypeError("result_type needs at least one operand")
    return result


def _combine(higher: DType | None, lower: DType | None) -> DType | None:
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.kind == "complex":
        return higher
    if higher.kind == "float":
        return to_complex(higher) if lower.kind == "complex" else higher
    if higher.kind == "bool" or lower.kind in ("float", "complex"):
        return promote(higher, lower)
    return higher


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape of operands under broadcasting, aligned at the right; `ShapeError` where there is none."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, start=rank - len(shape)):
            if dim != 1 and result[axis] not in (1, dim):
                listed = " and ".join(str(tuple(s)) for s in shapes)
                raise ShapeError(f"shapes {listed} cannot be broadcast together: dimension {axis - rank} differs")
            if dim != 1:
                result[axis] = dim
    return tuple(result)
