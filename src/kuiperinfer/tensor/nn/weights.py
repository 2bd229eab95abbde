"""Weights on disk, in the format of safetensors: names, shapes and bytes, and nothing that could run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TypeAlias

import numpy as np

from ...dtypes import Array
from ...errors import InputError
from ..tensor import Tensor
from .module import IncompatibleKeys, Module

PathLike: TypeAlias = "str | os.PathLike[str]"


def save_tensors(
    tensors: Mapping[str, Tensor | Array], path: PathLike, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes tensors or arrays, each under its name, to a `.safetensors` file."""
    _require_safetensors()
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    arrays = {
        name: np.asarray(value.detach().array if isinstance(value, Tensor) else value, order="C")
        for name, value in tensors.items()
    }
    try:
        save_file(arrays, os.fspath(path), None if metadata is None else dict(metadata))
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{os.fspath(path)}: cannot be written: {error}") from error


def load_tensors(path: PathLike) -> dict[str, Array]:
    """The arrays of a `.safetensors` file by name. Raises `InputError` for a file that is missing or broken."""
    _require_safetensors()
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(os.fspath(path))
    except (OSError, SafetensorError, KeyError) as error:
        raise InputError(f"{os.fspath(path)}: cannot be read as safetensors: {error}") from error


def save_weights(module: Module, path: PathLike) -> None:
    """Writes the state of a module (`state_dict`) to a `.safetensors` file, which PyTorch's users can read as well."""
    save_tensors(module.state_dict(), path)


def load_weights(module: Module, path: PathLike, strict: bool = True) -> IncompatibleKeys:
    """Reads the state of a module from a `.safetensors` file; see `Module.load_state_dict`."""
    state = load_tensors(path)
    try:
        return module.load_state_dict(state, strict)
    except InputError as error:
        raise error.at(os.fspath(path)) from None


def _require_safetensors() -> None:
    if find_spec("safetensors") is None:
        raise InputError("files of weights need safetensors: pip install 'kuiperinfer[train]'")
