"""PReLU as an expression, and as part of the layer before it."""

import numpy as np
import pytest

from tests.codegen.running import check_graph, kernels, random
from tests.passes.running import check_passes


@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (2, 4, 5), (2, 4, 5, 3), (1, 4, 2, 3, 2)], ids=str)
def test_one_slope(shape):
    left = check_passes([random(*shape)], [("nn.PReLU", "op", "x0", "y", {}, {"weight": random(1)})], ["y"])
    assert left == ["nn.PReLU"]  # without a constant


@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 5), (2, 4, 5, 3), (1, 4, 2, 3, 2)], ids=str)
def test_a_slope_for_each_channel(shape):
    left = check_passes([random(*shape)], [("nn.PReLU", "op", "x0", "y", {}, {"weight": random(4)})], ["y"])
    assert left == ["pnnx.Attribute", "nn.PReLU"]


def test_slopes_that_are_no_numbers():
    for slope in (np.nan, np.inf):
        weight = np.array([slope], np.float32)
        for shape in ((), (5,), (2, 3, 4, 5)):
            check_passes([random(*shape)], [("nn.PReLU", "op", "x0", "y", {}, {"weight": weight})], ["y"])


def test_slopes_that_are_calculated_stay():
    left = check_passes([random(2, 4, 5, 3), random(4)], [("F.prelu", "op", "x0 x1", "y")], ["y"])
    assert left == ["F.prelu"]


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("channels", [3, 16, 17, 40])
def test_part_of_a_convolution(batch, channels):
    x = random(batch, 6, 7, 9)
    x[0, 1, 2, 3], x[-1, 0, 0, 0] = np.nan, np.inf
    lines = [
        ("nn.Conv2d", "conv", "x0", "a", {"bias": False}, {"weight": np.abs(random(channels, 6, 3, 3))}),
        ("nn.PReLU", "prelu", "a", "y", {}, {"weight": random(channels)}),
    ]
    assert check_passes([x], lines, ["y"]) == ["pnnx.Attribute", "nn.Conv2d"]
    assert "ImageMapSpec" not in kernels(check_graph([x], lines, ["y"]))


def test_part_of_a_linear_layer():
    lines = [
        ("nn.Linear", "linear", "x0", "a", {"bias": False}, {"weight": random(20, 6)}),
        ("nn.PReLU", "prelu", "a", "y", {}, {"weight": random(20)}),
    ]
    assert check_passes([random(3, 6)], lines, ["y"]) == ["pnnx.Attribute", "nn.Linear"]
    assert kernels(check_graph([random(3, 6)], lines, ["y"])) == ["MatrixProductSpec"]


def test_images_without_a_convolution_before():
    lines = [
        ("nn.MaxPool2d", "pool", "x0", "a", {"kernel_size": (2, 2), "stride": (2, 2)}),
        ("nn.PReLU", "prelu", "a", "b", {}, {"weight": random(18)}),
        ("nn.AvgPool2d", "again", "b", "y", {"kernel_size": (2, 2), "stride": (1, 1)}),
    ]
    check_graph([random(2, 18, 8, 10)], lines, ["y"])
