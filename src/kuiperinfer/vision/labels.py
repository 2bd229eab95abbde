"""Names of classes, from a text file (one a line) or a JSON file (a list, or an object from index to name)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import InputError


def read_labels(path: Path) -> tuple[str, ...]:
    """The labels of a file, the label of class i at index i. Raises `InputError` where the file is of another form."""
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as labels ({error})") from error
    labels = _from_json(path, text) if path.suffix.lower() == ".json" else [line.strip() for line in text.splitlines()]
    while labels and not labels[-1]:
        labels.pop()
    if not labels:
        raise InputError(f"{path}: no labels in it")
    return tuple(labels)


def _from_json(path: Path, text: str) -> list[str]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error})") from error
    if isinstance(content, dict):
        content = _in_order_of_keys(path, content)
    if not isinstance(content, list) or not all(isinstance(label, (str, list)) for label in content):
        raise InputError(f"{path}: expected a list of names, or an object from index to name")
    return [label if isinstance(label, str) else str(label[-1]) if label else "" for label in content]


def _in_order_of_keys(path: Path, content: dict[str, Any]) -> list[Any]:
    """`{"0": "tench", …}`, also with values such as `["n01440764", "tench"]`."""
    in_order = [content.get(str(index)) for index in range(len(content))]
    if None in in_order:
        raise InputError(f"{path}: expected the keys 0 to {len(content) - 1}; {in_order.index(None)} is missing")
    return in_order
