"""Shapes of inputs as people write them, ``1x3x224x224`` or ``1,128i64``, and as the converter does, ``[1,128]i64``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from ..dtypes import ALL, TensorSpec, dtype_from_name, f32
from ..errors import InputError, did_you_mean

ShapeLike: TypeAlias = "str | Sequence[int] | TensorSpec"

_TEXT = re.compile(r"[(\[]?\s*(?P<dims>\d+(?:\s*[x×,]\s*\d+)*)\s*[)\]]?\s*(?P<dtype>[a-wyz]\w*)?", re.ASCII)
_IN_LOG = re.compile(r"\[([\d,]*)\]([a-z]\w*)")
_LARGEST_DIM = 2**31 - 1  # the converter reads them as C integers


def parse_input_shape(text: str) -> TensorSpec:
    """The spec that a text stands for: dimensions between ``x`` or commas, then a dtype (f32 where there is none).

    Raises `InputError` where the text is none, and `DTypeError` for a dtype that does not exist.
    """
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise InputError(
            f"shape '{text}': expected whole numbers with x or commas between them, such as 1x3x224x224 or 1x128i64"
        )
    dims = tuple(int(dim) for dim in re.split(r"\s*[x×,]\s*", found["dims"]))
    name = found["dtype"] or "f32"
    if name not in {dtype.name for dtype in ALL}:
        raise InputError(f"shape '{text}': unknown dtype '{name}'{did_you_mean(name, [dtype.name for dtype in ALL])}")
    return _checked(TensorSpec(dims, dtype_from_name(name)))


def as_input_shape(given: ShapeLike) -> TensorSpec:
    """The spec of a text, of dimensions alone (float32), or of a spec."""
    if isinstance(given, str):
        return parse_input_shape(given)
    if isinstance(given, TensorSpec):
        return _checked(given)
    try:
        dims = tuple(int(dim) for dim in given)
    except (TypeError, ValueError):
        raise InputError(f"shape {given!r}: expected whole numbers, such as (1, 3, 224, 224)") from None
    return _checked(TensorSpec(dims, f32))


def as_input_shapes(given: ShapeLike | Sequence[ShapeLike]) -> list[TensorSpec]:
    """The specs of all inputs; one shape alone is that of the only input."""
    if isinstance(given, (str, TensorSpec)):
        return [as_input_shape(given)]
    shapes: list[Any] = list(given)
    if shapes and all(isinstance(dim, int) for dim in shapes):
        return [as_input_shape(shapes)]
    return [as_input_shape(shape) for shape in shapes]


def _checked(spec: TensorSpec) -> TensorSpec:
    if any(not 0 < dim <= _LARGEST_DIM for dim in spec.shape):
        raise InputError(f"shape {spec}: expected dimensions from 1 to {_LARGEST_DIM}")
    return spec


def converter_text(specs: Sequence[TensorSpec]) -> str:
    """Specs as the converter's options have them: ``[1,3,224,224]f32,[1,128]i64``. It has no text for a scalar."""
    return ",".join(f"[{','.join(map(str, spec.shape))}]{spec.dtype.name}" for spec in specs)


def from_converter_text(text: str) -> list[TensorSpec]:
    """The inverse of `converter_text`, scalars (``[]f32``) included; what it does not understand is left out."""
    known = {dtype.name: dtype for dtype in ALL}
    return [
        TensorSpec(tuple(int(dim) for dim in dims.split(",") if dim), known[name])
        for dims, name in _IN_LOG.findall(text)
        if name in known
    ]
