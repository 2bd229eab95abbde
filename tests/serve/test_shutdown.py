"""The end of a server: what was accepted is answered, what comes later is refused, and a second signal does not wait."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kuiperinfer.serve import Limits
from tests.serve import models
from tests.serve.conftest import Running
from tests.serve.connection import Connection
from tests.small_models import write_model
from tests.waiting import wait_until

INFER = "/v2/models/rows/infer"


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], int]]]:
    """Starts `kuiper serve` with the given options; returns the process and its port once it is ready."""
    started: list[subprocess.Popen[str]] = []

    def run(*options: str) -> tuple[subprocess.Popen[str], int]:
        model = write_model(tmp_path, models.ROWS, name="rows")
        arguments = [
            sys.executable,
            "-m",
            "kuiperinfer",
            "serve",
            str(model),
            "--port",
            "0",
            "--threads",
            "1",
            *options,
        ]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"^http://127\.0\.0\.1:(\d+)/", line)
        assert found, (line, process.stderr and process.stderr.read())
        port = int(found[1])

        def is_ready() -> bool:
            with Connection(port) as connection:
                return connection.ask("GET", "/v2/health/ready")[0] == 200

        wait_until(is_ready)
        return process, port

    yield run
    for process in started:
        process.kill()
        process.communicate(timeout=20)


class Asker(threading.Thread):
    """A client that asks again and again until it is refused; it notes what became of each request."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.number = number
        self.right = 0
        self.end: Any = None

    def run(self) -> None:
        try:
            with Connection(self.port) as connection:
                while self.end is None:
                    value = self.number * 1000 + self.right % 1000
                    asked = {"id": str(value), "inputs": [models.tensor("x", [value, 0, 1], [1, 3])]}
                    status, _, content = connection.ask("POST", INFER, asked)
                    if status != 200:
                        self.end = (status, content)
                    elif content["id"] == str(value) and content["outputs"][0]["data"] == [2 * value + 1, 1, 3]:
                        self.right += 1
                    else:
                        self.end = ("mixed up", content)
        except OSError as error:
            self.end = error


def test_a_signal_under_load(command: Callable[..., tuple[subprocess.Popen[str], int]]) -> None:
    process, port = command()
    askers = [Asker(port, number) for number in range(16)]
    for asker in askers:
        asker.start()
    wait_until(lambda: all(asker.right > 3 for asker in askers))
    with Connection(port) as connection:  # the command answers to loopback's names alone
        assert connection.ask("GET", "/v2", Host="elsewhere.example")[0] == 421
    process.send_signal(signal.SIGTERM)
    for asker in askers:
        asker.join(20)
        # refused in so many words, or, where the answer before said that the connection ends, by its end
        refused = asker.end == (503, {"error": "the server is shutting down"}) or isinstance(asker.end, ConnectionError)
        assert refused, asker.end
    assert process.wait(20) == 0
    with pytest.raises(ConnectionRefusedError):
        Connection(port)
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


