"""Aligned arrays: address, layout, and memory that cannot be written any more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kuiperinfer import dtypes
from kuiperinfer.errors import ResourceLimitError
from kuiperinfer.memory import align, aligned_empty, lock


@pytest.mark.parametrize(("size", "expected"), [(0, 0), (1, 64), (63, 64), (64, 64), (65, 128)])
def test_align(size: int, expected: int) -> None:
    assert align(size) == expected


@pytest.mark.parametrize("dtype", [*(dtype.storage for dtype in dtypes.ALL), "u1", np.dtype("f8")])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5, 2), (0,), (2, 0, 3), 9])
@pytest.mark.parametrize("alignment", [1, 64, 4096])
def test_an_array_is_aligned_contiguous_and_writable(shape: Any, dtype: Any, alignment: int) -> None:
    array = aligned_empty(shape, dtype, alignment)
    assert array.shape == ((shape,) if isinstance(shape, int) else shape)
    assert array.dtype == dtype
    assert array.ctypes.data % alignment == 0
    assert array.flags.c_contiguous and array.flags.writeable


@pytest.mark.parametrize("shape", [(1 << 62,), (1 << 40, 1 << 40)])
def test_no_memory_left(shape: tuple[int, ...]) -> None:
    with pytest.raises(ResourceLimitError, match="not enough memory for an array of"):
        aligned_empty(shape, np.float32)


def test_locked_memory_cannot_be_made_writable_again() -> None:
    array = aligned_empty((4, 4), np.float32)
    array[...] = 1
    view = lock(array)[1:]
    for target in (array, view, array.reshape(-1).view(np.uint8)):
        assert not target.flags.writeable
        with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
            target.flags.writeable = True
