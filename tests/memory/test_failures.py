"""Where memory runs out: a typed error, nothing held, and everything works as soon as there is memory again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kuiperinfer
from kuiperinfer import memory
from kuiperinfer import tensor as kt
from kuiperinfer.errors import ResourceLimitError
from tests.small_models import CONVOLUTION, write_model


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    with memory.no_leaks():
        yield


def failures(work: Callable[[], Any]) -> int:
    """How many allocations of some work were made to fail, one a time, until it went through."""
    for number in range(1, 100):
        try:
            with memory.fail_allocation(number):
                work()
        except ResourceLimitError:
            continue
        return number - 1
    raise AssertionError("a hundred allocations are more than expected")


def test_a_model_whose_memory_runs_out_can_be_loaded_and_run_later(tmp_path: Path) -> None:
    path = write_model(tmp_path, CONVOLUTION, name="tiny")
    x = np.ones((1, 3, 16, 16), np.float32)
    expected = kuiperinfer.load(path)(x)
    assert failures(lambda: kuiperinfer.load(path)(x)) >= 2  # weights and arena at the least
    model = kuiperinfer.load(path)
    assert failures(lambda: model.compile((1, 3, 8, 8), threads=1)(x[..., :8, :8])) >= 1
    np.testing.assert_array_equal(model(x), expected)


def test_arithmetic_whose_memory_runs_out_can_be_evaluated_later() -> None:
    a = kt.arange(1000, dtype="f32")
    total = a * 2 + a
    with (
        memory.fail_allocation(),
        pytest.raises(ResourceLimitError, match="not enough memory for an array of 4,000 bytes"),
    ):
        total.tolist()
    assert total.tolist() == (3 * np.arange(1000)).tolist()
    assert failures(lambda: (a.view(10, 100).T.reshape(1000) + 1).clone().tolist()) >= 3


def test_gradients_whose_memory_runs_out_can_be_found_later() -> None:
    w = kt.ones(50, requires_grad=True)

    def step() -> None:
        w.grad = None
        (w * w + w).sum().backward()

    assert failures(step) >= 1
    step()
    assert w.grad is not None and w.grad.tolist() == [3] * 50
