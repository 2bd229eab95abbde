"""Optimisers and schedules take PyTorch's steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kuiperinfer import InputError, nn, optim
from kuiperinfer.tensor import Tensor

RANDOM = np.random.default_rng(0)
START = [RANDOM.normal(size=shape) for shape in [(4, 3), (5,), ()]]
GRADIENTS = [[RANDOM.normal(size=array.shape) for array in START] for _ in range(20)]

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.05}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.4}),
    ("SGD", {"lr": 0.1, "momentum": 0.8, "weight_decay": 0.1, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.8, "maximize": True, "weight_decay": 0.1}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-3}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "maximize": True, "weight_decay": 0.1}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.3, "betas": (0.5, 0.9)}),
    ("AdamW", {"lr": 0.05, "maximize": True}),
]


def parameters(dtype: str) -> tuple[list[nn.Parameter], list[torch.nn.Parameter]]:
    arrays = [array.astype(dtype) for array in START]
    return [nn.Parameter(Tensor(a)) for a in arrays], [torch.nn.Parameter(torch.tensor(a)) for a in arrays]


def step(own: list[Any], other: list[Any], number: int, dtype: str, skip: int | None = None) -> None:
    for index, (ours, theirs, gradient) in enumerate(zip(own, other, GRADIENTS[number], strict=True)):
        absent = index == skip
        ours.grad = None if absent else Tensor(gradient.astype(dtype))
        theirs.grad = None if absent else torch.tensor(gradient.astype(dtype))


def close(own: list[Any], other: list[Any], tolerance: float) -> None:
    for ours, theirs in zip(own, other, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [("f4", 1e-6), ("f8", 1e-12)])
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_twenty_steps(name: str, options: dict[str, Any], dtype: str, tolerance: float) -> None:
    own, other = parameters(dtype)
    ours, theirs = getattr(optim, name)(own, **options), getattr(torch.optim, name)(other, **options)
    for number in range(20):
        step(own, other, number, dtype, skip=1 if number in (0, 7) else None)
        ours.step()
        theirs.step()
        close(own, other, tolerance)


def test_steps_write_in_place_and_leave_gradients_and_history_alone() -> None:
    own, other = parameters("f4")
    optimizer = optim.AdamW(own)
    step(own, other, 0, "f4")
    addresses, gradients = [p.data_ptr() for p in own], [p.grad.tolist() for p in own]
    optimizer.step()
    assert [p.data_ptr() for p in own] == addresses
    assert [p.grad.tolist() for p in own] == gradients
    assert all(p.grad_fn is None and p.requires_grad for p in own)
    optimizer.zero_grad()
    assert all(p.grad is None for p in own)


def test_groups_have_their_own_options() -> None:
    own, other = parameters("f8")
    groups: list[Any] = [{"params": own[:1], "lr": 0.5}, {"params": own[1:], "weight_decay": 0.2}]
    their_groups: list[Any] = [{"params": other[:1], "lr": 0.5}, {"params": other[1:], "weight_decay": 0.2}]
    ours, theirs = optim.SGD(groups, lr=0.01), torch.optim.SGD(their_groups, lr=0.01)
    for number in range(3):
        step(own, other, number, "f8")
        ours.step()
        theirs.step()
    close(own, other, 1e-12)
    ours.param_groups[0]["lr"] = 0.0
    before = own[0].tolist()
    ours.step()
    assert own[0].tolist() == before


@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_training_goes_on_from_a_saved_state(name: str) -> None:
    options = {"lr": 0.05, "momentum": 0.9} if name == "SGD" else {"lr": 0.05}
    own, other = parameters("f8")
    first, theirs = getattr(optim, name)(own, **options), getattr(torch.optim, name)(other, **options)
    for number in range(5):
        step(own, other, number, "f8")
        first.step()
        theirs.step()
    second = getattr(optim, name)(own, lr=9.0)
    second.load_state_dict(first.state_dict())
    for number in range(5, 10):
        step(own, other, number, "f8")
        second.step()
        theirs.step()
    close(own, other, 1e-12)
    assert repr(second) == repr(first)
    with pytest.raises(InputError, match=r"expected groups of \[1\] parameters, found \[3\]"):
        optim.SGD(own[:1]).load_state_dict(first.state_dict())


def test_text() -> None:
    assert repr(optim.SGD(parameters("f4")[0], lr=0.1)).splitlines()[:3] == [
        "SGD (",
        "Parameter Group 0",
        "    dampening: 0.0",
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: optim.SGD([]), "there are no parameters"),
        (lambda p: optim.SGD(p, lr=-1), "lr=-1; expected at least 0"),
        (lambda p: optim.SGD(p, momentum=-1), "momentum=-1"),
        (lambda p: optim.SGD(p, nesterov=True), "nesterov needs a momentum"),
        (lambda p: optim.SGD([p[0], p[0]]), "is there twice"),
        (lambda p: optim.SGD([{"params": p, "momentun": 1}]), "no option 'momentun'; did you mean 'momentum'"),
        (lambda p: optim.SGD([{"params": p}, p[0]]), "found both"),
        (lambda p: optim.SGD([1.0]), "expected tensors, found float"),
        (lambda p: optim.SGD(p[0]), "expected the parameters of a module"),
        (lambda p: optim.SGD(nn.Linear(2, 2)), r"net\.parameters\(\)\) or a list of tensors, found Linear"),
        (lambda p: optim.SGD([p[0] * 2]), "was calculated from others"),
        (lambda p: optim.SGD(p, lr="0.1"), "lr=0.1; expected at least 0"),
        (lambda p: optim.Adam(p).load_state_dict({"weight": 1}), "expected what state_dict.* gives, found weight"),
        (lambda p: optim.Adam(p, betas=(0.9, 1.0)), r"betas=\(0\.9, 1\.0\)"),
        (lambda p: optim.AdamW(p, weight_decay=-1), "weight_decay=-1"),
    ],
)
def test_mistakes(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(parameters("f4")[0])


# ------------------------------------------------------------------------------------------- schedules


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("StepLR", {"step_size": 3}),
        ("StepLR", {"step_size": 1, "gamma": 0.7}),
        ("CosineAnnealingLR", {"T_max": 10}),
        ("CosineAnnealingLR", {"T_max": 4, "eta_min": 0.01}),
    ],
)
def test_schedules(name: str, options: dict[str, Any]) -> None:
    own, other = parameters("f4")
    groups: list[Any] = [{"params": own[:1]}, {"params": own[1:], "lr": 0.3}]
    their_groups: list[Any] = [{"params": other[:1]}, {"params": other[1:], "lr": 0.3}]
    ours = getattr(optim, name)(optim.SGD(groups, lr=0.1), **options)
    their_optimizer = torch.optim.SGD(their_groups, lr=0.1)
    theirs = getattr(torch.optim.lr_scheduler, name)(their_optimizer, **options)
    for _ in range(20):
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-6, abs=1e-9)
        their_optimizer.step()
        ours.step()
        theirs.step()


def test_schedules_that_make_no_sense() -> None:
    optimizer = optim.SGD(parameters("f4")[0])
    with pytest.raises(InputError, match="step_size=0"):
        optim.StepLR(optimizer, 0)
    with pytest.raises(InputError, match="T_max=0"):
        optim.CosineAnnealingLR(optimizer, 0)


def test_gradients_are_forgotten_or_set_to_zero() -> None:
    layer = nn.Linear(2, 1)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    layer(Tensor([[1.0, 2.0]])).sum().backward()
    kept = layer.weight.grad
    optimizer.zero_grad(set_to_none=False)
    assert kept is layer.weight.grad is not None and kept.tolist() == [[0, 0]]
    optimizer.zero_grad()
    assert layer.weight.grad is None


# ------------------------------------------------------------------------------------------- known numbers


def test_two_steps_with_momentum() -> None:
    """The bias of a linear layer whose raw output is summed over two samples has the gradient 2 at every step."""
    layer = nn.Linear(3, 4)
    bias = np.array([0.1618, -0.3, 0.2, 0.0], np.float32)
    weight = np.full((4, 3), 0.5437, np.float32)
    layer.load_state_dict({"weight": weight, "bias": bias})
    optimizer = optim.SGD(layer.parameters(), lr=0.01, momentum=0.9)
    x = Tensor(np.array([[0.4746, 0.5383, 0.2668], [0.0405, 0.8955, 0.7365]], np.float32))
    for expected_bias, expected_weight in ((0.1418, 0.5385), (0.1038, 0.5287)):
        optimizer.zero_grad()
        layer(x).sum().backward()
        assert layer.bias.grad is not None
        assert layer.bias.grad.tolist() == [2.0] * 4
        optimizer.step()
        assert layer.bias[0].item() == pytest.approx(expected_bias, abs=5e-5)
        assert layer.weight[0, 0].item() == pytest.approx(expected_weight, abs=1e-4)
