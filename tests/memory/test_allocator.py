"""The allocator: reuse, counters, leaks, failures, threads, and large pages."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kuiperinfer
from kuiperinfer import memory
from kuiperinfer.dtypes import Array
from kuiperinfer.errors import InputError, ResourceLimitError
from kuiperinfer.memory import Allocator, LeakError, aligned_empty, lock
from kuiperinfer.memory.pool import Pool
from kuiperinfer.settings import settings


@pytest.fixture
def allocator() -> Allocator:
    return Allocator(cache_limit=1 << 20)


def address(array: Array) -> int:
    return int(array.ctypes.data)


@pytest.mark.parametrize("nbytes", [0, 1, 2, 63, 64, 65, 1000, 1 << 20])
def test_memory_is_aligned_and_its_address_comes_back(allocator: Allocator, nbytes: int) -> None:
    first = allocator.allocate(nbytes)
    place = address(first)
    assert first.shape == (nbytes,) and first.dtype == np.uint8
    assert place % 64 == 0
    second = allocator.allocate(nbytes)
    assert address(second) != place
    del first
    third = allocator.allocate(nbytes)
    assert address(third) == place
    assert allocator.statistics().cache_hits == 1


def test_the_block_freed_last_is_handed_out_first(allocator: Allocator) -> None:
    blocks = [allocator.allocate(256) for _ in range(3)]
    places = [address(block) for block in blocks]
    while blocks:
        del blocks[0]
    again = [allocator.allocate(256) for _ in range(3)]
    assert [address(block) for block in again] == places[::-1]


def test_sizes_of_the_same_number_of_cache_lines_share_blocks(allocator: Allocator) -> None:
    place = address(allocator.allocate(65))
    assert address(allocator.allocate(128)) == place
    assert address(allocator.allocate(64)) != place


def test_counters(allocator: Allocator) -> None:
    a, b = allocator.allocate(100), allocator.allocate(1000)
    taken = allocator.statistics()
    assert (taken.allocated_bytes, taken.deallocated_bytes, taken.live_bytes) == (1100, 0, 1100)
    assert (taken.allocations, taken.deallocations, taken.live_blocks) == (2, 0, 2)
    assert (taken.cached_bytes, taken.cached_blocks, taken.peak_bytes) == (0, 0, 1100)
    assert not allocator.all_clear()
    del b
    freed = allocator.statistics()
    assert (freed.live_bytes, freed.live_blocks, freed.peak_bytes) == (100, 1, 1100)
    assert (freed.cached_bytes, freed.cached_blocks) == (1024, 1)
    allocator.reset_peak()
    assert allocator.statistics().peak_bytes == 100
    del a
    assert allocator.all_clear()
    end = allocator.statistics()
    assert end.allocated_bytes == end.deallocated_bytes == 1100
    assert str(end) == (
        "0 bytes live in 0 blocks, 100 at the peak; 1,100 bytes allocated in 2 blocks, 0 of them from the cache, "
        "which holds 1,152 bytes in 2 blocks"
    )


def test_views_of_any_kind_keep_the_memory(allocator: Allocator) -> None:
    view = allocator.allocate(4000)[80:].view(np.float32).reshape(4, -1)[1:, ::2].T
    view[...] = 7
    assert allocator.statistics().live_blocks == 1
    other = allocator.allocate(4000)
    other[...] = 0
    assert (view == 7).all() and not np.shares_memory(view, other)
    buffer = memoryview(view)
    del view
    assert allocator.statistics().live_blocks == 2
    del buffer, other
    assert allocator.all_clear()


def test_memory_that_lasts_is_no_leak(allocator: Allocator) -> None:
    with allocator.no_leaks():
        kept = allocator.allocate(500, lasting=True)
    assert allocator.all_clear()
    statistics = allocator.statistics()
    assert (statistics.lasting_bytes, statistics.live_bytes, statistics.allocations) == (500, 0, 0)
    del kept
    statistics = allocator.statistics()
    assert (statistics.lasting_bytes, statistics.deallocations, statistics.cached_blocks) == (0, 0, 1)


def test_locked_memory_is_writable_again_when_it_comes_back(allocator: Allocator) -> None:
    array = allocator.allocate(64)
    place = address(array)
    lock(array)
    del array
    again = allocator.allocate(64)
    assert address(again) == place
    again[...] = 1


@given(st.lists(st.tuples(st.integers(0, 700), st.booleans()), max_size=60), st.sampled_from([0, 512, 1 << 20]))
def test_live_blocks_never_overlap_and_the_counters_add_up(steps: list[tuple[int, bool]], limit: int) -> None:
    allocator = Allocator(cache_limit=limit)
    live: list[Array] = []
    allocated = 0
    for number, (size, frees) in enumerate(steps):
        if frees and live:
            block = live.pop(size % len(live))
            assert (block == block[:1]).all()
            del block
        else:
            live.append(allocator.allocate(size))
            live[-1][...] = number
            allocated += size
        statistics = allocator.statistics()
        assert statistics.allocated_bytes == allocated
        assert statistics.live_bytes == sum(block.nbytes for block in live) <= statistics.peak_bytes
        assert statistics.live_blocks == len(live)
        assert statistics.cached_bytes <= limit
    spans = sorted((address(block), address(block) + block.nbytes) for block in live)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    live.clear()
    assert allocator.all_clear()


# ------------------------------------------------------------------------------------------- the cache


def test_the_cache_is_bounded_and_drops_what_was_freed_first() -> None:
    allocator = Allocator(cache_limit=4096)
    blocks = {size: allocator.allocate(size) for size in (2048, 1024, 512, 1536)}
    places = {size: address(block) for size, block in blocks.items()}
    for size in (2048, 1024, 512):  # in this order
        del blocks[size]
    assert allocator.statistics().cached_bytes == 3584
    del blocks[1536]  # 5120 in all: the oldest has to go
    assert allocator.statistics().cached_bytes == 3072
    kept = [allocator.allocate(size) for size in (1024, 512, 1536)]
    assert [address(block) for block in kept] == [places[size] for size in (1024, 512, 1536)]
    assert allocator.statistics().cache_hits == 3


def test_a_block_larger_than_the_cache_goes_back_at_once() -> None:
    allocator = Allocator(cache_limit=4096)
    small = allocator.allocate(64)
    del small
    large = allocator.allocate(8192)
    del large
    statistics = allocator.statistics()
    assert (statistics.cached_bytes, statistics.cached_blocks, statistics.live_bytes) == (64, 1, 0)


def test_the_cache_can_be_given_back(allocator: Allocator) -> None:
    block = allocator.allocate(1000)
    del block
    assert allocator.statistics().cached_bytes == 1024
    allocator.release_cache()
    assert allocator.statistics().cached_bytes == 0 and allocator.statistics().cached_blocks == 0
    assert allocator.allocate(1000).nbytes == 1000
    assert allocator.statistics().cache_hits == 0


@pytest.mark.parametrize("limit", ["0", "4096"])
def test_the_bound_of_the_process_comes_from_its_setting(limit: str) -> None:
    source = Path(kuiperinfer.__path__[0]).parent
    program = (
        "from kuiperinfer import memory; blocks = [memory.allocator.allocate(1024) for _ in range(9)]; del blocks; "
        "print(memory.statistics().cached_bytes)"
    )
    environment = {**os.environ, "KUIPER_MEMORY_CACHE": limit, "PYTHONPATH": str(source)}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == limit


# ------------------------------------------------------------------------------------------- leaks and failures


def test_a_leak_is_found_and_described(allocator: Allocator) -> None:
    before = allocator.allocate(10)
    held = []
    with pytest.raises(LeakError, match=r"2 blocks of together 3,200 bytes are still held \(sizes: 3,000, 200\)"):  # noqa: SIM117
        with allocator.no_leaks():
            held = [allocator.allocate(200), allocator.allocate(3000)]
    del before, held
    with allocator.no_leaks():
        allocator.allocate(300)[...] = 1
    assert allocator.all_clear()


def test_garbage_in_a_cycle_is_no_leak(allocator: Allocator) -> None:
    with allocator.no_leaks():
        cycle: list[object] = [allocator.allocate(100)]
        cycle.append(cycle)
        del cycle


@pytest.mark.parametrize("number", [1, 2, 5])
def test_the_allocation_of_a_number_fails_and_no_other(allocator: Allocator, number: int) -> None:
    with allocator.fail_allocation(number):
        held = [allocator.allocate(64) for _ in range(number - 1)]
        with pytest.raises(ResourceLimitError, match="not enough memory for an array of 77 bytes: made to fail"):
            allocator.allocate(77)
        held.append(allocator.allocate(77))
    del held
    assert allocator.all_clear()
    with allocator.fail_allocation(2):
        allocator.allocate(64)
    assert allocator.allocate(64).nbytes == 64


def test_allocations_are_counted_from_one(allocator: Allocator) -> None:
    with pytest.raises(InputError, match="counted from 1, found 0"), allocator.fail_allocation(0):
        pass


def test_a_request_beyond_the_limit_is_refused_by_name() -> None:
    with settings(max_memory=1000), pytest.raises(ResourceLimitError, match=r"2,000 bytes.*settings.max_memory"):
        Allocator(cache_limit=0).allocate(2000)


def test_when_the_system_refuses_the_cache_is_given_back_first(
    allocator: Allocator, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocator.allocate(1000)
    real = Allocator._raw
    refusals: list[int] = []

    def refuse_once(capacity: int) -> object:
        if not refusals:
            refusals.append(allocator._cached)
            raise MemoryError
        return real(capacity)

    monkeypatch.setattr(Allocator, "_raw", staticmethod(refuse_once))
    assert allocator.allocate(500_000).nbytes == 500_000
    assert refusals == [1024]
    assert allocator.all_clear()


# ------------------------------------------------------------------------------------------- processes and threads


def test_many_threads_share_nothing_but_the_counters(allocator: Allocator) -> None:
    mixed_up = []

    def work(number: int) -> None:
        generator = np.random.default_rng(number)
        held: list[Array] = []
        for size in generator.integers(1, 2000, 600):
            block = allocator.allocate(int(size))
            block[...] = number
            held.append(block)
            if len(held) > 8:
                gone = held.pop(int(generator.integers(len(held))))
                if not (gone == number).all():
                    mixed_up.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not mixed_up
    statistics = allocator.statistics()
    assert statistics.allocations == statistics.deallocations == 3600
    assert allocator.all_clear()


def test_collected_garbage_may_come_back_in_the_middle_of_an_allocation(allocator: Allocator) -> None:
    thresholds = gc.get_threshold()
    gc.set_threshold(1)  # a collection at nearly every new object, those that `allocate` makes included
    try:
        for _ in range(300):
            cycle: list[object] = [allocator.allocate(100)]
            cycle.append(cycle)
    finally:
        gc.set_threshold(*thresholds)
    del cycle
    gc.collect()
    assert allocator.all_clear()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_can_allocate_although_the_parent_was_at_it() -> None:
    program = (
        "import os, threading, time\n"
        "from kuiperinfer.memory import allocator\n"
        "allocator._lock.acquire()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    allocator.allocate(100)\n"
        "    os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    source = Path(kuiperinfer.__path__[0]).parent
    environment = {**os.environ, "PYTHONPATH": str(source)}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=30
    )
    assert result.stdout.strip() == "7"


# ------------------------------------------------------------------------------------------- what else takes memory


def test_aligned_arrays_and_pools_come_from_the_same_allocator() -> None:
    before = memory.statistics()
    array = aligned_empty((10, 10), np.float32)
    pool = Pool()
    piece = pool.take((3,), np.float32)
    during = memory.statistics()
    assert during.allocations == before.allocations + 2
    assert during.live_bytes >= before.live_bytes + array.nbytes + piece.nbytes
    with memory.no_leaks():
        aligned_empty((5,), np.int8, 4096)[...] = 1
    del array, pool, piece
    assert memory.statistics().live_bytes == before.live_bytes
