"""Reductions against their reference."""

import itertools

import numpy as np
import pytest

from kuiperinfer.codegen.kernels.reduction import ExtremeIndexSpec, ReduceSpec
from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.target import target_named
from tests.codegen.native import TARGETS
from tests.codegen.running import check_graph, check_operator, kernels, random

KINDS = ("torch.sum", "torch.mean", "torch.prod", "torch.amax", "torch.amin")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(7,), (3, 33), (33, 3), (2, 17, 16), (5, 4, 3, 2), (2, 3, 1, 65)], ids=str)
def test_all_sets_of_dimensions(kind, shape):
    sets = [axes for count in range(1, len(shape) + 1) for axes in itertools.combinations(range(len(shape)), count)]
    for number, axes in enumerate(sets):
        for keepdim in (False, True)[: 1 + (number == 0)]:
            plan = check_operator(
                kind, [random(*shape)], {"dim": axes, "keepdim": keepdim}, targets=[TARGETS[number % len(TARGETS)]]
            )
            assert kernels(plan) == ["ReduceSpec"]


@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 130])
def test_lengths(length):
    for shape, axis in (((2, length), 1), ((length, 5), 0), ((5, length), 0)):
        check_operator("torch.sum", [random(*shape)], {"dim": (axis,), "keepdim": False})
        check_operator("torch.max", [random(*shape)], {"dim": axis, "keepdim": False}, outputs=2)


def test_everything_and_a_single_number():
    check_operator("torch.mean", [random(3, 5, 7)], {"keepdim": False})
    check_operator("torch.sum", [random()], {"keepdim": False})
    check_operator("torch.max", [random(3, 5)])
    check_operator("torch.min", [random(3, 5)])


def test_sums_of_very_many_stay_exact():
    x = random(1, 1000003)
    check_operator("torch.sum", [x], {"dim": (1,), "keepdim": False})
    check_operator("torch.mean", [x.T.copy()], {"dim": (0,), "keepdim": False})
    check_operator("torch.sum", [np.repeat(random(40000, 1), 20, 1)], {"dim": (0,), "keepdim": False})


@pytest.mark.parametrize("kind", ["torch.norm", "F.normalize"])
def test_lengths_of_vectors(kind):
    for shape, dim in (((4, 33), (1,)), ((2, 5, 20), (1,)), ((2, 5, 20), (0, 2)), ((3, 4, 7, 9), (1,))):
        for p in (1.0, 2.0):
            params = {"dim": dim, "p": p} | ({"keepdim": True} if kind == "torch.norm" else {"eps": 1e-12})
            check_operator(kind, [random(*shape)], params)
    check_operator("F.normalize", [np.zeros((3, 20), np.float32)], {"dim": (1,), "p": 2.0})


@pytest.mark.parametrize("kind", ["torch.logsumexp", "torch.var", "torch.std", "torch.var_mean", "torch.std_mean"])
def test_about_a_centre(kind):
    outputs = 2 if "_mean" in kind else 1
    for shape in ((4, 33), (2, 17, 20), (3, 5, 7, 9)):
        for number, dim in enumerate(((0,), (1,), (-1,), (0, len(shape) - 1))):
            params = {"dim": dim, "keepdim": bool(number % 2)}
            if "logsumexp" not in kind:
                params["correction"] = number % 3
            plan = check_operator(kind, [50 + 10 * random(*shape)], params, outputs=outputs)
            assert kernels(plan) == ["ReduceSpec", "ReduceSpec"]


def test_logarithms_of_sums_of_numbers_that_are_none_or_infinite():
    for x, dim in ((special(), 1), (special().T.copy(), 0)):
        check_operator("torch.logsumexp", [x], {"dim": (dim,), "keepdim": False})


def test_the_variance_of_one_number():
    check_operator("torch.var", [random(3, 1)], {"dim": (1,), "unbiased": False})
    check_operator("torch.var", [random(3, 1)], {"dim": (1,), "unbiased": True})


def test_views_are_read_where_they_lie():
    lines = [("Tensor.permute", "p", "x0", "t", {"dims": (2, 0, 1)})]
    for axes in ((0,), (0, 2), (1, 2), (0, 1)):
        line = ("torch.sum", "op", "t", "y0", {"dim": axes, "keepdim": False})
        plan = check_graph([random(3, 20, 33)], [*lines, line], ["y0"], targets=TARGETS[:1])
        assert kernels(plan) == ["ReduceSpec"]
    line = ("torch.sum", "op", "t", "y0", {"dim": (1,), "keepdim": False})  # neighbours of the result lie apart
    check_graph([random(3, 20, 33)], [*lines, line], ["y0"], targets=TARGETS[:1])


# ------------------------------------------------------------------------------------------- images


