"""Storage: blocks, offsets and versions."""

from __future__ import annotations

import numpy as np
import pytest

from kuiperinfer import memory
from kuiperinfer.errors import ResourceLimitError
from kuiperinfer.memory import Storage


def test_new_storage_is_aligned_and_unwritten() -> None:
    storage = Storage(100)
    assert storage.nbytes == 100 and storage.offset == 0 and storage.version == 0
    assert storage.address % 64 == 0
    assert not storage.block.exposed
    assert repr(storage) == "Storage(nbytes=100, offset=0, version=0)"


def test_storages_over_one_block_share_bytes_and_version() -> None:
    base = Storage(100)
    part = base.at(24)
    inner = part.at(8)
    assert (inner.offset, inner.nbytes, inner.address) == (32, 68, base.address + 32)
    assert part.shares_with(inner) and not base.shares_with(Storage(100))
    part.begin_write()
    assert base.version == inner.version == 1
    base.block.data[32:] = 5
    assert (inner.block.data[inner.offset :] == 5).all()
    assert inner.version == 1, "reading and writing bytes is nobody's business but the tensor's"


def test_who_has_to_read_the_old_bytes_is_asked_before_they_change() -> None:
    seen = []

    class Reader:
        def evaluate(self) -> None:
            seen.append(int(storage.block.data[0]))

    storage = Storage(8)
    storage.block.data[...] = 1
    storage.block.readers = Reader()
    storage.at(4).begin_write()
    storage.block.data[...] = 2
    assert seen == [1] and storage.version == 1


def test_a_storage_may_be_empty_and_end_at_the_end() -> None:
    assert Storage(0).nbytes == 0
    assert Storage(16).at(16).nbytes == 0
    with pytest.raises(ResourceLimitError, match="byte 17 lies outside of a block of 16 bytes"):
        Storage(16).at(17)
    with pytest.raises(ResourceLimitError, match="byte -1 lies outside"):
        Storage(16).at(-1)


def test_a_storage_over_an_array_is_exposed_to_its_owner() -> None:
    data = np.zeros(16, np.uint8)
    storage = Storage.over(data)
    assert storage.block.exposed and storage.address == data.ctypes.data
    data[3] = 7
    assert storage.block.data[3] == 7


def test_the_block_goes_with_its_last_storage() -> None:
    with memory.no_leaks():
        base = Storage(1000)
        part = base.at(10)
        del base
        live = memory.statistics().live_bytes
        del part
        assert memory.statistics().live_bytes == live - 1000
