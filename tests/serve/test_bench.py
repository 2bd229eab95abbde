"""bench/serve.py: that its clients ask and judge rightly. No times are looked at."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kuiperinfer.serve import Options, Service
from kuiperinfer.vision import bundled
from tests.serve.conftest import Running

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "serve.py"


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("bench_serve", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = sys.modules["bench_serve"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["bench_serve"]


@pytest.fixture(scope="module")
def work(bench: Any) -> Any:
    return bench.Workload()


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    started = Running(Service({bundled.MODEL_NAME: bundled.MODEL}, options=Options(threads=1, workers=1)))
    yield started
    started.stop()


def test_every_request_is_answered_and_judged(bench: Any, work: Any, running: Running) -> None:
    outcome = bench.load(running.port, work, clients=5, seconds=60, most=40)
    assert len(outcome.seconds) >= 40
    assert not outcome.others
    assert outcome.throughput > 0
    assert 0 < outcome.percentile(50) <= outcome.percentile(99)
    assert str(outcome).startswith(f"{len(outcome.seconds)} right answers, ")


def test_wrong_answers_are_seen(bench: Any, work: Any, running: Running) -> None:
    changed = bench.Workload.__new__(bench.Workload)
    changed.__dict__ |= work.__dict__
    changed.answers = [*work.answers[1:], work.answers[0]]
    assert bench.load(running.port, changed, clients=2, seconds=60, most=4).others["wrong answer"] >= 4
    head = b'{"id":"3"}'
    assert work.judge(3, 200, len(head), head + work.answers[3], 0.0) == "right"
    assert work.judge(4, 200, len(head), head + work.answers[4], 0.0) == "answer to another request"
    assert work.judge(3, 429, len(head), head, 0.0) == "status 429"
    assert work.judge(3, 200, len(head), head + work.answers[3][:-4], 0.0) == "wrong answer"
    near = (np.frombuffer(work.answers[3], np.float32) * np.float32(1 + 1e-6)).tobytes()
    assert work.judge(3, 200, len(head), head + near, 0.0) == "wrong answer"
    assert work.judge(3, 200, len(head), head + near, 1e-5) == "right"


def test_the_curve_is_drawn(bench: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "curve.svg"
    bench.draw({"one way": [(1, 100.0, 5.0, 7.0), (2, 150.0, 9.0, 12.0)]}, path)
    drawn = path.read_text("utf-8")
    assert all(text in drawn for text in ("answers a second", "one way, median", "one way, P99"))
