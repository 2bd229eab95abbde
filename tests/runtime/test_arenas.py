"""Arenas are lent to one run at a time, and are as many as runs go on at once."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import kuiperinfer
from kuiperinfer.dtypes import Array
from kuiperinfer.errors import ResourceLimitError
from kuiperinfer.runtime.arenas import _MOST_FREE, Arenas, _rounded
from tests.small_models import CONVOLUTION, weights_of, write_model


@pytest.fixture
def model(tmp_path: Path) -> kuiperinfer.Model:
    return kuiperinfer.load(write_model(tmp_path, CONVOLUTION, weights_of(CONVOLUTION)))


def test_what_is_free_is_lent_again() -> None:
    arenas = Arenas()
    first, second = arenas.take(1000), arenas.take(1000)
    assert not np.shares_memory(first, second)
    arenas.give_back(first)
    assert arenas.take(500) is first
    arenas.give_back(first)
    grown = arenas.take(20_000)
    assert grown.nbytes >= 20_000 and not arenas._free


def test_few_are_kept_and_none_that_is_too_large() -> None:
    arenas = Arenas()
    for arena in [arenas.take(4096 * size) for size in range(1, _MOST_FREE + 3)]:
        arenas.give_back(arena)
    assert len(arenas._free) == _MOST_FREE
    arenas.trim(5000)
    assert [arena.nbytes for arena in arenas._free] == [4096, 8192, 12288, 16384, 20480]


def test_sizes_are_few_and_little_larger_than_they_have_to_be() -> None:
    sizes = [_rounded(nbytes) for nbytes in range(4096, 1 << 16)]
    assert all(nbytes <= size <= 1.25 * nbytes for nbytes, size in zip(range(4096, 1 << 16), sizes, strict=True))
    assert len(set(sizes)) == 4 * 4 + 1
    assert _rounded(0) == _rounded(1) == 4096 and _rounded(5 << 30) == 5 << 30


def test_plans_of_a_model_run_in_the_same_memory(model: kuiperinfer.Model) -> None:
    generator = np.random.default_rng(0)
    inputs = [generator.standard_normal((1, 3, size, size)).astype(np.float32) for size in (16, 40, 24, 40, 16)]
    with kuiperinfer.settings(engine="reference"):
        expected = [model(x) for x in inputs]
    for _ in range(3):
        for x, y in zip(inputs, expected, strict=True):
            np.testing.assert_allclose(model(x), y, rtol=1e-4, atol=1e-5)
    assert len(model._arenas._free) == 1


def test_arenas_of_plans_that_were_dropped_are_let_go(model: kuiperinfer.Model) -> None:
    with kuiperinfer.settings(max_plans=1):
        model(np.zeros((1, 3, 64, 64), np.float32))
        large = model._arenas._free[0].nbytes
        model(np.zeros((1, 3, 8, 8), np.float32))
    assert model._arenas._free[0].nbytes < large


def test_runs_at_the_same_time_do_not_meet(model: kuiperinfer.Model) -> None:
    generator = np.random.default_rng(0)
    inputs = [generator.standard_normal((1, 3, size, size)).astype(np.float32) for size in (16, 40, 24)]
    expected = [model(x) for x in inputs]
    wrong: list[int] = []

    def call(number: int) -> None:
        for turn in range(60):
            which = (number + turn) % 3
            if not np.array_equal(model(inputs[which]), expected[which]):
                wrong.append(which)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and 1 <= len(model._arenas._free) <= 6


def test_a_run_that_fails_gives_its_arena_back(model: kuiperinfer.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros((1, 3, 16, 16), np.float32)
    model(x)
    (session,) = model.compile((1, 3, 16, 16))._idle

    def fail() -> list[Array | None]:
        raise ResourceLimitError("no memory for the outputs")

    monkeypatch.setattr(session, "_fresh_outputs", fail)
    for _ in range(3):
        with pytest.raises(ResourceLimitError):
            model(x)
    monkeypatch.undo()
    model(x)
    assert len(model._arenas._free) == 1
