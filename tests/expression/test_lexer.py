"""Tokens, their kinds and positions."""

from __future__ import annotations

import math

import pytest

from kuiperinfer.errors import ExpressionError
from kuiperinfer.expression import Literal, Token, TokenType, parse, tokenize
from kuiperinfer.settings import settings


def test_tokens_of_the_course() -> None:
    assert tokenize("add(sin(@0),@1)") == [
        Token(TokenType.FUNCTION, "add", 0, 3),
        Token(TokenType.LEFT_PARENTHESIS, "(", 3, 4),
        Token(TokenType.FUNCTION, "sin", 4, 7),
        Token(TokenType.LEFT_PARENTHESIS, "(", 7, 8),
        Token(TokenType.OPERAND, "@0", 8, 10),
        Token(TokenType.RIGHT_PARENTHESIS, ")", 10, 11),
        Token(TokenType.COMMA, ",", 11, 12),
        Token(TokenType.OPERAND, "@1", 12, 14),
        Token(TokenType.RIGHT_PARENTHESIS, ")", 14, 15),
    ]


def test_positions_are_those_of_the_text_with_its_blanks() -> None:
    text = " add( @0 ,\t-2.5e-3)\n"
    tokens = tokenize(text)
    assert [text[token.start : token.end] for token in tokens] == ["add", "(", "@0", ",", "-2.5e-3", ")"]
    assert all(token.text == text[token.start : token.end] for token in tokens)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("mul", TokenType.FUNCTION),
        ("torch.float", TokenType.FUNCTION),
        ("size", TokenType.FUNCTION),
        ("Mul", TokenType.WORD),
        ("floor", TokenType.FUNCTION),
        ("@12", TokenType.OPERAND),
        ("3", TokenType.LITERAL),
        ("-0.5", TokenType.LITERAL),
        ("nan.0", TokenType.LITERAL),
        ("-inf", TokenType.LITERAL),
        ("True", TokenType.LITERAL),
        ("None", TokenType.LITERAL),
        ("true", TokenType.WORD),
        ("1_000", TokenType.WORD),
        ("0x10", TokenType.WORD),
        ("+1", TokenType.WORD),
        ("--1", TokenType.WORD),
        ("٣", TokenType.WORD),
        ("1.200000e+00-9.000000e-01j", TokenType.LITERAL),
        ("ij->ji", TokenType.WORD),
        ("[", TokenType.LEFT_BRACKET),
        ("]", TokenType.RIGHT_BRACKET),
    ],
)
def test_kinds(text: str, kind: TokenType) -> None:
    assert tokenize(text) == [Token(kind, text, 0, len(text))]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-7", -7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.19999993", 1.19999993),
        ("1.000000e-5", 1e-5),
        ("1.000000e+06", 1e6),
        ("1E3", 1e3),
        ("1e-400", 0.0),
        ("5.", 5.0),
        (".5", 0.5),
        ("inf", math.inf),
        ("-inf", -math.inf),
        ("True", True),
        ("False", False),
        ("None", None),
        ("1.000000e+00-2.500000e+00j", 1 - 2.5j),
        ("1.000000e+00+-2.500000e+00j", 1 - 2.5j),
        ("0.000000e+00+1.000000e-07j", 1e-7j),
        ("inf+-infj", complex(math.inf, -math.inf)),
    ],
)
def test_literals(text: str, value: object) -> None:
    assert parse(text) == Literal(value)  # equality sees the type


@pytest.mark.parametrize("text", ["nan", "nan.0", "-nan.0"])
def test_nan(text: str) -> None:
    literal = parse(text)
    assert isinstance(literal, Literal)
    assert isinstance(literal.value, float)
    assert math.isnan(literal.value)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("@", 1),
        ("add(@0,@)", 8),
        ("@-1", 1),
        ("@1x", 1),
        ("@1.0", 1),
        ("@ 1", 1),
        ("add(@0,@+1)", 8),
        ("@9999999999", 1),
        ("add@0", 4),
        ("@0@1", 1),
        ("9223372036854775808", 1),
        ("add(@0,-9223372036854775809)", 8),
        ("mul(@0," + "9" * 10_000 + ")", 8),
        ("1e400", 1),
        ("1e400+0e0j", 1),
    ],
)
def test_malformed_tokens(text: str, column: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.column == column
    assert f"column {column}: " in str(caught.value)


def test_length_is_limited() -> None:
    text = f"add(@0,{'1' * 100}.0)"
    assert len(tokenize(text)) == 6
    with settings(max_expression_bytes=100), pytest.raises(ExpressionError, match="max_expression_bytes is 100"):
        tokenize(text)
