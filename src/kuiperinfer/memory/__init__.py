"""Memory: aligned allocation from a cache that counts, and storage that several tensors share."""

from __future__ import annotations

from .aligned import aligned_empty as aligned_empty
from .aligned import lock as lock
from .allocator import ALIGNMENT as ALIGNMENT
from .allocator import Allocator as Allocator
from .allocator import LeakError as LeakError
from .allocator import Statistics as Statistics
from .allocator import align as align
from .allocator import allocator as allocator
from .shape import Shape as Shape
from .storage import Storage as Storage

all_clear = allocator.all_clear
fail_allocation = allocator.fail_allocation
no_leaks = allocator.no_leaks
release_cache = allocator.release_cache
statistics = allocator.statistics
