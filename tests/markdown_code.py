"""The Python of a Markdown file, run as a reader would: all blocks in order, in one namespace."""

from __future__ import annotations

import re

import pytest


def code_blocks(text: str, language: str) -> list[str]:
    """The code blocks whose fence has exactly this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_python(text: str, name: str, namespace: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    """Runs the blocks; the comment after a `print` has to be what it prints."""
    for block in code_blocks(text, "python"):
        exec(compile(block, name, "exec", dont_inherit=True), namespace)
        promised = re.findall(r"^ *print\(.*\n((?:# .*\n?)+)", block, re.MULTILINE)
        expected = "".join(line.removeprefix("# ") for text in promised for line in text.splitlines(keepends=True))
        printed = capsys.readouterr().out
        assert printed.strip() == expected.strip(), f"{name} says\n{expected}\nbut what is printed is\n{printed}"
