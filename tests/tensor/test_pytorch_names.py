"""What PyTorch's users type without thinking: the names and arguments are there, and mean the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import kuiperinfer
from kuiperinfer import tensor as kt
from kuiperinfer.dtypes import f32, f64
from kuiperinfer.errors import DTypeError, InputError, KuiperError, ShapeError
from kuiperinfer.tensor import functional as F
from kuiperinfer.tensor import nn, optim

from .operation_cases import Case, check_against_torch, check_differences, spread

CUBE = spread(3, 4, 2)
TIES = np.array([[2.0, 1.0, 2.0, 3.0], [0.0, 0.0, -1.0, 0.0]])


def same(name: str, call: Any, *inputs: Any, smooth: bool = True) -> Case:
    return Case(name, call, call, inputs, smooth=smooth)


CASES = [
    same("softmax", lambda x: x.softmax(1), CUBE),
    same("log_softmax", lambda x: x.log_softmax(dim=-1), CUBE),
    same("repeat", lambda x: x.repeat(2, 1, 3), CUBE),
    same("repeat with more in front", lambda x: x.repeat(2, 1, 1, 2), CUBE),
    same("repeat by a tuple", lambda x: x.repeat((1, 2, 1)), CUBE),
    same("repeat nothing", lambda x: x.repeat(0, 1, 1), CUBE),
    same("cumsum", lambda x: x.cumsum(1), CUBE),
    same("cumsum from behind", lambda x: x.cumsum(-1), CUBE),
    same("sort", lambda x: x.sort()[0], CUBE),
    same("sort down", lambda x: x.sort(0, descending=True).values, CUBE),
    same("topk", lambda x: x.topk(2, dim=1)[0], CUBE),
    same("smallest", lambda x: x.topk(2, 0, largest=False).values, CUBE),
    same("var of a population", lambda x: x.var(1, unbiased=False), CUBE),
    same("var by position", lambda x: x.var(1, False, True), CUBE),
    same("std of all", lambda x: x.std(unbiased=False), CUBE),
    same("std with correction", lambda x: x.std(0, correction=2), CUBE),
    same("add alpha", lambda x, y: x.add(y, alpha=0.5), CUBE, spread(4, 2)),
    same("sub alpha", lambda x, y: x.sub(y, alpha=3), CUBE, spread(4, 2)),
    same("add alpha times a number", lambda x: x.add(2, alpha=3), CUBE),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_methods(case: Case) -> None:
    check_against_torch(case, np.float64, 1e-9, 1e-11)


@pytest.mark.parametrize("case", [case for case in CASES if "nothing" not in case.name], ids=str)
def test_gradients_against_differences(case: Case) -> None:
    check_differences(case)


@pytest.mark.parametrize("descending", [False, True])
def test_orders_and_indices(descending: bool) -> None:
    x, expected = kt.tensor(TIES), torch.from_numpy(TIES)
    assert (
        x.sort(1, descending).indices.tolist()
        == torch.sort(expected, dim=1, descending=descending, stable=True)[1].tolist()
    )
    assert x.argsort(0, descending).tolist() == expected.argsort(dim=0, descending=descending, stable=True).tolist()
    values, indices = x.topk(2, largest=descending)
    assert values.tolist() == expected.topk(2, largest=descending)[0].tolist()
    assert np.take_along_axis(TIES, indices.array, 1).tolist() == values.tolist()
    assert kt.tensor(3.0).topk(1)[1].item() == 0 and kt.tensor([True, True]).cumsum(0).tolist() == [1, 2]


def test_tests_of_elements() -> None:
    x = kt.tensor([1.0, np.nan, np.inf, -np.inf])
    assert x.isnan().tolist() == [False, True, False, False]
    assert x.isinf().tolist() == [False, False, True, True]
    assert x.isfinite().tolist() == [True, False, False, False]
    assert not x.allclose(x) and x.allclose(x + 0, equal_nan=True)
    assert kt.ones(2, 3).allclose(kt.ones(3) + 1e-6) and not kt.ones(2).allclose(kt.ones(2) + 1e-3)
    with pytest.raises(ShapeError):
        kt.ones(2).allclose(kt.ones(3))
    with pytest.raises(DTypeError, match="allclose: expected a tensor, found 1"):
        kt.ones(2).allclose(1)  # type: ignore[arg-type]


def test_in_place_with_alpha() -> None:
    x = kt.ones(3)
    assert x.add_(kt.ones(3), alpha=2) is x and x.tolist() == [3, 3, 3]
    assert x.sub_(2, alpha=0.5).tolist() == [2, 2, 2]


def test_data_is_the_memory_without_a_history() -> None:
    x = kt.ones(3, requires_grad=True)
    x.data.mul_(2)
    assert x.tolist() == [2, 2, 2] and not x.data.requires_grad
    before = x * 1
    x.data = kt.tensor([1.0, 2.0])
    assert x.shape == (2,) and x.requires_grad and before.tolist() == [2, 2, 2]
    (x * x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 4]
    with pytest.raises(InputError, match="found one with a history"):
        before.data = kt.ones(3)
    with pytest.raises(DTypeError, match="only floats have gradients"):
        x.data = kt.tensor([1])


def test_unbiased_and_correction_exclude_each_other() -> None:
    with pytest.raises(InputError, match="unbiased or correction"):
        kt.ones(3).var(unbiased=True, correction=1)
    for sizes in ((2,), (1, -1), (1.5, 1)):
        with pytest.raises(ShapeError, match="repeat: expected a number"):
            kt.ones(2, 2).repeat(*sizes)


@pytest.mark.parametrize("name", ["ReLU", "ReLU6", "LeakyReLU", "ELU", "SiLU", "Hardswish", "Hardsigmoid"])
def test_activations_take_inplace_and_leave_the_input(name: str) -> None:
    x = kt.tensor([-2.0, -0.5, 0.5, 4.0])
    layer = getattr(nn, name)(inplace=True)
    expected = getattr(torch.nn, name)()(torch.tensor([-2.0, -0.5, 0.5, 4.0]))
    np.testing.assert_allclose(layer(x).array, expected.numpy(), rtol=1e-6)
    assert x.tolist() == [-2, -0.5, 0.5, 4]


def test_functions_take_inplace() -> None:
    x = kt.tensor([-1.0, 2.0])
    assert F.relu(x, inplace=True).tolist() == [0, 2] and F.dropout(x, 0.5, False, True).tolist() == [-1, 2]
    assert nn.Dropout(0.5, inplace=True).eval()(x).tolist() == [-1, 2]


def test_modules_change_their_dtype() -> None:
    net = nn.Linear(2, 2)
    assert net.double() is net and net.weight.dtype is f64 and net.float().weight.dtype is f32
    assert net.half().weight.dtype.name == "f16" and net.bfloat16().bias.dtype.name == "bf16"


def test_schedules_are_in_lr_scheduler() -> None:
    from kuiperinfer.tensor.optim.lr_scheduler import StepLR

    assert optim.lr_scheduler.StepLR is StepLR is optim.StepLR


class _Chosen(nn.Module):
    def forward(self, input: kt.Tensor) -> Any:
        return input.topk(2, dim=1)[0].repeat(1, 2), input.cumsum(1), input.sort(1)[1], input.argsort(0), input.isnan()


def test_they_can_be_exported(tmp_path: Path) -> None:
    path = tmp_path / "net.pnnx.param"
    net, x = _Chosen(), kt.rand(3, 4)
    kuiperinfer.export(net, path, (3, 4))
    for found, expected in zip(kuiperinfer.load(path)(x.array), net(x), strict=True):
        np.testing.assert_allclose(np.asarray(found), expected.array, rtol=1e-6)


# ------------------------------------------------------------------------------------------- functions of the package


def test_functions_are_methods() -> None:
    x, y = kt.rand(2, 3) + 0.1, kt.rand(2, 3) + 0.1
    for name in ("exp", "log", "sqrt", "abs", "tanh", "sum", "mean", "std", "sigmoid", "relu", "isnan", "ravel"):
        assert getattr(kt, name)(x).tolist() == getattr(x, name)().tolist()
    for name in ("add", "sub", "mul", "div", "maximum", "minimum", "pow", "eq", "lt", "atan2"):
        assert getattr(kt, name)(x, y).tolist() == getattr(x, name)(y).tolist()
    assert kt.sum(x, dim=1, keepdim=True).shape == (2, 1) and kt.allclose(x, x)
    assert kt.max(x, 1).values.tolist() == x.max(1).values.tolist()
    assert kt.transpose(x, 0, 1).shape == (3, 2) and kt.reshape(x, (3, 2)).shape == (3, 2)
    assert kt.softmax(x, dim=1).tolist() == F.softmax(x, 1).tolist()
    assert kt.exp.__name__ == "exp" and kt.exp.__doc__ == kt.Tensor.exp.__doc__
    with pytest.raises(KuiperError, match="exp: expected a tensor, found 1"):
        kt.exp(1)
