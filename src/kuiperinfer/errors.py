"""What can go wrong, named by what the user has to do about it.

Every error that reaches a user is a `KuiperError`. Its message says where, what was found, what was expected
and what to do. `assert` stands for mistakes of our own and for nothing else.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class KuiperError(Exception):
    """Base of all errors of this package.

    `at(where)` puts the place in front of the message; the innermost place stands last, as in
    ``operator 'conv1' (nn.Conv2d): expected 4 dimensions, found 3``.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message

    def at(self, where: str) -> KuiperError:
        """The same error with `where` in front of its message; returned so that it can be raised."""
        self.message = f"{where}: {self.message}"
        self.args = (self.message,)
        return self


class ModelFileError(KuiperError):
    """A model file is not what the format allows: fetch or convert the model again.

    `file`, `line` and `column` (both counted from 1) say where, as far as known.
    """

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        place = ":".join(str(part) for part in (file, line, column) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)
        self.file = file
        self.line = line
        self.column = column


class ExpressionError(ModelFileError):
    """An expression cannot be read or has no meaning; `column` counts from 1 within the expression's text."""


class UnsupportedOperatorError(KuiperError):
    """Operator types that nobody registered, all of a model's at once: see `operators` (type -> names of operators)."""

    def __init__(self, message: str, operators: dict[str, list[str]] | None = None) -> None:
        super().__init__(message)
        self.operators = operators or {}


class ShapeError(KuiperError):
    """Shapes that do not fit together, or a shape that this model cannot take."""


class DTypeError(KuiperError):
    """An element type that an operator or an input cannot take."""


class InputError(KuiperError):
    """What was handed in is not usable: a missing or misspelt name, an index out of range, a broken picture."""


class GradientError(KuiperError):
    """Gradients that cannot be found: nothing asked for them, what they need was freed, or was modified in place."""


class ConversionError(KuiperError):
    """The converter made no model of a network, or another one than it was given; `log` is what it printed."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class CompileError(KuiperError):
    """Machine code could not be made; the reference still runs."""


class ResourceLimitError(KuiperError):
    """A limit of `kuiperinfer.settings` would be exceeded; the message names the setting to raise."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the nearest known name, or nothing where none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""