class Comer(threading.Thread):
    """Clients that come one after the other, each with its own connection, until one is refused; notes what became of them."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.outcomes: list[Any] = []

    def run(self) -> None:
        asked = {"inputs": [models.tensor("x", [1, 2, 3], [1, 3])]}
        while True:
            try:
                with Connection(self.port) as connection:
                    self.outcomes.append(connection.ask("POST", INFER, asked)[0])
            except ConnectionRefusedError:
                return
            except OSError as error:
                self.outcomes.append(error)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the last connections cannot be held off")
def test_new_connections_at_the_end_are_answered_or_refused(
    command: Callable[..., tuple[subprocess.Popen[str], int]],
) -> None:
    process, port = command()
    comers = [Comer(port) for _ in range(48)]
    for comer in comers:
        comer.start()
    wait_until(lambda: all(comer.outcomes for comer in comers))
    process.send_signal(signal.SIGTERM)
    for comer in comers:
        comer.join(20)
        assert not comer.is_alive()
    assert {outcome for comer in comers for outcome in comer.outcomes} <= {200, 503}
    assert process.wait(20) == 0


def test_a_connection_whose_request_comes_after_the_signal(start: Callable[..., Running]) -> None:
    running = start({"rows": models.ROWS})
    with running.connect() as silent, running.connect() as half:
        half.socket.sendall(b"GET /v2 HTTP/1.1\r\n")
        wait_until(lambda: len(running.connections) == 2)
        running._server.handle_exit(signal.SIGTERM, None)
        wait_until(lambda: not running._server.servers[0].is_serving())
        half.socket.sendall(b"Host: localhost\r\n\r\n")
        silent.send("GET", "/v2")
        for connection in (half, silent):
            status, headers, content = connection.answer()
            assert (status, content["error"]) == (503, "the server is shutting down")
            assert headers["connection"] == "close"


def test_a_large_request_is_refused_at_the_end_and_not_reset(start: Callable[..., Running]) -> None:
    running = start({"rows": models.ROWS})
    running.service.draining = True
    for _ in range(5):
        with running.connect() as connection:  # more than the buffers on the way hold: all of it has to be taken
            status, _, content = connection.ask("POST", INFER, b" " * 20_000_000)
            assert (status, content["error"]) == (503, "the server is shutting down")
            assert connection.is_closed()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal(command: Callable[..., tuple[subprocess.Popen[str], int]], sent: signal.Signals) -> None:
    process, port = command()
    with Connection(port) as connection:  # a request that would be waited for
        connection.send("POST", INFER, b"{", Content_Length="100")
        time.sleep(0.2)
        process.send_signal(sent)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(sent)
        assert process.wait(5) == 128 + sent


def test_what_began_before_the_end_is_answered(start: Callable[..., Running]) -> None:
    running = start({"rows": models.ROWS}, max_batch=4, max_delay=20.0)  # requests wait for others that do not come
    with running.connect() as waiting, running.connect() as late, running.connect() as idle:
        waiting.send("POST", INFER, {"inputs": [models.tensor("x", [1, 2, 3], [1, 3])]})
        body = json.dumps({"inputs": [models.tensor("x", [4, 5, 6], [1, 3])]}).encode()
        late.send("POST", INFER, body[:30], Content_Length=str(len(body)))
        assert idle.ask("GET", "/v2/health/ready")[0] == 200
        wait_until(lambda: running.service.scheduler.waiting == 1)
        running._server.handle_exit(signal.SIGTERM, None)
        status, headers, content = idle.ask("POST", INFER, {})
        assert (status, content["error"]) == (503, "the server is shutting down")
        assert headers["connection"] == "close"
        assert headers["retry-after"] == "1"
        late.socket.sendall(body[30:])
        answers = [connection.answer() for connection in (waiting, late)]
        for (status, headers, content), expected in zip(answers, ([3, 5, 7], [9, 11, 13]), strict=True):
            assert (status, headers["connection"]) == (200, "close")
            assert content["outputs"][0]["data"] == expected
    running._thread.join(20)
    assert not running._thread.is_alive()


def test_a_shutdown_does_not_wait_for_ever(start: Callable[..., Running]) -> None:
    running = start({"rows": models.ROWS}, limits=Limits(drain_seconds=0.2))
    with running.connect() as stalled:
        stalled.send("POST", INFER, b"{", Content_Length="100")
        time.sleep(0.05)
        begin = time.monotonic()
        running.stop()
        assert time.monotonic() - begin < 10  # the body alone could take 30


def test_probes_during_the_end(start: Callable[..., Running]) -> None:
    running = start({"rows": models.ROWS})
    running.service.draining = True
    assert running.ask("GET", "/v2/health/live")[0] == 200
    assert running.ask("GET", "/v2/health/ready")[0] == 503


def test_a_model_that_cannot_be_loaded_ends_the_command(tmp_path: Path) -> None:
    path = tmp_path / "broken.pnnx.param"
    path.write_text("7767517\nnonsense")
    done = subprocess.run(
        [sys.executable, "-m", "kuiperinfer", "serve", str(path), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "model 'broken' cannot be loaded: broken.pnnx.param:2" in done.stderr
    assert "Traceback" not in done.stderr


def test_binary_answers_are_whole_at_the_end(start: Callable[..., Running]) -> None:
    """A large answer to a client that reads slowly is not cut off by the shutdown."""
    running = start({"flip": models.flip("f32", "?,?")})
    x = np.arange(1_000_000, dtype=np.float32).reshape(1, -1)
    from tests.serve.connection import binary_request

    body, length = binary_request("x", x, "FP32", parameters={"binary_data_output": True})
    with running.connect() as connection:
        connection.send("POST", "/v2/models/flip/infer", body, Inference_Header_Content_Length=length)
        time.sleep(0.3)
        running._server.handle_exit(signal.SIGTERM, None)
        time.sleep(0.3)
        status, headers, content = connection.answer()
        assert status == 200
        assert content[int(headers["inference-header-content-length"]) :] == x[:, ::-1].tobytes()
