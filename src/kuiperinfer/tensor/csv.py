"""Tables of numbers in text files."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from ..dtypes import DType, f32
from ..errors import DTypeError, InputError
from .casting import DTypeLike, as_dtype
from .creation import array_of, zeros
from .tensor import Tensor

_NUMBER_TYPES = {"bool": int, "int": int, "float": float, "complex": complex}


def load_csv(
    path: str | os.PathLike[str], separator: str = ",", dtype: DTypeLike = f32, *, lenient: bool = False
) -> Tensor:
    """The numbers of a text file: a line a row, with a character between the numbers. () -> (rows, columns)

    `InputError`, with the line, for what is no number and for lines of different lengths. `lenient` reads as the
    course does: up to the first blank line, with 0 for what is missing or no number, and an empty tensor for no file.
    """
    if len(separator) != 1 or separator in "\r\n":
        raise InputError(f"load_csv: expected one character between numbers, found {separator!r}")
    target = as_dtype(dtype)
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if lenient:
            warnings.warn(f"{path} cannot be read ({error}): the tensor is empty", stacklevel=2)
            return zeros(0, 0, dtype=target)
        raise InputError(f"{path} cannot be read as a table: {error}") from error
    rows = [line.split(separator) for line in _lines(text, lenient)]
    table = zeros(len(rows), max(map(len, rows), default=0), dtype=target)
    for row, tokens in enumerate(rows):
        place = f"{path}:{row + 1}"
        if len(tokens) != table.shape[1] and not lenient:
            lengths = f"the longest line has {table.shape[1]} numbers, and this one {len(tokens)}"
            raise InputError(f"{place}: {lengths}; expected lines of one length")
        numbers = [_lenient(token, target) if lenient else _strict(token, target, place) for token in tokens]
        try:
            table.array[row, : len(tokens)] = array_of(numbers, target)
        except DTypeError as error:
            raise error.at(place) from None
    return table


def _lines(text: str, lenient: bool) -> list[str]:
    """The lines with numbers in them: all up to trailing blank ones, or up to the first blank one."""
    lines = text.split("\n")
    if lenient:
        blank = next((place for place, line in enumerate(lines) if not line.strip()), len(lines))
        return lines[:blank]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _number(token: str, kind: str) -> Any:
    if "_" in token:  # which Python's numbers may have
        raise ValueError(token)
    return _NUMBER_TYPES[kind](token)


def _strict(token: str, dtype: DType, place: str) -> Any:
    try:
        return _number(token, dtype.kind)
    except ValueError:
        raise InputError(f"{place}: expected a number of {dtype}, found {token.strip()!r}") from None


def _lenient(token: str, dtype: DType) -> Any:
    try:
        number = _number(token, "complex" if dtype.kind == "complex" else "float")
        return int(number.real) if dtype.kind in ("int", "bool") else number
    except (ValueError, OverflowError):
        return 0
