"""Random numbers: seeds, distributions, and what they may not be."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

from kuiperinfer import dtypes
from kuiperinfer import tensor as kt
from kuiperinfer.errors import DTypeError, InputError, ShapeError
from kuiperinfer.layers.creation import Random

FLOATS = [dtype for dtype in dtypes.ALL if dtype.kind in ("float", "complex")]


def wide(x: kt.Tensor) -> Any:
    return dtypes.widen(x.numpy()).astype(np.complex128 if x.dtype.kind == "complex" else np.float64)


def test_the_same_seed_gives_the_same_numbers() -> None:
    def draw() -> list[Any]:
        return [
            kt.rand(3).tolist(),
            kt.randn(2, 2).tolist(),
            kt.randint(100, size=(4,)).tolist(),
            kt.randperm(5).tolist(),
            kt.normal(1.0, 2.0, (2,)).tolist(),
            Random(uniform=True).forward((2,)).tolist(),  # an operator of models
        ]

    kt.manual_seed(7)
    first = draw()
    assert draw() != first
    kt.manual_seed(7)
    assert draw() == first
    assert kt.initial_seed() == kt.default_generator().initial_seed() == 7
    kt.manual_seed(8)
    assert draw() != first


def test_generators_are_independent_and_can_be_kept() -> None:
    first, second = kt.Generator(3), kt.Generator(3)
    kt.manual_seed(0)
    expected = kt.rand(2).tolist()
    kt.manual_seed(0)
    assert kt.rand(4, generator=first).tolist() == kt.rand(4, generator=second).tolist()
    assert kt.rand(2).tolist() == expected, "the default generator was not asked"
    state = first.get_state()
    following = kt.randn(3, generator=first).tolist()
    assert kt.randn(3, generator=first.set_state(state)).tolist() == following
    for other in (pickle.loads(pickle.dumps(second)), copy.deepcopy(second)):
        assert isinstance(other, kt.Generator) and other.initial_seed() == 3
        assert kt.randn(3, generator=other).tolist() == following
    assert kt.rand(4, generator=first.manual_seed(9)).tolist() == kt.rand(4, generator=kt.Generator(9)).tolist()
    assert kt.rand(2, generator=np.random.default_rng(1)).shape == (2,)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_uniform_numbers(dtype: dtypes.DType) -> None:
    x = kt.rand(100, 200, dtype=dtype, generator=kt.Generator(1))
    assert x.dtype is dtype and x.shape == (100, 200)
    values = wide(x)
    for part in (values.real, values.imag) if dtype.kind == "complex" else (values,):
        assert part.min() >= 0 and part.max() < 1
        assert abs(part.mean() - 0.5) < 0.01 and abs(part.var() - 1 / 12) < 0.003
    assert kt.rand_like(x).dtype is dtype and kt.rand_like(x, dtype="f64").shape == x.shape


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_normal_numbers(dtype: dtypes.DType) -> None:
    x = kt.randn(100, 200, dtype=dtype, generator=kt.Generator(2))
    values = wide(x)
    variance = (abs(values) ** 2).mean()
    assert abs(values.mean()) < 0.03 and abs(variance - 1) < 0.03
    if dtype.kind == "complex":
        assert abs((values.real**2).mean() - 0.5) < 0.02
    assert kt.randn_like(x).dtype is dtype


def test_normal_numbers_of_any_mean_and_deviation() -> None:
    values = kt.normal(3.0, 0.5, (20_000,), dtype="f64", generator=kt.Generator(4)).numpy()
    assert math.isclose(values.mean(), 3, abs_tol=0.02) and math.isclose(values.std(), 0.5, abs_tol=0.02)
    assert kt.normal(2.0, 0.0, (3,)).tolist() == [2, 2, 2]


def test_integers() -> None:
    x = kt.randint(-3, 4, size=(10_000,), generator=kt.Generator(5))
    assert x.dtype is dtypes.i64
    assert np.unique(x.numpy()).tolist() == list(range(-3, 4))
    assert kt.randint(256, size=(10, 10), dtype="u8").dtype is dtypes.u8
    assert kt.randint(2, 5, (3, 1)).shape == (3, 1) and kt.randint(5, [4]).shape == (4,)
    whole = kt.randint(3, size=(50,), dtype="f32")
    assert whole.dtype is dtypes.f32 and set(whole.tolist()) == {0.0, 1.0, 2.0}


def test_permutations() -> None:
    orders = [tuple(kt.randperm(4, generator=kt.Generator(seed)).tolist()) for seed in range(200)]
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert len(set(orders)) == 24
    assert kt.randperm(0).shape == (0,) and kt.randperm(3, dtype="i32").dtype is dtypes.i32


def test_gradients_may_be_wanted() -> None:
    assert kt.rand(2, requires_grad=True).requires_grad and kt.randn(2, requires_grad=True).requires_grad
    assert not kt.rand(2).requires_grad


@pytest.mark.parametrize(
    ("draw", "kind", "message"),
    [
        (lambda: kt.rand(2, dtype="i64"), DTypeError, "use randint"),
        (lambda: kt.randn(-1), ShapeError, "at least 0"),
        (lambda: kt.normal(0.0, -1.0, (2,)), InputError, "standard deviation of at least 0"),
        (lambda: kt.randint(3, 3, size=(1,)), InputError, "expected low < high"),
        (lambda: kt.randint(size=(1,)), InputError, "expected high, or low and high"),
        (lambda: kt.randint(2, 5), InputError, r"and then a shape such as \(2, 3\), found \(2, 5\)"),
        (lambda: kt.randint(300, size=(1,), dtype="u8"), DTypeError, "numbers from 0 up to 299 do not fit u8"),
        (lambda: kt.randperm(-1), InputError, "a count of at least 0"),
        (lambda: kt.manual_seed(-1), InputError, "a seed is an integer of at least 0, found -1"),
        (lambda: kt.Generator("a"), InputError, "found 'a'"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_drawn_is_explained(draw: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        draw()
