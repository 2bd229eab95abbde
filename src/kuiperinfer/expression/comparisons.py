"""Functions that are no part of the converter's language: comparisons, and the choice by them.

Rows like those of `functions.py`; `parse` knows them with `internal=True` only.
"""

from __future__ import annotations

import numpy as np

from ..dtypes import Array, DType, bool_
from .functions import Function


def _where(condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition != 0, x, y)


def _to_bool(dtype: DType) -> DType:
    return bool_


def _comparison(name: str, ufunc: np.ufunc, *kinds: str) -> Function:
    return Function(name, 2, ufunc, None, kinds, result=_to_bool)


_ANY, _ORDERED = ("bool", "int", "float", "complex"), ("bool", "int", "float")

_ROWS = (
    _comparison("eq", np.equal, *_ANY),
    _comparison("ne", np.not_equal, *_ANY),
    _comparison("lt", np.less, *_ORDERED),
    _comparison("le", np.less_equal, *_ORDERED),
    _comparison("gt", np.greater, *_ORDERED),
    _comparison("ge", np.greater_equal, *_ORDERED),
    Function("where", 3, _where, ("0", "where(x,grad,0)", "where(x,0,grad)")),
)

COMPARISONS: dict[str, Function] = {row.name: row for row in _ROWS}
