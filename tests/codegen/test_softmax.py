"""Softmax against its reference."""

import numpy as np
import pytest

from kuiperinfer.codegen.kernels.softmax import SoftmaxSpec
from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.target import target_named
from tests.codegen.native import TARGETS
from tests.codegen.running import check_graph, check_operator, kernels, random

KINDS = ("F.softmax", "F.log_softmax", "F.softmin")
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 50, 63, 64, 65, 100, 1000)


@pytest.mark.parametrize("kind", KINDS)
def test_rows(kind):
    for length in LENGTHS:
        plan = check_operator(
            kind, [10 * random(3, length)], {"dim": -1}, targets=TARGETS if length % 5 else TARGETS[-1:]
        )
        assert kernels(plan) == ["SoftmaxSpec"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(5, 3), (2, 4, 16), (3, 1, 17), (2, 5, 3, 31), (1, 16, 4, 100)], ids=str)
def test_other_dimensions(kind, shape):
    for dim in range(len(shape) - 1):
        check_operator(kind, [10 * random(*shape)], {"dim": dim})


def test_modules_and_images():
    check_operator("nn.Softmax", [random(2, 3, 4, 5)], {"dim": 1})
    check_operator("nn.LogSoftmax", [random(9, 40)], {"dim": 1})
    check_operator("nn.Softmin", [random(9, 40)], {"dim": 0})
    check_operator("nn.Softmax2d", [random(2, 20, 4, 5)])
    check_operator("F.softmax", [random(7)], {"dim": None})


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_are_none_or_infinite(kind):
    x = random(9, 37)
    x[1, 3] = np.nan
    x[2, 36] = np.nan
    x[3, 0] = np.inf
    x[4, 35] = -np.inf
    x[5] = -np.inf
    x[6] = np.inf
    x[7] = 3e38
    x[8, ::2] = -3e38
    check_operator(kind, [x], {"dim": 1})
    check_operator(kind, [np.ascontiguousarray(x.T)], {"dim": 0})


def test_long_rows_and_many():
    check_operator("F.softmax", [random(2, 70000)], {"dim": 1}, threads=2, targets=["host"])
    check_operator("F.softmax", [random(700, 50)], {"dim": 1}, threads=2, targets=["host"])
    check_operator("F.log_softmax", [random(2, 3, 20000)], {"dim": 1}, threads=2, targets=["host"])


def test_aarch64_uses_vectors():
    target = target_named("aarch64")
    for inner in (1, 33):
        assembly = assembly_of(SoftmaxSpec(4, 50, inner, "softmax", target.lanes).module("k", target), target)
        assert "fmla\tv" in assembly
        assert "fdiv\tv" in assembly


def test_permuted_tensors_stay_as_they_lie():
    """As in YOLOv8's head: softmax of a permuted tensor, then a weighted sum of its planes."""
    lines = [
        ("Tensor.reshape", "r", "x0", "a", {"shape": (2, 4, 16, 50)}),
        ("Tensor.permute", "p", "a", "b", {"dims": (0, 2, 1, 3)}),
        ("F.softmax", "s", "b", "c", {"dim": 1}),
        ("nn.Conv2d", "w", "c", "d", {"bias": False, "groups": 1}, {"weight": random(1, 16, 1, 1)}),
        ("Tensor.reshape", "f", "d", "y", {"shape": (2, 4, 50)}),
    ]
    plan = check_graph([random(2, 64, 50)], lines, ["y", "c"])
    assert kernels(plan).count("StridedCopySpec") == 1  # for the output in between
    assert "ReorderSpec" not in kernels(plan)
