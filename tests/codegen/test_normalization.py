"""Normalisation by the values' own moments, against its reference."""

import numpy as np
import pytest

from kuiperinfer.codegen.kernels.normalization import RowNormSpec
from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.target import target_named
from tests.codegen.native import TARGETS
from tests.codegen.running import check_graph, check_operator, kernels, random

LENGTHS = (1, 3, 4, 7, 8, 15, 16, 17, 33, 50, 64, 100, 768)


def affine(*shape):
    return {"weight": random(*shape, seed=1), "bias": random(*shape, seed=2)}


@pytest.mark.parametrize("length", LENGTHS)
def test_layer_norm(length):
    params = {"normalized_shape": (length,), "eps": 1e-5}
    plan = check_operator("nn.LayerNorm", [3 + random(5, length)], params, affine(length))
    assert kernels(plan) == ["RowNormSpec"]
    check_operator(
        "nn.LayerNorm", [random(2, 3, length)], {**params, "elementwise_affine": False}, targets=TARGETS[-1:]
    )


def test_layer_norm_of_several_dimensions_and_without_bias():
    check_operator("nn.LayerNorm", [random(2, 3, 4, 5)], {"normalized_shape": (3, 4, 5)}, affine(3, 4, 5))
    weight = {"weight": random(20)}
    check_operator("nn.LayerNorm", [random(6, 20)], {"normalized_shape": (20,), "bias": False}, weight)
    check_operator("F.layer_norm", [random(6, 20), random(20), random(20)], {"normalized_shape": (20,)})


@pytest.mark.parametrize("length", LENGTHS)
def test_rms_norm(length):
    weight = {"weight": random(length)}
    for params in ({}, {"eps": 1e-3}):
        check_operator("nn.RMSNorm", [random(5, length)], {"normalized_shape": (length,), **params}, weight)


def test_moments_keep_their_digits():
    """A mean that is large beside the deviation, and very long rows."""
    x = 1000 + random(3, 400)
    check_operator("nn.LayerNorm", [x], {"normalized_shape": (400,)}, affine(400), tolerance=3e-5)
    x = random(2, 300000)
    check_operator("nn.LayerNorm", [x], {"normalized_shape": (300000,)}, targets=TARGETS[:1])


@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 6, 4, 5), (3, 6), (1, 6, 2, 3, 4), (2, 6, 16, 16)], ids=str)
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_group_norm_of_rows(shape, groups):
    params = {"num_groups": groups, "num_channels": 6, "eps": 1e-5}
    plan = check_operator("nn.GroupNorm", [random(*shape)], params, affine(6))
    assert kernels(plan) == ["RowNormSpec"]
    check_operator("nn.GroupNorm", [random(*shape)], {**params, "affine": False}, targets=TARGETS[-1:])


def test_instance_norm_of_rows():
    for shape in ((2, 5, 7, 9), (5, 7, 9)):
        check_operator("nn.InstanceNorm2d", [random(*shape)], {"num_features": 5, "affine": True}, affine(5))
    check_operator("nn.InstanceNorm1d", [random(2, 5, 70)], {"affine": False})
    check_operator("F.instance_norm", [random(2, 5, 70)])


def image_graph(channels, norm, *, padding=1):
    """A normalisation between two convolutions."""
    kind, params, weights = norm
    first = {"weight": random(channels, 3, 3, 3), "bias": random(channels)}
    second = {"weight": random(4, channels, 3, 3, seed=7)}
    return [
        ("nn.Conv2d", "first", "x0", "h", {"bias": True, "padding": (1, 1)}, first),
        (kind, "norm", "h", "n", params, weights),
        ("nn.Conv2d", "second", "n", "y0", {"bias": False, "padding": (padding, padding)}, second),
    ]


@pytest.mark.parametrize(
    ("channels", "groups"), [(32, 1), (32, 2), (32, 4), (32, 8), (32, 32), (16, 2), (48, 3), (96, 3)]
)
def test_group_norm_of_images(channels, groups):
    norm = ("nn.GroupNorm", {"num_groups": groups, "num_channels": channels, "eps": 1e-5}, affine(channels))
    plan = check_graph([random(2, 3, 6, 7)], image_graph(channels, norm), ["y0"], tolerance=1e-4)
    assert "ImageNormSpec" in kernels(plan)


@pytest.mark.parametrize("channels", [3, 16, 20])
def test_instance_norm_of_images(channels):
    for params, weights in (({"affine": True}, affine(channels)), ({"affine": False}, {})):
        graph = image_graph(channels, ("nn.InstanceNorm2d", params, weights))
        plan = check_graph([random(2, 3, 6, 7)], graph, ["y0"], tolerance=1e-4)
        assert "ImageNormSpec" in kernels(plan)


def test_groups_that_fit_no_block():
    graph = image_graph(24, ("nn.GroupNorm", {"num_groups": 8, "num_channels": 24}, affine(24)))
    plan = check_graph([random(2, 3, 6, 7)], graph, ["y0"], tolerance=1e-4)
    assert "RowNormSpec" in kernels(plan)


def test_numbers_that_are_none_or_infinite():
    x = random(6, 37)
    x[1, 3], x[2, 36], x[3, 0], x[4] = np.nan, np.inf, -np.inf, 0
    check_operator("nn.LayerNorm", [x], {"normalized_shape": (37,)}, affine(37))
    x[2, 36] = x[3, 0] = 1
    check_operator("nn.RMSNorm", [x], {"normalized_shape": (37,)}, {"weight": random(37)})


def test_threads():
    check_operator(
        "nn.LayerNorm", [random(200, 768)], {"normalized_shape": (768,)}, affine(768), threads=2, targets=["host"]
    )


def test_aarch64_uses_vectors():
    target = target_named("aarch64")
    assembly = assembly_of(RowNormSpec(4, 50, 1, 1, True, 1e-5, True, True).module("k", target), target)
    assert "fmla\tv" in assembly
    assert "fsqrt\tv" in assembly
