"""What every module of these tests takes from the allocator comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kuiperinfer import memory


@pytest.fixture(scope="module", autouse=True)
def nothing_leaks() -> Iterator[None]:
    """After a module all is clear: its tensors are gone, and their memory is back."""
    with memory.no_leaks():
        yield
