"""A lock that a forked child finds open, whoever held it in the parent: a thread that did is not there any more."""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class Lock:
    """Reentrant; used as `with lock:`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


_locks: WeakSet[Lock] = WeakSet()


def _open_all() -> None:
    for lock in _locks:
        lock._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
