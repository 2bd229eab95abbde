"""Joining and parting of rows and of images against their reference."""

import numpy as np
import pytest

from tests.codegen.running import check_graph, check_operator, kernels, random


def conv(name, source, target, inputs, outputs, size=1, **params):
    weights = {"weight": random(outputs, inputs, size, size, seed=len(name))}
    return ("nn.Conv2d", name, source, target, {"bias": False, **params}, weights)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("sizes", [(2, 3), (1, 1, 1), (5, 0, 4), (40, 17)], ids=str)
def test_rows(dim, sizes):
    shapes = [[3, 4, 5] for _ in sizes]
    for shape, size in zip(shapes, sizes, strict=True):
        shape[dim] = size
    check_operator("torch.cat", [random(*shape, seed=i) for i, shape in enumerate(shapes)], {"dim": dim})


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_stack(dim):
    check_operator("torch.stack", [random(4, 9, seed=i) for i in range(3)], {"dim": dim})


@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.float16, np.float64])
def test_other_dtypes(dtype):
    parts = [(4 * random(2, 3, seed=i)).astype(dtype) for i in range(2)]
    check_operator("torch.cat", parts, {"dim": 1})
    check_operator("torch.stack", parts, {"dim": 0})


def test_dtypes_that_differ_run_the_reference():
    check_operator("torch.cat", [random(2, 3), random(2, 3).astype(np.float64)], {"dim": 0}, compiled=False)


def test_a_tensor_twice():
    check_graph([random(2, 3)], [("torch.cat", "cat", "x0 x0", "y", {"dim": 0})], ["y"])
    lines = [("nn.ReLU", "relu", "x0", "a"), ("torch.cat", "cat", "a a", "y", {"dim": 0})]
    check_graph([random(1, 3)], lines, ["y"])


def test_rows_are_written_where_they_belong():
    lines = [
        ("nn.ReLU", "a", "x0", "a"),
        ("nn.Sigmoid", "b", "x1", "b"),
        ("torch.cat", "c", "a b", "c", {"dim": 1}),
        ("nn.Tanh", "d", "x0", "d"),
        ("torch.cat", "e", "c d", "y", {"dim": 1}),
    ]
    plan = check_graph([random(1, 3, 7), random(1, 5, 7)], lines, ["y"])
    assert set(kernels(plan)) == {"MapSpec"}


def test_a_part_that_is_an_output_too():
    lines = [("nn.ReLU", "a", "x0", "a"), ("torch.cat", "c", "a x1", "y", {"dim": 0})]
    check_graph([random(3, 7), random(2, 7)], lines, ["y", "a"])


@pytest.mark.parametrize("sizes", [(2, 3, 2), (7, 0)], ids=str)
def test_split(sizes):
    outputs = len(sizes)
    check_operator("torch.split", [random(3, 7, 4)], {"split_size_or_sections": sizes, "dim": 1}, outputs=outputs)
    check_operator("torch.chunk", [random(3, 7, 4)], {"chunks": 3, "dim": 1}, outputs=3)
    check_operator("torch.tensor_split", [random(3, 7, 4)], {"indices": (2, 5), "dim": 1}, outputs=3)


@pytest.mark.parametrize("channels", [(16, 32), (16, 20), (3, 5), (48, 16, 32)], ids=str)
@pytest.mark.parametrize("batch", [1, 2])
def test_images(channels, batch):
    lines = [conv(f"c{i}", "x0", f"a{i}", 6, count) for i, count in enumerate(channels)]
    names = " ".join(f"a{i}" for i in range(len(channels)))
    lines += [
        ("torch.cat", "cat", names, "b", {"dim": 1}),
        conv("after", "b", "y", sum(channels), 7, 3, padding=(1, 1)),
    ]
    check_graph([random(batch, 6, 5, 4)], lines, ["y"])


@pytest.mark.parametrize("batch", [1, 2])
def test_parts_of_an_image_that_are_joined_again(batch):
    """As in YOLOv8: an image is split, one part goes on, and all are joined."""
    lines = [
        conv("first", "x0", "a", 6, 32),
        ("torch.split", "split", "a", "b c", {"split_size_or_sections": (16, 16), "dim": 1}),
        conv("inner", "c", "d", 16, 16, 3, padding=(1, 1)),
        ("torch.cat", "cat", "b c d", "e", {"dim": 1}),
        conv("last", "e", "y", 48, 8),
    ]
    plan = check_graph([random(batch, 6, 5, 4)], lines, ["y"])
    assert kernels(plan).count("ReorderSpec") == 2  # the input and the output


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("channels", [16, 20])
def test_images_that_become_parts_of_rows(batch, channels):
    """As in YOLOv8's head: pictures of several sizes in one long row a channel."""
    lines = []
    for i, size in enumerate((6, 3)):
        shape = (batch, channels, size * size)
        lines += [
            conv(f"c{i}", f"x{i}", f"a{i}", 4, channels),
            ("Tensor.reshape", f"r{i}", f"a{i}", f"b{i}", {"shape": shape}),
        ]
    lines += [("torch.cat", "cat", "b0 b1", "y", {"dim": 2})]
    plan = check_graph([random(batch, 4, 6, 6), random(batch, 4, 3, 3)], lines, ["y"])
    assert kernels(plan).count("ReorderSpec") == 2
    assert "StridedCopySpec" not in kernels(plan)


def test_anchors():
    """As in YOLOv5's own head: channels become the last dimension."""
    lines = [
        conv("conv", "x0", "a", 4, 3 * 7),
        ("Tensor.reshape", "r", "a", "b", {"shape": (1, 3, 7, 5, 6)}),
        ("Tensor.permute", "p", "b", "c", {"dims": (0, 1, 3, 4, 2)}),
        ("nn.Sigmoid", "s", "c", "d"),
        ("torch.split", "split", "d", "e f g", {"split_size_or_sections": (2, 2, 3), "dim": 4}),
        ("pnnx.Expression", "xy", "e", "h", {"expr": "mul(@0,2)"}),
        ("pnnx.Expression", "wh", "f", "i", {"expr": "pow(@0,2)"}),
        ("torch.cat", "cat", "h i g", "j", {"dim": 4}),
        ("Tensor.reshape", "flat", "j", "y", {"shape": (1, 90, 7)}),
    ]
    check_graph([random(1, 4, 5, 6)], lines, ["y"])


def test_a_part_that_is_an_output_and_used_before():
    """Its place within the concatenation is not memory that lasts."""
    lines = [
        conv("first", "x0", "a", 16, 5),
        ("torch.cat", "cat", "a", "b", {"dim": 0}),
        ("pnnx.Expression", "sum", "a b", "y", {"expr": "add(@0,mul(@1,2))"}),
    ]
    check_graph([random(2, 16, 4, 5)], lines, ["y", "a"])
