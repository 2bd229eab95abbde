"""The archive of weights: both layouts, and everything that a stranger may put into one."""

from __future__ import annotations

import io
import os
import shutil
import struct
import time
import zipfile
import zlib
from pathlib import Path

import pytest

from kuiperinfer.errors import InputError, ModelFileError, ResourceLimitError
from kuiperinfer.pnnx.archive import Entry, read_directory, read_entry, write_archive
from kuiperinfer.pnnx.source import FileSource, MemorySource
from kuiperinfer.settings import settings

from .zips import ESCAPE, Item, build, extra64

A, B = Item(b"fc.bias", b"12345678"), Item(b"fc.weight", bytes(range(24)))
CONTENT = {"fc.bias": A.data, "fc.weight": B.data}


def load(archive: bytes) -> dict[str, bytes]:
    source = MemorySource(archive, "model.pnnx.bin")
    found = {}
    for name, entry in read_directory(source).items():
        target = bytearray(entry.size)
        read_entry(source, entry, memoryview(target))
        found[name] = bytes(target)
    return found


def written(entries: dict[str, bytes], *, zip64: bool = True) -> bytes:
    target = io.BytesIO()
    write_archive(target, ((name, memoryview(data)) for name, data in entries.items()), zip64=zip64)
    return target.getvalue()


# ------------------------------------------------------------------------------------------- what is read and written


@pytest.mark.parametrize("zip64", [True, False])
def test_both_layouts(zip64: bool) -> None:
    archive = build(A, B, zip64=zip64)
    assert written(CONTENT, zip64=zip64) == archive
    assert load(archive) == CONTENT
    with zipfile.ZipFile(io.BytesIO(archive)) as other:
        assert {name: other.read(name) for name in other.namelist()} == CONTENT


@pytest.mark.parametrize(("zip64", "size"), [(True, 98), (False, 22)])
def test_an_archive_without_entries(zip64: bool, size: int) -> None:
    archive = written({}, zip64=zip64)
    assert len(archive) == size
    assert load(archive) == {}


@pytest.mark.parametrize("force", [True, False])
def test_archives_of_another_writer(force: bool) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as other:
        for name, data in (CONTENT | {"naïve.weight": b"", "a/b:c.data": b"x"}).items():
            with other.open(name, "w", force_zip64=force) as entry:
                entry.write(data)
    assert load(target.getvalue()) == CONTENT | {"naïve.weight": b"", "a/b:c.data": b"x"}


def test_sizes_that_a_local_header_has_twice() -> None:
    """Python before 3.12 writes them so where zip64 is forced."""
    size = len(A.data)
    for local in (struct.pack("<HHQQ", 1, 16, size, size), extra64(size, size)):
        assert load(build(Item(A.name, A.data, {"extra": local}), zip64=False)) == {"fc.bias": A.data}


def test_newer_converters_name_the_version_that_they_need() -> None:
    newer = {"version": 45}
    archive = build(Item(A.name, A.data, newer, newer), end64=newer, end={"disk": 0, "first": 0})
    assert load(archive) == {"fc.bias": A.data}


@pytest.mark.parametrize("other", [struct.pack("<HH4s", 0x5455, 4, b"time"), struct.pack("<HH", 0xCAFE, 0)])
def test_other_extra_fields_are_skipped(other: bytes) -> None:
    size = len(A.data)
    local, central = extra64(size, size), extra64(size, size, 0)
    for extra in ((other + local, other + central), (local + other, central + other)):
        assert load(build(Item(A.name, A.data, {"extra": extra[0]}, {"extra": extra[1]}), B)) == CONTENT


def test_entries_stand_in_the_order_of_their_data_whatever_the_directory_says() -> None:
    archive = build(A, B)
    size = 46 + 32
    start = archive.index(b"PK\x01\x02")
    first, second = start + size + len(A.name), start + 2 * size + len(A.name) + len(B.name)
    swapped = archive[:start] + archive[first:second] + archive[start:first] + archive[second:]
    assert list(load(swapped)) == ["fc.bias", "fc.weight"]


def test_entry_comments_are_skipped() -> None:
    assert load(build(Item(A.name, A.data, central={"comment": b"hello"}), B)) == CONTENT


def test_more_than_65535_entries() -> None:
    many = {f"op{number}.w": b"" for number in range(70_000)}
    begin = time.process_time()
    assert load(written(many)) == many
    assert time.process_time() - begin < 10
    with pytest.raises(InputError, match=r"70,000 weights in .* bytes need a zip64 archive"):
        written(many, zip64=False)


def test_a_name_as_long_as_can_be() -> None:
    longest = "n" * 65_535
    assert load(written({longest: b"x"})) == {longest: b"x"}
    with pytest.raises(InputError, match="has a name of 65,536 bytes; a zip archive holds 65,535"):
        written({longest + "n": b"x"})


