"""Reshapes, permutations and expansions against their reference."""

import numpy as np
import pytest

from kuiperinfer.codegen.homes import View, project, row_major
from tests.codegen.running import check_graph, check_operator, fallbacks, kernels, random


def conv(name, source, target, inputs, outputs, size=1, **params):
    weights = {"weight": random(outputs, inputs, size, size, seed=len(name))}
    return ("nn.Conv2d", name, source, target, {"bias": False, **params}, weights)


CASES = [
    ("Tensor.reshape", {"shape": (6, 10)}),
    ("torch.flatten", {"start_dim": 1, "end_dim": 2}),
    ("Tensor.unflatten", {"dim": 2, "sizes": (5, 1)}),
    ("torch.unsqueeze", {"dim": 1}),
    ("torch.squeeze", {"dim": 0}),
    ("Tensor.permute", {"dims": (2, 0, 1)}),
    ("torch.transpose", {"dim0": 0, "dim1": 2}),
    ("torch.movedim", {"source": (0,), "destination": (2,)}),
    ("Tensor.expand", {"sizes": (2, 3, 4, 5)}),
]


@pytest.mark.parametrize(("type_name", "params"), CASES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.float16])
def test_alone(type_name, params, dtype):
    check_operator(type_name, [(5 * random(3, 4, 5)).astype(dtype)], params)


def test_of_another_tensor():
    check_operator("Tensor.reshape_as", [random(3, 4), random(2, 6)])
    check_operator("Tensor.expand_as", [random(3, 1), random(2, 3, 6)])


def test_without_elements_or_dimensions():
    check_operator("Tensor.reshape", [random(0, 4)], {"shape": (2, 0)})
    check_operator("Tensor.permute", [random(0, 4)], {"dims": (1, 0)})
    check_operator("Tensor.reshape", [random(1)], {"shape": ()})


def test_reshape_of_a_permuted_tensor_is_copied_once():
    lines = [
        ("Tensor.permute", "a", "x0", "a", {"dims": (0, 2, 1)}),
        ("Tensor.reshape", "b", "a", "b", {"shape": (2, 60)}),
        ("Tensor.reshape", "c", "b", "y", {"shape": (4, 30)}),
    ]
    assert kernels(check_graph([random(2, 5, 12)], lines, ["y"])).count("StridedCopySpec") <= 2


@pytest.mark.parametrize("channels", [5, 16, 33])
@pytest.mark.parametrize("batch", [1, 2])
def test_images_to_rows(channels, batch):
    lines = [
        conv("conv", "x0", "a", 4, channels),
        ("Tensor.reshape", "r", "a", "b", {"shape": (batch, channels, 42)}),
        ("Tensor.permute", "p", "b", "y", {"dims": (0, 2, 1)}),
        ("Tensor.permute", "q", "a", "z", {"dims": (0, 2, 3, 1)}),
        ("torch.flatten", "f", "a", "u", {"start_dim": 1, "end_dim": -1}),
        ("Tensor.permute", "t", "a", "v", {"dims": (3, 1, 2, 0)}),
    ]
    check_graph([random(batch, 4, 6, 7)], lines, ["y", "z", "u", "v"])


@pytest.mark.parametrize("channels", [3, 16, 21])
def test_rows_to_images(channels):
    lines = [
        ("Tensor.permute", "p", "x0", "a", {"dims": (0, 3, 1, 2)}),  # channels last
        conv("conv", "a", "b", channels, 4, 3, padding=(1, 1)),
        ("Tensor.permute", "q", "x0", "c", {"dims": (0, 1, 3, 2)}),
        conv("other", "c", "d", 6, 4, 3, padding=(1, 1)),
    ]
    check_graph([random(2, 6, 7, channels)], lines, ["b", "d"])


def test_outputs_that_are_views_of_inputs_and_of_each_other():
    lines = [
        ("Tensor.reshape", "a", "x0", "a", {"shape": (6, 2)}),
        ("Tensor.reshape", "b", "a", "b", {"shape": (12,)}),
        ("nn.ReLU", "c", "b", "c"),
    ]
    check_graph([random(3, 4)], lines, ["a", "b", "c", "x0"])


def test_shapes_that_are_calculated():
    lines = [
        ("pnnx.Expression", "e", "x0", "s", {"expr": "[size(@0,0),-1]"}),
        ("Tensor.reshape", "r", "x0 s", "y"),
    ]
    assert not fallbacks(check_graph([random(3, 4, 5)], lines, ["y"]))


def test_projection_of_views_of_images():
    image, strides = (2, 6, 4, 5), row_major((2, 6, 4, 5))
    view = View(None, 0, strides)
    assert project(image, image, view, strides) == strides
    merged = View(None, 0, (120, 20, 1))
    assert project(image, (2, 6, 20), merged, (1000, 100, 1)) == (1000, 100, 5, 1)
    last = View(None, 0, (120, 5, 1, 20))  # N, H, W, C
    assert project(image, (2, 4, 5, 6), last, row_major((2, 4, 5, 6))) == (120, 1, 30, 6)
    anchors = View(None, 0, (120, 60, 5, 1, 20))  # N, A, H, W, C / A
    assert project(image, (2, 2, 4, 5, 3), anchors, row_major((2, 2, 4, 5, 3))) is None
    assert project(image, (2, 3, 4, 5), View(None, 0, strides), row_major((2, 3, 4, 5))) is None
