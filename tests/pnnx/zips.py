"""A writer of zip archives, independent of the package's own, in which every field can be set wrong."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

ESCAPE = 0xFFFFFFFF


@dataclass
class Item:
    """One entry: what its two headers and its zip64 records say, where that is not the truth.

    Fields: version, flags, method, crc, packed, size, name, extra (bytes), and for the central header disk, offset, comment.
    """

    name: bytes
    data: bytes = b""
    local: dict[str, Any] = field(default_factory=dict)
    central: dict[str, Any] = field(default_factory=dict)
    gap: bytes = b""  # bytes before its local header


def extra64(size: int, packed: int, offset: int = 0, disk: int = 0) -> bytes:
    """A zip64 record with all four values, as the converter writes it."""
    return struct.pack("<HHQQQL", 1, 28, size, packed, offset, disk)


def build(
    *items: Item,
    zip64: bool = True,
    end: dict[str, Any] | None = None,
    end64: dict[str, Any] | None = None,
    locator: dict[str, Any] | None = None,
    before: bytes = b"",
    after: bytes = b"",
    directory_gap: bytes = b"",
) -> bytes:
    """An archive in the layout of the newer converters, or of the older ones (`zip64=False`)."""
    content, directory = bytearray(before), bytearray()
    for item in items:
        content += item.gap
        offset, size, crc = len(content), len(item.data), zlib.crc32(item.data)
        common: dict[str, Any] = {
            "version": 0,
            "flags": 0,
            "method": 0,
            "crc": crc,
            "packed": ESCAPE if zip64 else size,
            "size": ESCAPE if zip64 else size,
            "name": item.name,
        }
        local = common | {"extra": extra64(size, size) if zip64 else b""} | item.local
        central = common | {
            "extra": extra64(size, size, offset) if zip64 else b"",
            "disk": 0xFFFF if zip64 else 0,
            "offset": ESCAPE if zip64 else offset,
            "comment": b"",
        }
        central |= item.central
        content += _header(b"PK\x03\x04", local) + local["name"] + local["extra"] + item.data
        directory += _header(b"PK\x01\x02" + bytes(2), central, len(central["comment"]))
        directory += struct.pack("<HHLL", central["disk"], 0, 0, central["offset"])
        directory += central["name"] + central["extra"] + central["comment"]
    content += directory_gap
    start, count = len(content), len(items)
    content += directory
    truth = {"disk": 0, "first": 0, "here": count, "count": count, "size": len(directory), "start": start}
    if zip64:
        tail = {"rest": 44, "version": 0} | truth | (end64 or {})
        where = {"disk": 0, "offset": len(content), "disks": 1} | (locator or {})
        content += struct.pack("<4sQHHLLQQQQ", b"PK\x06\x06", tail.pop("rest"), 0, *tail.values())
        content += struct.pack("<4sLQL", b"PK\x06\x07", *where.values())
        truth = dict.fromkeys(truth, 0xFFFF) | {"size": ESCAPE, "start": ESCAPE}
    last = truth | {"comment": 0} | (end or {})
    return bytes(content + struct.pack("<4sHHHHLLH", b"PK\x05\x06", *last.values())) + after


def _header(signature: bytes, fields: dict[str, Any], *comment: int) -> bytes:
    parts = (
        fields["version"],
        fields["flags"],
        fields["method"],
        0,
        0,
        fields["crc"],
        fields["packed"],
        fields["size"],
    )
    lengths = (len(fields["name"]), len(fields["extra"]), *comment)
    return signature + struct.pack(f"<5H3L{len(lengths)}H", *parts, *lengths)
