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
    assert facts["rows_per_second_and_core"]["local"]["1"][0] > 0
    with pytest.raises(SystemExit):
        script.main(["--ways", "ray"])


def test_shares_are_those_of_the_same_round(script: Any) -> None:
    rates = {"loop": {2: [100.0, 50.0, 10.0]}, "ray": {2: [90.0, 45.0, 20.0]}}
    assert "| 2 | ray | 45.0 | 0.90 |" in script.table(rates)
