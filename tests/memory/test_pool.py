"""Arrays of a pool are aligned, and share nothing."""

from __future__ import annotations

import gc

import numpy as np

from kuiperinfer.dtypes import Array
from kuiperinfer.memory.pool import _CHUNK, Pool


def test_arrays_are_aligned_and_apart() -> None:
    pool, generator = Pool(), np.random.default_rng(0)
    arrays = [pool.take((int(size),), np.float32) for size in generator.integers(0, 5000, 300)]
    arrays += [pool.take((3, 5), np.float64), pool.take((), np.int8), pool.take((_CHUNK,), np.uint8)]
    for number, array in enumerate(arrays):
        assert array.ctypes.data % 64 == 0 and array.flags.c_contiguous
        array[...] = number % 100
    for number, array in enumerate(arrays):
        assert (array == number % 100).all()


def test_memory_lives_as_long_as_its_arrays() -> None:
    pool = Pool()
    array = pool.take((10,), np.float32)
    array[:] = 7
    del pool
    gc.collect()
    others = [np.zeros(_CHUNK, np.uint8) for _ in range(3)]
    assert (array == 7).all() and not any(np.shares_memory(array, other) for other in others)


def test_places_of_arrays_that_are_gone_are_used_again() -> None:
    pool = Pool()
    arrays = [pool.take((1000,), np.float32) for _ in range(8)]
    places = [array.ctypes.data for array in arrays]
    del arrays[2:5]
    assert pool.take((2500,), np.float32).ctypes.data == places[2]  # three places in a row are one
    again = [pool.take((1000,), np.float32) for _ in range(3)]
    assert [array.ctypes.data for array in again] == places[2:5]
    assert pool.take((1000,), np.float32).ctypes.data > places[-1]


def test_a_view_keeps_the_place_of_its_array() -> None:
    pool = Pool()
    array = pool.take((64, 64), np.float32)
    array[...] = 7
    view = array.reshape(-1).view(np.uint8)[5:100]
    address, bits = array.ctypes.data, view.copy()
    del array
    other = pool.take((64, 64), np.float32)
    other[...] = 8
    assert other.ctypes.data != address and (view == bits).all()
    del view
    assert pool.take((64, 64), np.float32).ctypes.data == address


def test_chunks_without_arrays_are_let_go() -> None:
    pool = Pool()
    arrays = [pool.take((_CHUNK // 3,), np.uint8) for _ in range(7)]
    assert len(pool._chunks) == 4
    del arrays[1:]
    kept = pool.take((1,), np.uint8)
    assert len(pool._chunks) == 1
    del arrays, kept
    gc.collect()
    pool.take((1,), np.uint8)
    assert len(pool._chunks) == 1


def test_random_use_never_overlaps() -> None:
    pool, generator = Pool(), np.random.default_rng(0)
    held: list[tuple[int, Array]] = []
    for number in range(2000):
        if held and generator.random() < 0.48:
            held.pop(int(generator.integers(len(held))))
        array = pool.take((int(generator.integers(0, 3000)),), np.int32)
        array[...] = number
        held.append((number, array))
    assert all((array == number).all() for number, array in held)
    for chunk in pool._chunks:
        ends = [offset + size for offset, size in chunk.free]
        assert all(end < offset for end, (offset, _) in zip(ends, chunk.free[1:], strict=False))
    used = sum(max(64, -(-array.nbytes // 64) * 64) for _, array in held)
    pool._take_back()
    assert sum(_CHUNK - sum(size for _, size in chunk.free) for chunk in pool._chunks) == used
