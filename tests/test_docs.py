"""The pages in docs/ are true: their Python runs and prints what it says, and their links and commands are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kuiperinfer
from kuiperinfer.cli.commands import COMMANDS
from tests.markdown_code import code_blocks, run_python

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
ELSEWHERE = ("batch.md", "serve.md", "tensor.md")  # pages whose Python the tests of their rooms run


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


WITH_PYTHON = [page for page in PAGES if page.name not in ELSEWHERE and code_blocks(page.read_text("utf-8"), "python")]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_the_python_runs_and_prints_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(kuiperinfer.layers.registered())
    try:
        run_python(page.read_text("utf-8"), name_of(page), {"__name__": "docs"}, capsys)
    finally:
        for name in set(kuiperinfer.layers.registered()) - before:
            kuiperinfer.unregister(name)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist(page: Path) -> None:
    for command in re.findall(r"\bkuiper ([a-z]+)\b", "\n".join(re.findall(r"`[^`]+`", page.read_text("utf-8")))):
        assert command in COMMANDS, command


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    for page in PAGES:
        if page.name != "README.md":
            assert f"({page.relative_to(ROOT / 'docs').as_posix()})" in index, page.name