@pytest.mark.parametrize("kind", [*KINDS[:2], "torch.amax"])
@pytest.mark.parametrize("channels", [3, 16, 20])
@pytest.mark.parametrize("keepdim", [True, False])
def test_pixels_of_images(kind, channels, keepdim):
    first = {"weight": random(channels, 3, 3, 3), "bias": random(channels)}
    lines = [
        ("nn.Conv2d", "first", "x0", "h", {"bias": True, "padding": (1, 1)}, first),
        (kind, "op", "h", "m" if keepdim else "y0", {"dim": (2, 3), "keepdim": keepdim}),
    ]
    if keepdim:
        second = {"weight": random(4, channels, 1, 1, seed=7)}
        lines.append(("nn.Conv2d", "second", "m", "y0", {"bias": False}, second))
    plan = check_graph([random(2, 3, 6, 7)], lines, ["y0"], tolerance=1e-4)
    assert "ImageReduceSpec" in kernels(plan)


def test_a_reduced_image_that_is_padded_again():
    lines = [
        ("nn.Conv2d", "first", "x0", "h", {"bias": False}, {"weight": random(20, 3, 3, 3)}),
        ("torch.mean", "op", "h", "m", {"dim": (-1, -2), "keepdim": True}),
        ("nn.Conv2d", "second", "m", "y0", {"bias": False, "padding": (1, 1)}, {"weight": random(4, 20, 3, 3)}),
    ]
    check_graph([random(2, 3, 6, 7)], lines, ["y0"], tolerance=1e-4)


def test_other_dimensions_of_images():
    for dim in ((1,), (0, 1), (1, 2, 3), (2,)):
        lines = [
            ("nn.Conv2d", "first", "x0", "h", {"bias": False}, {"weight": random(20, 3, 3, 3)}),
            ("torch.amax", "op", "h", "y0", {"dim": dim, "keepdim": True}),
        ]
        check_graph([random(2, 3, 6, 7)], lines, ["y0"], tolerance=1e-4)


# ------------------------------------------------------------------------------------------- places of extremes


@pytest.mark.parametrize("kind", ["torch.argmax", "torch.argmin"])
@pytest.mark.parametrize("shape", [(1,), (40,), (3, 33), (33, 3), (4, 5, 16), (2, 17, 35)], ids=str)
def test_index(kind, shape):
    x = np.round(2 * random(*shape))  # many equal ones
    for dim in range(len(shape)):
        plan = check_operator(kind, [x], {"dim": dim, "keepdim": False})
        assert kernels(plan) == ["ExtremeIndexSpec"]
    check_operator(kind, [x], {"dim": None})


@pytest.mark.parametrize("kind", ["torch.max", "torch.min"])
def test_extremes_with_their_index(kind):
    for dim in (0, 1, -1):
        plan = check_operator(kind, [np.round(random(6, 20, 5))], {"dim": dim, "keepdim": True}, outputs=2)
        assert kernels(plan) == ["ReduceSpec", "ExtremeIndexSpec"]
    plan = check_operator("torch.aminmax", [random(6, 20)], {"dim": 1, "keepdim": False}, outputs=2)
    assert kernels(plan) == ["ReduceSpec", "ReduceSpec"]


def special():
    x = random(10, 37)
    x[1, 3] = x[1, 30] = np.nan
    x[2, 36] = np.inf
    x[3, 5] = -np.inf
    x[4] = -np.inf
    x[5] = np.inf
    x[6] = np.nan
    x[7, 4], x[7, 20] = np.nan, np.inf
    x[8, 0] = np.nan
    return x


@pytest.mark.parametrize("kind", ["torch.max", "torch.min"])
def test_numbers_that_are_none_or_infinite(kind):
    for x, dim in ((special(), 1), (special().T.copy(), 0)):
        check_operator(kind, [x], {"dim": dim, "keepdim": False}, outputs=2)


def test_sums_of_numbers_that_are_none_or_infinite():
    for x, dim in ((special(), 1), (special().T.copy(), 0)):
        for kind in KINDS[:2]:
            check_operator(kind, [x], {"dim": (dim,), "keepdim": False})


def test_integers_run_the_reference():
    check_operator("torch.sum", [np.arange(12).reshape(3, 4)], {"dim": (1,), "keepdim": False}, compiled=False)
    check_operator("torch.argmax", [np.arange(12).reshape(3, 4)], {"dim": 1}, compiled=False)


def test_threads():
    check_operator("torch.sum", [random(300, 700)], {"dim": (1,), "keepdim": False}, threads=2, targets=["host"])
    check_operator("torch.argmax", [random(700, 300)], {"dim": 0}, threads=2, targets=["host"])


def test_aarch64_uses_vectors():
    target = target_named("aarch64")
    spec = ReduceSpec("sum", ((5, 100),), ((100, 1),), target.lanes)
    assert "fadd\tv" in assembly_of(spec.module("k", target), target)
    spec = ExtremeIndexSpec(5, 100, 1, True, target.lanes)
    assert "fcmgt\tv" in assembly_of(spec.module("k", target), target)
