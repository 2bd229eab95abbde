"""The script `bench/batch.py`: that it works, and that it says what it measured. No times are looked at."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    yield importlib.import_module("batch")
    sys.modules.pop("batch", None)


def test_the_loop_and_the_job_are_compared(script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rates.json"
    arguments = ["--pictures", "34", "--actors", "1", "--rounds", "1", "--ways", "loop,local", "--json", str(file)]
    assert script.main(arguments) == 0
    out = capsys.readouterr().out
    assert "the answers are the plain loop's" in out
    assert "| 1 | loop |" in out
    facts = json.loads(file.read_text("utf-8"))
    assert facts["same"]
    ((by_clock, by_cpu),) = facts["rates"]["local"]["1"]
    assert by_clock > 0
    assert by_cpu > 0
    with pytest.raises(SystemExit):
        script.main(["--ways", "ray"])


def test_shares_are_those_of_the_same_round(script: Any) -> None:
    loop = [script.Rate(100.0, 9.0), script.Rate(50.0, 8.0), script.Rate(10.0, 6.0)]
    ray = [script.Rate(90.0, 9.0), script.Rate(45.0, 4.0), script.Rate(20.0, 3.0)]
    assert "| 2 | ray | 45.0 | 0.90 | 4.0 | 0.50 |" in script.table({"loop": {2: loop}, "ray": {2: ray}})
