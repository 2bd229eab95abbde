"""Formulas for new values of tensors, as optimisers have them: one loop, made once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kuiperinfer import memory
from kuiperinfer import tensor as kt
from kuiperinfer.dtypes import f64
from kuiperinfer.errors import ShapeError
from kuiperinfer.tensor.updates import Update


def formula(velocity: Any, parameter: Any, gradient: Any, factor: Any, rate: Any) -> Any:
    velocity = factor * velocity + (1 - factor) * gradient
    return velocity, parameter - rate * velocity.sqrt() * 2.0


@pytest.mark.parametrize("size", [5, 50_000])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_all_by_the_old_values(size: int, dtype: str) -> None:
    update = Update(formula)
    v, p, g = (kt.rand(size, dtype=dtype, generator=np.random.default_rng(seed)) for seed in range(3))
    for factor, rate in ((0.9, 0.1), (0.5, 0.25)):  # the numbers are not part of the loop
        velocity = factor * v.array + (1 - factor) * g.array
        expected = p.array - rate * np.sqrt(velocity) * 2
        version = p.storage.version
        update(v, p, g, factor, rate)
        np.testing.assert_allclose(v.array, velocity, rtol=1e-6)
        np.testing.assert_allclose(p.array, expected, rtol=1e-5, atol=1e-6)
        assert p.storage.version == version + 1


def test_it_is_called_once_and_takes_no_memory() -> None:
    calls = []

    def counted(x: Any, step: Any) -> Any:
        calls.append(1)
        return x + step

    update = Update(counted)
    x = kt.zeros(20_000)
    update(x, 1.0)
    before = memory.statistics().allocations
    for _ in range(5):
        update(x, 2.0)
    assert memory.statistics().allocations == before
    assert calls == [1] and x[7].item() == 11


def test_what_was_put_off_reads_the_old_values() -> None:
    x, leaf = kt.ones(3), kt.ones(3, dtype=f64).requires_grad_()
    later = x * 2
    Update(lambda x, y: x + y)(x, 5.0)
    assert later.tolist() == [2, 2, 2] and x.tolist() == [6, 6, 6]
    Update(lambda x, y: x - y)(leaf, 1.0)  # nothing is recorded, so that leaves may change
    assert leaf.tolist() == [0, 0, 0] and leaf.requires_grad
    with pytest.raises(ShapeError, match="cannot be broadcast"):
        Update(lambda x, y: x - y)(x, kt.ones(4))