# ------------------------------------------------------------------------------------------- what is refused

BIG = 2**64 - 1


def sized(size: int, packed: int | None = None, offset: int = 0) -> Item:
    """An entry of 8 bytes whose zip64 records say something else."""
    packed = size if packed is None else packed
    return Item(A.name, A.data, {"extra": extra64(size, packed)}, {"extra": extra64(size, packed, offset)})


def both(**fields: object) -> Item:
    return Item(A.name, A.data, dict(fields), dict(fields))


REFUSED = {
    # no archive, or more than one
    "empty": (b"", "byte 0: 0 bytes are no zip archive; expected at least 22"),
    "not a zip": (b"\x80\x02}q\x00." * 20, "this is no zip archive: no end record here"),
    "text": (b"7767517\n4 3\n" * 9, "this is no zip archive"),
    "leading byte": (b"x" + build(A, B), "the offset of the zip64 end record is"),
    "leading byte, consistent": (build(A, B, before=b"x"), "entry 'fc.bias' at byte 1 leaves bytes unused before it"),
    "leading byte, 32 bits": (b"x" + build(A, zip64=False), "the central directory takes bytes"),
    "trailing byte": (build(A, after=b"\0"), "the zip archive is cut off, or something follows it"),
    "archive comment": (build(A, end={"comment": 5}, after=b"hello"), "cut off, or something follows it"),
    "comment without its text": (build(A, end={"comment": 5}), "the length of the archive's comment is 5; expected 0"),
    "two archives": (build(A) + build(B), "the offset of the zip64 end record is"),
    "two archives, 32 bits": (build(A, zip64=False) + build(B, zip64=False), "the central directory takes bytes"),
    # compressed, encrypted, split
    "deflate": (build(both(method=8)), "entry 'fc.bias' is compressed .method 8.; expected stored data, method 0"),
    "bzip2": (build(both(method=12)), "compressed .method 12."),
    "lzma": (build(both(method=14)), "compressed .method 14."),
    "encrypted": (build(both(flags=1)), "entry 'fc.bias' is encrypted .flags 0x0001."),
    "strongly encrypted": (build(both(flags=0x41)), "is encrypted"),
    "data descriptor": (build(both(flags=8)), "has its sizes after its data"),
    "patch data": (build(both(flags=32)), "has the flags 0x0020; expected none"),
    "version": (build(both(version=46)), "entry 'fc.bias' needs version 46 of the zip format; expected at most 45"),
    "version of the archive": (build(A, end64={"version": 62}), "the archive needs version 62"),
    "second disk": (build(A, end64={"disk": 1}), "the disk is 1; expected 0"),
    "first disk": (build(A, end64={"first": 1}), "the first disk is 1; expected 0"),
    "second disk, 32 bits": (build(A, zip64=False, end={"disk": 1}), "the disk is 1; expected 0"),
    "disks": (build(A, locator={"disks": 2}), "the number of disks is 2; expected 1"),
    "disk of the record": (build(A, locator={"disk": 1}), "the disk of the zip64 end record is 1"),
    "entry on another disk": (
        build(Item(A.name, A.data, central={"extra": extra64(8, 8, 0, 7)})),
        "fc.bias': the disk is 7",
    ),
    "entry on disk 3": (
        build(Item(A.name, A.data, central={"disk": 3, "extra": struct.pack("<HHQQQ", 1, 24, 8, 8, 0)})),
        "entry 'fc.bias': the disk is 3; expected 0",
    ),
    "entry on another disk, 32 bits": (build(Item(A.name, A.data, central={"disk": 3}), zip64=False), "the disk is 3"),
    # names
    "duplicate": (build(A, B, Item(A.name, b"other")), "entry 'fc.bias' is there twice"),
    "no name": (build(Item(b"", b"x")), "an entry is called ''; expected 'operator.weight', without blanks"),
    "NUL": (build(Item(b"fc.\0bias", b"x")), "an entry is called"),
    "blank": (build(Item(b"fc .bias", b"x")), "an entry is called 'fc .bias'"),
    "newline": (build(Item(b"fc.bias\n", b"x")), "an entry is called"),
    "not UTF-8": (build(Item(b"fc.\xff", b"x")), "the name .* of an entry is not UTF-8"),
    "long and bad": (build(Item(b"\n" * 65_535, b"x")), "an entry is called"),
    # overlaps and gaps
    "gap": (build(A, Item(B.name, B.data, gap=b"1234")), "entry 'fc.weight' at byte .* leaves bytes unused before it"),
    "gap before the directory": (
        build(A, directory_gap=b"1234"),
        "4 bytes before the central directory belong to no entry",
    ),
    "same data twice": (
        build(A, Item(B.name, B.data, central={"extra": extra64(24, 24, 0)})),
        "overlaps what stands before it",
    ),
    "overlap with the next": (build(sized(20), B), "entry 'fc.weight' at byte .* overlaps what stands before it"),
    "overlap with the directory": (build(sized(9)), "9 bytes of data pass the last entry's end at 77"),
    "unlisted entry": (build(A, B, end64={"count": 1, "here": 1}), "bytes after the last of 1 entries"),
    # the two headers disagree
    "local name": (build(Item(A.name, A.data, {"name": b"fc.bios"})), "its own header calls it 'fc.bios'"),
    "local name's length": (build(Item(A.name, A.data, {"name": b"fc.b"})), "entry 'fc.bias'"),
    "local size": (
        build(Item(A.name, A.data, {"extra": extra64(7, 7)})),
        "the size in its own header is 7; expected 8",
    ),
    "local compressed size": (
        build(Item(A.name, A.data, {"extra": extra64(8, 7)})),
        "the compressed size in its own header",
    ),
    "local method": (build(Item(A.name, A.data, {"method": 8})), "is compressed"),
    "local crc": (build(Item(A.name, A.data, {"crc": 1})), "the checksum in its own header is 1"),
    "local flags": (build(Item(A.name, A.data, {"flags": 0x800})), "the flags in its own header is 2,048; expected 0"),
    "compressed size": (build(sized(8, 7)), "the compressed size is 7; expected 8"),
    # zip64 records
    "no local record": (
        build(Item(A.name, A.data, {"extra": b""})),
        "has no zip64 record, though its header refers to one",
    ),
    "no central record": (build(Item(A.name, A.data, central={"extra": b""})), "has no zip64 record"),
    "short record": (
        build(Item(A.name, A.data, central={"extra": struct.pack("<HHQQ", 1, 16, 8, 8)})),
        "the length of the zip64 record is 16; expected 28",
    ),
    "short local record": (
        build(Item(A.name, A.data, {"extra": struct.pack("<HHQ", 1, 8, 8)})),
        "the length of the zip64 record is 8; expected 16 or 28",
    ),
    "record cut off": (
        build(Item(A.name, A.data, central={"extra": extra64(8, 8)[:-1]})),
        "an extra field passes the end",
    ),
    "half an extra field": (
        build(Item(A.name, A.data, {"extra": extra64(8, 8) + b"ab"})),
        "an extra field passes the end",
    ),
    "two records": (build(Item(A.name, A.data, central={"extra": extra64(8, 8) * 2})), "has two zip64 records"),
    "record that nobody refers to": (
        build(Item(A.name, A.data, central={"extra": extra64(8, 8)}), zip64=False),
        "the length of the zip64 record is 28; expected 0",
    ),
    "escapes without zip64": (build(both(size=ESCAPE, packed=ESCAPE), zip64=False), "has no zip64 record"),
    "looping extra field": (
        build(Item(A.name, A.data, {"extra": b"\xfe\xca\xfc\xff" + extra64(8, 8)})),
        "passes the end",
    ),
    # sizes and offsets out of range
    "2^32-1": (build(sized(2**32 - 1)), "4,294,967,295 bytes of data pass"),
    "2^32": (build(sized(2**32)), "4,294,967,296 bytes of data pass"),
    "2^63": (build(sized(2**63)), "bytes of data pass"),
    "2^64-1": (build(sized(BIG)), "bytes of data pass"),
    "offset": (build(sized(8, offset=BIG)), "leaves bytes unused before it; expected byte 0"),
    "offset in the directory": (
        build(A, Item(B.name, B.data, central={"extra": extra64(24, 24, 200)})),
        "unused before it",
    ),
    "start of the directory": (build(A, end64={"start": BIG}), "the central directory takes bytes"),
    "size of the directory": (build(A, end64={"size": BIG}), "the central directory takes bytes"),
    "count": (build(A, end64={"count": BIG, "here": BIG}), "has 85 bytes for 18,446,744,073,709,551,615 entries"),
    "counts differ": (build(A, end64={"here": 2}), "the count of entries is 2; expected 1"),
    "counts differ, 32 bits": (build(A, zip64=False, end={"here": 2}), "the count of entries is 2; expected 1"),
    "count too high": (build(A, zip64=False, end={"here": 2, "count": 2}), "has 53 bytes for 2 entries"),
    "end record disagrees": (build(A, end={"count": 2}), "a field of the end record is 2; expected 65,535 or 1"),
    "record's size": (build(A, end64={"rest": 45}), "the size of the zip64 end record is 45; expected 44"),
    "record's offset": (build(A, locator={"offset": BIG}), "the offset of the zip64 end record is"),
    "name passes the end": (build(A)[:-98][:-1] + build(A)[-98:], "the offset of the zip64 end record is"),
    "directory without headers": (build(A).replace(b"PK\x01\x02", b"PK\x01\x03"), "entry 1 of 1: no header here"),
    "no local header": (build(A).replace(b"PK\x03\x04", b"PK\x03\x05"), "entry 'fc.bias': no header here"),
    "no zip64 end record": (build(A).replace(b"PK\x06\x06", b"PK\x06\x05"), "no zip64 end record here"),
    "nothing but the locator": (build()[56:], "the offset of the zip64 end record is 0; expected -56"),
    # checksums
    "crc of zero": (
        build(both(crc=0)),
        r"entry 'fc.bias': its 8 bytes have the checksum 9ae0daaf; the file is damaged; expected 00000000",
    ),
    "wrong crc": (build(both(crc=0xDEADBEEF)), "expected deadbeef"),
    "crc of an empty entry": (
        build(Item(b"a.b", b"", {"crc": 1}, {"crc": 1})),
        "its 0 bytes have the checksum 00000000",
    ),
    "damaged data": (build(A).replace(b"12345678", b"12345679"), "the file is damaged"),
}


