"""Waiting for what another thread or process does, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    """Waits for a condition; fails if it does not come true in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
