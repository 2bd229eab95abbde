"""One client's connection: HTTP by uvicorn, with limits on what a client may take, and an end that loses no answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NoReturn

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .guard import CROWDED_OUT, SECURITY_HEADERS, refusal_answer
from .options import Limits
from .refusals import Refusal

_READ_BYTES = 1 << 20  # that asyncio takes from a connection at a time: pictures as tensors in one or two turns
_IDLE_SECONDS = 1.0  # without a request, after which a connection gives its place to a new one if there are too many
_FIRST_REQUEST_SECONDS = 1.0  # that a shutdown waits for the first request of a new connection
_MOST_AHEAD = 64  # requests of a connection that wait for the answer to one before them: each takes memory
_SILENT_SECONDS = 1.0  # after which nothing more is expected from a client that was told to go


class OrderlyTransport:
    """A connection's transport whose `close` ends the server's side first, and takes what the client still sends.

    Bytes that nobody has read when a connection is closed make the system reset it, and what the client has not read of its
    answer is lost (RFC 9112, 9.6). The client may take `most_seconds` if it goes on sending.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop, most_seconds: float) -> None:
        self._transport = transport
        self._loop = loop
        self._most_seconds = most_seconds
        self._leaving = False
        self._heard = False  # from the client, in the last `_SILENT_SECONDS`

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Sends bytes; after `close`, none."""
        if not self._leaving:
            self._transport.write(data)

    def is_closing(self) -> bool:
        """Whether nothing more is sent."""
        return self._leaving or self._transport.is_closing()

    def close(self) -> None:
        """Sends what was written, and ends the connection when the client has ended it, or is silent."""
        if self.is_closing():
            return
        self._leaving = True
        try:
            self._transport.write_eof()
        except OSError:  # the client has gone
            self.drop()
            return
        self._transport.resume_reading()
        self._loop.call_later(_SILENT_SECONDS, self._wait, self._loop.time() + self._most_seconds)

    def discard(self) -> None:
        """To be called for what comes after `close`."""
        self._heard = True

    def drop(self) -> None:
        """Ends a connection on which nothing is under way."""
        self._transport.close()

    def _wait(self, end: float) -> None:
        if (self._heard or self._transport.get_write_buffer_size()) and self._loop.time() < end:
            self._heard = False
            self._loop.call_later(_SILENT_SECONDS, self._wait, end)
        else:
            self.drop()


class _Parser(httptools.HttpRequestParser):
    """Reads requests that offer another protocol (``Upgrade: h2c``) as if they did not: the server stays with HTTP/1.1.

    httptools ends such a request after its head, although a body may follow (RFC 9110, 7.8).
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # what follows the last request is not looked at
        self._connection = connection

    def is_offer(self) -> bool:
        """Whether the request that is read will be read again, without its offer."""
        return bool(self.should_upgrade()) and self.get_method() != b"CONNECT"

    def feed_data(self, data: Any) -> None:
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            if self.get_method() == b"CONNECT":
                raise
            self._connection.begin_again(bytes(data[offer.args[0] :]))


