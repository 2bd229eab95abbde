"""How results look: tables and bars on a terminal, the same without colours in a pipe, and JSON for scripts."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

ACCENT = "cyan"
_IN_ASCII = str.maketrans({"×": "x", "…": "...", "✓": "+", "✗": "-", "█": "#"})
_PIPE_WIDTH = 160  # columns where there is no terminal to ask


def console() -> Console:
    """A console on standard output: colours on a terminal only, and no markup within texts."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False, markup=False, emoji=False)
    plain: Any = _Plain(sys.stdout)
    return Console(file=plain, width=_PIPE_WIDTH, highlight=False, markup=False, emoji=False)


class _Plain:
    """Standard output where it is no terminal: without the blanks that pad last columns, and in its own character set."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.encoding = file.encoding or "utf-8"

    def write(self, text: str) -> int:
        text = re.sub(" +$", "", text, flags=re.MULTILINE)
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            text = text.translate(_IN_ASCII).encode(self.encoding, "replace").decode(self.encoding)
        return self._file.write(text)

    def flush(self) -> None:
        self._file.flush()

    def isatty(self) -> bool:
        return False


def table(*columns: str, right: Iterable[int] = ()) -> Table:
    """A table without lines; `right` are the indices of columns that are aligned right. Empty headers show no header row."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(columns), header_style="dim")
    aligned = set(right)
    for index, column in enumerate(columns):
        made.add_column(column, justify="right" if index in aligned else "left", overflow="fold")
    return made


def printable(text: str) -> str:
    """Text from files, safe for a terminal: control characters become their escapes, line ends stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def bar(share: float, width: int = 28, *, ascii_only: bool = False) -> str:
    """A bar that fills `share` (0 to 1) of `width` columns."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    if ascii_only:
        return "#" * ((eighths + 4) // 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def bytes_text(count: int) -> str:
    """A number of bytes for people: ``13.4 MiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def count_text(count: int) -> str:
    """A large number for people: ``300.8 M``."""
    for limit, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**4, "k")):
        if count >= limit:
            return f"{count / limit:.1f} {unit}" if unit != "k" else f"{count / 1000:.1f} k"
    return str(count)


def seconds_text(seconds: float) -> str:
    """A time for people: ``93 ms``."""
    if seconds >= 10:
        return f"{seconds:.1f} s"
    return (
        f"{seconds:.2f} s"
        if seconds >= 1
        else f"{seconds * 1e3:.0f} ms"
        if seconds >= 0.01
        else f"{seconds * 1e3:.1f} ms"
    )


def dims_text(shape: Sequence[int | None] | None) -> str:
    """A shape for people: ``1 × 3 × ? × ?``; ``scalar`` for no dimensions, ``?`` where nothing is known."""
    if shape is None:
        return "?"
    return " × ".join("?" if dim is None else str(dim) for dim in shape) or "scalar"


def print_json(data: Any) -> None:
    """`data` as JSON on standard output. What JSON has no number for is a word: "NaN", "Infinity", "-Infinity"."""
    print(json_text(data))


def json_text(data: Any) -> str:
    """The text that `print_json` prints."""
    return json.dumps(_json_safe(data), indent=2, ensure_ascii=False, allow_nan=False)


def _json_safe(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    if isinstance(data, Mapping):
        return {str(key): _json_safe(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_json_safe(item) for item in data]
    return data
