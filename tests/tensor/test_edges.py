"""Gradients where functions have corners, and at infinities and NaN: PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as TF

from kuiperinfer import tensor as kt
from kuiperinfer.tensor import functional as F

INF, NAN = math.inf, math.nan
VALUES = [-INF, -3.5, -3.0, -2.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, 3.5, 6.0, 20.0, INF, NAN]
ROWS = [
    [INF, 1.0, 2.0],
    [-INF, -INF, -INF],
    [INF, INF, 1.0],
    [INF, -INF, 0.0],
    [NAN, 1.0, 2.0],
    [NAN, NAN, 1.0],
    [2.0, 2.0, 1.0],
]


def check(ours: Callable[..., Any], theirs: Callable[..., Any], *inputs: Any) -> None:
    arrays = [np.array(values, np.float64) for values in inputs]
    tensors = [kt.tensor(array, requires_grad=True) for array in arrays]
    expected = [torch.tensor(array, requires_grad=True) for array in arrays]
    result, wanted = ours(*tensors), theirs(*expected)
    result.backward(kt.ones_like(result))
    wanted.backward(torch.ones_like(wanted))
    np.testing.assert_allclose(result.detach().array, wanted.detach().numpy(), rtol=1e-12)
    for one, other in zip(tensors, expected, strict=True):
        assert one.grad is not None and other.grad is not None
        np.testing.assert_allclose(one.grad.array, other.grad.numpy(), rtol=1e-7)  # 1/6 is of f32 there


@pytest.mark.parametrize("name", ["relu", "relu6", "leaky_relu", "elu", "selu", "hardsigmoid", "hardswish", "hardtanh"])
def test_activations(name: str) -> None:
    """Of NaN what PyTorch gives for few elements; for many its vector code differs, while ours does not."""
    check(getattr(F, name), getattr(TF, name), VALUES)
    few, many = (kt.tensor(np.resize(VALUES, size), "f32", requires_grad=True) for size in (len(VALUES), 1 << 16))
    for x in (few, many):  # by NumPy, and compiled
        getattr(F, name)(x).sum().backward()
    assert few.grad is not None and many.grad is not None
    np.testing.assert_allclose(many.grad.array, np.resize(few.grad.array, 1 << 16), rtol=1e-5, atol=1e-6)


def test_bounds_of_hardtanh_and_clamp() -> None:
    """On its bounds PyTorch's clamp passes the gradient on, and its hardtanh does not."""
    bounds: list[tuple[Callable[[Any], Any], list[int]]] = [
        (F.hardtanh, [0, 1, 0]),
        (lambda x: x.clamp(-1, 1), [1, 1, 1]),
    ]
    for function, expected in bounds:
        x = kt.tensor([-1.0, 0.0, 1.0], requires_grad=True)
        result = function(x)
        result.sum().backward()
        assert x.grad is not None and x.grad.tolist() == expected
    check(lambda x: F.hardtanh(x, -0.5, 3.0), lambda x: TF.hardtanh(x, -0.5, 3.0), VALUES)


@pytest.mark.parametrize("name", ["maximum", "minimum", "pow"])
def test_functions_of_two(name: str) -> None:
    first, second = np.meshgrid([-INF, -2.0, -0.5, 0.0, 0.5, 1.0, INF, NAN], [-INF, -2.0, -1.0, 0.0, 2.0, 3.0, NAN])
    check(lambda x, y: getattr(x, name)(y), lambda x, y: getattr(x, name)(y), first, second)


def test_zero_to_negative_powers() -> None:
    y = kt.tensor([-2.0, -0.5, 0.0, 2.0], requires_grad=True)
    (0.0**y).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [-INF, -INF, 0, 0]


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.logsumexp(0),
        lambda x: x.amax(0),
        lambda x: x.amin(0),
        lambda x: x.max(),
        lambda x: x.min(),
        lambda x: x.max(0)[0],
        lambda x: x.min(0)[0],
    ],
    ids=["logsumexp", "amax", "amin", "max of all", "min of all", "max", "min"],
)
def test_reductions(function: Callable[[Any], Any], row: list[float]) -> None:
    check(function, function, row)
