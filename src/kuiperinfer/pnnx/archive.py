"""The archive of weights, `x.pnnx.bin`: a zip file whose entries are stored, not compressed.

Two layouts are written, and both are read: the converter's own, where every entry has a zip64 record whatever its size, and
the plain 32-bit one of converters before 2024. Reading is strict, for an archive is data from a stranger:

* The file is, without a gap, an overlap or a byte before or after: local header, data, local header, data, …, central
  directory, end records. So no byte is read twice, and the entries take no more memory than the file has bytes.
* What stands in the file twice (names, sizes, checksums, counts, offsets) has to agree. Nothing is compressed, encrypted,
  split over disks or described after its data. Timestamps, file modes and comments have no meaning here and are skipped.
* Names are unique, and are such as an operator's weight can have: UTF-8 without blanks. They are never used as paths, and
  `read` refuses those that no operator has. Data has to match its checksum.

Definition: PKWARE's APPNOTE.TXT, sections 4.3 to 4.5.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from ..errors import InputError, ModelFileError, ResourceLimitError
from ..settings import settings
from .source import Source

# signature, version needed, flags, method, time, date, crc, compressed and plain size, lengths of name and extra
_LOCAL = struct.Struct("<4s5H3L2H")
# signature, version made by, then as above, length of comment, disk, internal and external file attributes, offset
_CENTRAL = struct.Struct("<4s6H3L5H2L")
# signature, size of the rest, versions made by and needed, this disk, first disk, entries here and in all, size, offset
_END64 = struct.Struct("<4sQ2H2L4Q")
# signature, disk and offset of the record above, number of disks
_LOCATOR = struct.Struct("<4sLQL")
# signature, this disk, first disk, entries here and in all, size and offset of the directory, length of comment
_END = struct.Struct("<4s4H2LH")
# id, size, plain and compressed size, offset, disk
_EXTRA64 = struct.Struct("<2H3QL")

_LOCAL_SIGNATURE = b"PK\x03\x04"
_CENTRAL_SIGNATURE = b"PK\x01\x02"
_END64_SIGNATURE = b"PK\x06\x06"
_LOCATOR_SIGNATURE = b"PK\x06\x07"
_END_SIGNATURE = b"PK\x05\x06"

_IN_EXTRA_16, _IN_EXTRA_32 = 0xFFFF, 0xFFFFFFFF  # "the value is in the zip64 record"
_EXTRA64_ID = 0x0001
_UTF8_FLAG = 0x0800
_NEWEST_VERSION = 45  # the version that brought zip64

# Bytes that are read and checked at a time: these stay in the processor's cache from the one to the other.
_CHUNK = 256 << 10
_BAD_IN_NAME = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True)
class Entry:
    """One entry: its name, where its data begins, how long it is, and its CRC-32."""

    name: str
    offset: int
    size: int
    crc: int


@dataclass(frozen=True)
class _Record:
    """An entry as the central directory describes it; `place` is where the description stands."""

    name: bytes
    place: int
    flags: int
    crc: int
    size: int
    header_offset: int


# ------------------------------------------------------------------------------------------- reading


def read_directory(source: Source) -> dict[str, Entry]:
    """The entries of an archive by name, in the order of their data. Their data is not read yet.

    Raises `ModelFileError` for all that is not as the module describes, `ResourceLimitError` for too many entries.
    """
    count, start, end = _read_end(source)
    records = _read_central(source, count, start, end)
    entries: dict[str, Entry] = {}
    position = 0
    for record in sorted(records, key=lambda record: record.header_offset):
        name = _decode_name(source, record)
        if record.header_offset != position:
            wrong = "overlaps what stands" if record.header_offset < position else "leaves bytes unused"
            found = f"entry '{_shown(record.name)}' at byte {record.header_offset:,} {wrong} before it"
            raise _error(source, record.place, found, f"byte {position:,}")
        if name in entries:
            raise _error(source, record.place, f"entry '{_shown(record.name)}' is there twice")
        offset = _read_local(source, record, start)
        entries[name] = Entry(name, offset, record.size, record.crc)
        position = offset + record.size
    if position != start:
        raise _error(source, position, f"{start - position:,} bytes before the central directory belong to no entry")
    return entries


def read_entry(source: Source, entry: Entry, target: memoryview) -> None:
    """Reads the data of an entry into `target`, which has its size, and compares its checksum."""
    crc = 0
    for begin in range(0, entry.size, _CHUNK):
        chunk = target[begin : begin + _CHUNK]
        source.read_into(entry.offset + begin, chunk)
        crc = zlib.crc32(chunk, crc)
    if crc != entry.crc:
        found = f"entry '{entry.name}': its {entry.size:,} bytes have the checksum {crc:08x}"
        raise _error(source, entry.offset, f"{found}; the file is damaged", f"{entry.crc:08x}")


def _error(source: Source, place: int, found: str, expected: str | None = None) -> ModelFileError:
    wanted = f"; expected {expected}" if expected else ""
    return ModelFileError(f"byte {place:,}: {found}{wanted}", file=source.name)


def _expect(source: Source, place: int, what: str, found: int, *expected: int) -> None:
    if found not in expected:
        raise _error(
            source, place, f"{what} is {found:,}", " or ".join(f"{value:,}" for value in dict.fromkeys(expected))
        )


def _read_end(source: Source) -> tuple[int, int, int]:
    """Number of entries, and where the central directory begins and ends, from the records at the end of the file."""
    place = source.size - _END.size
    if place < 0:
        raise _error(source, 0, f"{source.size} bytes are no zip archive", f"at least {_END.size}")
    signature, *disks, here, count, size, start, comment = _END.unpack(source.read(place, _END.size))
    if signature != _END_SIGNATURE:
        is_zip = source.read(0, 4) in (_LOCAL_SIGNATURE, _END64_SIGNATURE, _END_SIGNATURE)
        what = "the zip archive is cut off, or something follows it" if is_zip else "this is no zip archive"
        raise _error(source, place, f"{what}: no end record here", "PK\\5\\6")
    _expect(source, place, "the length of the archive's comment", comment, 0)
    end = place
    locator = place - _LOCATOR.size
    if locator >= 0 and source.read(locator, 4) == _LOCATOR_SIGNATURE:
        short = (*disks, here, count, size, start)
        count, size, start, end = _read_end64(source, locator, short)
    else:
        for what, found, expected in (
            ("disk", disks[0], 0),
            ("first disk", disks[1], 0),
            ("count of entries", here, count),
        ):
            _expect(source, place, f"the {what}", found, expected)
    if start + size != end:
        raise _error(
            source, place, f"the central directory takes bytes {start:,} to {start + size:,}", f"it to end at {end:,}"
        )
    if count * _CENTRAL.size > size:
        raise _error(source, place, f"the central directory has {size:,} bytes for {count:,} entries")
    if count > settings.max_operators:
        raise ResourceLimitError(
            f"{source.name}: has {count:,} entries; settings.max_operators is {settings.max_operators:,}"
        )
    if size > 4 * settings.max_param_bytes:
        limit = f"four times settings.max_param_bytes={settings.max_param_bytes:,}"
        raise ResourceLimitError(f"{source.name}: its central directory has {size:,} bytes; the limit is {limit}")
    return count, start, end


def _read_end64(source: Source, locator: int, short: Sequence[int]) -> tuple[int, int, int, int]:
    """Number of entries, size and start of the central directory, and its end, from the zip64 records.

    `short` are the fields of the 32-bit record: each is the same, or says that the value is here.
    """
    place = locator - _END64.size
    _, disk, offset, disks = _LOCATOR.unpack(source.read(locator, _LOCATOR.size))
    _expect(source, locator, "the offset of the zip64 end record", offset, place)
    _expect(source, locator, "the disk of the zip64 end record", disk, 0)
    _expect(source, locator, "the number of disks", disks, 1)
    if place < 0:
        raise _error(source, locator, "no room for a zip64 end record before its locator")
    signature, rest, _, version, *long = _END64.unpack(source.read(place, _END64.size))
    if signature != _END64_SIGNATURE:
        raise _error(source, place, "no zip64 end record here", "PK\\6\\6")
    _expect(source, place, "the size of the zip64 end record", rest, _END64.size - 12)
    _check_version(source, place, version, "the archive")
    _expect(source, place, "the disk", long[0], 0)
    _expect(source, place, "the first disk", long[1], 0)
    _expect(source, place, "the count of entries", long[2], long[3])
    escapes = (*[_IN_EXTRA_16] * 4, *[_IN_EXTRA_32] * 2)
    for found, escape, expected in zip(short, escapes, long, strict=True):
        _expect(source, locator + _LOCATOR.size, "a field of the end record", found, escape, expected)
    _, _, _, count, size, start = long
    return count, size, start, place


def _read_central(source: Source, count: int, start: int, end: int) -> list[_Record]:
    directory = source.read(start, end - start)
    records, position = [], 0
    for number in range(1, count + 1):
        place, what = start + position, f"entry {number} of {count}"
        if position + _CENTRAL.size > len(directory):
            raise _error(source, place, f"the central directory ends before {what}")
        signature, _, version, flags, method, _, _, crc, packed, size, *rest = _CENTRAL.unpack_from(directory, position)
        name_length, extra_length, comment_length, disk, _, _, offset = rest
        if signature != _CENTRAL_SIGNATURE:
            raise _error(source, place, f"{what}: no header here", "PK\\1\\2")
        position += _CENTRAL.size
        name = directory[position : position + name_length]
        extra = directory[position + name_length : position + name_length + extra_length]
        position += name_length + extra_length + comment_length
        if position > len(directory):
            raise _error(
                source, place, f"{what}: its name, extra field and comment pass the end of the central directory"
            )
        what = f"entry '{_shown(name)}'"
        _check_storage(source, place, what, version, flags, method)
        fields = (
            (size, _IN_EXTRA_32, 8),
            (packed, _IN_EXTRA_32, 8),
            (offset, _IN_EXTRA_32, 8),
            (disk, _IN_EXTRA_16, 4),
        )
        size, packed, offset, disk = _resolve(source, place, what, extra, fields)
        _expect(source, place, f"{what}: the disk", disk, 0)
        _expect(source, place, f"{what}: the compressed size", packed, size)
        records.append(_Record(name, place, flags, crc, size, offset))
    if position != len(directory):
        raise _error(
            source, start + position, f"{len(directory) - position:,} bytes after the last of {count:,} entries"
        )
    return records


def _read_local(source: Source, record: _Record, limit: int) -> int:
    """Where the data of a record begins. Its local header has to say the same as the central directory."""
    place, what = record.header_offset, f"entry '{_shown(record.name)}'"
    if place + _LOCAL.size > limit:
        raise _error(
            source, record.place, f"{what}: its header at byte {place:,} passes the last entry's end at {limit:,}"
        )
    header = source.read(place, _LOCAL.size)
    signature, version, flags, method, _, _, crc, packed, size, name_length, extra_length = _LOCAL.unpack(header)
    if signature != _LOCAL_SIGNATURE:
        raise _error(source, place, f"{what}: no header here", "PK\\3\\4")
    _check_storage(source, place, what, version, flags, method)
    offset: int = place + _LOCAL.size + name_length + extra_length
    if offset + record.size > limit:
        raise _error(source, place, f"{what}: {record.size:,} bytes of data pass the last entry's end at {limit:,}")
    after = source.read(place + _LOCAL.size, name_length + extra_length)
    if after[:name_length] != record.name:
        raise _error(source, place, f"{what}: its own header calls it '{_shown(after[:name_length])}'")
    fields = ((size, _IN_EXTRA_32, 8), (packed, _IN_EXTRA_32, 8))
    size, packed = _resolve(source, place, what, after[name_length:], fields, surplus=(16, _EXTRA64.size - 4))
    pairs = (("flags", flags, record.flags), ("checksum", crc, record.crc), ("size", size, record.size))
    for field, found_value, expected in (*pairs, ("compressed size", packed, record.size)):
        _expect(source, place, f"{what}: the {field} in its own header", found_value, expected)
    return offset


def _check_version(source: Source, place: int, version: int, what: str) -> None:
    if version > _NEWEST_VERSION:
        raise _error(source, place, f"{what} needs version {version} of the zip format", f"at most {_NEWEST_VERSION}")


def _check_storage(source: Source, place: int, what: str, version: int, flags: int, method: int) -> None:
    _check_version(source, place, version, what)
    if flags & 0x2041:
        raise _error(source, place, f"{what} is encrypted (flags {flags:#06x})")
    if flags & 0x0008:
        raise _error(source, place, f"{what} has its sizes after its data (flags {flags:#06x})", "them in its header")
    if flags & ~_UTF8_FLAG:
        raise _error(source, place, f"{what} has the flags {flags:#06x}", "none")
    if method != 0:
        raise _error(source, place, f"{what} is compressed (method {method})", "stored data, method 0")


def _resolve(
    source: Source,
    place: int,
    what: str,
    extra: bytes,
    fields: Sequence[tuple[int, int, int]],
    surplus: tuple[int, ...] = (),
) -> list[int]:
    """The values of fields (value, escape, width), where an escape says that the value is in the zip64 record.

    The record has just these values, or is one of `surplus` bytes long: older converters write all four in local headers too,
    and Python's zipfile before 3.12 both sizes.
    """
    record: bytes | None = None
    position = 0
    while position < len(extra):
        identity, length = struct.unpack_from("<2H", extra, position) if position + 4 <= len(extra) else (0, len(extra))
        if position + 4 + length > len(extra):
            raise _error(source, place, f"{what}: an extra field passes the end of the extra fields")
        if identity == _EXTRA64_ID:
            if record is not None:
                raise _error(source, place, f"{what} has two zip64 records")
            record = extra[position + 4 : position + 4 + length]
        position += 4 + length
    escaped = [value == escape for value, escape, _ in fields]
    if record is None:
        if any(escaped):
            raise _error(source, place, f"{what} has no zip64 record, though its header refers to one")
        return [value for value, _, _ in fields]
    expected = sum(width for (_, _, width), is_escaped in zip(fields, escaped, strict=True) if is_escaped)
    _expect(source, place, f"{what}: the length of the zip64 record", len(record), expected, *surplus)
    values, position = [], 0
    for (value, _, width), is_escaped in zip(fields, escaped, strict=True):
        values.append(int.from_bytes(record[position : position + width], "little") if is_escaped else value)
        position += width if is_escaped else 0
    return values


def _shown(name: bytes) -> str:
    text = name.decode("utf-8", "backslashreplace")
    return text if len(text) <= 80 else f"{text[:77]}..."


def _decode_name(source: Source, record: _Record) -> str:
    try:
        name = record.name.decode()
    except UnicodeDecodeError as error:
        raise _error(
            source, record.place, f"the name {record.name[:60]!r} of an entry is not UTF-8: {error.reason}"
        ) from error
    if not name or _BAD_IN_NAME.search(name):
        raise _error(
            source, record.place, f"an entry is called {_shown(record.name)!r}", "'operator.weight', without blanks"
        )
    return name


# ------------------------------------------------------------------------------------------- writing


def write_archive(target: BinaryIO, entries: Iterable[tuple[str, memoryview]], *, zip64: bool = True) -> None:
    """Writes entries (name, data) in the converter's layout, byte for byte, or with `zip64=False` in the plain 32-bit one.

    Raises `InputError` for a name that is too long, and for what 32 bits cannot hold.
    """
    directory = bytearray()
    position = count = 0
    for name, data in entries:
        encoded, size, crc = name.encode(), data.nbytes, zlib.crc32(data)
        if len(encoded) > 0xFFFF:
            raise InputError(
                f"the weight '{name[:60]}…' has a name of {len(encoded):,} bytes; a zip archive holds 65,535"
            )
        if not zip64 and max(size, position) >= _IN_EXTRA_32:
            raise InputError(f"the weight '{name}' of {size:,} bytes at byte {position:,} needs a zip64 archive")
        shared = (0, 0, 0, 0, crc, *([_IN_EXTRA_32] * 2 if zip64 else (size, size)), len(encoded))
        local_extra = _EXTRA64.pack(_EXTRA64_ID, _EXTRA64.size - 4, size, size, 0, 0) if zip64 else b""
        extra = _EXTRA64.pack(_EXTRA64_ID, _EXTRA64.size - 4, size, size, position, 0) if zip64 else b""
        where = (_IN_EXTRA_16, 0, 0, _IN_EXTRA_32) if zip64 else (0, 0, 0, position)
        directory += _CENTRAL.pack(_CENTRAL_SIGNATURE, 0, 0, *shared, len(extra), 0, *where) + encoded + extra
        header = _LOCAL.pack(_LOCAL_SIGNATURE, 0, *shared, len(local_extra)) + encoded + local_extra
        target.write(header)
        target.write(data)
        position += len(header) + size
        count += 1
    target.write(directory)
    if zip64:
        end = position + len(directory)
        target.write(
            _END64.pack(_END64_SIGNATURE, _END64.size - 12, 0, 0, 0, 0, count, count, len(directory), position)
        )
        target.write(_LOCATOR.pack(_LOCATOR_SIGNATURE, 0, end, 1))
        target.write(_END.pack(_END_SIGNATURE, *[_IN_EXTRA_16] * 4, *[_IN_EXTRA_32] * 2, 0))
    elif count >= _IN_EXTRA_16 or position >= _IN_EXTRA_32:
        raise InputError(f"{count:,} weights in {position:,} bytes need a zip64 archive")
    else:
        target.write(_END.pack(_END_SIGNATURE, 0, 0, count, count, len(directory), position, 0))
