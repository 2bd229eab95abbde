"""Padding of rows and of images against its reference."""

import numpy as np
import pytest

from kuiperinfer.codegen.copying import Run, runs_of
from tests.codegen.running import check_graph, check_operator, kernels, random

MODES = ["reflect", "replicate", "circular"]


def conv(name, source, target, inputs, outputs, size=1, **params):
    weights = {"weight": random(outputs, inputs, size, size, seed=len(name))}
    return ("nn.Conv2d", name, source, target, {"bias": False, **params}, weights)


def image(inputs=8, channels=20):
    """A convolution before, so that what is padded is a blocked image, and one after."""
    return [conv("before", "x0", "a", inputs, channels)], [conv("after", "b", "y", channels, 5, 3)]


@pytest.mark.parametrize("value", [None, 0.0, 1.5, float("-inf")])
@pytest.mark.parametrize("pad", [(1, 2), (2, 0, 1, 3), (-1, 2, 3, -2), (1, 1, 0, 0, 2, 1), (0, 0, -1, -2)], ids=str)
def test_rows_with_a_value(value, pad):
    check_operator("F.pad", [random(3, 5, 7)], {"pad": pad, "mode": "constant", "value": value})


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.uint8, np.int16, np.int32, np.int64, np.float16, np.float64, np.complex64]
)
def test_rows_of_other_dtypes(dtype):
    x = (10 * random(4, 6)).astype(dtype)
    check_operator("F.pad", [x], {"pad": (1, 2, 0, 3), "mode": "constant", "value": 1.0})
    if dtype is not np.bool_:
        check_operator("F.pad", [x], {"pad": (1, 2), "mode": "replicate"})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pad", [(2, 1), (1, 3, 2, 0), (3, -1, -2, 1)], ids=str)
def test_rows_from_their_own_elements(mode, pad):
    shape = (2, 3, 6, 5) if len(pad) == 4 else (3, 2, 7)
    check_operator("F.pad", [random(*shape)], {"pad": pad, "mode": mode})


def test_nothing_to_pad():
    check_operator("F.pad", [random(0, 5)], {"pad": (1, 2), "mode": "constant", "value": 2.0})
    check_operator("F.pad", [random(2, 5)], {"pad": (-3, -2), "mode": "constant"})
    check_operator("F.pad", [random(2, 5)], {"pad": (0, 0), "mode": "constant"})


def test_modules():
    check_operator("nn.ZeroPad2d", [random(1, 2, 3, 4)], {"padding": (1, 2, 3, 4)})
    check_operator("nn.ReflectionPad1d", [random(2, 3, 6)], {"padding": (2, 1)})
    check_operator("nn.ConstantPad3d", [random(1, 2, 3, 4, 5)], {"padding": (1, 0, 2, 1, 0, 1), "value": 3.0})


@pytest.mark.parametrize("channels", [3, 16, 20, 33])
@pytest.mark.parametrize("mode", MODES)
def test_images_from_their_own_pixels(mode, channels):
    before, after = image(channels=channels)
    pad = ("F.pad", "pad", "a", "b", {"pad": (2, 1, 1, 3), "mode": mode})
    found = kernels(check_graph([random(2, 8, 6, 5)], [*before, pad, *after], ["y"]))
    assert channels == 3 or "GatherPixelsSpec" in found  # few channels are rows, not an image


@pytest.mark.parametrize("value", [2.5, float("-inf")])
def test_images_with_a_value(value):
    before, after = image()
    pad = ("F.pad", "pad", "a", "b", {"pad": (2, 1, 1, 3), "mode": "constant", "value": value})
    pool = ("nn.MaxPool2d", "pool", "b", "c", {"kernel_size": (2, 2), "stride": (2, 2)})
    check_graph([random(2, 8, 6, 5)], [*before, pad, *after, pool], ["y", "c"])


@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
def test_zeros_around_images_are_their_halo(padding):
    before, _ = image()
    lines = [
        *before,
        ("F.pad", "pad", "a", "b", {"pad": (0, 1, 2, 1), "mode": "constant", "value": None}),
        conv("after", "b", "y", 20, 5, 3, padding=padding),
        conv("other", "a", "z", 20, 4, 3, padding=(1, 1)),
    ]
    plan = check_graph([random(2, 8, 6, 5)], lines, ["y", "z"])
    assert kernels(plan).count("ReorderSpec") == 3  # the input and the outputs


def test_zeros_around_images_whose_channels_are_padded_too():
    before, _ = image(channels=16)
    lines = [
        *before,
        ("F.pad", "pad", "a", "b", {"pad": (1, 0, 0, 1, 4, 4), "mode": "constant", "value": None}),
        conv("after", "b", "y", 24, 5, 3),
    ]
    check_graph([random(1, 8, 6, 5)], lines, ["y"])


def test_zeros_around_a_part_of_an_image():
    before, after = image(channels=32)
    part = ("Tensor.slice", "slice", "a", "p", {"dims": (2, 3), "starts": (1, 0), "ends": (5, 4), "steps": (1, 1)})
    pad = ("F.pad", "pad", "p", "b", {"pad": (1, 1, 1, 1), "mode": "constant", "value": None})
    check_graph([random(1, 8, 6, 5)], [*before, part, pad, *after], ["y"])


def test_runs():
    assert runs_of(np.array([2, 1, 0, 1, 2, 3])) == [Run(0, 3, 2, -1), Run(3, 3, 1)]
    assert runs_of(np.array([0, 0, 0, 1])) == [Run(0, 3, 0, 0), Run(3, 1, 1)]
    assert runs_of(np.array([], np.int64)) == []
