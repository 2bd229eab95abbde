"""Operators of signals and of single samples as those of batches of images."""

import numpy as np
import pytest

from tests.codegen.running import check_graph, fallbacks, kernels, random
from tests.passes.running import check_passes

POOLS = [
    ("nn.MaxPool1d", {"kernel_size": (3,), "stride": (2,), "padding": (1,), "dilation": (2,)}),
    ("nn.MaxPool1d", {"kernel_size": (2,), "ceil_mode": True}),
    ("nn.AvgPool1d", {"kernel_size": (3,), "stride": (2,), "padding": (1,), "count_include_pad": True}),
    ("nn.AvgPool1d", {"kernel_size": (3,), "stride": (1,), "padding": (1,), "count_include_pad": False}),
    ("nn.AdaptiveAvgPool1d", {"output_size": (3,)}),
    ("nn.AdaptiveMaxPool1d", {"output_size": (1,)}),
]
CONVOLUTIONS = [
    {"kernel_size": (3,), "stride": (1,), "padding": (1,), "dilation": (1,), "groups": 1, "bias": True},
    {"kernel_size": (5,), "stride": (2,), "padding": (0,), "dilation": (2,), "groups": 1, "bias": True},
    {"kernel_size": (4,), "stride": (1,), "padding": "same", "dilation": (1,), "groups": 1, "bias": True},
    {"kernel_size": (3,), "padding": (1,), "groups": 20, "bias": True},
]


def weights(inputs, outputs, kernel):
    return {"weight": random(outputs, inputs, *kernel), "bias": random(outputs, seed=1)}


@pytest.mark.parametrize("shape", [(2, 20, 33), (20, 33)], ids=str)
@pytest.mark.parametrize(("type_name", "params"), POOLS, ids=str)
def test_pooling_of_signals(type_name, params, shape):
    lines = [(type_name, "op", "x0", "y", params)]
    assert check_passes([random(*shape)], lines, ["y"]) == ["Tensor.reshape", type_name, "Tensor.reshape"]
    check_graph([random(*shape)], lines, ["y"])


@pytest.mark.parametrize("shape", [(2, 20, 33), (20, 33)], ids=str)
@pytest.mark.parametrize("params", CONVOLUTIONS, ids=str)
def test_convolution_of_signals(params, shape):
    data = weights(20 // params["groups"], 20, params["kernel_size"])
    lines = [("nn.Conv1d", "conv", "x0", "a", params, data), ("nn.ReLU", "relu", "a", "y")]
    check_passes([random(*shape)], lines, ["y"])
    check_graph([random(*shape)], lines, ["y"])


@pytest.mark.parametrize("shape", [(2, 6, 13), (6, 13)], ids=str)
def test_transposed_convolution_of_signals(shape):
    params = {"stride": (2,), "padding": (1,), "output_padding": (1,), "bias": True, "groups": 1}
    data = {"weight": random(6, 9, 4), "bias": random(9)}
    lines = [("nn.ConvTranspose1d", "conv", "x0", "y", params, data)]
    check_passes([random(*shape)], lines, ["y"])
    check_graph([random(*shape)], lines, ["y"])


def test_samples_without_a_batch():
    conv = {"padding": (1, 1), "stride": (1, 1), "bias": True, "groups": 1}
    lines = [
        ("nn.Conv2d", "a", "x0", "a", conv, weights(5, 18, (3, 3))),
        ("nn.MaxPool2d", "b", "a", "b", {"kernel_size": (2, 2)}),
        ("nn.ConvTranspose2d", "c", "b", "c", {"stride": (2, 2), "bias": False}, {"weight": random(18, 4, 2, 2)}),
        ("nn.AdaptiveAvgPool2d", "d", "c", "y", {"output_size": (2, 3)}),
    ]
    check_passes([random(5, 8, 12)], lines, ["y"])
    check_graph([random(5, 8, 12)], lines, ["y"])


def test_a_chain_of_signals_is_not_reordered():
    params = {"padding": (1,), "bias": True, "groups": 1}
    lines = [
        ("nn.Conv1d", "a", "x0", "a", params, weights(2, 18, (3,))),
        ("nn.ReLU", "b", "a", "b"),
        ("nn.Conv1d", "c", "b", "c", params, weights(18, 18, (3,))),
        ("pnnx.Expression", "d", "c b", "d", {"expr": "add(@0,@1)"}),
        ("nn.MaxPool1d", "e", "d", "e", {"kernel_size": (2,)}),
        ("nn.Conv1d", "f", "e", "y", params, weights(18, 4, (3,))),
    ]
    check_passes([random(1, 2, 64)], lines, ["y"])
    plan = check_graph([random(1, 2, 64)], lines, ["y"])
    assert kernels(plan).count("ReorderSpec") == 2  # the input with its halo, and the output


def test_slopes_of_samples_without_a_batch_go_by_rows():
    """PReLU counts the second dimension as channels."""
    lines = [
        ("nn.Conv2d", "a", "x0", "a", {"bias": False, "groups": 1}, {"weight": random(6, 5, 1, 1)}),
        ("nn.PReLU", "b", "a", "y", {}, {"weight": random(7)}),
    ]
    check_passes([random(5, 7, 8)], lines, ["y"])
    check_graph([random(5, 7, 8)], lines, ["y"], compiled=False)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("shape", [(1, 5, 9), (2, 5, 7, 9)], ids=str)
def test_padding_modes_of_convolutions(mode, shape):
    ndim = len(shape) - 2
    params = {"padding": (2, 1)[:ndim], "padding_mode": mode, "bias": True, "groups": 1}
    lines = [
        (f"nn.Conv{ndim}d", "a", "x0", "a", params, weights(5, 17, (3,) * ndim)),
        (f"nn.Conv{ndim}d", "b", "a", "y", params, weights(17, 4, (3,) * ndim)),
    ]
    assert check_passes([random(*shape)], lines, ["y"]).count("F.pad") == 2
    assert not fallbacks(check_graph([random(*shape)], lines, ["y"]))


def test_what_stays():
    x = random(1, 3, 4, 5, 6)
    assert check_passes([x], [("nn.MaxPool3d", "op", "x0", "y", {"kernel_size": (2, 2, 2)})], ["y"]) == ["nn.MaxPool3d"]
    indices = [("nn.MaxPool1d", "op", "x0", "y z", {"kernel_size": (2,), "return_indices": True})]
    assert check_passes([random(1, 3, 8)], indices, ["y", "z"]) == ["nn.MaxPool1d"]
    numbers = np.arange(24).reshape(1, 3, 8)
    pool = [("nn.MaxPool1d", "op", "x0", "y", {"kernel_size": (2,)})]
    assert check_passes([numbers], pool, ["y"]) == ["nn.MaxPool1d"]
