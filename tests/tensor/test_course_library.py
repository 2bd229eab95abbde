"""The numbers of the `st` library's own tests: what its views, expressions, gradients and layers give.

It calculates in double precision; `backward` of a tensor starts from ones there, which here are given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kuiperinfer import Tensor
from kuiperinfer import tensor as kt
from kuiperinfer.tensor import functional as F
from kuiperinfer.tensor import nn, no_grad, optim


def counted(*shape: int, requires_grad: bool = False) -> Tensor:
    """1, 2, …, 12"""
    return kt.arange(1, 13, dtype="f64").view(shape).requires_grad_(requires_grad)


def tens(*shape: int, requires_grad: bool = False) -> Tensor:
    """11, 21, …, 121"""
    return kt.arange(11, 122, 10, dtype="f64").view(shape).requires_grad_(requires_grad)


def backward(x: Tensor) -> None:
    x.backward(kt.ones_like(x))


def gradient(x: Tensor) -> Any:
    assert x.grad is not None
    return x.grad.tolist()


def test_products() -> None:
    a, b = counted(2, 6), tens(2, 6)
    assert (a @ b.T).T.tolist() == [[931, 2227], [2191, 5647]]
    assert (a.view(3, 2, 2) @ b.view(3, 2, 2)).transpose(1, 2).tolist() == [
        [[73, 157], [103, 227]],
        [[681, 925], [791, 1075]],
        [[1929, 2333], [2119, 2563]],
    ]


def test_gradients_of_products_and_of_views_add_up() -> None:
    a, b = counted(2, 6, requires_grad=True), tens(2, 6, requires_grad=True)
    backward(a @ b.T)
    backward(a.view(3, 2, 2) @ b.view(3, 2, 2))
    assert gradient(a) == [[114, 174, 154, 214, 274, 334], [194, 254, 314, 374, 354, 414]]
    assert gradient(b) == [[12, 14, 18, 20, 28, 30], [22, 24, 32, 34, 38, 40]]


def test_gradients_of_views() -> None:
    x = counted(3, 4, requires_grad=True)
    backward(x.view(2, 2, 3).slice(2, 1, 3).select(1, 1))
    assert gradient(x) == [[0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]]
    backward(x.view(3, 2, 2).transpose(0, 1).slice(0, 0, 1).permute(1, 2, 0))
    assert gradient(x) == [[1, 1, 0, 0], [2, 2, 0, 0], [1, 1, 1, 1]]


def test_gradients_of_a_tensor_that_is_used_twice() -> None:
    x, y = counted(3, 4, requires_grad=True), counted(3, 4, requires_grad=True)
    total = x + y
    backward(x * -total - total)
    assert gradient(x) == np.arange(-4, -38, -3).reshape(3, 4).tolist()
    assert gradient(y) == np.arange(-2, -14, -1).reshape(3, 4).tolist()


def test_gradients_of_broadcast_tensors() -> None:
    x, y = counted(1, 3, 4, requires_grad=True), counted(3, 1, 4, requires_grad=True)
    backward((x + y) * x - y)
    assert gradient(x) == [[[21, 30, 39, 48], [45, 54, 63, 72], [69, 78, 87, 96]]]
    assert gradient(y) == [[[12, 15, 18, 21]]] * 3


ROWS = [
    [0.585639, 0.612628, 0.241485, 0.097616],
    [0.035854, 0.723054, 0.131163, 0.884268],
    [0.193597, 0.694748, 0.650687, 0.738797],
]


def test_log_softmax_and_the_loss_of_its_labels() -> None:
    rows = kt.tensor(ROWS, dtype="f64", requires_grad=True)
    logarithms = F.log_softmax(rows, 1)
    expected = [
        [-1.208965, -1.181976, -1.553119, -1.696988],
        [-1.860054, -1.172853, -1.764744, -1.011639],
        [-1.784239, -1.283088, -1.327148, -1.239038],
    ]
    np.testing.assert_allclose(logarithms.tolist(), expected, atol=1e-6)
    F.nll_loss(logarithms, kt.tensor([2, 0, 3]), reduction="sum").backward()
    expected = [[0.2985, 0.3067, -0.7884, 0.1832], [-0.8443, 0.3095, 0.1712, 0.3636], [0.1679, 0.2772, 0.2652, -0.7103]]
    np.testing.assert_allclose(gradient(rows), expected, atol=1e-4)


def test_gradients_of_sigmoid_relu_mean_and_max() -> None:
    z = kt.tensor(
        [
            [[0.096237, -0.037, 0.028076], [0.328307, 0.122271, -0.017293]],
            [[0.150791, 0.421008, 0.322066], [-0.321352, 0.319534, -0.424081]],
        ],
        dtype="f64",
        requires_grad=True,
    )
    values, _ = z.relu().sigmoid().mean(1).max(1)
    backward(values)
    expected = [[[0.1247, 0, 0], [0.1217, 0, 0]], [[0, 0.1196, 0], [0, 0.1219, 0]]]
    np.testing.assert_allclose(gradient(z), expected, atol=1e-4)


def test_images_as_columns() -> None:
    x = kt.rand(1, 1, 6, 4, dtype="f64", requires_grad=True)
    backward(F.img2col(x, (5, 3)))
    backward(F.img2col(x, 3, padding=1))
    assert gradient(x) == [[[[5, 8, 8, 5], *[[8, 13, 13, 8]] * 4, [5, 8, 8, 5]]]]
    assert F.img2col(x, 4, stride=2, padding=1).shape == (6, 16)
    assert F.img2col(kt.rand(2, 3, 6, 4), (2, 3), stride=(1, 2), padding=(2, 1)).shape == (36, 18)


def test_shapes_of_pooled_images() -> None:
    pooled = F.max_pool2d(kt.rand(1, 1, 6, 4), 2, stride=1, padding=1)
    assert pooled.shape == (1, 1, 7, 5)
    assert F.max_pool2d(pooled, (3, 4), stride=(2, 3), padding=(0, 1)).shape == (1, 1, 3, 2)


def test_padding_of_pooled_images_never_wins() -> None:
    # The library pads with 0, which wins over negative numbers; PyTorch pads with minus infinity.
    x = -torch.rand(1, 1, 6, 4)
    ours = F.max_pool2d(kt.tensor(x.numpy()), 2, stride=1, padding=1)
    assert ours.tolist() == torch.nn.functional.max_pool2d(x, 2, 1, 1).tolist()


def test_two_steps_with_momentum() -> None:
    linear = nn.Linear(3, 4)
    with no_grad():
        linear.bias.fill_(0.1618)
        linear.weight.fill_(0.5437)
    optimizer = optim.SGD(linear.parameters(), lr=0.01, momentum=0.9)
    rows = kt.tensor([[0.4746, 0.5383, 0.2668], [0.0405, 0.8955, 0.7365]])
    for bias, weight in ((0.1418, 0.5385), (0.1038, 0.5287)):
        optimizer.zero_grad()
        backward(linear(rows))
        assert gradient(linear.bias) == [2, 2, 2, 2]
        optimizer.step()
        assert linear.bias[0].item() == pytest.approx(bias, abs=1e-4)
        assert linear.weight[0, 0].item() == pytest.approx(weight, abs=1e-4)


def test_reading_is_no_writing() -> None:
    # The library counts reads of single elements as writes.
    x = counted(3, 4, requires_grad=True)
    y = x * x
    assert (x[1, 2].item(), x.storage.version) == (7, 0)
    backward(y)
    assert gradient(x) == (2 * counted(3, 4)).tolist()
