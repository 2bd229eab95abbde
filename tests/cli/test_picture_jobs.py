"""The bar that shows how far a long run is, as somebody at a terminal sees it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import kuiperinfer
from kuiperinfer.cli import detect, picture_jobs
from kuiperinfer.vision.heads import HEADS
from kuiperinfer.vision.preprocess import FILTERS, FITS

pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")


def run(*arguments: object) -> tuple[str, str]:
    """Standard output, in a file, and standard error, on a terminal."""
    outer, inner = pty.openpty()
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(kuiperinfer.__path__[0]).parent),
        "TERM": "xterm",
        "COLUMNS": "90",
    }
    command = [sys.executable, "-m", "kuiperinfer", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=inner, stdin=inner, env=environment)
    os.close(inner)
    seen = b""
    while True:
        try:
            part = os.read(outer, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(outer)
    out, _ = process.communicate()
    assert process.returncode == 0
    return out.decode(), seen.decode()


def test_a_bar_where_there_is_something_to_wait_for(tmp_path: Path) -> None:
    for number in range(6):
        Image.new("RGB", (20, 20)).save(tmp_path / f"{number}.png")
    out, err = run("segment", tmp_path)
    assert re.search(r"segment .*[0-6]/6", err)
    assert "images/s" in err
    assert out.splitlines()[-1].startswith("6 pictures in ")
    assert "\x1b" not in out
    out, err = run("segment", tmp_path / "0.png")
    assert err == ""
    assert out.startswith(f"{tmp_path / '0.png'}  ")


def test_options_have_the_choices_that_there_are() -> None:
    """They are written down twice, so that the command line starts without Pillow."""
    assert tuple(FITS) == picture_jobs._FITS
    assert tuple(FILTERS) == picture_jobs._FILTERS
    assert tuple(HEADS) == detect._KINDS
