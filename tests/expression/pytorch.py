"""What PyTorch makes of the functions of the expression language."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from kuiperinfer.dtypes import BFLOAT16_STORAGE, bf16, c32, dtype_from_name, from_bits
from kuiperinfer.expression import FUNCTIONS

DTYPES = {
    name: getattr(torch, dtype_from_name(name).torch_names[0])
    for name in ("f32", "f64", "f16", "bf16", "i32", "i64", "i16", "i8", "u8", "bool", "c64", "c128")
}

_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floor_divide": operator.floordiv,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
}


def torch_function(name: str) -> Callable[..., Any]:
    """The function of this name in PyTorch; where that takes tensors only, numbers are made tensors first."""
    if name.startswith("torch."):
        return lambda x: x.to(getattr(torch, name[6:]))
    function = _OPERATORS[name] if name in _OPERATORS else getattr(torch, name)
    if FUNCTIONS[name].tensors:
        return lambda *arguments: function(*(a if isinstance(a, torch.Tensor) else torch.tensor(a) for a in arguments))
    if name in ("mul", "div", "fmod"):  # Python swaps, divides by multiplying, and refuses, a number that comes first
        return lambda x, y: function(x if isinstance(x, torch.Tensor) else _as_tensor(x, y, name == "div"), y)
    return function


def _as_tensor(number: Any, beside: torch.Tensor, inexact: bool) -> torch.Tensor:
    dtype = torch.result_type(number, beside)
    if inexact and not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.float32
    return torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else None).to(dtype)


def call(name: str, arguments: Sequence[Any]) -> Any:
    """PyTorch's result, or None where it refuses the arguments."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch_function(name)(*arguments)
    except (RuntimeError, TypeError):
        return None


def to_numpy(value: Any) -> Any:
    """A tensor as this package stores it; other values stay."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().resolve_conj().resolve_neg().contiguous()
    if value.dtype is torch.bfloat16:
        return from_bits(value.view(torch.int16).numpy().view(np.uint16), bf16)
    if value.dtype is torch.complex32:
        return from_bits(torch.view_as_real(value).numpy().view(np.uint16), c32)
    return value.numpy()


def to_torch(value: Any) -> Any:
    """An array as a tensor; other values stay."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == BFLOAT16_STORAGE:
        return torch.from_numpy(np.array(value["bfloat16"]).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(value))
