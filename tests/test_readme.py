"""README.md is true: its Python runs, and the commands it shows are there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kuiperinfer
from kuiperinfer.cli.commands import COMMANDS
from tests.markdown_code import run_python
from tests.small_models import write_model

SCALED = """7767517
3 2
pnnx.Input  pnnx_input_0  0 1 0 #0=(3)f32
my.Scale    scale         1 1 0 1 factor=2.0 @offset=(3)f32 #0=(3)f32 #1=(3)f32
pnnx.Output pnnx_output_0 1 0 1 #1=(3)f32
"""

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def test_the_python_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All blocks in order, in one namespace; the layer shown there runs."""
    monkeypatch.chdir(tmp_path)
    before = set(kuiperinfer.layers.registered())
    namespace: dict[str, object] = {"__name__": "readme"}
    try:
        run_python(README, "README.md", namespace, capsys)
        scaled = kuiperinfer.load(write_model(tmp_path, SCALED, {"scale.offset": np.array([1, 2, 3], np.float32)}))
        np.testing.assert_array_equal(scaled([1.0, 1.0, 1.0]), [3.0, 4.0, 5.0])
    finally:
        for name in set(kuiperinfer.layers.registered()) - before:
            kuiperinfer.unregister(name)


def test_every_command_is_shown() -> None:
    for command in COMMANDS:
        assert f"kuiper {command}" in README


def test_ci_runs_the_test_command_of_the_readme() -> None:
    lines = [line for line in README.splitlines() if line.startswith("pip install ") and "&& pytest" in line]
    assert len(lines) == 1
    assert "torch==2.13.0" in lines[0]


def test_the_command_of_the_readme_names_the_right_class() -> None:
    assert "pip install '.[cli,image]' && kuiper classify" in README
    result = subprocess.run(
        [sys.executable, "-c", "import sys; from kuiperinfer.cli import main; sys.exit(main(['classify']))"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(kuiperinfer.__path__[0]).parent), "PYTHONIOENCODING": "utf-8"},
    )
    shown = [line.rstrip() for line in result.stdout.splitlines()[1:]]
    assert "\n".join(shown) in README


def test_paths_that_the_readme_names_exist() -> None:
    for path in re.findall(r"`((?:src|tests|scripts|docs|examples|bench|\.ci)/[\w./]*)`", README):
        assert (ROOT / path).exists(), path
