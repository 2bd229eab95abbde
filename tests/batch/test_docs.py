"""docs/batch.md is true: its Python runs, and the options and files that it shows are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kuiperinfer.batch.output import OutputFolder
from kuiperinfer.batch.picture_tasks import ANSWERS
from kuiperinfer.cli.batch import command
from tests.markdown_code import run_python

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "batch.md").read_text("utf-8")


def test_the_python_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(DOCS, "batch.md", {}, capsys)


def test_every_option_is_described_and_every_described_one_is_there() -> None:
    options = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    described = set(re.findall(r"(?<![\w-])--[a-z]+", DOCS))
    assert options - described <= {"--help", "--json"}
    assert described - options == {"--address", "--generate"}  # of Ray's own command


def test_the_columns_and_files_are_these() -> None:
    for kind, answers in ANSWERS.items():
        row = next(line for line in DOCS.splitlines() if line.startswith(f"| `{kind}` |"))
        assert all(f"`{name}`" in row for name in answers.schema.names)
    folder = OutputFolder(Path("classes"))
    for file in (folder.results_file(0), folder.pictures_folder(0), folder.errors_file):
        assert file.relative_to("classes").as_posix() in DOCS
