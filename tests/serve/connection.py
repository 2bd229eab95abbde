"""A connection of a client that does exactly what a test wants, right or wrong."""

from __future__ import annotations

import json
import socket
from typing import Any

import numpy as np


class Connection:
    """One TCP connection to a server on loopback."""

    def __init__(self, port: int, seconds: float = 20.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self._received = b""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, method: str, path: str, body: Any = b"", **headers: str) -> None:
        """Sends a request; what is not bytes is sent as JSON. Header names are written with _ for -."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"Host": "localhost", "Content-Length": str(len(data))}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        self.socket.sendall("\r\n".join(lines).encode("latin-1") + data)

    def answer(self) -> tuple[int, dict[str, str], Any]:
        """Status, headers (names in lower case) and content of the next answer. Raises `ConnectionError` if there is none."""
        while b"\r\n\r\n" not in self._received:
            self._receive()
        head, _, rest = self._received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", 0))
        while len(rest) < length:
            size = len(self._received)
            self._receive()
            rest += self._received[size:]
        self._received = rest[length:]
        content: Any = rest[:length]
        if headers.get("content-type") == "application/json":
            content = json.loads(content)
        return int(first.split(" ")[1]), headers, content

    def ask(self, method: str, path: str, body: Any = b"", **headers: str) -> tuple[int, dict[str, str], Any]:
        """Sends a request and waits for its answer."""
        self.send(method, path, body, **headers)
        return self.answer()

    def is_closed(self) -> bool:
        """Waits until the server closes the connection, or sends something (False)."""
        try:
            return not self.socket.recv(1)
        except ConnectionError:
            return True

    def _receive(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self._received += data


def binary_request(name: str, array: np.ndarray[Any, Any], datatype: str, **more: Any) -> tuple[bytes, str]:
    """The body of a request with one binary tensor, and the length of its JSON."""
    parameters = {"binary_data_size": array.nbytes}
    tensor = {"name": name, "shape": list(array.shape), "datatype": datatype, "parameters": parameters}
    head = json.dumps({"inputs": [tensor], **more}).encode()
    return head + array.tobytes(), str(len(head))
