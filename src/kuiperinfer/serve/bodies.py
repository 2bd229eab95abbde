"""Reading what a client sends: so much, for so long, and no more than the server can hold for all clients together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from starlette.requests import ClientDisconnect, Request

from .options import Limits
from .refusals import Refusal, bad_request


class BodyReader:
    """Reads bodies within `limits`; bytes count from the moment that they arrive until the request is answered.

    What is only announced does not count: a few clients that send nothing more would keep all others out.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._in_flight = 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The whole body of a request.

        Raises `Refusal`: 413 if it is too large, 408 if it takes too long, 503 if the server holds too much already, and 415
        if it is compressed: a few bytes could stand for very many.
        """
        encoding = request.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise Refusal(415, f"Content-Encoding '{encoding}' is not supported; send the body as it is")
        claimed = 0
        try:
            self._check_announced(request)
            chunks, size = [], 0
            with anyio.move_on_after(self._limits.body_seconds) as scope:
                async for chunk in request.stream():
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > self._limits.body_bytes:
                        raise self._too_large()
                    self._claim(size - claimed)
                    claimed = size
            if scope.cancelled_caught:
                raise Refusal(408, f"the body was not complete after {self._limits.body_seconds:g} s")
            yield b"".join(chunks)
        except ClientDisconnect:
            raise Refusal(400, "the client has gone") from None
        finally:
            self._in_flight -= claimed

    def _check_announced(self, request: Request) -> None:
        text = request.headers.get("content-length", "0")
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise bad_request("Content-Length: expected a number of bytes")
        if int(text) > self._limits.body_bytes:
            raise self._too_large()

    def _claim(self, count: int) -> None:
        if self._in_flight + count > self._limits.bytes_in_flight:
            raise Refusal(503, "the server holds as many requests as its memory may", retry_after=1)
        self._in_flight += count

    def _too_large(self) -> Refusal:
        return Refusal(413, f"the body exceeds the limit of {self._limits.body_bytes:,} bytes")
