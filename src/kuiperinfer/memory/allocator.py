"""The allocator: aligned memory, kept when it is given back, for the next who asks for as much.

Memory is handed out as NumPy arrays of bytes. It comes back by itself when the last array that looks at it is gone.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator

import numpy as np

from ..dtypes import Array
from ..errors import InputError, KuiperError, ResourceLimitError
from ..records import dataclass
from ..settings import settings

ALIGNMENT = 64  # bytes of a cache line, and of the widest vector register


def align(size: int, alignment: int = ALIGNMENT) -> int:
    """`size` rounded up to a multiple of `alignment`."""
    return -(-size // alignment) * alignment


class LeakError(KuiperError):
    """Memory was taken and is still held where none should be."""


@dataclass(frozen=True)
class Statistics:
    """What an allocator has done: bytes and numbers of blocks; `cached_bytes` are those kept for later.

    `lasting_bytes` are out for as long as the process lives; the other counters leave them out.
    """

    allocated_bytes: int
    deallocated_bytes: int
    lasting_bytes: int
    peak_bytes: int
    cached_bytes: int
    allocations: int
    deallocations: int
    cached_blocks: int
    cache_hits: int

    @property
    def live_bytes(self) -> int:
        """Bytes handed out and not given back yet."""
        return self.allocated_bytes - self.deallocated_bytes

    @property
    def live_blocks(self) -> int:
        """Blocks handed out and not given back yet."""
        return self.allocations - self.deallocations

    def __str__(self) -> str:
        return (
            f"{self.live_bytes:,} bytes live in {self.live_blocks:,} blocks, {self.peak_bytes:,} at the peak; "
            f"{self.allocated_bytes:,} bytes allocated in {self.allocations:,} blocks, {self.cache_hits:,} of them from the "
            f"cache, which holds {self.cached_bytes:,} bytes in {self.cached_blocks:,} blocks"
        )


class Memory(np.ndarray):
    """A piece of the system's memory, with room to align its start.

    A class of its own because of how NumPy shortens chains of bases: a view of a view holds the *last* of them that is of
    another class or owns memory. The array that is handed out looks at a `Memory`, so that views hold the array.
    """

    __slots__ = ("capacity", "freed", "is_locked", "start")

    capacity: int
    start: int
    freed: int  # when it came back, counted in blocks that did
    is_locked: bool  # made read-only by somebody


class _Lease(weakref.ref[Array]):
    """An array that is out, and the memory it looks at; the reference's callback brings the memory back."""

    __slots__ = ("lasting", "memory", "nbytes", "serial")

    memory: Memory
    nbytes: int
    serial: int
    lasting: bool


