"""1×1 convolutions of few filters of rows."""

import numpy as np
import pytest

from tests.codegen.running import check_graph, kernels, random


def conv(channels, filters, bias=True):
    weights = {"weight": random(filters, channels, 1, 1)}
    if bias:
        weights["bias"] = random(filters, seed=3)
    return ("nn.Conv2d", "conv", "a", "b", {"bias": bias, "groups": 1}, weights)


@pytest.mark.parametrize("shape", [(1, 5, 6, 7), (2, 16, 3, 33), (3, 1, 1, 9)], ids=str)
@pytest.mark.parametrize("filters", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_rows(shape, filters, bias):
    lines = [("nn.Tanh", "before", "x0", "a"), conv(shape[1], filters, bias), ("nn.ReLU", "after", "b", "y")]
    plan = check_graph([random(*shape)], lines, ["y"])
    assert kernels(plan) == ["MapSpec", "MatrixProductSpec"]


@pytest.mark.parametrize("dims", [(0, 2, 1, 3), (1, 0, 2, 3), (0, 3, 1, 2), (0, 1, 3, 2)], ids=str)
def test_views(dims):
    x = random(4, 5, 6, 7)
    lines = [
        ("Tensor.permute", "before", "x0", "a", {"dims": dims}),
        conv(x.shape[dims[1]], 2),
        ("pnnx.Expression", "after", "b x1", "y", {"expr": "mul(tanh(@0),@1)"}),
    ]
    shape = [x.shape[dim] for dim in dims]
    shape[1] = 2
    check_graph([x, random(*shape)], lines, ["y"])


def test_before_another_convolution():
    lines = [
        ("nn.Tanh", "before", "x0", "a"),
        conv(5, 2),
        (
            "nn.Conv2d",
            "next",
            "b",
            "y",
            {"padding": (1, 1), "bias": False, "groups": 1},
            {"weight": random(9, 2, 3, 3)},
        ),
    ]
    check_graph([random(1, 5, 8, 8)], lines, ["y"])


def test_numbers_that_are_none_or_infinite():
    x = random(1, 3, 4, 20)
    x[0, 0, 1, 2], x[0, 2, 3, 4] = np.nan, np.inf
    check_graph([x], [("nn.ReLU", "before", "x0", "a"), conv(3, 1)], ["b"])


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_other_operands_that_are_views(kind):
    """What is added to the product lies in another order."""
    if kind == "linear":
        made, x = ("nn.Linear", "conv", "x1", "b", {"bias": False}, {"weight": random(5, 6)}), random(4, 6)
    else:
        made, x = conv(3, 4, bias=False), random(1, 3, 5, 4)
    shape = (1, 4, 5, 4) if kind == "conv" else (4, 5)
    dims = (0, 1, 3, 2) if kind == "conv" else (1, 0)
    lines = [
        ("nn.Tanh", "before", "x1", "a"),
        ("Tensor.permute", "view", "x0", "v", {"dims": dims}),
        made,
        ("pnnx.Expression", "after", "b v", "y", {"expr": "add(@0,@1)"}),
    ]
    check_graph([random(*(shape[dim] for dim in dims)), x], lines, ["y"])
