"""Text to tokens, with positions."""

from __future__ import annotations

import enum
import re
from collections.abc import Container

from ..dtypes import Scalar
from ..errors import ExpressionError, KuiperError
from ..records import dataclass
from ..settings import settings
from .activations import ALL_FUNCTIONS
from .functions import FUNCTIONS


class TokenType(enum.Enum):
    """What a token is. A name of `FUNCTIONS` is a FUNCTION, any other name a WORD."""

    FUNCTION = "function"
    OPERAND = "operand"
    LITERAL = "literal"
    WORD = "word"
    COMMA = ","
    LEFT_PARENTHESIS = "("
    RIGHT_PARENTHESIS = ")"
    LEFT_BRACKET = "["
    RIGHT_BRACKET = "]"


@dataclass(frozen=True)
class Token:
    """One token: `text` is what stands from `start` up to, and without, `end`; positions count from 0."""

    type: TokenType
    text: str
    start: int
    end: int


_SEPARATORS = {kind.value: kind for kind in TokenType if len(kind.value) == 1}
_TOKEN = re.compile(r"[()\[\],]|[^\s()\[\],]+")
_OPERAND = re.compile(r"@[0-9]{1,9}")
_INTEGER = re.compile(r"-?[0-9]+")
_REAL = r"(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|nan(?:\.0)?)"
_FLOAT = re.compile(rf"-?{_REAL}")
_COMPLEX = re.compile(rf"(-?{_REAL})\+?([+-]{_REAL})j")
_CONSTANTS = {"True": True, "False": False, "None": None}


def locate(error: KuiperError, text: str, position: int) -> KuiperError:
    """The error with a place in front: a position (from 0) in an expression's text, and the text around it."""
    first, last = max(0, position - 40), position + 40
    shown = ("…" if first else "") + text[first:last] + ("…" if last < len(text) else "")
    return error.at(f"expression '{shown}', column {position + 1}")


def expression_error(text: str, position: int, message: str) -> ExpressionError:
    """An `ExpressionError` at a position (from 0) of an expression's text."""
    error = ExpressionError(message)
    error.column = position + 1
    locate(error, text, position)
    return error


def tokenize(text: str, *, internal: bool = False) -> list[Token]:
    """The tokens of an expression, without the blanks between them; `internal` as for `parse`.

    Raises `ExpressionError` for a text longer than `settings.max_expression_bytes`, a malformed `@` or a number that
    64 bits cannot hold.
    """
    if len(text) > settings.max_expression_bytes:
        message = (
            f"is {len(text):,} characters long; settings.max_expression_bytes is {settings.max_expression_bytes:,}"
        )
        raise expression_error(text, 0, message)
    names = ALL_FUNCTIONS if internal else FUNCTIONS
    return [
        Token(_type_of(text, match, names), match[0], match.start(), match.end()) for match in _TOKEN.finditer(text)
    ]


def _type_of(text: str, match: re.Match[str], names: Container[str]) -> TokenType:
    token, start = match[0], match.start()
    if token in _SEPARATORS:
        return _SEPARATORS[token]
    if token.startswith("@"):
        if not _OPERAND.fullmatch(token):
            raise expression_error(
                text, start, f"'{token}' is no operand; expected '@' and the index of an input, as in '@0'"
            )
        return TokenType.OPERAND
    if "@" in token:
        raise expression_error(
            text, start + token.index("@"), "unexpected '@'; expected '(', ',' or ')' before an operand"
        )
    if token in names:
        return TokenType.FUNCTION
    if token in _CONSTANTS or _FLOAT.fullmatch(token) or _COMPLEX.fullmatch(token):
        return TokenType.LITERAL
    return TokenType.WORD


def literal_value(text: str, token: Token) -> Scalar | None:
    """The value of a LITERAL token of `text`; `ExpressionError` for a number that 64 bits cannot hold."""
    literal = token.text
    if literal in _CONSTANTS:
        return _CONSTANTS[literal]
    if _INTEGER.fullmatch(literal):
        if len(literal) <= 20 and -(2**63) <= int(literal) < 2**63:
            return int(literal)
        raise expression_error(text, token.start, "an integer outside of 64 bits")
    parts = [literal]
    if match := _COMPLEX.fullmatch(literal):
        parts = [match[1], match[2]]
    values = [float(part.replace("nan.0", "nan")) for part in parts]
    if any(abs(value) == float("inf") and "inf" not in part for value, part in zip(values, parts, strict=True)):
        raise expression_error(text, token.start, f"'{literal}' is larger than any float; infinity is written 'inf'")
    return values[0] if len(values) == 1 else complex(*values)


def is_word(text: str) -> bool:
    """Whether a text reads as one word or function name, and not as a number or constant."""
    match = _TOKEN.fullmatch(text)
    return (
        match is not None
        and "@" not in text
        and _type_of(text, match, FUNCTIONS) in (TokenType.WORD, TokenType.FUNCTION)
    )
