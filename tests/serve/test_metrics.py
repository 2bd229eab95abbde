"""What /metrics and /status say of a server, by the client library's own parser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.serve import models
from tests.serve.conftest import Running


def samples(running: Running) -> dict[tuple[str, ...], float]:
    """(name, values of labels in the order of their names) -> value."""
    from prometheus_client.parser import text_string_to_metric_families

    status, headers, content = running.ask("GET", "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(content.decode())
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def infer(running: Running, rows: int, **more: Any) -> int:
    asked = {"inputs": [models.tensor("x", [1] * 3 * rows, [rows, 3])], **more}
    return running.ask("POST", "/v2/models/rows/infer", asked)[0]


def test_counts(start: Callable[..., Running]) -> None:
    running = start({"rows": models.ROWS})
    for rows in (1, 3, 1):
        assert infer(running, rows) == 200
    assert infer(running, 1, id=5) == 400
    running.ask("POST", "/v2/models/of_a_stranger/infer", {})
    found = samples(running)
    assert found["kuiper_requests_total", "rows", "ok", "1"] == 3
    assert found["kuiper_requests_total", "rows", "invalid", "1"] == 1
    assert found["kuiper_inferences_total", "rows", "1"] == 5
    assert found["kuiper_executions_total", "rows", "1"] == 3
    assert found["kuiper_loaded_models",] == 1
    assert found["kuiper_queue_length",] == 0
    assert found["process_resident_memory_bytes",] > 1e7
    for name in ("queue", "compute", "request"):
        assert found[f"kuiper_{name}_seconds_count", "rows", "1"] == 3
        assert 0 <= found[f"kuiper_{name}_seconds_sum", "rows", "1"] < 60
    parts = sum(found[f"kuiper_{name}_seconds_sum", "rows", "1"] for name in ("queue", "compute"))
    assert parts <= found["kuiper_request_seconds_sum", "rows", "1"]
    assert not any("of_a_stranger" in key for key in found)


def test_a_run_for_many_requests_counts_once(start: Callable[..., Running]) -> None:
    running = start({"rows": models.ROWS}, max_batch=3, max_delay=10.0)
    connections = [running.connect() for _ in range(3)]
    for connection in connections:
        connection.send("POST", "/v2/models/rows/infer", {"inputs": [models.tensor("x", [1, 2, 3], [1, 3])]})
    for connection in connections:
        assert connection.answer()[0] == 200
        connection.socket.close()
    found = samples(running)
    assert (found["kuiper_inferences_total", "rows", "1"], found["kuiper_executions_total", "rows", "1"]) == (3, 1)


def test_figures_of_the_page(start: Callable[..., Running]) -> None:
    running = start({"rows": models.ROWS})
    (model,) = running.ask("GET", "/status")[2]["models"]
    assert (model["name"], model["version"], model["job"], model["latency"]) == ("rows", "1", None, {"count": 0})
    for _ in range(4):
        infer(running, 1)
    content = running.ask("GET", "/status")[2]
    latency = content["models"][0]["latency"]
    assert content["ready"] is True
    assert latency["count"] == 4
    assert 0 < latency["median"] <= latency["p99"] < 60
    assert latency["rate"] == 0.4
