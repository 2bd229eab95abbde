"""Who may ask, and what every answer carries."""

from __future__ import annotations

import itertools
import sys
import types
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from kuiperinfer.serve import Limits
from kuiperinfer.serve import connection as connections
from kuiperinfer.serve.guard import names_of
from tests.serve import models
from tests.serve.conftest import Running
from tests.waiting import wait_until

Start = Callable[..., Running]


def test_headers_of_every_answer(start: Start) -> None:
    running = start({}, token="secret")
    paths = ("/", "/page/page.js", "/v2/health/live", "/v2/models/nothing", "/metrics", "/nowhere")
    for path, token in itertools.product(paths, ("Bearer secret", "wrong")):
        _, headers, _ = running.ask("GET", path, Authorization=token)
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers


def test_a_mistake_of_our_own(start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    running = start({"rows": models.ROWS})
    monkeypatch.setattr(running.service.catalogue, "names", lambda: 1 // 0)
    status, headers, content = running.ask("GET", "/v2/models")
    assert (status, content) == (500, {"error": "internal error; the server's log says more"})
    assert headers["x-content-type-options"] == "nosniff"
    wait_until(lambda: "ZeroDivisionError" in caplog.text)
    assert running.ask("GET", "/v2/models/rows")[0] == 200


def test_a_token(start: Start) -> None:
    running = start({"rows": models.ROWS}, token="open sesame")
    for path in ("/v2", "/v2/models", "/v2/models/rows", "/metrics", "/status", "/nowhere"):
        for headers in (
            {},
            {"Authorization": "Bearer open"},
            {"Authorization": "Basic open sesame"},
            {"Authorization": ""},
        ):
            status, answered, content = running.ask("GET", path, **headers)
            assert (status, answered["www-authenticate"]) == (401, "Bearer")
            assert "Authorization: Bearer" in content["error"]
        assert running.ask("GET", path, Authorization="Bearer open sesame")[0] == (404 if path == "/nowhere" else 200)
    for path in ("/", "/page/page.js", "/v2/health/live", "/v2/health/ready"):  # for browsers and probes
        assert running.ask("GET", path)[0] == 200
    assert running.ask("POST", "/pictures/rows", b"x")[0] == 401
    assert running.ask("POST", "/v2/models/rows/infer", {})[0] == 401


def test_too_many_connections(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_IDLE_SECONDS", 60.0)  # as if all had been busy a moment ago
    running = start({"rows": models.ROWS}, limits=Limits(connections=2))
    with running.connect() as one, running.connect() as two:
        wait_until(lambda: len(running.connections) == 2)
        assert one.ask("GET", "/v2")[0] == 200
        with running.connect() as three:
            status, headers, content = three.ask("GET", "/v2")
            assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
            assert content == {"error": "there are too many connections"}
            assert one.ask("GET", "/v2")[0] == 200  # who was here before does not suffer
            assert three.is_closed()
        status, headers, _ = running.ask("GET", "/v2/health/live")
        assert (status, headers["connection"]) == (200, "close")  # or the server would be taken for dead
        assert two.ask("GET", "/v2")[0] == 200


def test_a_new_connection_takes_the_place_of_the_one_that_is_idle_for_longest(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_IDLE_SECONDS", 0.0)
    running = start({"rows": models.ROWS}, limits=Limits(connections=3))
    with ExitStack() as stack:
        silent, asking, idle = (stack.enter_context(running.connect()) for _ in range(3))
        wait_until(lambda: len(running.connections) == 3)
        assert idle.ask("GET", "/v2")[0] == 200
        asking.send("POST", "/v2/models/rows/infer", b"{", Content_Length="2")
        wait_until(lambda: sum(connection.cycle is not None for connection in running.connections) == 2)
        for closed in (silent, idle):
            newer = stack.enter_context(running.connect())
            assert newer.ask("GET", "/v2")[0] == 200
            assert closed.is_closed()
        asking.socket.sendall(b"}")
        assert asking.answer()[0] == 400  # it was read: there are no inputs in it


def test_the_event_loop_is_the_same_whatever_is_installed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", types.ModuleType("uvloop"))  # uvicorn would take it by itself
    running = start({"rows": models.ROWS})
    assert running.ask("GET", "/v2")[0] == 200


def test_pages_from_elsewhere(start: Start) -> None:
    running = start({"rows": models.ROWS}, hosts=names_of("127.0.0.1"))
    path = "/v2/repository/models/rows/unload"
    for origin in ("http://elsewhere.example", "null", f"http://localhost:{running.port}"):
        status, _, content = running.ask("POST", path, Origin=origin)
        assert (status, content["error"]) == (403, "requests of pages from elsewhere are not answered")
    assert running.ask("POST", path, Host="elsewhere.example")[0] == 421
    assert running.ask("GET", "/v2", Host="localhost.elsewhere.example")[0] == 421
    for host in ("localhost", f"127.0.0.1:{running.port}", "[::1]:80"):
        assert running.ask("GET", "/v2", Host=host)[0] == 200
    assert running.ask("POST", path, Host="localhost:5", Origin="http://localhost:5")[0] == 200  # its own page


def test_names() -> None:
    assert names_of("localhost") == ("localhost", "127.0.0.1", "[::1]")
    assert names_of("127.0.0.1") == ("localhost", "127.0.0.1", "[::1]")
    assert names_of("127.0.0.9") == ("localhost", "127.0.0.1", "[::1]", "127.0.0.9")
    assert names_of("::1") == ("localhost", "127.0.0.1", "[::1]")
    assert names_of("0.0.0.0") == names_of("192.0.2.1") == names_of("models.example") == ()
