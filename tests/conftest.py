"""What holds for all tests."""

from __future__ import annotations

import os

# The tests share the cores among processes; one thread each is faster, and the same everywhere.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

# No deadline: the machine may be busy. In CI the examples are the same in each run.
settings.register_profile("kuiperinfer", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("kuiperinfer")
