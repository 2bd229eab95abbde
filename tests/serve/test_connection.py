"""Clients that misbehave, and what is odd but right in HTTP: each gets an answer or its end, and harms nobody else."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kuiperinfer.serve import Limits, Options, Service
from tests.serve import models
from tests.serve.conftest import Running
from tests.serve.connection import binary_request
from tests.serve.test_bad_requests import GOOD, INFER, is_well
from tests.small_models import write_model
from tests.waiting import wait_until

Start = Callable[..., Running]


def test_clients_that_stall(start: Start) -> None:
    running = start({"rows": models.ROWS}, limits=Limits(head_seconds=0.2, body_seconds=0.3))
    with running.connect() as silent, running.connect() as half, running.connect() as body:
        half.socket.sendall(b"POST /v2/models HTTP/1.1\r\nHost: loc")
        body.send("POST", INFER, b'{"inputs"', Content_Length="100")
        is_well(running)
        status, _, content = body.answer()
        assert (status, content["error"]) == (408, "the body was not complete after 0.3 s")
        assert silent.is_closed()
        assert half.is_closed()
    with running.connect() as second:  # the next request of a connection has to come to the point as well
        assert second.ask("GET", "/v2/health/live")[0] == 200
        second.socket.sendall(b"GET /v2/heal")
        assert second.is_closed()
    is_well(running)


def test_clients_that_go(start: Start) -> None:
    running = start({"rows": models.ROWS})
    for sent in (b"", b"POST ", f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{{".encode()):
        for _ in range(20):
            with running.connect() as connection:
                connection.socket.sendall(sent)
    for _ in range(20):  # and one that does not wait for its answer
        with running.connect() as connection:
            connection.send("POST", INFER, GOOD)
    is_well(running)
    wait_until(lambda: running.service.scheduler.waiting == 0)


def flip_request(columns: int, **more: Any) -> tuple[bytes, str]:
    return binary_request("x", np.arange(columns, dtype=np.float32).reshape(1, -1), "FP32", **more)


def test_a_client_that_does_not_take_its_answer(start: Start) -> None:
    running = start({"flip": models.flip("f32", "?,?"), "rows": models.ROWS}, limits=Limits(body_seconds=0.3))
    body, length = flip_request(4_000_000, parameters={"binary_data_output": True})
    with running.connect() as connection:
        connection.send("POST", "/v2/models/flip/infer", body, Inference_Header_Content_Length=length)
        wait_until(lambda: running.ask("GET", "/status")[2]["models"][0]["latency"]["count"] == 1)
        is_well(running)
        wait_until(lambda: len(running.connections) == 0)
        with pytest.raises(ConnectionError):
            connection.answer()


def test_a_client_that_takes_its_answer_slowly(start: Start) -> None:
    running = start({"flip": models.flip("f32", "?,?")}, limits=Limits(body_seconds=2.0))
    body, length = flip_request(1_000_000, parameters={"binary_data_output": True})
    with running.connect() as connection:
        connection.send("POST", "/v2/models/flip/infer", body, Inference_Header_Content_Length=length)
        received = 0
        while received < 4_000_000:
            data = connection.socket.recv(100_000)
            assert data
            received += len(data)
            time.sleep(0.02)


def test_answers_that_are_too_large_for_json(start: Start) -> None:
    running = start({"flip": models.flip("f32", "?,?")}, limits=Limits(json_bytes=2000))
    for columns, status in ((100, 200), (101, 400)):
        body, length = flip_request(columns)
        found, _, content = running.ask("POST", "/v2/models/flip/infer", body, Inference_Header_Content_Length=length)
        assert found == status
    assert content["error"] == "output 'y' has 101 elements, more than 100 in JSON: ask for it with binary_data"


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    model = write_model(tmp_path_factory.mktemp("model"), models.ROWS)
    limits = Limits(head_seconds=0.3, body_seconds=0.3)
    running = Running(Service({"rows": model}, options=Options(threads=1, workers=1, limits=limits)))
    yield running
    running.stop()


@pytest.mark.parametrize(
    "request_text",
    [
        "POST {infer} HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        "POST {infer} HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        "POST {infer} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "POST {infer} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST {infer} HTTP/9.9\r\n\r\n",
        "\x00\x01\x02\x03\r\n\r\n",
        "GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /%ff%fe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n",
        "POST {infer} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_broken_http(impatient: Running, request_text: str) -> None:
    running = impatient
    with running.connect() as connection:
        text = request_text.format(infer=INFER, long="y" * 200_000)
        try:
            connection.socket.sendall(text.encode("latin-1"))
            status = connection.answer()[0]
        except ConnectionError:
            status = 400  # closed without a word
        assert status < 500
    is_well(running)


@pytest.mark.parametrize(
    ("head", "endless"),
    [
        ("GET /", "a"),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nX: ", "y"),
        ("GET / HTTP/1.1\r\nHost: localhost\r\n", "X: y\r\n"),
        ("POST {infer} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n0\r\n", "X: y\r\n"),
        ("POST {infer} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;", "e"),
    ],
)
def test_heads_without_end(start: Start, head: str, endless: str) -> None:
    running = start({"rows": models.ROWS}, limits=Limits(head_seconds=60.0, body_seconds=60.0))
    piece = (endless * 20_000).encode()
    with running.connect() as connection:
        connection.socket.sendall(head.format(infer=INFER).encode())
        connection.socket.sendall(piece * 500)  # more than what fits into the buffers on the way
        assert connection.answer()[0] == 431
    is_well(running)


def test_a_client_that_was_told_to_go_and_does_not(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kuiperinfer.serve.connection._SILENT_SECONDS", 0.1)
    running = start({"rows": models.ROWS}, limits=Limits(body_seconds=0.5))
    for insists in (False, True):
        with running.connect() as connection:
            connection.socket.sendall(b"nonsense\r\n\r\n")
            assert connection.answer()[0] == 400
            with contextlib.suppress(ConnectionError):
                while insists:
                    connection.socket.sendall(b"more " * 10_000)
            wait_until(lambda: not running.connections)


def test_what_is_no_request_is_answered_as_errors_are(impatient: Running) -> None:
    for text, status in (("nonsense\r\n\r\n", 400), ("GET / HTTP/1.1\r\nX: " + "y" * 70_000, 431)):
        with impatient.connect() as connection:
            connection.socket.sendall(text.encode())
            found, headers, content = connection.answer()
            assert (found, headers["connection"], headers["x-content-type-options"]) == (status, "close", "nosniff")
            assert list(content) == ["error"]
            assert connection.is_closed()


@pytest.mark.parametrize("before", ["", "GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n"], ids=["alone", "pipelined"])
@pytest.mark.parametrize(
    "head",
    [
        f"GET /{'a' * 2000} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: localhost\r\nX: {'y' * 2000}\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\n" + "X: y\r\n" * 300 + "\r\n",
    ],
    ids=["address", "field", "fields"],
)
def test_a_head_that_is_whole_but_too_large(start: Start, before: str, head: str) -> None:
    running = start({"rows": models.ROWS}, limits=Limits(head_bytes=1000))
    with running.connect() as connection:
        connection.socket.sendall((before + head).encode())
        if before:
            assert connection.answer()[0] == 200
        assert connection.answer()[0] == 431


def test_many_requests_in_one_piece_are_no_head(start: Start) -> None:
    running = start({"rows": models.ROWS}, limits=Limits(head_bytes=1000))
    body = json.dumps(GOOD).encode() + b" " * 2000
    request = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with running.connect() as connection:
        connection.socket.sendall((request + b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20) * 3)
        assert [connection.answer()[0] for _ in range(63)] == [200] * 63


def test_requests_wait_on_a_connection_in_limited_number(start: Start) -> None:
    running = start({"rows": models.ROWS})
    with running.connect() as connection:
        connection.socket.sendall(b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)
        statuses = [connection.answer()[0] for _ in range(66)]
        assert statuses == [200] * 65 + [429]
        assert connection.is_closed()
    is_well(running)


@pytest.mark.parametrize("protocol", ["h2c", "websocket", "h2c, websocket"])
def test_offers_of_other_protocols_are_passed_over(start: Start, protocol: str) -> None:
    running = start({"rows": models.ROWS})
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": protocol, "HTTP2-Settings": "AAMAAABkAAQAAP__"}
    body = json.dumps(GOOD).encode()
    head = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n"
    with running.connect() as connection:  # which stays what it was
        for _ in range(2):
            assert connection.ask("POST", INFER, body, **offer)[2]["outputs"][0]["data"] == [3, 5, 7]
            assert connection.ask("GET", "/v2/health/live", **offer)[0] == 200
            assert connection.ask("GET", "/nothing", **offer)[0] == 404
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
        for byte in (head + "Transfer-Encoding: chunked\r\n\r\n").encode() + chunks:
            connection.socket.sendall(bytes([byte]))
        assert connection.answer()[2]["outputs"][0]["data"] == [3, 5, 7]
        offer["Connection"] = "close, Upgrade"
        with running.connect() as last:
            assert last.ask("POST", INFER, body, **offer)[2]["outputs"][0]["data"] == [3, 5, 7]
            assert last.is_closed()
        pipelined = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        connection.socket.sendall(pipelined * 3)
        for _ in range(3):
            assert connection.answer()[2]["outputs"][0]["data"] == [3, 5, 7]


def test_connect(start: Start) -> None:
    running = start({"rows": models.ROWS})
    with running.connect() as connection:
        assert connection.ask("CONNECT", "localhost:80")[0] in (400, 405)
    is_well(running)


def test_small_chunks_are_no_head(start: Start) -> None:
    running = start({"rows": models.ROWS}, limits=Limits(head_bytes=1000))
    body = json.dumps(GOOD).encode() + b" " * 2000
    chunks = b"".join(b"1;extension\r\n%c\r\n" % byte for byte in body)
    head = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with running.connect() as connection:
        connection.socket.sendall(head.encode() + chunks + b"0\r\n\r\n")
        assert connection.answer()[0] == 200
