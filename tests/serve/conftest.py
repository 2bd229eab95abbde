"""A server in a thread of the test's own process, on loopback, with small models."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra 'serve'")

from kuiperinfer.serve import Limits, Options, Service, bind
from kuiperinfer.serve.server import Server
from tests.serve.connection import Connection
from tests.small_models import write_model
from tests.waiting import wait_until


class Running:
    """A server that runs: its service, and its port."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._socket = bind("127.0.0.1", 0)
        self.port: int = self._socket.getsockname()[1]
        self._server = Server(service)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()
        wait_until(lambda: service.ready or service.failure is not None)

    @property
    def connections(self) -> set[Any]:
        """The connections that are open."""
        return self._server.server_state.connections

    def connect(self) -> Connection:
        """A connection to it."""
        return Connection(self.port)

    def ask(self, method: str, path: str, body: Any = b"", **headers: str) -> tuple[int, dict[str, str], Any]:
        """Status, headers and content of the answer to one request; JSON content is read."""
        with self.connect() as connection:
            return connection.ask(method, path, body, **headers)

    def stop(self) -> None:
        """Ends it as a signal would."""
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts servers: `start({"name": model text}, max_batch=4, limits=Limits(…))`; they end with the test."""
    started: list[Running] = []

    def run(texts: Mapping[str, str], repository: Path | None = None, **options: Any) -> Running:
        files = {name: write_model(tmp_path / "given" / name, text) for name, text in texts.items()}
        started.append(Running(Service(files, repository, Options(**{"threads": 1, "workers": 1, **options}))))
        return started[-1]

    yield run
    for running in started:
        running.stop()


@pytest.fixture
def limits() -> Callable[..., Limits]:
    """Limits that are the default but for some."""
    return Limits
