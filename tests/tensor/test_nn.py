"""Layers and losses are PyTorch's: names, defaults, first weights, text, values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kuiperinfer import InputError, KuiperError, ShapeError, nn
from kuiperinfer.tensor import Tensor, manual_seed

RANDOM = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def pair_of(name: str, *args: Any, **options: Any) -> tuple[nn.Module, torch.nn.Module]:
    """The same layer twice, with the same weights, none of them at its default."""
    ours, theirs = getattr(nn, name)(*args, **options), getattr(torch.nn, name)(*args, **options)
    state = {
        key: torch.rand(value.shape) + 0.1 if value.dtype == torch.float32 else value
        for key, value in theirs.state_dict().items()
    }
    theirs.load_state_dict(state)
    ours.load_state_dict(state)
    return ours, theirs


def close(ours: Tensor | None, theirs: torch.Tensor | None, what: str = "") -> None:
    assert ours is not None
    assert theirs is not None
    found, expected = ours.detach().numpy(), theirs.detach().numpy()
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5, err_msg=what)


LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("Linear", (5, 3), {}, (4, 5)),
    ("Linear", (5, 3, False), {}, (2, 4, 5)),
    ("Linear", (5, 3), {}, (5,)),
    ("Conv2d", (3, 4, 3), {}, (2, 3, 7, 6)),
    ("Conv2d", (4, 6, (3, 2)), {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}, (2, 4, 8, 9)),
    ("Conv2d", (4, 4, 3), {"padding": "same", "dilation": 2, "groups": 4, "bias": False}, (1, 4, 6, 5)),
    ("Conv2d", (2, 3, 2), {"padding": "valid"}, (1, 2, 6, 5)),
    ("Conv2d", (2, 3, 3), {"padding": (1, 2), "padding_mode": "reflect", "bias": False}, (1, 2, 6, 5)),
    ("Conv2d", (2, 3, (4, 2)), {"padding": "same", "padding_mode": "circular", "dilation": (1, 3)}, (1, 2, 6, 5)),
    ("Conv2d", (2, 3, 3), {"padding": 2, "padding_mode": "replicate", "stride": 2}, (1, 2, 6, 5)),
    ("Conv2d", (2, 3, 3), {"padding": "valid", "padding_mode": "replicate"}, (1, 2, 6, 5)),
    ("BatchNorm1d", (3,), {}, (6, 3)),
    ("BatchNorm1d", (3,), {"eps": 1e-3, "momentum": 0.3}, (4, 3, 5)),
    ("BatchNorm2d", (3,), {}, (2, 3, 4, 5)),
    ("BatchNorm2d", (3,), {"affine": False, "momentum": None}, (2, 3, 4, 5)),
    ("BatchNorm2d", (3,), {"track_running_stats": False}, (2, 3, 4, 5)),
    ("LayerNorm", (5,), {}, (2, 4, 5)),
    ("LayerNorm", ((4, 5),), {"eps": 1e-3}, (2, 4, 5)),
    ("LayerNorm", (5,), {"elementwise_affine": False}, (4, 5)),
    ("LayerNorm", (5,), {"bias": False}, (4, 5)),
    ("MaxPool2d", (2,), {}, (2, 3, 7, 6)),
    ("MaxPool2d", ((3, 2),), {"stride": (2, 1), "padding": 1, "ceil_mode": True}, (1, 2, 8, 7)),
    ("MaxPool2d", (2,), {"dilation": 2, "stride": 1}, (1, 2, 8, 7)),
    ("AvgPool2d", (2,), {}, (2, 3, 7, 6)),
    ("AvgPool2d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}, (1, 2, 8, 7)),
    ("AvgPool2d", ((3, 2), 1), {"ceil_mode": True, "divisor_override": 4}, (1, 2, 8, 7)),
    ("AdaptiveAvgPool2d", (1,), {}, (2, 3, 7, 6)),
    ("AdaptiveAvgPool2d", ((3, None),), {}, (2, 3, 7, 6)),
    ("ReLU", (), {}, (3, 4)),
    ("ReLU6", (), {}, (3, 4)),
    ("Sigmoid", (), {}, (3, 4)),
    ("Tanh", (), {}, (3, 4)),
    ("SiLU", (), {}, (3, 4)),
    ("Hardswish", (), {}, (3, 4)),
    ("Hardsigmoid", (), {}, (3, 4)),
    ("LeakyReLU", (), {}, (3, 4)),
    ("LeakyReLU", (0.2,), {}, (3, 4)),
    ("ELU", (0.7,), {}, (3, 4)),
    ("GELU", (), {}, (3, 4)),
    ("GELU", ("tanh",), {}, (3, 4)),
    ("Softplus", (), {}, (3, 4)),
    ("Softplus", (2.0, 3.0), {}, (3, 4)),
    ("Softmax", (1,), {}, (3, 4)),
    ("LogSoftmax", (-1,), {}, (3, 4)),
    ("Flatten", (), {}, (3, 4, 5)),
    ("Flatten", (0, 1), {}, (3, 4, 5)),
    ("Identity", (), {}, (3, 4)),
]
IDS = [f"{name}{number}" for number, (name, *_) in enumerate(LAYERS)]


@pytest.mark.parametrize(("name", "args", "options", "shape"), LAYERS, ids=IDS)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_layers(
    name: str, args: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...], training: bool
) -> None:
    ours, theirs = pair_of(name, *args, **options)
    ours.train(training)
    theirs.train(training)
    values = 2 * numbers(*shape)
    x, expected_x = Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    for _ in range(2):  # twice, so that running statistics and gradients add up
        y, expected_y = ours(x), theirs(expected_x)
        close(y, expected_y)
        weights = numbers(*y.shape)
        (y * Tensor(weights)).sum().backward()
        (expected_y * torch.tensor(weights)).sum().backward()
    close(x.grad, expected_x.grad)
    for (key, own), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        close(own.grad, other.grad, key)
    for (key, buffer), (_, other) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        close(buffer, other, key)


@pytest.mark.parametrize(("name", "args", "options", "shape"), LAYERS, ids=IDS)
def test_text_and_state_are_those_of_pytorch(
    name: str, args: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    ours, theirs = getattr(nn, name)(*args, **options), getattr(torch.nn, name)(*args, **options)
    assert repr(ours) == repr(theirs)
    own = {key: (tuple(value.shape), value.dtype.torch_name) for key, value in ours.state_dict().items()}
    expected = {key: (tuple(value.shape), str(value.dtype)) for key, value in theirs.state_dict().items()}
    assert own == expected
    assert list(own) == list(expected)


@pytest.mark.parametrize(
    ("name", "args"),
    [("Linear", (300, 200)), ("Conv2d", (30, 40, 5)), ("Conv2d", (32, 64, 3, 1, 0, 1, 4)), ("Embedding", (200, 100))],
)
def test_first_weights_are_spread_as_those_of_pytorch(name: str, args: tuple[int, ...]) -> None:
    manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ours, theirs = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
    for (key, own), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        found, expected = own.detach().numpy(), other.detach().numpy()
        assert abs(found.mean()) < 3 * expected.std() / np.sqrt(expected.size), key
        tolerance = 0.03 if found.size > 1000 else 0.25
        assert found.std() == pytest.approx(expected.std(), rel=tolerance), key
        if name != "Embedding":
            assert abs(found).max() == pytest.approx(abs(expected).max(), rel=tolerance), key


@pytest.mark.parametrize("padding_idx", [None, 0, -2])
def test_embedding(padding_idx: int | None) -> None:
    ours, theirs = nn.Embedding(6, 3, padding_idx), torch.nn.Embedding(6, 3, padding_idx)
    assert repr(ours) == repr(theirs)
    if padding_idx is not None:
        assert not ours.weight.detach()[padding_idx].numpy().any()
    weights = numbers(6, 3)
    ours.load_state_dict({"weight": weights})
    theirs.load_state_dict({"weight": torch.tensor(weights)})
    indices = np.array([[0, 4, 4], [5, 2, 0]])
    y, expected = ours(Tensor(indices)), theirs(torch.tensor(indices))
    close(y, expected)
    factors = numbers(2, 3, 3)
    (y * Tensor(factors)).sum().backward()
    (expected * torch.tensor(factors)).sum().backward()
    close(ours.weight.grad, theirs.weight.grad)


def test_dropout() -> None:
    manual_seed(0)
    layer = nn.Dropout(0.3)
    assert repr(layer) == "Dropout(p=0.3)"
    x = Tensor(np.ones((200, 50), np.float32), requires_grad=True)
    y = layer(x)
    values = y.detach().numpy()
    kept = values != 0
    np.testing.assert_allclose(values[kept], 1 / 0.7, rtol=1e-6)
    assert kept.mean() == pytest.approx(0.7, abs=0.02)
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), values)
    np.testing.assert_array_equal(layer.eval()(x).detach().numpy(), x.detach().numpy())
    assert not nn.Dropout(1.0)(x).detach().numpy().any()
    with pytest.raises(InputError, match=r"p=1\.5; expected a probability"):
        nn.Dropout(1.5)


# ------------------------------------------------------------------------------------------- losses

PROBABILITIES = np.asarray(torch.softmax(torch.tensor(numbers(6, 4)), 1))
CLASSES = np.array([0, 3, 1, 1, 2, 3])
CLASS_WEIGHTS = np.array([0.5, 2.0, 1.0, 0.1], np.float32)
POSITIVE = RANDOM.uniform(0.05, 0.95, (6, 4)).astype(np.float32)
BITS = (RANDOM.uniform(size=(6, 4)) < 0.5).astype(np.float32)

LOSSES: list[tuple[str, dict[str, Any], np.ndarray, np.ndarray]] = [
    ("CrossEntropyLoss", {}, numbers(6, 4), CLASSES),
    ("CrossEntropyLoss", {"label_smoothing": 0.1}, numbers(6, 4), CLASSES),
    ("CrossEntropyLoss", {"weight": CLASS_WEIGHTS, "ignore_index": 1}, numbers(6, 4), CLASSES),
    ("CrossEntropyLoss", {"weight": CLASS_WEIGHTS, "label_smoothing": 0.2}, numbers(6, 4), CLASSES),
    ("CrossEntropyLoss", {"weight": CLASS_WEIGHTS}, numbers(6, 4), PROBABILITIES),
    ("CrossEntropyLoss", {}, numbers(2, 4, 3), CLASSES.reshape(2, 3)),
    ("NLLLoss", {}, np.log(PROBABILITIES), CLASSES),
    ("NLLLoss", {"weight": CLASS_WEIGHTS, "ignore_index": 3}, np.log(PROBABILITIES), CLASSES),
    ("MSELoss", {}, numbers(6, 4), numbers(6, 4)),
    ("BCELoss", {}, POSITIVE, BITS),
    ("BCELoss", {"weight": CLASS_WEIGHTS}, POSITIVE, POSITIVE[::-1].copy()),
    ("BCEWithLogitsLoss", {}, 30 * numbers(6, 4), BITS),
    ("BCEWithLogitsLoss", {"weight": CLASS_WEIGHTS, "pos_weight": 3 * CLASS_WEIGHTS}, numbers(6, 4), BITS),
]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("name", "options", "values", "target"), LOSSES, ids=lambda value: str(value)[:20])
def test_losses(name: str, options: dict[str, Any], values: np.ndarray, target: np.ndarray, reduction: str) -> None:
    def loss(room: Any, make: Any) -> Any:
        made = {key: make(value) if isinstance(value, np.ndarray) else value for key, value in options.items()}
        return getattr(room, name)(**made, reduction=reduction)

    ours, theirs = loss(nn, Tensor), loss(torch.nn, torch.tensor)
    assert repr(ours) == repr(theirs)
    x, expected_x = Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    y, expected = ours(x, Tensor(target)), theirs(expected_x, torch.tensor(target))
    close(y, expected)
    y.backward(Tensor(np.ones(y.shape, np.float32)))
    expected.backward(torch.ones_like(expected))
    close(x.grad, expected_x.grad)


def test_losses_that_make_no_sense() -> None:
    with pytest.raises(InputError, match="reduction 'average'; expected mean, sum, none"):
        nn.MSELoss(reduction="average")
    with pytest.raises(InputError, match=r"label_smoothing=-0\.1"):
        nn.CrossEntropyLoss(label_smoothing=-0.1)
    with pytest.raises(KuiperError):
        nn.CrossEntropyLoss()(Tensor(numbers(3, 4)), Tensor(np.array([0, 1, 4])))


# ------------------------------------------------------------------------------------------- clipping


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, float("inf")])
@pytest.mark.parametrize("max_norm", [0.5, 1000.0])
def test_clipping_by_norm(max_norm: float, norm_type: float) -> None:
    ours, theirs = pair_of("Linear", 5, 3)
    for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        gradient = numbers(*own.shape)
        own.grad, other.grad = Tensor(gradient), torch.tensor(gradient)
    norm = nn.clip_grad_norm_(ours.parameters(), max_norm, norm_type)
    assert norm == pytest.approx(
        float(torch.nn.utils.clip_grad_norm_(theirs.parameters(), max_norm, norm_type)), rel=1e-5
    )
    for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(own.grad, other.grad)


def test_clipping_by_value_and_without_gradients() -> None:
    ours, theirs = pair_of("Linear", 5, 3)
    assert nn.clip_grad_norm_(ours.parameters(), 1.0) == 0.0
    gradient = numbers(3, 5)
    ours.weight.grad, theirs.weight.grad = Tensor(gradient), torch.tensor(gradient)
    nn.clip_grad_value_(ours.parameters(), 0.4)
    torch.nn.utils.clip_grad_value_(theirs.parameters(), 0.4)
    close(ours.weight.grad, theirs.weight.grad)
    assert ours.bias.grad is None
    with pytest.raises(InputError, match="norm_type 0"):
        nn.clip_grad_norm_(ours.weight, 1.0, 0)


# ------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "multiples of groups, found in_channels=3, out_channels=4, groups=2"),
        (lambda: nn.Conv2d(3, 4, 3, padding="sane"), "did you mean 'same'"),
        (lambda: nn.Conv2d(3, 4, 3, padding="same", stride=2), "needs stride 1"),
        (lambda: nn.Conv2d(3, 4, 3, padding_mode="zero"), "did you mean 'zeros'"),
        (lambda: nn.BatchNorm2d(3)(Tensor(numbers(2, 3))), r"BatchNorm2d: expected 4 dimensions, found shape \(2, 3\)"),
        (lambda: nn.BatchNorm1d(3)(Tensor(numbers(2, 3, 1, 1))), "BatchNorm1d: expected 2 or 3 dimensions"),
    ],
)
def test_mistakes(make: Any, message: str) -> None:
    with pytest.raises((InputError, ShapeError), match=message):
        make()


def test_inputs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(KuiperError):
        nn.Linear(5, 3)(Tensor(numbers(2, 4)))
    with pytest.raises(KuiperError):
        nn.Conv2d(3, 4, 3)(Tensor(numbers(1, 2, 5, 5)))
