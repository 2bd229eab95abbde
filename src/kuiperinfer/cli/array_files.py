"""Arrays in files: .npz archives with numbered names (`in0`, `in1`, …) and single .npy files.

NumPy has no bfloat16 and no complex32: such arrays stand in files as uint16 bit patterns (complex32 with a trailing
dimension of 2); whoever reads them has to know what they are.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import dtypes
from ..dtypes import Array, DType
from ..errors import InputError

_UNREADABLE = (OSError, ValueError, EOFError, KeyError, MemoryError, zipfile.BadZipFile, zipfile.LargeZipFile)


def read_archive(path: Path) -> dict[str, Array]:
    """The arrays of an .npz archive by name. Raises `InputError` where it is none; never unpickles."""
    content = _load(path)
    if isinstance(content, np.ndarray):
        raise InputError(f"{path}: expected an .npz archive, found a single .npy array")
    return content


def read_array(path: Path) -> Array:
    """The array of an .npy file. Raises `InputError` where it is none; never unpickles."""
    content = _load(path)
    if not isinstance(content, np.ndarray):
        raise InputError(f"{path}: expected a single .npy array, found an .npz archive")
    return content


def _load(path: Path) -> Array | dict[str, Array]:
    try:
        with open(path, "rb") as file:
            content: Any = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                return content
            with content:
                return {name: content[name] for name in content.files}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except _UNREADABLE as error:
        raise InputError(f"{path}: not a readable NumPy file ({error})") from error


def write_archive(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes arrays as an .npz archive, bf16 and c32 as bit patterns; the file appears whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            stored: dict[str, Any] = {name: to_stored(array) for name, array in arrays.items()}
            np.savez(file, **stored)
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from error


def numbered(arrays: Mapping[str, Array], prefix: str, path: Path) -> list[Array]:
    """The arrays `prefix0`, `prefix1`, … in order; `InputError` unless these are exactly the names there are."""
    names = [f"{prefix}{index}" for index in range(len(arrays))]
    if missing := [name for name in names if name not in arrays]:
        found = _listed(list(arrays))
        raise InputError(f"{path}: expected arrays {_listed(names)}; found {found}, so {_listed(missing)} is missing")
    return [arrays[name] for name in names]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def from_stored(array: Array, dtype: DType | None) -> Array:
    """An array of a file as what it stands for: uint16 bit patterns as bf16 or c32, all others as they are."""
    if (dtype is dtypes.bf16 or dtype is dtypes.c32) and array.dtype == np.uint16:
        return dtypes.from_bits(array, dtype)
    return array


def to_stored(array: Array) -> Array:
    """An array in the form in which files hold it, the inverse of `from_stored`."""
    return dtypes.to_bits(array) if array.dtype in (dtypes.bf16.storage, dtypes.c32.storage) else array
