"""The HTTP server: uvicorn, with limits on slow clients and a shutdown that leaves no accepted request without an answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..errors import InputError
from .app import make_app
from .guard import CROWDED_OUT, SECURITY_HEADERS, names_of, refusal_answer
from .options import Limits
from .refusals import Refusal
from .service import Service

_BACKLOG = 512
_KEEP_ALIVE_SECONDS = 30
_SWITCH_SECONDS = 1e-3  # so that a worker whose run has ended does not wait long for the interpreter's lock
_READ_BYTES = 1 << 20  # that asyncio takes from a connection at a time: pictures as tensors in one or two turns
_IDLE_SECONDS = 1.0  # without a request, after which a connection gives its place to a new one if there are too many
_LAST_CONNECTIONS_SECONDS = 0.1  # for connections that the system has taken but this process has not


class _Connection(HttpToolsProtocol):
    """A connection whose client has to come to the point, and to take what it asked for.

    The head of a request has `limits.head_seconds` to arrive, and may have `limits.head_bytes`; a client that takes nothing of
    its answer for `body_seconds` is cut off, lest what it does not take fills the memory. Where there are `limits.connections`
    already, the one that has been idle for longest is closed in favour of a new one; if none has been idle for a second,
    the requests of the new one are refused (`CROWDED_OUT` in the state of their scope).
    """

    limits = Limits()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.max_size = _READ_BYTES
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._head_bytes = 0  # received since the last piece of a body, or the last request's end
        self._idle_since = self.loop.time()
        if len(self.connections) > self.limits.connections and not self._close_idlest():
            self.app_state = {**self.app_state, CROWDED_OUT: True}
        self._start_timer("head", self.limits.head_seconds, self._on_late_head)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > self.limits.head_bytes and not self.transport.is_closing():
            self._refuse(Refusal(431, f"the head of a request may have {self.limits.head_bytes:,} bytes"))
        elif self._is_answering():
            self._stop_timer("head")
        elif "head" not in self._timers:
            self._start_timer("head", self.limits.head_seconds, self._on_late_head)

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        if not self.cycle.body:
            self.cycle.body = b""  # type: ignore[assignment]  # what is added to no bytes is not copied, nor when it is taken
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(Refusal(400, "this is no valid HTTP request"))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_taking()

    def resume_writing(self) -> None:
        self._stop_timer("taking")
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._timers):
            self._stop_timer(name)
        super().connection_lost(exc)

    def _refuse(self, refusal: Refusal) -> None:
        """An answer to what is no request, after which there is no knowing where the next one would begin."""
        status, headers, body = refusal_answer(refusal)
        headers = {**SECURITY_HEADERS, **headers, "content-length": str(len(body)), "connection": "close"}
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {headers[name]}" for name in headers)]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self.transport.close()

    def _close_idlest(self) -> bool:
        """Closes the connection that has been idle for longest; False where none has been so for `_IDLE_SECONDS`."""
        since = self.loop.time() - _IDLE_SECONDS
        others: set[Any] = self.connections  # all of this class
        idle = [other for other in others if other._is_idle() and other._idle_since <= since]
        if idle:
            min(idle, key=lambda other: other._idle_since).transport.close()
        return bool(idle)

    def _is_idle(self) -> bool:
        """Whether no part of a request is here, nor an answer under way."""
        return not (self._is_answering() or self._head_bytes or self.transport.is_closing())

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _on_late_head(self) -> None:
        self._stop_timer("head")
        if not self._is_answering() and not self.transport.is_closing():
            self.transport.close()

    def _expect_taking(self) -> None:
        before = self.transport.get_write_buffer_size()
        self._start_timer("taking", self.limits.body_seconds, lambda: self._on_late_taking(before))

    def _on_late_taking(self, before: int) -> None:
        if self.transport.get_write_buffer_size() >= before:
            self.transport.abort()
        else:
            self._expect_taking()

    def _start_timer(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        self._timers[name] = self.loop.call_later(seconds, action)

    def _stop_timer(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()


class Server(uvicorn.Server):
    """Serves until it is told to stop: the first signal lets it finish what it accepted, the second ends it at once."""

    def __init__(self, service: Service) -> None:
        self.service = service
        limits = service.options.limits
        protocol = type("Connection", (_Connection,), {"limits": limits})
        super().__init__(
            uvicorn.Config(
                make_app(service),
                loop="asyncio",  # also where another one is installed, whose connections are others
                http=protocol,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                backlog=_BACKLOG,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=max(1, round(limits.drain_seconds)),
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal starts the shutdown, the second ends the process."""
        if self.should_exit:
            os._exit(128 + sig)
        self.service.draining = True
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        return self.service.failure is not None or await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answers what was accepted, refuses what comes later, and closes all connections."""
        self.service.draining = True
        self.service.scheduler.hurry()
        await asyncio.sleep(_LAST_CONNECTIONS_SECONDS)
        for server in self.servers:
            server.close()
        end = time.monotonic() + self.service.options.limits.drain_seconds
        while self.server_state.tasks and time.monotonic() < end:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Takes the signals, and does not raise them again at the end: a shutdown that went well exits with 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        taken = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in taken}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens on the only address of `host`, and on a free port where `port` is 0."""
    bound = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(_BACKLOG)
    except OSError as error:
        if bound is not None:
            bound.close()
        raise InputError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    return bound


def serve(service: Service, bound: socket.socket) -> None:
    """Serves until a signal says otherwise. Raises the error for which a model could not be loaded.

    On loopback, clients may call the server by names of loopback only, unless `Options.hosts` says otherwise.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    service.hosts = service.options.hosts or names_of(bound.getsockname()[0])
    Server(service).run([bound])
    if service.failure is not None:
        raise service.failure


__all__ = ["Server", "bind", "serve"]
