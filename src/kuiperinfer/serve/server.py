"""The HTTP server: uvicorn, with limits on slow clients and a shutdown that leaves no accepted request without an answer."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import uvicorn

from ..errors import InputError
from .app import make_app
from .connection import Connection
from .guard import names_of
from .service import Service

_BACKLOG = 512
_KEEP_ALIVE_SECONDS = 30
_SWITCH_SECONDS = 1e-3  # so that a worker whose run has ended does not wait long for the interpreter's lock
_LAST_CONNECTIONS_SECONDS = 0.1  # for connections that are being made when the server stops to listen

# A program for the kernel (classic BPF) that drops TCP segments which would open a connection, and takes all others
_SO_ATTACH_FILTER = 26
_NO_NEW_CONNECTIONS = (
    (0x30, 0, 0, 13),  # load the byte of flags in the TCP header
    (0x45, 0, 1, 0x02),  # if SYN is not set, go past the next line
    (0x06, 0, 0, 0),  # drop it
    (0x06, 0, 0, 0xFFFFFFFF),  # take all of it
)


class Server(uvicorn.Server):
    """Serves until it is told to stop: the first signal lets it finish what it accepted, the second ends it at once."""

    def __init__(self, service: Service) -> None:
        self.service = service
        limits = service.options.limits
        protocol = type("LimitedConnection", (Connection,), {"limits": limits})
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
        for listening in sockets or ():
            _take_no_more(listening)
        await asyncio.sleep(_LAST_CONNECTIONS_SECONDS)
        for server in self.servers:
            server.close()
        end = time.monotonic() + self.service.options.limits.drain_seconds
        connections: Any = self.server_state.connections  # all of them `Connection`
        while time.monotonic() < end:
            if not self.server_state.tasks and not any(connection.is_about_to_ask() for connection in connections):
                break
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)
        for connection in connections:  # what took too long
            connection.transport.drop()
        await asyncio.sleep(0)

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


def _take_no_more(listening: socket.socket) -> None:
    """Has the system take no new connections, while those that it has taken can still be accepted.

    Closing would reset the latter, whose clients think that they are connected. The others try again, and find it closed.
    """
    program = b"".join(struct.pack("HBBI", *line) for line in _NO_NEW_CONNECTIONS)
    buffer = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HP", len(_NO_NEW_CONNECTIONS), ctypes.addressof(buffer))
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # where it is not allowed, the last connections are reset after all
            listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)


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
