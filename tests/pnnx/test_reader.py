"""Reading a model: where its bytes come from, and how the weights find their operators."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kuiperinfer import pnnx
from kuiperinfer.errors import InputError, ModelFileError, ResourceLimitError
from kuiperinfer.pnnx import reader
from kuiperinfer.pnnx.source import FileSource
from kuiperinfer.settings import settings

from .models import INPUT, OUTPUT, RELU, around, small, text, weights_of
from .zips import Item, build

PARAM, BIN = pnnx.to_bytes(small())
WEIGHTS = weights_of(small())
NO_WEIGHTS = text(INPUT, RELU, OUTPUT)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "x.pnnx.bin").write_bytes(BIN)
    (tmp_path / "x.pnnx.param").write_bytes(PARAM)
    return tmp_path / "x.pnnx.param"


# ------------------------------------------------------------------------------------------- where bytes come from


def test_a_path_and_the_archive_beside_it(model: Path) -> None:
    for path in (model, str(model)):
        graph = pnnx.read(path)
        assert weights_of(graph) == WEIGHTS
        assert graph.file == str(model)


def test_names_of_files(tmp_path: Path) -> None:
    for param, bin in (("x.param", "x.bin"), ("x.y.pnnx.param", "x.y.pnnx.bin"), (".param", ".bin")):
        (tmp_path / param).write_bytes(PARAM)
        (tmp_path / bin).write_bytes(BIN)
        assert weights_of(pnnx.read(tmp_path / param)) == WEIGHTS


def test_two_paths(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "weights"
    (tmp_path / "x.pnnx.bin").rename(other)
    assert weights_of(pnnx.read(model, other)) == WEIGHTS


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, io.BytesIO])
def test_bytes_and_open_files(kind: Any) -> None:
    graph = pnnx.read(kind(PARAM), kind(BIN))
    assert weights_of(graph) == WEIGHTS
    assert graph.file is None


def test_open_files_of_the_disk(model: Path, tmp_path: Path) -> None:
    for mode, encoding in (("rb", None), ("r", "utf-8")):
        with open(model, mode, encoding=encoding) as param, open(tmp_path / "x.pnnx.bin", "rb", buffering=0) as bin:
            assert weights_of(pnnx.read(param, bin)) == WEIGHTS
    assert weights_of(pnnx.read(io.StringIO(PARAM.decode()), BIN)) == WEIGHTS


def test_errors_name_the_open_file(model: Path) -> None:
    model.write_text("nonsense")
    with open(model, "rb") as file, pytest.raises(ModelFileError, match=f"{model}:1:1: found 'nonsense'"):
        pnnx.read(file)


def test_a_file_opened_for_text_is_no_archive() -> None:
    with pytest.raises(ModelFileError, match=r"<bin>: byte .*: this is no zip archive"):
        pnnx.read(PARAM, io.StringIO("text" * 10))


def test_streams_that_fail() -> None:
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(ModelFileError, match="<param>: cannot be read: Input/output error"):
        pnnx.read(Broken())  # type: ignore[arg-type]
    closed = io.BytesIO()
    closed.close()
    with pytest.raises(ModelFileError, match="<param>: cannot be read: I/O operation on closed file"):
        pnnx.read(closed)
    with pytest.raises(ModelFileError, match="<param>: is not UTF-8 text"):
        pnnx.read(io.StringIO("\ud800"))


def test_an_endless_stream() -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return b"7767517 " * 128

    with settings(max_param_bytes=1 << 20), pytest.raises(ResourceLimitError, match="more than 1,048,576 bytes"):
        pnnx.read(Endless())  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [None, 3, ["x.param"]])
def test_what_is_neither_path_nor_file_nor_bytes(given: Any) -> None:
    with pytest.raises(InputError, match="param: expected a path, an open file or bytes, found"):
        pnnx.read(given)
    if given is not None:
        with pytest.raises(InputError, match="bin: expected a path, an open file or bytes, found"):
            pnnx.read(PARAM, given)


def test_without_weights(model: Path, tmp_path: Path) -> None:
    (tmp_path / "x.pnnx.bin").unlink()
    for given in (model, PARAM, io.BytesIO(PARAM)):
        graph = pnnx.read(given, weights=False)
        assert {name: data for name, (_, _, data) in weights_of(graph).items()} == dict.fromkeys(WEIGHTS)
        assert pnnx.to_text(graph).encode() == PARAM


def test_a_model_without_weights_needs_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "x.pnnx.param"
    path.write_text(NO_WEIGHTS)
    assert len(pnnx.read(path).operators) == 3
    assert len(pnnx.read(NO_WEIGHTS.encode()).operators) == 3
    assert len(pnnx.read(NO_WEIGHTS.encode(), build()).operators) == 3
    (tmp_path / "x.pnnx.bin").write_bytes(b"rubbish")
    with pytest.raises(ModelFileError, match=r"x\.pnnx\.bin: byte 0: 7 bytes are no zip archive"):
        pnnx.read(path)


# ------------------------------------------------------------------------------------------- paths that are no model


def refused(path: str | Path, message: str) -> None:
    begin = time.perf_counter()
    with pytest.raises(ModelFileError, match=message) as caught:
        pnnx.read(path)
    assert time.perf_counter() - begin < 2
    assert caught.value.file == str(path)


def test_no_such_file(tmp_path: Path) -> None:
    refused(tmp_path / "x.pnnx.param", "x.pnnx.param: no such file or folder")


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected one \.pnnx\.param file in this folder, found none"):
        pnnx.read(tmp_path)


def test_a_model_by_its_folder_and_without_its_ending(model: Path, tmp_path: Path) -> None:
    expected = pnnx.to_text(pnnx.read(model))
    assert model == tmp_path / "x.pnnx.param"
    for path in (tmp_path, str(tmp_path), tmp_path / "x"):
        graph = pnnx.read(path)
        assert pnnx.to_text(graph) == expected
        assert graph.file == str(model)
    with pytest.raises(ModelFileError, match=r"no such file or folder; did you mean 'x\.pnnx\.param'\?"):
        pnnx.read(tmp_path / "y.pnnx.param")
    (tmp_path / "z.pnnx.param").touch()
    with pytest.raises(InputError, match=r"found 2: x\.pnnx\.param, z\.pnnx\.param"):
        pnnx.read(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_fifo_without_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    refused(tmp_path / "fifo", "is not a regular file; expected a model file")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no device files here")
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device(device: str) -> None:
    refused(device, "is not a regular file; expected a model file")


def test_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    refused(tmp_path / "a", "cannot be opened: Too many levels of symbolic links")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may read everything")
def test_an_unreadable_file(model: Path) -> None:
    model.chmod(0)
    refused(model, "cannot be opened: Permission denied")


def test_a_path_with_a_nul() -> None:
    refused("a\0b.param", "no such file or folder")


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.param"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    begin = time.perf_counter()
    with pytest.raises(
        ResourceLimitError, match=r"more than 67,108,864 bytes, the limit that settings.max_param_bytes sets"
    ):
        pnnx.read(path)
    assert time.perf_counter() - begin < 1


@pytest.mark.parametrize("lost", [1, 200, len(BIN)])
def test_a_file_that_shrinks_while_it_is_read(model: Path, monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    open_file = FileSource.__init__

    def open_and_lose(self: FileSource, path: str) -> None:
        open_file(self, path)
        if path.endswith(".bin"):
            os.truncate(path, len(BIN) - lost)

    monkeypatch.setattr(FileSource, "__init__", open_and_lose)
    with pytest.raises(ModelFileError, match="was it changed while being read"):
        pnnx.read(model)


def test_read_errors_of_the_system(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: FileSource, offset: int, target: memoryview) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(FileSource, "_read_some", fail)
    with pytest.raises(ModelFileError, match="cannot be read at byte 0: Input/output error"):
        pnnx.read(model)


@pytest.mark.parametrize("preadv", [True, False])
@pytest.mark.parametrize("helper", ["two", "one", "no more"])
def test_archives_large_enough_for_two_threads(
    model: Path, monkeypatch: pytest.MonkeyPatch, helper: str, preadv: bool
) -> None:
    if not preadv:
        monkeypatch.delattr(os, "preadv", raising=False)
    if helper != "one":
        monkeypatch.setattr("kuiperinfer.pnnx.reader._LARGE", 1)
    if helper == "no more":

        def refuse(self: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refuse)
    assert weights_of(pnnx.read(model)) == WEIGHTS
    damaged = bytearray(BIN)
    damaged[BIN.index(bytes(np.array([1, -2], np.float32)))] ^= 1
    (model.parent / "x.pnnx.bin").write_bytes(damaged)
    with pytest.raises(ModelFileError, match="the file is damaged"):
        pnnx.read(model)


@pytest.mark.parametrize("kind", [MemoryError, IndexError, KeyboardInterrupt])
def test_no_weight_stays_unread_in_silence(
    model: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    read_entry, lock = reader.read_entry, threading.Lock()

    def fail_in_the_helper(*arguments: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            lock.release()
            raise kind("here")
        lock.acquire()  # until the helper has begun
        read_entry(*arguments)

    lock.acquire()
    monkeypatch.setattr(reader, "_LARGE", 1)
    monkeypatch.setattr(reader, "read_entry", fail_in_the_helper)
    with pytest.raises(kind, match="here"):
        pnnx.read(model)


def test_no_file_stays_open(model: Path) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no list of open files here")
    before = len(os.listdir("/proc/self/fd"))
    pnnx.read(model)
    (model.parent / "x.pnnx.bin").write_bytes(BIN[:-1])
    with pytest.raises(ModelFileError):
        pnnx.read(model)
    assert len(os.listdir("/proc/self/fd")) == before


# ------------------------------------------------------------------------------------------- weights


def test_weights_are_aligned_read_only_and_of_their_dtype() -> None:
    graph = pnnx.read(PARAM, BIN)
    assert BIN.index(bytes(np.array([1, -2], np.float32))) % 4, "the archive has them at any offset"
    for operator in graph.operators:
        for attribute in operator.attributes.values():
            data = attribute.data
            assert data is not None and attribute.dtype is not None
            assert data.dtype == attribute.dtype.storage
            assert data.shape == attribute.shape
            assert data.ctypes.data % 64 == 0
            assert data.flags.c_contiguous and not data.flags.writeable
            with pytest.raises(ValueError, match="cannot set WRITEABLE"):
                data.flags.writeable = True


def test_both_layouts_of_the_archive() -> None:
    items = [Item(name.encode(), data) for name, (_, _, data) in WEIGHTS.items() if data is not None]
    for zip64 in (True, False):
        assert weights_of(pnnx.read(PARAM, build(*items, zip64=zip64))) == WEIGHTS


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ("()f32", np.float32(2).tobytes()),
        ("(1)f32", np.float32(2).tobytes()),
        ("(0)f32", b""),
        ("(2,0,3)i64", b""),
        ("(0,2147483647)c128", b""),
        ("(2)bf16", b"\x80?\0@"),
        ("(1)c32", b"\0<\0@"),
        ("(3)bool", b"\1\0\1"),
    ],
)
def test_shapes_and_dtypes(shape: str, data: bytes) -> None:
    param = around(f"{RELU} @w={shape}").encode()
    archive = build(Item(b"F.relu_0.w", data))
    attribute = pnnx.read(param, archive).operators[1].attributes["w"]
    assert attribute.data is not None
    assert attribute.data.tobytes() == data
    assert attribute.data.shape == attribute.shape
    assert pnnx.to_bytes(pnnx.read(param, archive)) == (param, archive)


def test_weights_of_unknown_dtype_have_no_data() -> None:
    param = around(f"{RELU} @w=(2,3)null").encode()
    for archive in (build(Item(b"F.relu_0.w")), build(), None):
        attribute = pnnx.read(param, archive).operators[1].attributes["w"]
        assert (attribute.dtype, attribute.shape, attribute.data) == (None, (2, 3), None)
    assert pnnx.to_bytes(pnnx.read(param)) == (param, build(Item(b"F.relu_0.w")))
    with pytest.raises(ModelFileError, match=r"has 4 bytes; expected 0, for \(2,3\)null in <param>:4"):
        pnnx.read(param, build(Item(b"F.relu_0.w", b"1234")))


PAIR = around(f"{RELU} @b=(2)f32 @w=(2,3)f32").encode()
B, W = Item(b"F.relu_0.b", bytes(8)), Item(b"F.relu_0.w", bytes(24))


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([B], r"does not fit <param>: 1 weights are missing: 'F.relu_0.w' \(the first of line 4\)"),
        ([], r"2 weights are missing: 'F.relu_0.b', 'F.relu_0.w' \(the first of line 4\)"),
        ([B, W, Item(b"../../etc/passwd", b"x")], "1 entries belong to no operator: '../../etc/passwd'"),
        (
            [B, W, *(Item(b"x.%d" % i) for i in range(9))],
            "9 entries belong to no operator: 'x.0', .*, 'x.4' and 4 more",
        ),
        (
            [Item(b"other.b", bytes(8))],
            "2 weights are missing: .*; 1 entries belong to no operator: 'other.b'; are these the weights of another model?",
        ),
        (
            [B, Item(b"F.relu_0.w", bytes(23))],
            r"byte .*: entry 'F.relu_0.w' has 23 bytes; expected 24, for \(2,3\)f32 in <param>:4",
        ),
        ([B, Item(b"F.relu_0.w", bytes(25))], "has 25 bytes; expected 24"),
        ([B, Item(b"F.relu_0.w", b"")], "has 0 bytes; expected 24"),
    ],
)
def test_files_that_do_not_fit(items: list[Item], message: str) -> None:
    with pytest.raises(ModelFileError, match=message) as caught:
        pnnx.read(PAIR, build(*items))
    assert caught.value.file == "<bin>"


@pytest.mark.parametrize("byte", [2, 255])
def test_bools_are_0_or_1(byte: int) -> None:
    with pytest.raises(ModelFileError, match=r"entry 'F.relu_0.w' of dtype bool has bytes other than 0 and 1"):
        pnnx.read(around(f"{RELU} @w=(3)bool").encode(), build(Item(b"F.relu_0.w", bytes([1, byte, 0]))))


def test_the_archive_is_missing(model: Path, tmp_path: Path) -> None:
    (tmp_path / "x.pnnx.bin").unlink()
    with pytest.raises(
        ModelFileError, match=r"no such file, but .* needs it for 4 weights, the first of operator 'fc' in line 4"
    ):
        pnnx.read(model)
    with pytest.raises(InputError, match=r"<param> has 4 weights, .*; pass the archive as bin="):
        pnnx.read(PARAM)
    other = model.rename(tmp_path / "x.txt")
    with pytest.raises(InputError, match="pass the archive as bin="):
        pnnx.read(other)
    assert weights_of(pnnx.read(other, BIN)) == WEIGHTS


def test_only_the_archive_is_given(model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"these are a model's weights; give .*x\.pnnx\.param"):
        pnnx.read(tmp_path / "x.pnnx.bin")
    archive = (tmp_path / "x.pnnx.bin").read_bytes()
    with pytest.raises(ModelFileError, match=r"this is a zip archive, perhaps the .bin; expected the text of a model"):
        pnnx.read(archive)
    with pytest.raises(ModelFileError, match="this is no zip archive"):
        pnnx.read(model, model)


def test_memory_is_limited_before_it_is_taken(tmp_path: Path) -> None:
    param = around(f"{RELU} @b=(3)u8 @w=(3)u8").encode()
    archive = build(Item(b"F.relu_0.b", bytes(3)), Item(b"F.relu_0.w", bytes(3)))
    (tmp_path / "x.bin").write_bytes(archive)
    for given in (archive, tmp_path / "x.bin"):
        with (
            settings(max_memory=100),
            pytest.raises(ResourceLimitError, match=r"has more than 100 bytes, .* settings.max_memory"),
        ):
            pnnx.read(param, given)


def test_a_machine_of_the_other_byte_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "byteorder", "big")
    with pytest.raises(InputError, match="little-endian"):
        pnnx.read(PARAM, BIN)
