"""First weights: their distributions are PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from kuiperinfer import InputError, ShapeError, init
from kuiperinfer.tensor import empty, manual_seed

SHAPE = (64, 48, 3, 5)  # fan_in 720, fan_out 960


@pytest.mark.parametrize("name", ["linear", "conv2d", "sigmoid", "tanh", "relu", "selu", "leaky_relu"])
def test_gains(name: str) -> None:
    assert init.calculate_gain(name) == pytest.approx(torch.nn.init.calculate_gain(name), rel=1e-12)


def test_gain_of_a_slope() -> None:
    for slope in (0.0, 0.2, math.sqrt(5)):
        expected = torch.nn.init.calculate_gain("leaky_relu", slope)
        assert init.calculate_gain("leaky_relu", slope) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("shape", [(7, 3), (16, 8, 3, 3), (4, 2, 5), (6, 1, 1, 1)])
def test_fans(shape: tuple[int, ...]) -> None:
    assert init.fans(empty(*shape)) == torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(shape))


CASES: list[tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]] = [
    (init.uniform_, torch.nn.init.uniform_, {"a": -2.0, "b": 3.0}),
    (init.normal_, torch.nn.init.normal_, {"mean": 1.0, "std": 0.5}),
    (init.xavier_uniform_, torch.nn.init.xavier_uniform_, {}),
    (init.xavier_uniform_, torch.nn.init.xavier_uniform_, {"gain": 2.0}),
    (init.xavier_normal_, torch.nn.init.xavier_normal_, {"gain": 0.3}),
    (init.kaiming_uniform_, torch.nn.init.kaiming_uniform_, {}),
    (init.kaiming_uniform_, torch.nn.init.kaiming_uniform_, {"a": math.sqrt(5), "mode": "fan_out"}),
    (init.kaiming_normal_, torch.nn.init.kaiming_normal_, {"nonlinearity": "relu"}),
    (init.kaiming_normal_, torch.nn.init.kaiming_normal_, {"mode": "fan_out", "nonlinearity": "tanh"}),
]


@pytest.mark.parametrize(("ours", "theirs", "options"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_distributions(ours: Callable[..., Any], theirs: Callable[..., Any], options: dict[str, Any]) -> None:
    """46 080 numbers: mean and deviation are known to 0.5 % of the deviation, the ends of a uniform range to 1 ‰."""
    tensor = ours(empty(*SHAPE), **options, generator=np.random.default_rng(1))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        expected = theirs(torch.empty(SHAPE), **options).numpy().ravel()
    found = tensor.array.ravel()
    assert found.dtype == np.float32
    deviation = expected.std()
    assert found.std() == pytest.approx(deviation, rel=0.02)
    assert abs(found.mean() - expected.mean()) < 0.03 * deviation
    if "uniform" in ours.__name__:
        assert found.min() == pytest.approx(expected.min(), rel=2e-3)
        assert found.max() == pytest.approx(expected.max(), rel=2e-3)
    else:
        quantiles = (0.01, 0.25, 0.5, 0.75, 0.99)
        np.testing.assert_allclose(
            np.quantile(found, quantiles), np.quantile(expected, quantiles), atol=0.06 * deviation
        )


def test_constants_fill_in_place_and_any_strides() -> None:
    tensor = empty(3, 4)
    assert init.zeros_(tensor) is tensor
    init.ones_(tensor.transpose(0, 1)[1])
    init.constant_(tensor[2], 2.5)
    assert tensor.tolist() == [[0, 1, 0, 0], [0, 1, 0, 0], [2.5] * 4]


def test_first_weights_leave_no_history_and_are_noted_as_a_change() -> None:
    tensor = empty(3, requires_grad=True)
    version = tensor.storage.version
    init.normal_(tensor)
    assert tensor.grad_fn is None
    assert tensor.storage.version == version + 1


def test_the_same_seed_gives_the_same_weights() -> None:
    drawn = []
    for seed in (5, 5, 6):
        manual_seed(seed)
        drawn.append(init.normal_(empty(4)).tolist())
    assert drawn[0] == drawn[1] != drawn[2]


def test_what_cannot_be_done() -> None:
    with pytest.raises(ShapeError, match=r"shape \(3,\).*expected 2 dimensions"):
        init.kaiming_normal_(empty(3))
    with pytest.raises(InputError, match="mode 'fan_on'; expected fan_in or fan_out; did you mean 'fan_in'"):
        init.kaiming_normal_(empty(3, 3), mode="fan_on")
    with pytest.raises(InputError, match="a <= b, found a=2 and b=1"):
        init.uniform_(empty(3), 2, 1)
    with pytest.raises(InputError, match="standard deviation of at least 0, found -1"):
        init.normal_(empty(3), 0, -1)
    with pytest.raises(InputError, match=r"nonlinearity 'rleu'; expected one of linear.*did you mean 'relu'"):
        init.kaiming_uniform_(empty(3, 3), nonlinearity="rleu")
