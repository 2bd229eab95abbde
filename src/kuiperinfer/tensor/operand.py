"""What operations take: tensors, and Python's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .lazy import NUMBERS
from .wrapping import tensor_type

OPERAND_TYPES: set[type] = {*NUMBERS}  # what needs no conversion; kinds of tensors join when they are seen
_CLASSES: tuple[Any, ...] = NUMBERS


def as_operand(value: Any) -> Any:
    """A tensor or a number as it is, NumPy's as one of ours, and None for anything else."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tensor_type()):
        OPERAND_TYPES.add(type(value))
        return value
    if isinstance(value, np.ndarray):
        return tensor_type()(value)
    for number in _CLASSES:
        if isinstance(value, number):  # of a class of its own
            return number(value)
    return None
