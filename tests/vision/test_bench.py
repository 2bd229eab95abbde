"""`bench/vision.py` works; no times are looked at."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent.parent.parent / "bench" / "vision.py"


def test_the_bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("bench_vision", BENCH)
    assert spec is not None
    assert spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    options = "--job segment --pictures 5 --broken 2 --size 32x24 --batch 2 --turns 1 --seconds 0.01"
    monkeypatch.setattr("sys.argv", ["vision.py", *options.split()])
    assert bench.main() == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split()[-2:] == ["results", "errors"]
    assert row.split()[:2] == ["1", "2"]
    assert row.split()[-2:] == ["3", "2"]
