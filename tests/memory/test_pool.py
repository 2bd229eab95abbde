"""Arrays of a pool are aligned, and share nothing."""

from __future__ import annotations

import gc

import numpy as np

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


def test_what_is_given_back_is_handed_out_again() -> None:
    pool = Pool()
    first, second = pool.take((10,), np.float32), pool.take((20,), np.float32)
    pool.give_back(second)
    third = pool.take((30,), np.float32)
    assert third.ctypes.data == second.ctypes.data and not np.shares_memory(first, third)
    pool.give_back(pool.take((_CHUNK,), np.uint8))  # has memory of its own
    assert not np.shares_memory(third, pool.take((1,), np.uint8))
