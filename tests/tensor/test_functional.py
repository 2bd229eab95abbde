"""kuiperinfer.tensor.functional against torch.nn.functional: results, gradients, errors, and what recorders are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as TF

import kuiperinfer
from kuiperinfer import tensor as kt
from kuiperinfer.dtypes import f32, f64
from kuiperinfer.errors import DTypeError, InputError, KuiperError, ShapeError
from kuiperinfer.tensor import functional as F
from kuiperinfer.tensor.recording import recording

from .operation_cases import Case, check_against_torch, check_differences, spread

images = spread(2, 4, 5, 6)
scores = spread(6, 5)
classes = np.array([0, 4, 2, 2, 1, 3])
maps = spread(2, 5, 3, 2)
map_classes = np.arange(12).reshape(2, 3, 2) % 5
chances = spread(6, 5, low=0.05, high=0.95, seed=4) - 0.013
shares = chances / chances.sum(1, keepdims=True)


def case(name: str, *inputs: Any, smooth: bool = True, **parameters: Any) -> Case:
    """A function of one name in both libraries, with the same parameters."""
    theirs = getattr(TF, name, None) or getattr(torch, name)
    label = ", ".join(f"{key}={value}" for key, value in parameters.items())
    return Case(
        f"{name}({label})",
        lambda *tensors: getattr(F, name)(*tensors, **parameters),
        lambda *tensors: theirs(*tensors, **parameters),
        [np.asarray(one) for one in inputs],
        smooth,
    )


def weight(*shape: int) -> Any:
    return spread(*shape, seed=7)


_PLAIN = "relu relu6 selu gelu silu mish sigmoid logsigmoid tanh softsign hardsigmoid hardswish".split()

CASES = [
    *(case(name, spread(3, 5, low=-4, high=7)) for name in _PLAIN),
    case("leaky_relu", scores, negative_slope=0.2),
    case("elu", scores, alpha=1.5),
    case("gelu", scores, approximate="tanh"),
    case("softplus", scores, beta=2.0, threshold=1.0),
    case("hardtanh", scores, min_val=-0.5, max_val=0.75),
    *(case(name, images, dim=dim) for name in ("softmax", "log_softmax") for dim in (0, 1, -1)),
    case("softmax", np.array(1.5), dim=0),
    case("linear", spread(3, 4), weight(5, 4)),
    case("linear", spread(3, 4), weight(5, 4), weight(5)),
    case("linear", spread(2, 3, 4), weight(5, 4), weight(5)),
    case("linear", spread(4), weight(5, 4), weight(5)),
    case("linear", spread(3, 4), weight(4)),
    case("conv1d", spread(2, 4, 9), weight(6, 2, 3), weight(6), stride=2, padding=2, dilation=2, groups=2),
    case("conv2d", images, weight(6, 4, 3, 3), weight(6)),
    case("conv2d", images, weight(6, 2, 3, 2), weight(6), stride=2, padding=(2, 1), groups=2),
    case("conv2d", images, weight(8, 1, 3, 3), stride=(1, 2), padding=1, groups=4),
    case("conv2d", images, weight(3, 4, 2, 2), weight(3), dilation=(2, 3), padding=2),
    case("conv2d", images, weight(3, 4, 3, 5), padding="same"),
    case("conv2d", images, weight(3, 4, 3, 5), padding="valid"),
    case("conv2d", images[0], weight(3, 4, 1, 1), weight(3)),
    case("unfold", images, kernel_size=(2, 3), dilation=(2, 1), padding=1, stride=2),
    case("fold", spread(2, 24, 16), output_size=(5, 6), kernel_size=(2, 3)),
    case("max_pool2d", images, kernel_size=2),
    case("max_pool2d", images, kernel_size=3, stride=2, padding=1),
    case("max_pool2d", images, kernel_size=(2, 3), stride=1, padding=1, dilation=(2, 1), ceil_mode=True),
    case("avg_pool2d", images, kernel_size=2),
    case("avg_pool2d", images, kernel_size=3, stride=2, padding=1, ceil_mode=True),
    case("avg_pool2d", images, kernel_size=3, stride=2, padding=1, count_include_pad=False),
    case("avg_pool2d", images, kernel_size=(2, 3), divisor_override=4),
    case("adaptive_avg_pool2d", images, output_size=(3, 4)),
    case("adaptive_avg_pool2d", images, output_size=1),
    case("adaptive_avg_pool2d", images, output_size=(None, 2)),
    case("pad", images, pad=(1, 2)),
    case("pad", images, pad=(1, -1, 0, 2), value=3.5),
    *(case("pad", images, pad=(1, 2, 2, 1), mode=mode) for mode in ("reflect", "replicate", "circular")),
    case("flatten", images, start_dim=1),
    case("flatten", images, start_dim=1, end_dim=2),
    case("embedding", np.array([[1, 0, 4], [4, 4, 2]]), weight(5, 3)),
    case("embedding", np.array([[1, 0, 4], [4, 4, 2]]), weight(5, 3), padding_idx=4, smooth=False),
    case("layer_norm", images, normalized_shape=(5, 6)),
    case("layer_norm", images, normalized_shape=(6,), eps=0.1),
    *(case("nll_loss", scores, classes, reduction=reduction) for reduction in ("mean", "sum", "none")),
    case("nll_loss", scores, classes, ignore_index=2),
    case("nll_loss", maps, map_classes),
    case("nll_loss", scores[0], classes[1]),
    *(case("cross_entropy", scores, classes, reduction=reduction) for reduction in ("mean", "sum", "none")),
    case("cross_entropy", scores, classes, ignore_index=2),
    case("cross_entropy", scores, classes, label_smoothing=0.2),
    case("cross_entropy", scores, classes, label_smoothing=0.2, ignore_index=2),
    case("cross_entropy", maps, map_classes),
    case("cross_entropy", maps, map_classes, label_smoothing=0.1, reduction="sum"),
    case("cross_entropy", scores[0], classes[1]),
    case("cross_entropy", scores, shares),
    case("cross_entropy", scores, shares, label_smoothing=0.1, reduction="none"),
    *(case(name, scores, scores[::-1], reduction=how) for name in ("mse_loss", "l1_loss") for how in ("mean", "sum", "none")),
    *(case("binary_cross_entropy", chances, shares, reduction=how) for how in ("mean", "sum", "none")),
    *(case("binary_cross_entropy_with_logits", scores, shares, reduction=how) for how in ("mean", "sum", "none")),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_torch(case: Case) -> None:
    check_against_torch(case, np.float64, rtol=1e-7, atol=1e-10)  # some of torch's own numbers are rounded to float32
    check_against_torch(case, np.float32, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("case", [case for case in CASES if case.smooth], ids=str)
def test_against_finite_differences(case: Case) -> None:
    check_differences(case)


def weighted(name: str, mine: Any, theirs: Any, *inputs: Any) -> Case:
    return Case(name, mine, theirs, [np.asarray(one) for one in inputs])


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weights_of_classes(reduction: str, smoothing: float) -> None:
    weights = np.array([0.5, 1.0, 2.0, 0.0, 3.0])
    how: Any = {"reduction": reduction, "ignore_index": 1}

    def ours(x: kt.Tensor, t: kt.Tensor) -> Any:
        return F.cross_entropy(x, t, kt.tensor(weights).to(x.dtype), label_smoothing=smoothing, **how)

    def theirs(x: torch.Tensor, t: torch.Tensor) -> Any:
        return TF.cross_entropy(x, t, torch.from_numpy(weights).to(x.dtype), label_smoothing=smoothing, **how)

    check_against_torch(weighted("weights", ours, theirs, scores, classes), np.float64, 1e-9, 1e-11)


def test_weights_of_elements() -> None:
    w = spread(6, 5, low=0.1, high=2)
    for name, x in (("binary_cross_entropy", chances), ("binary_cross_entropy_with_logits", scores)):
        mine, theirs = getattr(F, name), getattr(TF, name)
        check_against_torch(
            weighted(
                name, lambda a, t, f=mine: f(a, t, kt.tensor(w)), lambda a, t, f=theirs: f(a, t, torch.from_numpy(w)), x, shares
            ),
            np.float64, 1e-9, 1e-11,
        )  # fmt: skip
    p = np.array([0.5, 1, 2, 3, 4])
    check_against_torch(
        weighted(
            "pos_weight",
            lambda a, t: F.binary_cross_entropy_with_logits(a, t, pos_weight=kt.tensor(p)),
            lambda a, t: TF.binary_cross_entropy_with_logits(a, t, pos_weight=torch.from_numpy(p)),
            scores,
            shares,
        ),
        np.float64,
        1e-9,
        1e-11,
    )


def test_certain_predictions() -> None:
    """Logarithms of 0 are -100, and gradients stay finite, as in torch."""
    check_against_torch(case("binary_cross_entropy", [0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]), np.float64, 1e-7, 0)
    check_against_torch(case("binary_cross_entropy_with_logits", [900.0, -900.0], [0.0, 1.0]), np.float64, 1e-12, 0)
    check_against_torch(case("cross_entropy", [[1000.0, 0.0], [-1000.0, 0.0]], [1, 0]), np.float64, 1e-12, 0)


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (2, 3, 4, 2)])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm(shape: tuple[int, ...], training: bool, affine: bool) -> None:
    x, w, b = spread(*shape), weight(3), spread(3, seed=3)
    mean, variance = np.array([0.1, -0.2, 0.3]), np.array([0.5, 1.0, 2.0])
    running = [
        (kt.tensor(mean), kt.tensor(variance)),
        (torch.from_numpy(mean.copy()), torch.from_numpy(variance.copy())),
    ]

    def normalize(module: Any, side: int) -> Any:
        def function(x: Any, *weights: Any) -> Any:
            return module.batch_norm(x, *running[side], *weights, training=training, momentum=0.3, eps=1e-3)

        return function

    inputs = (x, w, b) if affine else (x,)
    check_against_torch(weighted("batch_norm", normalize(F, 0), normalize(TF, 1), *inputs), np.float64, 1e-8, 1e-10)
    for ours, theirs in zip(*running, strict=True):
        np.testing.assert_allclose(ours.array, theirs.numpy(), rtol=1e-12)
    check_differences(weighted("batch_norm", normalize(F, 0), None, *inputs))


LOSSES_OF_BF16: dict[str, Any] = {
    "cross_entropy": lambda f, x, t: f.cross_entropy(x, t),
    "smoothed": lambda f, x, t: f.cross_entropy(x, t, weight=x.detach()[0], label_smoothing=0.2),
    "nll_loss": lambda f, x, t: f.nll_loss(x, t, reduction="sum"),
    "binary_cross_entropy": lambda f, x, t: f.binary_cross_entropy(x, x.detach()),
}


@pytest.mark.parametrize("name", LOSSES_OF_BF16)
def test_losses_of_bf16(name: str) -> None:
    numbers = [[0.25, 0.5, 0.75], [0.875, 0.125, 0.5]]
    ours = kt.tensor(numbers, "bf16", requires_grad=True)
    theirs = torch.tensor(numbers, dtype=torch.bfloat16, requires_grad=True)
    loss, expected = (
        LOSSES_OF_BF16[name](f, x, t) for f, x, t in ((F, ours, kt.tensor([2, 0])), (TF, theirs, torch.tensor([2, 0])))
    )
    loss.backward()
    expected.backward()
    assert ours.grad is not None and theirs.grad is not None and loss.dtype is ours.grad.dtype is ours.dtype
    np.testing.assert_allclose(loss.item(), expected.item(), rtol=0.02)
    np.testing.assert_allclose(ours.grad.float().array, theirs.grad.float().numpy(), rtol=0.03, atol=0.01)


def test_infinities_and_nan_are_results_without_warnings() -> None:
    x = kt.tensor([[np.inf, -np.inf], [1e38, 3e38]], requires_grad=True)
    for y in (x.mean(), x.std(), x @ x.T, F.linear(x, x), x.sum(0), (x * 1).to("f64").sum()):
        y.backward(kt.ones(*y.shape, dtype=y.dtype))
        assert not np.isfinite(y.detach().array).all()


def test_where_all_targets_are_ignored_there_is_no_gradient() -> None:
    scores = kt.ones(2, 3, requires_grad=True)
    loss = F.cross_entropy(scores, kt.tensor([-100, -100]))
    loss.backward()
    assert np.isnan(loss.item()) and scores.grad is not None and scores.grad.tolist() == [[0] * 3] * 2


def test_layer_norm_with_weights() -> None:
    check_against_torch(
        weighted(
            "layer_norm",
            lambda x, w, b: F.layer_norm(x, (5, 6), w, b),
            lambda x, w, b: TF.layer_norm(x, (5, 6), w, b),
            images,
            weight(5, 6),
            spread(5, 6, seed=9),
        ),
        np.float64,
        1e-8,
        1e-10,
    )


def test_pooling_with_indices() -> None:
    values, indices = F.max_pool2d(kt.tensor(images), 2, return_indices=True)
    expected = TF.max_pool2d(torch.from_numpy(images), 2, return_indices=True)
    np.testing.assert_array_equal(values.array, expected[0].numpy())
    np.testing.assert_array_equal(indices.array, expected[1].numpy())
    assert not indices.requires_grad


def test_windows_within_the_padding_alone_give_no_gradient() -> None:
    """There is no element to give it to; PyTorch names a place outside of the plane."""
    x = kt.ones(2, 3, 1, 4, dtype=f64, requires_grad=True)
    pooled = F.max_pool2d(x, (2, 3), (1, 2), (1, 0), (2, 1), True)
    assert pooled.tolist() == np.full((2, 3, 1, 2), -np.inf).tolist()
    pooled.sum().backward()
    assert x.grad is not None and not x.grad.array.any()


def test_pooling_never_takes_padding() -> None:
    assert F.max_pool2d(kt.full((1, 1, 2, 2), -3.0), 3, 1, 1).tolist() == [[[[-3, -3], [-3, -3]]]]


def test_one_hot() -> None:
    for given in ({}, {"num_classes": 7}):
        expected = TF.one_hot(torch.from_numpy(classes), **given)
        assert F.one_hot(kt.tensor(classes), **given).tolist() == expected.tolist()


def test_flatten_is_a_view() -> None:
    x = kt.zeros(2, 3, 4)
    assert F.flatten(x, 1).shape == (2, 12) and F.flatten(x, 1).shares_memory_with(x)
    assert F.flatten(kt.tensor(3.0)).shape == (1,)


def test_dropout() -> None:
    kt.manual_seed(1)
    x = kt.ones(200, 100).requires_grad_()
    y = F.dropout(x, 0.25)
    kept = y.detach().array != 0
    assert abs(kept.mean() - 0.75) < 0.01
    np.testing.assert_allclose(y.detach().array[kept], 1 / 0.75, rtol=1e-6)
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.array != 0, kept)
    assert F.dropout(x, 0.25, training=False) is x
    assert F.dropout(x, 1.0).sum().item() == 0
    kt.manual_seed(1)
    np.testing.assert_array_equal(F.dropout(x, 0.25).detach().array, y.detach().array)


def test_float32_that_is_large_is_compiled_and_close() -> None:
    """Sizes from which loops are compiled, beside torch, gradients included."""
    big = spread(64, 512, low=-5, high=5)
    for name in ("gelu", "silu", "elu", "softplus", "mish", "hardswish"):
        check_against_torch(case(name, big), np.float32, rtol=5e-5, atol=5e-6)
    check_against_torch(case("linear", big, weight(300, 512), weight(300)), np.float32, rtol=1e-3, atol=1e-3)


# ------------------------------------------------------------------------------------------- recording


def test_recorders_are_told_what_was_called() -> None:
    calls: list[tuple[str, int, dict[str, Any], Any]] = []

    def recorder(name: str, inputs: Any, parameters: Any, result: Any) -> None:
        calls.append((name, len(inputs), dict(parameters), result))

    x = kt.ones(2, 4)
    with recording(recorder):
        y = F.linear(x, kt.ones(3, 4), kt.ones(3))
        z = F.leaky_relu(y.view(3, 2) * 2.0 + 1, 0.2)
        F.cross_entropy(z, kt.tensor([0, 1, 0]))
    assert [(name, count) for name, count, _, _ in calls] == [
        ("linear", 3), ("view", 1), ("mul", 2), ("add", 2), ("leaky_relu", 2), ("cross_entropy", 3),
    ]  # fmt: skip
    assert calls[1][2] == {"arguments": ((3, 2),)} and calls[4][3] is z
    calls.clear()
    F.relu(x)
    assert not calls


# ------------------------------------------------------------------------------------------- what is refused


def test_what_is_refused() -> None:
    x, image, target = kt.ones(2, 3), kt.ones(1, 2, 4, 4), kt.tensor([0, 1])
    word: Any = "x"
    refusals: list[tuple[Any, type[KuiperError], str]] = [
        (lambda: F.conv2d(image, kt.ones(3, 3, 2, 2)), ShapeError, "F.conv2d: input: expected 3 channels"),
        (lambda: F.conv2d(image, kt.ones(3, 2, 9, 9)), ShapeError, "kernel of 9"),
        (lambda: F.conv2d(image, kt.ones(3, 2, 2, 2), padding="sane"), ShapeError, "'sane'.*did you mean 'same'"),
        (lambda: F.linear(x, kt.ones(4, 5)), ShapeError, "cannot be multiplied"),
        (lambda: F.max_pool2d(image, 9), ShapeError, "does not fit"),
        (lambda: F.nll_loss(x, kt.tensor([0, 7])), InputError, "target 7 is out of range for 3 classes"),
        (lambda: F.nll_loss(x, kt.tensor([0, -1])), InputError, "target -1 is out of range"),
        (lambda: F.nll_loss(x, kt.ones(2)), DTypeError, "integers that name classes"),
        (lambda: F.cross_entropy(x, kt.tensor([0, 1, 2])), ShapeError, r"\(2, 3\) and target \(3,\)"),
        (lambda: F.cross_entropy(x, target, reduction="man"), InputError, "did you mean 'mean'"),
        (lambda: F.cross_entropy(x, kt.ones(2, 4)), ShapeError, "probabilities of shape"),
        (lambda: F.binary_cross_entropy(x * 2, x), InputError, "between 0 and 1"),
        (lambda: F.binary_cross_entropy(x, kt.ones(3, 2)), ShapeError, "expected one shape"),
        (lambda: F.gelu(x, "tan"), InputError, "approximate='tan'"),
        (lambda: F.linear(word, x), DTypeError, "takes tensors and numbers, found 'x'"),
        (lambda: F.dropout(x, 1.5), InputError, "p=1.5"),
        (lambda: F.batch_norm(x, None, None), InputError, "running statistics are needed"),
        (lambda: F.embedding(kt.tensor([5]), x), KuiperError, "5"),
        (lambda: F.embedding(x, x), DTypeError, "i32 or i64"),
        (lambda: F.flatten(image, 2, 1), InputError, "start_dim=2 comes after"),
        (lambda: F.softmax(kt.tensor([1]), 0), DTypeError, "float dtype"),
        (lambda: F.pad(image, (1,)), ShapeError, "two numbers for each"),
    ]
    for function, error, message in refusals:
        with pytest.raises(error, match=message):
            function()


def test_the_package_shows_it() -> None:
    assert kuiperinfer.tensor.functional is F
    assert F.softmax(kt.tensor([1, 2]), 0, dtype="f64").dtype is f64
    assert F.log_softmax(kt.ones(2), 0).dtype is f32
