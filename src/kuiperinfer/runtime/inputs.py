"""What users hand in, as arrays that the engine takes: any array-like, checked against what the model declares."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import Array, DType, TensorSpec, bf16, c32, dtype_of, from_bits, narrow, widen
from ..errors import DTypeError, InputError, KuiperError, ShapeError
from ..graph.text import shape_text
from ..records import dataclass


@dataclass(frozen=True)
class ValueInfo:
    """An input or output of a model: its name, shape and dtype.

    A dimension that may vary is None; a shape or dtype of which the file says nothing is None.
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: DType | None

    def __str__(self) -> str:
        return f"{self.name}: {shape_text(self.shape, self.dtype) or '?'}"


def random_arrays(specs: Sequence[TensorSpec], seed: int) -> list[Array]:
    """Arrays of the given shapes and dtypes: normally distributed numbers, or zeros and ones for integers and bools."""
    generator = np.random.default_rng(seed)
    made = []
    for spec in specs:
        if spec.dtype.kind in ("float", "complex"):
            numbers: Array = np.asarray(generator.standard_normal(spec.shape))
        else:
            numbers = np.asarray(generator.integers(0, 2, spec.shape))
        made.append(narrow(numbers.astype(spec.dtype.compute), spec.dtype))
    return made


def as_input(value: Any, info: ValueInfo) -> Array:
    """`value` as an array of the declared dtype and rank, in native byte order; the array itself where it is one already.

    Numbers are converted where no kind is lost: bool -> int -> float -> complex, and between widths of a kind (float64 to
    float32 too). All else is a `DTypeError`; another rank is a `ShapeError`; what is no array at all is an `InputError`.
    """
    if _is_right_already(value, info):  # as most callers hand in
        return value
    try:
        array = _to_array(value)
        dtype = dtype_of(array)
    except KuiperError as error:
        raise error.at(f"input '{info.name}'") from error
    if info.shape is not None and array.ndim != len(info.shape):
        raise ShapeError(
            f"input '{info.name}': expected {len(info.shape)} dimensions, {shape_text(info.shape, info.dtype)}, "
            f"found {array.ndim}: {shape_text(array.shape, dtype)}"
        )
    wanted = info.dtype or dtype
    if _KIND_ORDER[dtype.kind] > _KIND_ORDER[wanted.kind]:
        raise DTypeError(
            f"input '{info.name}': expected {wanted.name}, found {dtype.name}; "
            f"convert it yourself if that loss is meant, for instance with .astype({wanted.compute.name!r})"
        )
    if dtype is wanted:
        return array.astype(dtype.storage, copy=False)
    if wanted.kind == "int" and array.size:
        limits = np.iinfo(wanted.storage)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise InputError(
                f"input '{info.name}': values from {array.min()} to {array.max()} do not fit {wanted.name}"
            )
    return narrow(widen(array.astype(dtype.storage, copy=False)), wanted)


def _is_right_already(value: Any, info: ValueInfo) -> bool:
    if type(value) is not np.ndarray or info.dtype is None or info.shape is None:
        return False
    return value.dtype == info.dtype.storage and value.ndim == len(info.shape)


_KIND_ORDER = {"bool": 0, "int": 1, "float": 2, "complex": 3}


def _to_array(value: Any) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.is_masked(value):
            raise InputError("masked arrays are not supported: fill the masked elements first, with .filled(…)")
        return np.asarray(value.data)
    if isinstance(value, np.ndarray):
        array = np.asarray(value)
    elif _is_torch(value):
        array = _from_torch(value)
    elif hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        array = np.from_dlpack(value)
    else:
        try:
            array = np.asarray(value)
        except Exception as error:  # whatever a foreign __array__ raises, and ragged lists
            raise InputError(f"cannot be read as an array ({error})") from error
        if isinstance(value, (list, tuple, float)) and array.dtype == np.float64:
            array = array.astype(np.float32)  # Python numbers have PyTorch's default dtype
    if array.dtype.name == "bfloat16":
        return from_bits(array.view(np.uint16), bf16)
    if array.dtype.kind in "OSUV" and array.dtype.names is None:
        raise InputError(f"expected an array of numbers, found {type(value).__name__} with NumPy dtype '{array.dtype}'")
    return array


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _from_torch(tensor: Any) -> Array:
    torch = sys.modules["torch"]
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        return from_bits(tensor.contiguous().view(torch.int16).numpy().view(np.uint16), bf16)
    if tensor.dtype is torch.complex32:
        return from_bits(torch.view_as_real(tensor).contiguous().numpy().view(np.uint16), c32)
    return np.asarray(tensor.numpy())
