"""The text of a parameter, and the Python value that it stands for.

The converter writes values without quotes and without types, so that the text alone decides:

    None                                    None
    True  False                             bool
    1  -3  2147483648                       int, of any size
    0.5  1.  1e-05  1.000000e-5  1E+3       float
    inf  -inf  nan  nan.0                   float
    1.0e+00+2.0e+00j  1e0+-2e0j  1-2j       complex
    (1,2)  [1,2]  (3)  (3,)  ()  []         tuple: of int; of float or complex where any element is one; of str where any
                                            element is no number (`(@0,1)`, `(True,False)`, `(1,None)`)
    anything else                           str: `zeros`, `torch.float`, `ij,jk->ik`, the empty text, words that merely begin
                                            like a number (`2d`, `0x10`, `1_000`) or lack its first digit (`.5`, `+1`)
    anything with a `%`, or with brackets   str: `%d`, `[[2,1],[0,1]]`, `[add(@0,1),2]`
    within brackets

A bracket that is never closed, a number that a float64 cannot hold and a number of more than 640 characters are errors.
Who expects a string takes `Parameter.text` instead of a value that looks like a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import InputError, ModelFileError
from .graph import Parameter, ParameterValue

# Python may be set to convert no more than 640 digits to an int; and no number of a model is that long.
MAX_NUMBER_LENGTH = 640

_UNSIGNED = r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|inf|nan(?:\.0)?"
_INT = re.compile(r"-?[0-9]+")
_FLOAT = re.compile(rf"-?(?:{_UNSIGNED})")
_COMPLEX = re.compile(rf"(-?(?:{_UNSIGNED}))(?:\+(-?(?:{_UNSIGNED}))|(-(?:{_UNSIGNED})))j")
_WORDS: dict[str, ParameterValue] = {"None": None, "True": True, "False": False, "()": (), "[]": ()}
_CLOSING = {"(": ")", "[": "]"}
_BRACKET = re.compile(r"[()\[\]]")

# What can stand in a token at all: no blank and no control character.
_UNWRITABLE = re.compile(r"[\x00-\x20\x7f]")


# ------------------------------------------------------------------------------------------- text to value


def parse_parameter(text: str) -> Parameter:
    """The parameter of a text. Raises `ModelFileError`, without a place, for a text that stands for nothing."""
    return Parameter(_parse(text), text)


def _parse(text: str) -> ParameterValue:
    if "%" in text:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] in _CLOSING:
        items = _list_items(text)
        return text if items is None else _parse_list(items)
    return _parse_scalar(text)


def _parse_scalar(text: str) -> int | float | complex | str:
    if _INT.fullmatch(text):
        _check_length(text)
        return int(text)
    if _FLOAT.fullmatch(text):
        return _parse_float(text)
    found = _COMPLEX.fullmatch(text)
    if found:
        real, imaginary = found[1], found[2] or found[3]
        return complex(_parse_float(real), _parse_float(imaginary))
    return text


def _parse_float(text: str) -> float:
    _check_length(text)
    value = float(text.removesuffix(".0") if "nan" in text else text)
    if math.isinf(value) and "inf" not in text:
        raise ModelFileError(f"the number {_shortened(text)} is out of range; expected a magnitude below 1.8e308")
    return value


def _check_length(text: str) -> None:
    if len(text) > MAX_NUMBER_LENGTH:
        raise ModelFileError(f"a number of {len(text)} characters; expected at most {MAX_NUMBER_LENGTH}")


def _list_items(text: str) -> list[str] | None:
    """The elements of a text that begins with a bracket; None where it is no flat list, but a string."""
    expected: list[str] = []
    nested = False
    for found in _BRACKET.finditer(text):
        bracket = found[0]
        if bracket in _CLOSING:
            nested = nested or bool(expected)
            expected.append(_CLOSING[bracket])
        elif bracket != expected.pop():
            raise ModelFileError(f"'{_shortened(text)}': found '{bracket}' that closes another bracket")
        if not expected:
            if nested or found.end() < len(text):
                return None
            items = text[1:-1].split(",")
            return items[:-1] if len(items) > 1 and not items[-1] else items
    raise ModelFileError(f"'{_shortened(text)}': expected a list, but '{text[0]}' is never closed")


def _parse_list(items: list[str]) -> ParameterValue:
    numbers = [value for value in map(_parse_scalar, items) if not isinstance(value, str)]
    if len(numbers) < len(items):
        return tuple(items)
    ints = tuple(value for value in numbers if isinstance(value, int))
    if len(ints) == len(numbers):
        return ints
    try:
        if any(isinstance(value, complex) for value in numbers):
            return tuple(complex(value) for value in numbers)
        return tuple(float(value) for value in numbers if not isinstance(value, complex))
    except OverflowError:
        raise ModelFileError("an integer in a list of floats is out of range; expected one below 1.8e308") from None


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


# ------------------------------------------------------------------------------------------- value to text


def parameter(value: ParameterValue | list[int] | list[float] | list[str] | list[complex]) -> Parameter:
    """The parameter that the converter would write for a value; its own value is what that text reads back as.

    Floats are rounded to float32, as everything in the format is; a string that looks like something else (`2`, `None`) reads
    back as that. Raises `InputError` for what the format cannot hold: blanks, nested lists, lists of bool, commas in a list of
    strings, finite floats beyond float32.
    """
    text = _list_to_text(value) if isinstance(value, (tuple, list)) else _scalar_to_text(value)
    if _UNWRITABLE.search(text):
        raise InputError(
            f"the parameter value {value!r} has a blank or a control character, which the format cannot hold"
        )
    try:
        found = parse_parameter(text)
    except ModelFileError as error:
        raise InputError(f"the parameter value {_shortened(repr(value))} cannot be read back: {error}") from error
    if (
        isinstance(value, (tuple, list))
        and any(isinstance(item, str) for item in value)
        and found.value != tuple(value)
    ):
        raise InputError(f"the list of strings {_shortened(repr(value))} would not read back as it is")
    return found


def float_to_text(value: float) -> str:
    """A float, rounded to float32, in the converter's spelling: `2.0`, `0.333333343`, `1.000000e-5`, `inf`, `nan.0`."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if np.isnan(single):
        return "nan.0"
    if np.isinf(single):
        return "inf" if single > 0 else "-inf"
    if single == 0:
        return "0.0"
    exact = float(single)
    if not np.float32(1e-4) <= abs(single) < np.float32(1e6):
        short = f"{exact:e}"
        return _tidy_exponent(short if np.float32(short) == single else f"{exact:.8e}")
    text = f"{exact:g}"
    if np.float32(text) != single:
        text = f"{exact:.9g}"
        if len(text.partition(".")[2]) > 9:
            return _tidy_exponent(f"{exact:.8e}")
    return text if "." in text else f"{text}.0"


