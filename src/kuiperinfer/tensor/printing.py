"""The text of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..dtypes import widen

if TYPE_CHECKING:
    from .tensor import Tensor


def tensor_text(tensor: Tensor) -> str:
    """The elements in nested brackets."""
    values = np.array2string(widen(tensor.array), separator=", ", prefix="tensor(")
    return f"tensor({values})"