@pytest.mark.parametrize(("archive", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(archive: bytes, message: str) -> None:
    with pytest.raises(ModelFileError, match=message) as caught:
        load(archive)
    assert caught.value.file == "model.pnnx.bin"
    assert str(caught.value).startswith("model.pnnx.bin: byte ")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("entry", ["../../etc/passwd", "/etc/passwd", "folder/", "C:\\boot.ini", "..", "archive.zip"])
def test_names_are_names_and_never_paths(entry: str) -> None:
    """They may be an operator's, for all the archive knows, and are refused where no operator has them (see test_reader)."""
    assert load(written({entry: b"x"})) == {entry: b"x"}


def test_a_bomb_of_overlapping_entries_is_refused_at_once() -> None:
    count = 20_000
    one = Item(b"a.w", bytes(1 << 20))
    start, record = len(build(one)) - 98 - 81, build(one)[-98 - 81 : -98]
    truth = {"count": count, "here": count, "size": len(record) * count, "start": start}
    end = build(end64=truth, locator={"offset": start + len(record) * count})
    begin = time.process_time()
    with pytest.raises(
        ModelFileError, match=r"entry 'a.w' at byte 0 overlaps what stands before it; expected byte 1,048,641"
    ):
        load(build(one)[:start] + record * count + end)
    assert time.process_time() - begin < 2


def test_limits() -> None:
    archive = written({f"op{number}.w": b"" for number in range(11)})
    with (
        settings(max_operators=10),
        pytest.raises(ResourceLimitError, match=r"has 11 entries; settings.max_operators is 10"),
    ):
        load(archive)
    with (
        settings(max_param_bytes=200),
        pytest.raises(ResourceLimitError, match=r"four times settings.max_param_bytes=200"),
    ):
        load(archive)


@pytest.mark.parametrize("size", [2**32 - 1, 2**32])
def test_what_32_bits_cannot_hold_is_not_written(size: int) -> None:
    class Huge(bytes):
        nbytes = size

    with pytest.raises(InputError, match="needs a zip64 archive"):
        write_archive(io.BytesIO(), [("a.b", Huge(b"x"))], zip64=False)  # type: ignore[list-item]


def test_an_archive_of_more_than_4_gib(tmp_path: Path) -> None:
    """Its first entry is a hole in the file, so that it takes no room; only the second one's data is read."""
    if shutil.disk_usage(tmp_path).free < 1 << 30:
        pytest.skip("less than 1 GiB of disk is free")
    hole, path = 5 << 30, tmp_path / "sparse.pnnx.bin"
    first = extra64(hole, hole)
    header = build(Item(b"big.w", b"", {"extra": first}))[: 30 + 5 + 32]
    begin = len(header) + hole
    second = build(Item(b"small.w", b"12345678"))
    second_local = second[: 30 + 7 + 32 + 8]
    directory = build(Item(b"big.w", b"", central={"extra": first}))[67:-98]
    directory += build(Item(b"small.w", b"12345678", central={"extra": extra64(8, 8, begin)}))[len(second_local) : -98]
    start = begin + len(second_local)
    truth = {"count": 2, "here": 2, "size": len(directory), "start": start}
    end = build(end64=truth, locator={"offset": start + len(directory)})
    with path.open("wb") as file:
        file.write(header)
        file.seek(begin)
        file.write(second_local + directory + end)
    if os.stat(path).st_blocks * 512 > 1 << 30:
        pytest.skip("this file system has no sparse files")
    source = FileSource(str(path))
    try:
        entries = read_directory(source)
        assert entries["big.w"] == Entry("big.w", 67, hole, 0)
        assert entries["small.w"] == Entry("small.w", begin + 69, 8, zlib.crc32(b"12345678"))
        target = bytearray(8)
        read_entry(source, entries["small.w"], memoryview(target))
        assert target == b"12345678"
    finally:
        source.close()
