"""Weights on disk, in the format of safetensors: names, shapes and bytes, and nothing that could run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np

from ...dtypes import Array, bf16, bool_, c64, dtype_of, f16, f32, f64, i8, i16, i32, i64, u8
from ...errors import DTypeError, InputError
from ..tensor import Tensor
from .module import IncompatibleKeys, Module

_DTYPES = {
    "F32": f32,
    "F64": f64,
    "F16": f16,
    "BF16": bf16,
    "I64": i64,
    "I32": i32,
    "I16": i16,
    "I8": i8,
    "U8": u8,
    "BOOL": bool_,
    "C64": c64,
}

PathLike: TypeAlias = "str | os.PathLike[str]"


def save_tensors(
    tensors: Mapping[str, Tensor | Array], path: PathLike, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes tensors or arrays, each under its name, to a `.safetensors` file.

    Raises `InputError` where it cannot be written, `DTypeError` for bf16 and c32, which NumPy does not have.
    """
    _require_safetensors()
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    if not isinstance(tensors, Mapping):
        raise InputError(f"save_tensors: expected a dict of tensors by name, found {type(tensors).__name__}")
    file = _path(path)
    arrays = {
        name: np.asarray(value.detach().array if isinstance(value, Tensor) else value, order="C")
        for name, value in tensors.items()
    }
    for name, array in arrays.items():
        if array.dtype.names is not None:
            raise DTypeError(
                f"'{name}': {dtype_of(array)} cannot be written as safetensors; convert it with to('f32') first"
            )
    try:
        save_file(arrays, file, None if metadata is None else dict(metadata))
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{file}: cannot be written: {error}") from error


def load_tensors(path: PathLike) -> dict[str, Array]:
    """The arrays of a `.safetensors` file by name. Raises `InputError` for a file that is missing or broken."""
    _require_safetensors()
    import safetensors

    deserialize: Any = safetensors.deserialize
    name_of_file = _path(path)
    try:
        with open(name_of_file, "rb") as file:
            found = deserialize(file.read())
    except (OSError, safetensors.SafetensorError) as error:
        raise InputError(f"{name_of_file}: cannot be read as safetensors: {error}") from error
    return {name: _array(name_of_file, name, **parts) for name, parts in found}


def _array(path: str, name: str, dtype: str, shape: Sequence[int], data: bytes) -> Array:
    if dtype not in _DTYPES:
        known = ", ".join(_DTYPES)
        raise DTypeError(f"{path}: '{name}' has the dtype {dtype}; expected one of {known}")
    return np.frombuffer(data, _DTYPES[dtype].storage.newbyteorder("<")).reshape(shape).astype(_DTYPES[dtype].storage)


def save_weights(module: Module, path: PathLike) -> None:
    """Writes the state of a module (`state_dict`) to a `.safetensors` file, which PyTorch's users can read as well."""
    save_tensors(_module(module).state_dict(), path)


def load_weights(module: Module, path: PathLike, strict: bool = True) -> IncompatibleKeys:
    """Reads the state of a module from a `.safetensors` file; see `Module.load_state_dict`."""
    state = load_tensors(path)
    try:
        return _module(module).load_state_dict(state, strict)
    except InputError as error:
        raise error.at(os.fspath(path)) from None


def _path(path: PathLike) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"expected the path of a file, found {path!r}")
    return os.fspath(path)


def _module(module: Module) -> Module:
    if not isinstance(module, Module):
        raise InputError(f"expected a module, found {module!r}")
    return module


def _require_safetensors() -> None:
    if find_spec("safetensors") is None:
        raise InputError("files of weights need safetensors: pip install 'kuiperinfer[train]'")