class Connection(HttpToolsProtocol):
    """A connection whose client has to come to the point, and to take what it asked for.

    The head of a request has `limits.head_seconds` to arrive, and may have `limits.head_bytes`; a client that takes nothing of
    its answer for `body_seconds` is cut off, lest what it does not take fills the memory. Where there are `limits.connections`
    already, the one that has been idle for longest is closed in favour of a new one; if none has been idle for a second,
    the requests of the new one are refused (`CROWDED_OUT` in the state of their scope).
    """

    limits = Limits()
    transport: Any  # an `OrderlyTransport`
    parser: Any  # a `_Parser`
    cycle: Any  # the request that is being read or answered, or the last one; None before the first

    def connection_made(self, transport: Any) -> None:
        transport.max_size = _READ_BYTES
        super().connection_made(OrderlyTransport(transport, self.loop, self.limits.body_seconds))  # type: ignore[arg-type]
        self.parser = _Parser(self)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._head_bytes = 0  # received since the last piece of a body, or the last request's end
        self._head_size = 0  # of what is read of the present request's head
        self._reason: Refusal | None = None  # for which parsing was ended, if it was not for the syntax
        self._refusal: Refusal | None = None  # of what is no request, until those before it have their answers
        self._idle_since = self.loop.time()
        if len(self.connections) > self.limits.connections and not self._makes_room():
            self.app_state = {**self.app_state, CROWDED_OUT: True}
        self._start_timer("head", self.limits.head_seconds, self._on_late_head)

    def data_received(self, data: bytes) -> None:
        if self._refusal or self.transport.is_closing():
            self.transport.discard()
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > self.limits.head_bytes and not self.transport.is_closing():
            self._refuse(self._head_is_too_large())
        elif self._is_answering():
            self._stop_timer("head")
        elif "head" not in self._timers:
            self._start_timer("head", self.limits.head_seconds, self._on_late_head)

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= _MOST_AHEAD:
            self._end_parsing(Refusal(429, f"at most {_MOST_AHEAD} requests may wait on a connection", retry_after=1))
        self._head_size = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + len(": \r\n"))
        super().on_header(name, value)

    def _count_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self.limits.head_bytes:
            self._end_parsing(self._head_is_too_large())

    def _end_parsing(self, reason: Refusal) -> NoReturn:
        """To be called by the parser, which then calls `send_400_response`."""
        self._reason = reason
        raise ValueError(str(reason))

    def on_headers_complete(self) -> None:
        if not self.parser.is_offer():
            super().on_headers_complete()

    def begin_again(self, rest: bytes) -> None:
        """Reads the head of the present request again, without the protocols that it offers, and what follows it."""
        line = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        fields = [b"%s: %s" % (name, value) for name, value in self.headers if name != b"upgrade"]
        self.parser = _Parser(self)  # the one before may take this request for the connection's last
        self.parser.feed_data(b"\r\n".join([line, *fields, b"", rest]))

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        if not self.cycle.body:
            self.cycle.body = b""  # what is added to no bytes is not copied, nor when it is taken
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        if not self.parser.is_offer():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        super().on_response_complete()
        if self._refusal:
            self._refuse(self._refusal)

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._reason or Refusal(400, "this is no valid HTTP request"))

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

    def _head_is_too_large(self) -> Refusal:
        return Refusal(431, f"the head of a request may have {self.limits.head_bytes:,} bytes")

    def _refuse(self, refusal: Refusal) -> None:
        """An answer to what is no request, after which there is no knowing where the next one would begin."""
        if self._is_answering() and not self.cycle.more_body:
            self._refusal = refusal
            return
        status, headers, body = refusal_answer(refusal)
        headers = {**SECURITY_HEADERS, **headers, "content-length": str(len(body)), "connection": "close"}
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {headers[name]}" for name in headers)]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self.transport.close()

    def is_about_to_ask(self) -> bool:
        """Whether a request is to be expected: a part of its head is here, or the connection is new."""
        if self._is_answering() or self.transport.is_closing():
            return False
        return bool(self._head_bytes) or (
            self.cycle is None and self.loop.time() - self._idle_since < _FIRST_REQUEST_SECONDS
        )

    def _makes_room(self) -> bool:
        """Closes the connection that has been idle for longest if there are too many; False if none has for `_IDLE_SECONDS`."""
        others: list[Any] = [other for other in self.connections if not other.transport.is_closing()]
        if len(others) <= self.limits.connections:
            return True
        since = self.loop.time() - _IDLE_SECONDS
        idle = [other for other in others if other._is_idle() and other._idle_since <= since]
        if idle:
            min(idle, key=lambda other: other._idle_since).transport.drop()
        return bool(idle)

    def _is_idle(self) -> bool:
        """Whether no part of a request is here, nor an answer under way."""
        return not (self._is_answering() or self._head_bytes)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _on_late_head(self) -> None:
        self._stop_timer("head")
        if not self._is_answering() and not self.transport.is_closing():
            self.transport.drop()

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