class Allocator:
    """Hands out aligned memory and counts it. Thread-safe.

    Freed blocks are kept by size and handed out again, the last freed first, so that the same address comes back. At most
    `cache_limit` bytes are kept; blocks that were freed first go back to the system first.
    """

    def __init__(self, cache_limit: int) -> None:
        self.cache_limit = cache_limit
        self._lock = threading.Lock()
        self._leases: dict[int, _Lease] = {}
        self._dead: deque[_Lease] = deque()
        self._cache: dict[
            int, list[Memory]
        ] = {}  # by size; in each list the block that was freed last stands at the end
        self._allocated = self._deallocated = self._lasting = self._peak = self._cached = 0
        self._allocations = self._deallocations = self._hits = self._serial = self._returns = 0
        self._fail_at = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew_lock)

    def allocate(self, nbytes: int, *, lasting: bool = False) -> Array:
        """`nbytes` uninitialised bytes that begin on a cache line.

        `lasting` memory belongs to the process, such as a thread team's, and is no leak. `ResourceLimitError` where the
        system has no such memory left.
        """
        capacity = align(max(nbytes, 1))
        with self._lock:
            if self._fail_at:
                self._fail_on_request(nbytes)
            if self._dead:
                self._take_back_all()
            kept = self._cache.get(capacity)
            if kept:
                memory = kept.pop()
                self._cached -= capacity
                self._hits += 1
            else:
                memory = self._from_system(nbytes, capacity)
            array: Array = np.ndarray((nbytes,), np.uint8, memory, memory.start)
            lease = _Lease(array, self._on_death)
            lease.memory, lease.nbytes, lease.lasting = memory, nbytes, lasting
            lease.serial = self._serial = self._serial + 1
            self._leases[lease.serial] = lease
            if lasting:
                self._lasting += nbytes
                return array
            self._allocations += 1
            self._allocated += nbytes
            live = self._allocated - self._deallocated
            if live > self._peak:
                self._peak = live
        return array

    def _from_system(self, nbytes: int, capacity: int) -> Memory:
        limit = settings.max_memory
        if nbytes > limit:
            raise ResourceLimitError(
                f"not enough memory for an array of {nbytes:,} bytes: settings.max_memory allows {limit:,}; raise it or set "
                "KUIPER_MAX_MEMORY"
            )
        try:
            memory = self._raw(capacity)
        except (MemoryError, ValueError):  # ValueError: larger than an address
            self._drop_cache(0)
            try:
                memory = self._raw(capacity)
            except (MemoryError, ValueError) as error:
                raise ResourceLimitError(f"not enough memory for an array of {nbytes:,} bytes") from error
        memory.capacity = capacity
        memory.is_locked = False
        memory.start = -int(memory.__array_interface__["data"][0]) % ALIGNMENT
        return memory

    @staticmethod
    def _raw(capacity: int) -> Memory:
        return Memory((capacity + ALIGNMENT,), np.uint8)  # NumPy asks the system for large pages from 4 MiB on

    # --------------------------------------------------------------------------------------- coming back

    def _on_death(self, lease: _Lease) -> None:
        """Called wherever the last reference goes, even inside of `allocate`: so it never waits for the lock."""
        if self._lock.acquire(blocking=False):
            try:
                self._take_back(lease)
            finally:
                self._lock.release()
        else:
            self._dead.append(lease)

    def _take_back_all(self) -> None:
        """Whatever died while somebody else held the lock."""
        while self._dead:
            self._take_back(self._dead.popleft())

    def _take_back(self, lease: _Lease) -> None:
        del self._leases[lease.serial]
        if lease.lasting:
            self._lasting -= lease.nbytes
        else:
            self._deallocations += 1
            self._deallocated += lease.nbytes
        memory = lease.memory
        capacity = memory.capacity
        if capacity > self.cache_limit:
            return
        if memory.is_locked:
            memory.flags.writeable = True
            memory.is_locked = False
        self._returns += 1
        memory.freed = self._returns
        kept = self._cache.get(capacity)
        if kept is None:
            kept = self._cache[capacity] = []
        kept.append(memory)
        self._cached += capacity
        if self._cached > self.cache_limit:
            self._drop_cache(self.cache_limit)

    def _drop_cache(self, limit: int) -> None:
        """Gives blocks back to the system, those first that were freed first, until at most `limit` bytes are kept."""
        while self._cached > limit:
            sizes = [capacity for capacity, kept in self._cache.items() if kept]
            capacity = min(sizes, key=lambda size: self._cache[size][0].freed)
            self._cached -= capacity
            del self._cache[capacity][0]
        self._cache = {capacity: kept for capacity, kept in self._cache.items() if kept}

    def release_cache(self) -> None:
        """Gives all memory that is only kept for later back to the system."""
        with self._lock:
            self._take_back_all()
            self._drop_cache(0)

    def _renew_lock(self) -> None:
        """Another thread may have held the lock when the process was forked; here is only one."""
        self._lock = threading.Lock()

    # --------------------------------------------------------------------------------------- accounts

    def statistics(self) -> Statistics:
        """The counters, all of one moment."""
        with self._lock:
            self._take_back_all()
            return Statistics(
                allocated_bytes=self._allocated,
                deallocated_bytes=self._deallocated,
                lasting_bytes=self._lasting,
                peak_bytes=self._peak,
                cached_bytes=self._cached,
                allocations=self._allocations,
                deallocations=self._deallocations,
                cached_blocks=sum(map(len, self._cache.values())),
                cache_hits=self._hits,
            )

    def reset_peak(self) -> None:
        """From now on the peak is that of what follows."""
        with self._lock:
            self._take_back_all()
            self._peak = self._allocated - self._deallocated

    def all_clear(self) -> bool:
        """Whether everything that was allocated came back, except for what lasts as long as the process."""
        return self.statistics().live_blocks == 0

    @contextlib.contextmanager
    def no_leaks(self) -> Iterator[None]:
        """Raises `LeakError` where memory taken within the block, by any thread, is still held at its end."""
        first = self._serial
        yield
        gc.collect()
        self.statistics()
        with self._lock:
            held = [lease.nbytes for lease in self._leases.values() if lease.serial > first and not lease.lasting]
        if held:
            sizes = ", ".join(f"{nbytes:,}" for nbytes in sorted(held, reverse=True)[:5])
            raise LeakError(
                f"{len(held)} blocks of together {sum(held):,} bytes are still held (sizes: {sizes}"
                f"{', …' if len(held) > 5 else ''}); expected none: look for tensors or arrays that outlive the block"
            )

    @contextlib.contextmanager
    def fail_allocation(self, number: int = 1) -> Iterator[None]:
        """Within the block, the allocation of that number (counted from 1) fails as if the system had no memory left."""
        if number < 1:
            raise InputError(f"allocations are counted from 1, found {number}")
        with self._lock:
            self._fail_at = number
        try:
            yield
        finally:
            with self._lock:
                self._fail_at = 0

    def _fail_on_request(self, nbytes: int) -> None:
        self._fail_at -= 1
        if not self._fail_at:
            raise ResourceLimitError(f"not enough memory for an array of {nbytes:,} bytes: made to fail by a test")


allocator = Allocator(settings.memory_cache)
"""The allocator of this process: tensors, arenas and packed weights come from it."""
