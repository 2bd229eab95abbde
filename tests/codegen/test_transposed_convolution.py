"""Transposed convolutions against their reference."""

import numpy as np
import pytest

from kuiperinfer.codegen.epilogue import Epilogue
from kuiperinfer.codegen.kernels.transposed_convolution import TransposedConvolutionSpec
from kuiperinfer.codegen.layout import blocked
from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.target import target_named
from kuiperinfer.codegen.transposed_convolution import phases_of
from tests.codegen.running import check_graph, check_operator, kernels, random


def transposed(channels, outputs, size, kernel, *, batch=1, groups=1, bias=True, **params):
    """Input, weights and parameters of an operator."""
    kernel = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    weights = {"weight": random(channels, outputs // groups, *kernel, seed=1)}
    if bias:
        weights["bias"] = random(outputs, seed=2)
    shape = size if isinstance(size, tuple) else (size, size)
    params = {"groups": groups, "bias": bias, **params}
    return "nn.ConvTranspose2d", [random(batch, channels, *shape)], params, weights


@pytest.mark.parametrize(
    ("channels", "outputs", "size", "kernel", "batch"),
    [
        (16, 16, 4, 2, 1),
        (32, 48, (5, 33), 2, 1),
        (3, 5, (1, 7), 2, 2),
        (17, 33, (6, 15), 2, 1),
        (20, 80, (3, 40), (2, 3), 2),
        (4, 4, (3, 3), 4, 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("bias", [True, False])
def test_stride_is_kernel(channels, outputs, size, kernel, batch, bias):
    plan = check_operator(*transposed(channels, outputs, size, kernel, batch=batch, bias=bias, stride=kernel))
    assert "TransposedConvolutionSpec" in kernels(plan)


@pytest.mark.parametrize(
    "params",
    [
        {"kernel": 3, "stride": 2, "padding": 1, "output_padding": 1},
        {"kernel": 4, "stride": 2, "padding": 1},
        {"kernel": 3},
        {"kernel": 3, "stride": 1, "padding": 2},
        {"kernel": 2, "stride": 3, "output_padding": 2},  # outputs without any tap
        {"kernel": 1, "stride": 2},
        {"kernel": 3, "stride": 2, "padding": 1, "dilation": 2, "output_padding": 1},
        {"kernel": 3, "stride": (3, 2), "padding": (2, 0), "dilation": (2, 3)},
        {"kernel": 5, "stride": 4, "padding": 3, "output_padding": 3},
        {"kernel": 2, "stride": 2, "padding": 1},
        {"kernel": 2, "stride": 2, "output_padding": 1},
        {"kernel": 16, "stride": 8, "padding": 4},
    ],
    ids=str,
)
@pytest.mark.parametrize(("channels", "outputs", "size"), [(6, 10, (5, 7)), (33, 17, (4, 19))], ids=str)
def test_general(params, channels, outputs, size):
    targets = ["x86-64-v2"] if params["kernel"] == 16 else None
    check_operator(*transposed(channels, outputs, size, **params), **({"targets": targets} if targets else {}))


@pytest.mark.parametrize(
    ("channels", "outputs", "groups"), [(32, 64, 2), (64, 32, 2), (32, 32, 32), (7, 7, 7), (48, 48, 12), (33, 33, 33)]
)
def test_groups(channels, outputs, groups):
    targets = ["x86-64-v4"] if channels % 16 == 0 else None
    options = {"targets": targets} if targets else {}
    check_operator(*transposed(channels, outputs, 6, 4, groups=groups, stride=2, padding=1), **options)
    check_operator(*transposed(channels, outputs, 6, 2, groups=groups, stride=2), **options)


def test_groups_that_fill_no_vector_are_right_too():
    check_operator(*transposed(12, 6, 5, 3, groups=3, stride=2), compiled=False)


def test_output_size():
    x, w = random(1, 8, 5, 5), random(8, 4, 3, 3)
    line = (
        "F.conv_transpose2d",
        "op",
        "x0 w",
        "y",
        {"stride": (2, 2), "padding": (1, 1), "output_padding": (1, 0)},
        {},
    )
    check_graph([x], [("pnnx.Attribute", "w", "", "w", {}, {"data": w}), line], ["y"], compiled=False)


def test_numbers_that_are_none_or_infinite():
    type_name, (x,), params, weights = transposed(8, 8, (4, 5), 3, stride=2, padding=1)
    x[0, 3, 1, 2], x[0, 0, 3, 4], x[0, 7, 0, 0] = np.nan, np.inf, -np.inf
    weights["weight"] = np.abs(weights["weight"])
    check_operator(type_name, [x], params, weights)
    params = {"stride": (2, 2), "bias": False, "groups": 1}
    check_operator(type_name, [x], params, {"weight": np.abs(random(8, 8, 1, 1))})


@pytest.mark.parametrize("kernel", [2, 3])
def test_fused_expressions(kernel):
    type_name, (x,), params, weights = transposed(5, 20, (4, 9), kernel, stride=2)
    out = (1, 20, 2 * 3 + kernel, 2 * 8 + kernel)
    lines = [
        (type_name, "up", "x0", "a", params, weights),
        ("pnnx.Expression", "add", "a x1", "b", {"expr": "add(@0,@1)"}),
        ("nn.ReLU", "relu", "b", "c"),
        ("nn.Conv2d", "conv", "c", "y", {"bias": False, "padding": (1, 1)}, {"weight": random(3, 20, 3, 3)}),
    ]
    plan = check_graph([x, random(*out)], lines, ["y"])
    assert not any("Map" in kernel for kernel in kernels(plan))


def test_threads_agree():
    check_operator(*transposed(32, 64, 40, 2, stride=2), threads=2, targets=["host"])
    check_operator(*transposed(32, 64, 40, 3, stride=2), threads=2, targets=["host"])


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_phases_have_every_tap_once(stride, dilation):
    kernel, padding, inputs = 5, 2, 6
    output = (inputs - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
    found = {
        (phase.first + stride * m, tap, m + phase.start + number * phase.step)
        for phase in phases_of(output, kernel, stride, padding, dilation)
        for m in range(phase.count)
        for number, tap in enumerate(phase.taps)
    }
    inside = {(y, tap, i) for y, tap, i in found if 0 <= i < inputs}
    laid = ((i * stride - padding + tap * dilation, tap, i) for i in range(inputs) for tap in range(kernel))
    assert inside == {(y, tap, i) for y, tap, i in laid if 0 <= y < output}


def test_aarch64_uses_vectors():
    source, out = blocked((1, 8, 6, 6), 4), blocked((1, 8, 12, 12), 4)
    spec = TransposedConvolutionSpec(source, out, (2, 2), Epilogue(), 6, 2, 6)
    target = target_named("aarch64")
    assert "fmla\tv" in assembly_of(spec.module("kernel", target), target)
