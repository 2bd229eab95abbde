"""Small ONNX files, written byte by byte: the tests need no package for them."""

from __future__ import annotations

import struct


def varint(number: int) -> bytes:
    """A number as protocol buffers write it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, content: int | bytes | str) -> bytes:
    """One field: numbers as varints, all else with its length before it."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def tensor(name: str, dims: tuple[int, ...], values: list[float], location: str | None = None) -> bytes:
    """onnx.TensorProto of floats, its values in the file or (`location`) in another one."""
    dimensions = b"".join(field(1, dim) for dim in dims)
    if location is None:
        return dimensions + field(2, 1) + field(8, name) + field(9, struct.pack(f"<{len(values)}f", *values))
    entries = {"location": location, "offset": "0", "length": str(4 * len(values))}
    external = b"".join(field(13, field(1, key) + field(2, value)) for key, value in entries.items())
    return dimensions + field(2, 1) + field(8, name) + external + field(14, 1)


def value(name: str, dims: tuple[int | str, ...]) -> bytes:
    """onnx.ValueInfoProto of floats; dimensions that are texts are free."""
    shape = b"".join(field(1, field(1, dim) if isinstance(dim, int) else field(2, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))


def model(batch: int | str = 1, location: str | None = None, operator: str = "Gemm") -> bytes:
    """onnx.ModelProto of y = x W + b with W = [[1, 2, 3], [4, 5, 6]] and b = [10, 20, 30], for x of (batch, 2)."""
    node = b"".join(field(1, name) for name in ("x", "w", "b")) + field(2, "y") + field(3, "fc") + field(4, operator)
    weights = tensor("w", (2, 3), [1, 2, 3, 4, 5, 6], location), tensor("b", (3,), [10, 20, 30])
    graph = field(1, node) + field(2, "net") + b"".join(field(5, one) for one in weights)
    graph += field(11, value("x", (batch, 2))) + field(12, value("y", (batch, 3)))
    return field(1, 8) + field(2, "tests") + field(7, graph) + field(8, field(1, "") + field(2, 17))


NETWORK = model()
