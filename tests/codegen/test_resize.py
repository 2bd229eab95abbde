"""Resizing of blocked images against its reference."""

import numpy as np
import pytest

from kuiperinfer.codegen.kernels.resize import WeighPixelsSpec
from kuiperinfer.codegen.layout import blocked
from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.target import target_named
from tests.codegen.running import check_graph, check_operator, kernels, random

SIZES = [(14, 10), (7, 5), (3, 9), (20, 33), (1, 1)]


@pytest.mark.parametrize("channels", [1, 3, 4, 15, 16, 17, 33])
def test_factor_of_two(channels):
    plan = check_operator("nn.Upsample", [random(2, channels, 5, 7)], {"scale_factor": (2, 2), "mode": "nearest"})
    assert "GatherPixelsSpec" in kernels(plan)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_nearest(mode, size):
    check_operator("F.interpolate", [random(1, 20, 7, 5)], {"size": size, "mode": mode})


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_weighted(mode, align_corners, size):
    params = {"size": size, "mode": mode, "align_corners": align_corners}
    check_operator("F.interpolate", [random(1, 20, 7, 5)], params)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
@pytest.mark.parametrize("recompute", [None, True])
def test_fractional_factors(mode, recompute):
    params = {"scale_factor": (1.5, 0.7), "mode": mode, "recompute_scale_factor": recompute}
    check_operator("F.interpolate", [random(1, 9, 11, 23)], params)


@pytest.mark.parametrize(("mode", "align_corners"), [("nearest", None), ("linear", False), ("linear", True)])
def test_signals(mode, align_corners):
    params = {"size": (31,), "mode": mode, "align_corners": align_corners}
    check_operator("F.interpolate", [random(2, 18, 13)], params)


def test_numbers_that_are_none_or_infinite():
    x = random(1, 17, 6, 6)
    x[0, 3, 2, 2], x[0, 16, 0, 5], x[0, 0, 5, 0] = np.nan, np.inf, -np.inf
    for mode in ("nearest", "bilinear", "bicubic"):
        check_operator("F.interpolate", [x], {"size": (9, 13), "mode": mode})


def test_straight_into_a_concatenation():
    lines = [
        ("nn.Conv2d", "a", "x0", "a", {"bias": False}, {"weight": random(16, 8, 1, 1)}),
        ("F.interpolate", "b", "a", "b", {"scale_factor": (2.0, 2.0), "mode": "nearest"}),
        ("nn.Conv2d", "c", "x1", "c", {"bias": False}, {"weight": random(32, 8, 1, 1)}),
        ("torch.cat", "d", "b c", "d", {"dim": 1}),
        ("nn.Conv2d", "e", "d", "y", {"bias": False, "padding": (1, 1)}, {"weight": random(5, 48, 3, 3)}),
    ]
    plan = check_graph([random(1, 8, 6, 6), random(1, 8, 12, 12)], lines, ["y"], targets=["x86-64-v2"])
    assert kernels(plan).count("ReorderSpec") == 3  # the two inputs and the output


def test_threads_agree():
    params = {"scale_factor": (2.0, 2.0), "mode": "bilinear"}
    check_operator("F.interpolate", [random(1, 40, 60, 50)], params, threads=2, targets=["host"])


def test_volumes_run_the_reference():
    check_operator("F.interpolate", [random(1, 3, 4, 5, 6)], {"scale_factor": (2.0,) * 3}, compiled=False)


def test_aarch64_uses_vectors():
    target = target_named("aarch64")
    spec = WeighPixelsSpec(blocked((1, 8, 6, 6), 4), blocked((1, 8, 12, 12), 4), (2, 2))
    assert "fmla\tv" in assembly_of(spec.module("kernel", target), target)
