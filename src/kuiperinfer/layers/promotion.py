"""Operands brought to their common shape and dtype, as element-wise functions of several tensors need them.

An operand is a tensor or a number; the words that a file has for infinities and NaN count as numbers. Layers that use this
take arrays as they are stored (`widens = False`), because the common dtype hangs on the dtype from before widening.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from ..dtypes import Array, DType, Scalar, TensorSpec, broadcast_shapes, narrow, result_type, widen
from ..errors import DTypeError
from .base import spec_of

Operand: TypeAlias = "Array | Scalar"
OperandSpec: TypeAlias = "TensorSpec | Scalar"

# The words that a file has for numbers.
NUMBER_WORDS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan, "nan.0": math.nan}


def number_from_word(operand: Any) -> Any:
    """The number behind a word such as `-inf`; other operands stay. `DTypeError` for what is neither tensor nor number."""
    if isinstance(operand, str) and operand in NUMBER_WORDS:
        return NUMBER_WORDS[operand]
    if not isinstance(operand, (TensorSpec, np.ndarray, bool, int, float, complex)):
        raise DTypeError(f"expected a tensor or a number, found {operand!r}")
    return operand


def common_spec(*operands: OperandSpec) -> TensorSpec:
    """The shape to which the operands broadcast, and PyTorch's `result_type` of them."""
    found = [number_from_word(operand) for operand in operands]
    shapes = [operand.shape for operand in found if isinstance(operand, TensorSpec)]
    return TensorSpec(broadcast_shapes(*shapes), result_type(*found))


def common_arrays(*operands: Operand) -> list[Array]:
    """The operands as arrays of the common dtype, ready to calculate with; not broadcast."""
    found = [number_from_word(operand) for operand in operands]
    dtype = result_type(*(spec_of(operand) for operand in found))
    return [converted(operand, dtype) for operand in found]


def converted(operand: Operand, dtype: DType) -> Array:
    """One operand as an array that has been rounded to `dtype`, ready to calculate with."""
    array = widen(operand) if isinstance(operand, np.ndarray) else np.asarray(operand)
    return widen(narrow(array, dtype))
