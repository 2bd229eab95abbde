"""Several rows at once: as a batch, or apart."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from kuiperinfer.serve.rows import Apart, Together, quickest, same_rows


def doubled(inputs: Sequence[Any]) -> list[Any]:
    return [inputs[0] * 2, inputs[0][:, :1]]


@pytest.mark.parametrize(
    ("rows", "sizes"), [(1, [1]), (2, [2]), (3, [2, 1]), (7, [4, 2, 1]), (8, [4, 4]), (11, [4, 4, 2, 1])]
)
def test_a_batch_in_shares(rows: int, sizes: list[int]) -> None:
    seen: list[int] = []

    def run(inputs: Sequence[Any]) -> list[Any]:
        seen.append(len(inputs[0]))
        return doubled(inputs)

    x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
    found = Together(dict.fromkeys((1, 2, 4), run))([x])
    assert seen == sizes
    for output, expected in zip(found, doubled([x]), strict=True):
        np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize(
    ("rows", "threads", "wide"), [(1, 4, 1), (2, 4, 2), (3, 4, 0), (9, 4, 0), (2, 2, 0), (2, 1, 0)]
)
def test_rows_apart(rows: int, threads: int, wide: int) -> None:
    lock, seen = threading.Lock(), {"wide": 0, "narrow": 0}

    def run(name: str) -> Any:
        def one(inputs: Sequence[Any]) -> list[Any]:
            assert len(inputs[0]) == 1
            with lock:
                seen[name] += 1
            return doubled(inputs)

        return one

    x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
    with ThreadPoolExecutor(threads) as pool:
        found = Apart(run("wide"), run("narrow"), threads, pool)([x])
    assert seen == {"wide": wide, "narrow": rows - wide}
    for output, expected in zip(found, doubled([x]), strict=True):
        np.testing.assert_array_equal(output, expected)


def test_the_quickest() -> None:
    def slow(_: Sequence[Any]) -> list[Any]:
        threading.Event().wait(0.05)
        return []

    assert quickest([slow, doubled, slow], [np.zeros((2, 3))]) is doubled


ROWS = [[np.full((1, 2), value, np.float32)] for value in (1.0, 2.0, 3.0)]
BATCH = np.array([[1, 1], [2, 2], [3, 3]], np.float32)


def test_rows_of_a_batch() -> None:
    assert same_rows([BATCH], ROWS, exact=True)
    near = BATCH * np.float32(1 + 1e-6)
    assert same_rows([near], ROWS, exact=False)
    assert not same_rows([near], ROWS, exact=True)
    assert not same_rows([BATCH[::-1]], ROWS, exact=False)
    assert not same_rows([BATCH.sum()], ROWS, exact=False)
    assert not same_rows([BATCH[:1]], ROWS, exact=False)
    assert not same_rows([BATCH[:, :1]], ROWS, exact=False)
    assert not same_rows([BATCH.reshape(3, 2, 1)], ROWS, exact=False)
    assert not same_rows([BATCH], [[np.float32(1)]] * 3, exact=False)  # type: ignore[list-item]
    assert not same_rows([], [[]] * 3, exact=True)
    nan = np.array([[np.nan, -0.0]], np.float32)
    assert same_rows([np.concatenate([nan, nan])], [[nan], [nan]], exact=True)
