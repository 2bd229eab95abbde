"""Repeating, reversing, rolling and shuffling against their reference."""

import numpy as np
import pytest

from tests.codegen.running import check_graph, check_operator, kernels, random


@pytest.mark.parametrize("sizes", [(2, 3), (1, 2, 1), (3, 1, 2, 4), (0, 2)], ids=str)
def test_repeat(sizes):
    check_operator("Tensor.repeat", [random(4, 5)], {"sizes": sizes})
    check_operator("torch.tile", [random(4, 5)], {"dims": sizes})


def test_tile_of_fewer_dimensions():
    check_operator("torch.tile", [random(2, 4, 5)], {"dims": (3,)})


@pytest.mark.parametrize("dim", [None, 0, 1, -1])
@pytest.mark.parametrize("shape", [(6,), (3, 40), (2, 3, 5)], ids=str)
def test_repeat_interleave(dim, shape):
    if dim != 1 or len(shape) > 1:
        check_operator("torch.repeat_interleave", [random(*shape)], {"repeats": 3, "dim": dim})


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 2), (0, 1, 2)], ids=str)
def test_flip(dims):
    check_operator("torch.flip", [random(3, 20, 37)], {"dims": dims})


@pytest.mark.parametrize(
    ("shifts", "dims"), [((2,), (0,)), ((-1, 40), (0, 1)), ((1, 2), (1, 1)), ((0,), (0,)), ((9,), None)]
)
def test_roll(shifts, dims):
    check_operator("torch.roll", [random(5, 19, 3)], {"shifts": shifts, "dims": dims})


@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.float16, np.complex128])
def test_other_dtypes(dtype):
    x = (10 * random(4, 20)).astype(dtype)
    check_operator("torch.flip", [x], {"dims": (1,)})
    check_operator("Tensor.repeat", [x], {"sizes": (2, 2)})
    check_operator("torch.roll", [x], {"shifts": (3,), "dims": (1,)})


@pytest.mark.parametrize("shape", [(18, 5, 7), (2, 36, 5, 20), (1, 4, 2, 9, 33)], ids=str)
def test_pixels(shape):
    for factor in (1, 2, 3):
        if shape[-3] % (factor * factor) == 0:
            check_operator("nn.PixelShuffle", [random(*shape)], {"upscale_factor": factor})
    check_operator("nn.PixelUnshuffle", [random(*shape[:-2], 6, 40)], {"downscale_factor": 2})
    check_operator("nn.PixelUnshuffle", [random(*shape[:-2], 6, 60)], {"downscale_factor": 3})


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
@pytest.mark.parametrize("shape", [(2, 12, 5), (1, 24, 5, 7), (3, 6, 2, 3, 4)], ids=str)
def test_channels(groups, shape):
    check_operator("nn.ChannelShuffle", [random(*shape)], {"groups": groups})


@pytest.mark.parametrize("channels", [4, 12, 20, 64, 80, 132])
@pytest.mark.parametrize("factor", [2, 3, 4])
def test_pixels_of_images(channels, factor):
    many = channels * factor * factor
    lines = [
        ("nn.Conv2d", "conv", "x0", "a", {"bias": False}, {"weight": random(many, 3, 1, 1)}),
        ("nn.PixelShuffle", "up", "a", "b", {"upscale_factor": factor}),
        ("nn.ReLU", "relu", "b", "c"),
        ("nn.PixelUnshuffle", "down", "c", "d", {"downscale_factor": factor}),
        ("nn.Conv2d", "again", "d", "y", {"bias": False, "padding": (1, 1)}, {"weight": random(2, many, 3, 3)}),
    ]
    targets = ["x86-64-v2", "x86-64-v4"] if channels in (20, 64) else ["x86-64-v4"]
    plan = check_graph([random(2, 3, 3, 5)], lines, ["y"], targets=targets, tolerance=1e-4)
    assert kernels(plan).count("PixelShuffleSpec") == (2 if channels >= 8 else 0)


def test_views_need_no_step():
    lines = [("torch.flip", "a", "x0", "a", {"dims": (1,)}), ("Tensor.permute", "b", "a", "y", {"dims": (1, 0)})]
    assert kernels(check_graph([random(20, 30)], lines, ["y"])) == ["StridedCopySpec"]
