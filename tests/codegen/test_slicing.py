"""Slices of rows and of images against their reference."""

import numpy as np
import pytest

from tests.codegen.running import check_graph, check_operator, kernels, random

OPEN = 2147483647


def conv(name, source, target, inputs, outputs, size=1, **params):
    weights = {"weight": random(outputs, inputs, size, size, seed=len(name))}
    return ("nn.Conv2d", name, source, target, {"bias": False, **params}, weights)


@pytest.mark.parametrize(
    "form",
    [
        {"dim": 0, "start": 1, "end": 3, "step": 1},
        {"dim": 1, "start": -2, "end": OPEN, "step": 1},
        {"dim": 2, "start": 1, "end": OPEN, "step": 2},
        {"dim": 2, "start": 3, "end": 40, "step": 5},
        {"dim": 1, "start": 2, "end": 1, "step": 1},
        {"dims": (0, 2), "starts": (1, 0), "ends": (OPEN, 20), "steps": (2, 3), "selects": (OPEN, OPEN)},
        {"dims": (0, 1, 2), "starts": (0, 1, 2), "ends": (0, 4, 9), "steps": (1, 1, 1), "selects": (2, OPEN, OPEN)},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_rows(form, dtype):
    check_operator("Tensor.slice", [(3 * random(4, 5, 37)).astype(dtype)], form)


def test_select_narrow_and_unbind():
    check_operator("Tensor.select", [random(4, 5, 6)], {"dim": 1, "index": -2})
    check_operator("torch.narrow", [random(4, 5, 6)], {"dim": 2, "start": 1, "length": 3})
    check_operator("torch.unbind", [random(4, 3, 6)], {"dim": 1}, outputs=3)


def test_views_of_views_are_copied_once():
    lines = [
        ("Tensor.slice", "a", "x0", "a", {"dim": 0, "start": 1, "end": OPEN, "step": 2}),
        ("Tensor.permute", "b", "a", "b", {"dims": (2, 0, 1)}),
        ("Tensor.select", "c", "b", "c", {"dim": 0, "index": 3}),
        ("torch.unsqueeze", "d", "c", "d", {"dim": 1}),
        ("Tensor.expand", "e", "d", "y", {"sizes": (2, 3, 5)}),
    ]
    assert kernels(check_graph([random(4, 5, 6)], lines, ["y"])) == ["StridedCopySpec"]


def test_a_step_that_runs_the_reference_reads_views():
    lines = [
        ("Tensor.slice", "a", "x0", "a", {"dim": 0, "start": 1, "end": 3, "step": 1}),
        ("torch.cummax", "b", "a", "b c", {"dim": 1}),
    ]
    check_graph([random(4, 5)], lines, ["b", "c"], compiled=False)


PARTS = [
    {"dims": (2, 3), "starts": (1, 2), "ends": (5, 7), "steps": (1, 1)},
    {"dims": (2, 3), "starts": (1, 0), "ends": (OPEN, OPEN), "steps": (2, 2)},
    {"dims": (0, 3), "starts": (1, 1), "ends": (OPEN, OPEN), "steps": (1, 3)},
    {"dims": (1,), "starts": (16,), "ends": (32,), "steps": (1,)},
    {"dims": (1, 2), "starts": (16, 1), "ends": (OPEN, OPEN), "steps": (1, 1)},
    {"dims": (1,), "starts": (3,), "ends": (20,), "steps": (1,)},
    {"dims": (1,), "starts": (0,), "ends": (20,), "steps": (1,)},
    {"dims": (1,), "starts": (0,), "ends": (OPEN,), "steps": (2,)},
]


@pytest.mark.parametrize("form", PARTS, ids=str)
@pytest.mark.parametrize("padding", [(0, 0), (1, 1)])
def test_images(form, padding):
    x = random(2, 8, 6, 8)
    shape = np.empty((2, 40, 6, 8))[
        tuple(
            slice(*next(((s, e, t) for d, s, e, t in zip(*form.values(), strict=True) if d == dim), (None,)))
            for dim in range(4)
        )
    ].shape
    lines = [
        conv("before", "x0", "a", 8, 40),
        ("Tensor.slice", "slice", "a", "b", form),
        conv("after", "b", "y", shape[1], 5, 3, padding=padding)
        if min(shape[2:]) > 2 or padding == (1, 1)
        else ("nn.ReLU", "after", "b", "y"),
    ]
    check_graph([x], lines, ["y"])


def test_lanes_behind_a_slice_are_not_read():
    """Channels 4 to 16 share a vector with those that are kept, and are infinite."""
    weight = random(16, 2, 1, 1)
    weight[4:] = np.inf
    lines = [
        ("nn.Conv2d", "before", "x0", "a", {"bias": False}, {"weight": weight}),
        ("Tensor.slice", "slice", "a", "b", {"dim": 1, "start": 0, "end": 4, "step": 1}),
        conv("after", "b", "y", 4, 5),
    ]
    check_graph([np.abs(random(1, 2, 3, 4))], lines, ["y"])


def test_focus():
    """The stem of YOLOv5's first versions: four slices of the input, put together."""
    lines = [
        (
            "Tensor.slice",
            f"s{i}",
            "x0",
            f"s{i}",
            {"dims": (2, 3), "starts": (i % 2, i // 2), "ends": (OPEN, OPEN), "steps": (2, 2)},
        )
        for i in range(4)
    ]
    lines += [("torch.cat", "cat", "s0 s1 s2 s3", "c", {"dim": 1}), conv("conv", "c", "y", 12, 16, 3, padding=(1, 1))]
    check_graph([random(1, 3, 16, 40)], lines, ["y"])
