"""The text of a tensor, in PyTorch's form."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import Array, bool_, c64, f32, i64, widen
from ..errors import InputError, did_you_mean

if TYPE_CHECKING:
    from .tensor import Tensor

_OPENING = "tensor("
_NOT_NAMED = (f32, c64, i64, bool_)  # dtypes that the numbers show by themselves


@dataclass(frozen=True)
class PrintOptions:
    """Digits after the point; elements from which on only the edges are shown, and how many there; characters in a line;
    whether numbers have an exponent (None: where that is shorter)."""

    precision: int = 4
    threshold: int = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_options = PrintOptions()


def set_printoptions(**changes: Any) -> PrintOptions:
    """Changes how tensors are printed from now on: see `PrintOptions`. Returns the options as they were."""
    global _options
    known = PrintOptions.__dataclass_fields__
    for name in changes:
        if name not in known:
            raise InputError(f"there is no print option '{name}'{did_you_mean(name, known)}")
    before, _options = _options, replace(_options, **changes)
    return before


def tensor_text(tensor: Tensor, options: PrintOptions | None = None) -> str:
    """``tensor([[1., 2.], [3., 4.]])``, with the dtype where the numbers do not show it."""
    options = options or _options
    notes = []
    if tensor.numel():
        text = _values_text(widen(tensor.array), options)
        if tensor.dtype not in _NOT_NAMED:
            notes.append(f"dtype={tensor.dtype}")
    else:
        text = "[]"
        if tensor.ndim != 1:
            notes.append(f"size={tensor.shape}")
        if tensor.dtype is not f32:
            notes.append(f"dtype={tensor.dtype}")
    if tensor.requires_grad:
        notes.append("requires_grad=True" if tensor.grad_fn is None else f"grad_fn=<{tensor.grad_fn.name}>")
    return _with_notes(text, notes, options)


def _with_notes(text: str, notes: list[str], options: PrintOptions) -> str:
    """The text with notes behind it, each on a line of its own where the last line is full."""
    text = _OPENING + text
    column = len(text) - text.rfind("\n") + 1
    for note in notes:
        if column + len(note) + 2 > options.linewidth:
            text += f",\n{' ' * len(_OPENING)}{note}"
            column = len(_OPENING) + len(note)
        else:
            text += f", {note}"
            column += len(note) + 2
    return f"{text})"


def _values_text(array: Array, options: PrintOptions) -> str:
    shortened = array.size > options.threshold
    shown = _edges(array, options.edgeitems) if shortened else array
    write, width = _writer(shown, options)

    def places(size: int) -> Iterator[int | None]:
        """The positions to show along a dimension, and None for those left out."""
        if shortened and size > 2 * options.edgeitems:
            yield from range(options.edgeitems)
            yield None
            yield from range(size - options.edgeitems, size)
        else:
            yield from range(size)

    def text(part: Array, indent: int) -> str:
        if not part.ndim:
            return write(part[()])
        if part.ndim == 1:
            count = max(1, (options.linewidth - indent) // (width + 2))
            words = [" ..." if place is None else write(part[place]) for place in places(len(part))]
            lines = [", ".join(words[start : start + count]) for start in range(0, len(words), count)]
            between = f",\n{' ' * (indent + 1)}"
        else:
            lines = ["..." if place is None else text(part[place], indent + 1) for place in places(len(part))]
            between = "," + "\n" * (part.ndim - 1) + " " * (indent + 1)
        return f"[{between.join(lines)}]"

    return text(array, len(_OPENING))


def _edges(array: Array, count: int) -> Array:
    """The elements at the edges of every dimension that is longer than two edges."""
    for axis, size in enumerate(array.shape):
        if size > 2 * count:
            array = np.take(array, [*range(count), *range(size - count, size)], axis)
    return array


def _writer(shown: Array, options: PrintOptions) -> tuple[Callable[[Any], str], int]:
    """How to write one of the numbers, all with the same width, and that width."""
    if shown.dtype.kind == "c":
        real, real_width = _writer(shown.real, options)
        imag, imag_width = _writer(shown.imag, options)

        def write(value: Any) -> str:
            second = imag(value.imag).lstrip() + "j"
            return real(value.real) + (second if second[0] in "+-" else f"+{second}")

        return write, real_width + imag_width + 1
    form, width = _float_form(shown, options) if shown.dtype.kind == "f" else _plain_form(shown)
    return (lambda value: form(value).rjust(width)), width


def _plain_form(shown: Array) -> tuple[Callable[[Any], str], int]:
    return str, max(len(str(value)) for value in (shown.min(), shown.max()))


def _float_form(shown: Array, options: PrintOptions) -> tuple[Callable[[Any], str], int]:
    numbers = shown.astype(np.float64).ravel()
    numbers = numbers[np.isfinite(numbers) & (numbers != 0)]
    whole = bool((numbers == np.ceil(numbers)).all())
    scientific = False
    if numbers.size:
        least, most = float(np.abs(numbers).min()), float(np.abs(numbers).max())
        scientific = most / least > 1000 or most > 1e8 or least < 1e-4
        if options.sci_mode is not None:
            scientific = options.sci_mode
    exponent = f".{options.precision}e"
    fixed = ".0f" if whole else f".{options.precision}f"
    width = max([1, *(len(format(value, exponent if scientific else fixed)) for value in numbers.tolist())])
    if numbers.size and whole and not scientific:
        width += 1  # for the point

    def form(value: Any) -> str:
        if scientific:
            return format(float(value), exponent)
        return format(float(value), fixed) + ("." if whole and math.isfinite(value) else "")

    return form, width
