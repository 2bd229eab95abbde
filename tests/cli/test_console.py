"""How numbers, bars, texts and JSON look."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kuiperinfer.cli.console import bar, bytes_text, count_text, dims_text, json_text, printable, seconds_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (13_969_770, "13.3 MiB"),
        (1 << 30, "1.0 GiB"),
        (1 << 42, "4096.0 GiB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (9999, "9999"),
        (12_345, "12.3 k"),
        (300_774_272, "300.8 M"),
        (4_100_000_000, "4.1 G"),
        (2 * 10**12, "2.0 T"),
    ],
)
def test_counts(count: int, text: str) -> None:
    assert count_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.00123, "1.2 ms"), (0.0931, "93 ms"), (2.5, "2.50 s"), (63.21, "63.2 s")]
)
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_dims() -> None:
    assert dims_text((1, 3, None)) == "1 × 3 × ?"
    assert dims_text(()) == "scalar"
    assert dims_text(None) == "?"


def test_bars() -> None:
    assert bar(1.0, 4) == "████"
    assert bar(0.5, 4) == "██"
    assert bar(0.05, 4) == "▎"
    assert bar(0.0, 4) == bar(-1.0, 4) == ""
    assert bar(7.0, 4) == "████"
    assert bar(0.5, 4, ascii_only=True) == "##"


def test_texts_of_files_cannot_steer_the_terminal() -> None:
    assert printable("conv_1") == "conv_1"
    assert printable("a\nb é") == "a\nb é"
    assert printable("\x1b[31mred\x07\u202e\r") == "\\x1b[31mred\\x07\\u202e\\r"


def test_json_holds_what_it_has_no_numbers_for() -> None:
    data: dict[str, Any] = {"a": [float("nan"), (float("inf"), -float("inf"))], "b": {"c": 1.5}, "d": None}
    assert json.loads(json_text(data)) == {"a": ["NaN", ["Infinity", "-Infinity"]], "b": {"c": 1.5}, "d": None}