def _tidy_exponent(text: str) -> str:
    mantissa, exponent = text.split("e")
    return f"{mantissa}e{int(exponent)}"


def _scalar_to_text(value: object) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, str)):
        return str(value)
    if isinstance(value, int):
        try:
            return str(value)
        except ValueError as error:  # too many digits for Python
            raise InputError(f"an integer parameter is too large to be written: {error}") from error
    if isinstance(value, float):
        return _checked_float_text(value, float_to_text)
    if isinstance(value, complex):
        real, imaginary = (_checked_float_text(part, _part_to_text) for part in (value.real, value.imag))
        return f"{real}+{imaginary}j"
    raise InputError(
        f"a parameter cannot be {value!r}; expected None, bool, int, float, complex, str or a list of one kind"
    )


def _part_to_text(value: float) -> str:
    return f"{float(np.float32(value)):e}"


def _checked_float_text(value: float, to_text: Callable[[float], str]) -> str:
    with np.errstate(over="ignore"):
        text = to_text(value)
    if "inf" in text and not math.isinf(value):
        raise InputError(f"the parameter value {value!r} is out of range; the format holds float32, up to 3.4e38")
    return text


def _list_to_text(values: Sequence[object]) -> str:
    items: list[Any] = [value.item() if isinstance(value, np.generic) else value for value in values]
    kinds = {type(item) for item in items}
    if kinds <= {str}:
        return f"({','.join(map(str, items))})"
    widest: Callable[[Any], Any] | None = next((kind for kind in (complex, float, int) if kind in kinds), None)
    if widest is None or not kinds <= {int, float, complex}:
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(f"a list parameter cannot hold {found}; expected numbers alone or strings alone")
    try:
        return f"({','.join(_scalar_to_text(widest(item)) for item in items)})"
    except OverflowError as error:
        raise InputError("an integer in a list of floats is too large to become one") from error
