"""docs/tensor.md is true: its Python runs and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kuiperinfer import nn
from tests.markdown_code import run_python

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "tensor.md").read_text("utf-8")


def test_the_python_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(TEXT, "docs/tensor.md", {"__name__": "docs"}, capsys)


def test_the_tables_have_all_modules() -> None:
    shown = {
        name for row in re.findall(r"^\| \w+ \| (.*) \|$", TEXT, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    elsewhere = {"IncompatibleKeys", "save_weights", "load_weights", "save_tensors", "load_tensors"}
    assert shown == set(nn.__all__) - elsewhere
