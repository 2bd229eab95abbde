"""Checks of arguments and parameters that many families share; each raises an error that names what it looked at."""

from __future__ import annotations

from typing import Any

from ..dtypes import DType, TensorSpec, promote
from ..errors import DTypeError, ResourceLimitError, ShapeError
from ..settings import settings
from .base import Ints


def expect_kind(value: Any, *kinds: str, what: str = "input") -> None:
    """`DTypeError` unless the value is a tensor whose dtype is of one of the kinds ``"bool" "int" "float" "complex"``
    or has one of the given names."""
    if not isinstance(value, TensorSpec):
        raise DTypeError(f"{what}: expected a tensor, found {value!r}")
    if value.dtype.kind not in kinds and value.dtype.name not in kinds:
        raise DTypeError(f"{what}: expected a tensor of dtype {' or '.join(kinds)}, found {value}")


def expect_dimensions(shape: Ints, at_least: int, what: str = "input") -> None:
    """`ShapeError` unless a shape has so many dimensions or more."""
    if len(shape) < at_least:
        expected = f"{at_least} dimension{'' if at_least == 1 else 's'}"
        raise ShapeError(f"{what}: expected at least {expected}, found {f'shape {shape}' if shape else 'a 0-d tensor'}")


def factor_dtype(*factors: TensorSpec) -> DType:
    """The dtype of a sum of products of these tensors, which have to be of one dtype.

    Float tensors of different widths are let through, and the widest counts: a model whose weights were stored in half
    precision is still fed float32.
    """
    dtype = factors[0].dtype
    for factor in factors[1:]:
        if factor.dtype is not dtype and not (factor.dtype.kind == dtype.kind == "float"):
            raise DTypeError(f"expected tensors of one dtype, found {' and '.join(map(str, factors))}")
        dtype = promote(dtype, factor.dtype)
    return dtype


def per_dimension(values: Ints, ndim: int, name: str, at_least: int) -> Ints:
    """One number a spatial dimension: a single number stands for all of them.

    `ShapeError` where there are too many or too few, or where one is smaller than `at_least`.
    """
    if len(values) not in (1, ndim):
        raise ShapeError(f"{name}: expected 1 or {ndim} numbers, found {values}")
    if min(values) < at_least:
        raise ShapeError(f"{name}: expected numbers of at least {at_least}, found {values}")
    return values * ndim if len(values) == 1 else values


def expect_affordable(shape: Ints, dtype: DType, what: str) -> None:
    """`ResourceLimitError` where a tensor that is needed in between takes more memory than `settings` allows."""
    nbytes = TensorSpec(shape, dtype).nbytes
    if nbytes > settings.max_memory:
        raise ResourceLimitError(
            f"{what} of shape {shape} takes {nbytes:,} bytes; settings.max_memory is {settings.max_memory:,}"
        )


def set_field(layer: Any, name: str, value: Any) -> None:
    """Gives a field of a frozen layer its normal form; for `__post_init__` only."""
    object.__setattr__(layer, name, value)
