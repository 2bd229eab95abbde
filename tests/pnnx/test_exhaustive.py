"""Small files, cut off at every byte and with every byte changed: an error, or what can still be vouched for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kuiperinfer import pnnx
from kuiperinfer.errors import KuiperError, ModelFileError
from kuiperinfer.pnnx import Graph

from .models import small, weights_of
from .zips import Item, build

PARAM, BIN = pnnx.to_bytes(small())
WEIGHTS = weights_of(small())
BIN32 = build(*(Item(name.encode(), data) for name, (_, _, data) in WEIGHTS.items() if data is not None), zip64=False)


def changed(content: bytes) -> Iterator[bytes]:
    """The content with one byte changed: each bit of it, all of them, and to the byte that is next to it."""
    for place, byte in enumerate(content):
        others = {byte ^ (1 << bit) for bit in range(8)} | {byte ^ 0xFF, (byte + 1) % 256, (byte - 1) % 256}
        for other in others:
            yield content[:place] + bytes([other]) + content[place + 1 :]


def check_text(graph: Graph, content: bytes) -> None:
    """The graph says what the text says, word for word; only annotations may be repeated where the text lacks them."""
    lines = [line.split(b" ") for line in content.replace(b"\r", b" ").replace(b"\t", b" ").rstrip().split(b"\n")]
    again = [line.split(b" ") for line in pnnx.to_text(graph).encode().rstrip().split(b"\n")]
    assert len(lines) == len(again)
    for given, found in zip(lines[2:], again[2:], strict=True):
        words, own = sorted(word for word in given if word), sorted(word for word in found if word)
        assert set(words) <= set(own)
        assert {word for word in own if not word.startswith(b"#")} <= set(words)


@pytest.mark.parametrize("archive", [BIN, BIN32], ids=["zip64", "32 bits"])
def test_every_prefix_of_the_archive_is_refused(archive: bytes) -> None:
    assert weights_of(pnnx.read(PARAM, archive)) == WEIGHTS
    for length in range(len(archive)):
        with pytest.raises(ModelFileError):
            pnnx.read(PARAM, archive[:length])


@pytest.mark.parametrize("archive", [BIN, BIN32], ids=["zip64", "32 bits"])
def test_a_changed_byte_of_the_archive_is_refused_or_means_nothing(archive: bytes) -> None:
    harmless = 0
    for damaged in changed(archive):
        try:
            graph = pnnx.read(PARAM, damaged)
        except ModelFileError:
            continue
        assert weights_of(graph) == WEIGHTS
        harmless += 1
    assert harmless, "timestamps and versions, for example, mean nothing"


@pytest.mark.parametrize("archive", [BIN, BIN32], ids=["zip64", "32 bits"])
def test_an_inserted_or_lost_byte_of_the_archive_is_refused(archive: bytes) -> None:
    for place in range(len(archive) + 1):
        with pytest.raises(ModelFileError):
            pnnx.read(PARAM, archive[:place] + b"\0" + archive[place:])
    for place in range(len(archive)):
        with pytest.raises(ModelFileError):
            pnnx.read(PARAM, archive[:place] + archive[place + 1 :])


def test_every_prefix_of_the_text() -> None:
    read = 0
    for length in range(len(PARAM)):
        try:
            graph = pnnx.read(PARAM[:length], BIN)
        except KuiperError:
            continue
        check_text(graph, PARAM[:length])
        assert weights_of(graph) == WEIGHTS
        read += 1
    assert read == 1, "only the newline at the end may be lost"


def test_a_changed_byte_of_the_text() -> None:
    outcomes = {"read": 0, "refused": 0}
    for damaged in changed(PARAM):
        try:
            graph = pnnx.read(damaged, weights=False)
        except KuiperError:
            outcomes["refused"] += 1
            continue
        check_text(graph, damaged)
        outcomes["read"] += 1
        try:
            found = weights_of(pnnx.read(damaged, BIN))
        except ModelFileError:
            continue
        # The name of a dtype of the same size, or the grouping of dimensions, cannot be checked against the bytes.
        assert {name: data for name, (_, _, data) in found.items()} == {
            name: data for name, (_, _, data) in WEIGHTS.items()
        }
    assert min(outcomes.values()) > 500
