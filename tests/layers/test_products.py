"""Products that the converter leaves as they are, against PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kuiperinfer.errors import DTypeError, ShapeError
from tests.layers.harness import Case, check, check_like_torch, random, run

DTYPES = (torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64)
FUNCTIONS = {name: getattr(torch, name) for name in ("dot", "vdot", "inner", "outer", "kron")}
SHAPES = [(), (3,), (2,), (0,), (4, 3), (2, 4, 3), (2, 2)]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(name, dtype):
    check_like_torch(Case(f"aten::{name}", FUNCTIONS[name], [random(3, dtype=dtype), random(3, dtype=dtype, seed=1)]))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("left", SHAPES, ids=str)
@pytest.mark.parametrize("right", SHAPES, ids=str)
def test_shapes(name, left, right):
    check_like_torch(Case(f"torch.{name}", FUNCTIONS[name], [random(*left), random(*right, seed=1)]))


def test_common_dtypes():
    for dtypes in ((torch.int64, torch.float32), (torch.float32, torch.float64), (torch.bool, torch.uint8)):
        a, b = (random(3, dtype=dtype) for dtype in dtypes)
        check(Case("torch.outer", torch.outer, [a, b]))
        check(Case("torch.kron", torch.kron, [a, b]))
    with pytest.raises(DTypeError):
        run(Case("torch.dot", None, [random(3), random(3, dtype=torch.int64)]))


@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0.5, 2), (0, 0.7)])
@pytest.mark.parametrize("shape", [(4,), (1,), (), (3,), (1, 4)], ids=str)
def test_addmv(shape, beta, alpha):
    arrays = [random(*shape), random(4, 3), random(3)]
    params = {"beta": beta, "alpha": alpha}
    check_like_torch(Case("torch.addmv", lambda *a: torch.addmv(*a, **params), arrays, params, tolerance=1e-5))
    left_over = Case("aten::addmv", lambda i, m, v, b, a: torch.addmv(i, m, v, beta=b, alpha=a), [*arrays, beta, alpha])
    left_over.tolerance = 1e-5
    check_like_torch(left_over)


@pytest.mark.parametrize(
    ("left", "right", "dims"),
    [
        ((2, 3), (3, 4), ([-1], [0])),
        ((2, 3, 4), (4, 3, 5), ([2, 1], [0, 1])),
        ((2, 3), (3, 2), ([0, 1], [1, 0])),
        ((2, 3), (4,), ([], [])),
        ((2, 3), (4, 5), ([1], [0])),
        ((2, 3), (3, 5), ([2], [0])),
        ((2, 3), (3, 5), ([1, 1], [0, 0])),
        ((2, 3), (3, 5), ([0, 1], [0])),
    ],
)
def test_tensordot(left, right, dims):
    arrays = [random(*left), random(*right), *dims]
    call = Case("aten::tensordot", lambda a, b, *dims: torch.tensordot(a, b, dims), arrays, tolerance=1e-5)
    check_like_torch(call)


@pytest.mark.parametrize("batch", [(), (6,), (2, 3), (0,)], ids=str)
def test_bilinear(batch):
    module = nn.Bilinear(3, 4, 5)
    arrays = [random(*batch, 3), random(*batch, 4)]
    weights = {name: tensor.detach() for name, tensor in module.state_dict().items()}
    params = {"in1_features": 3, "in2_features": 4, "out_features": 5, "bias": True}
    check(Case("nn.Bilinear", module, arrays, params, weights, tolerance=1e-5))
    check(Case("aten::bilinear", F.bilinear, [*arrays, *weights.values()], tolerance=1e-5))
    without = Case("aten::bilinear", F.bilinear, [*arrays, weights["weight"]], tolerance=1e-5)
    check(without)


@pytest.mark.parametrize(
    "shapes",
    [
        [(2, 3), (1, 4), (5, 3, 4), (5,)],
        [(2, 2), (2, 4), (5, 3, 4), (5,)],
        [(2, 3), (2, 4), (5, 3, 4), (4,)],
        [(2, 3), (2, 4), (3, 4), (5,)],
    ],
    ids=str,
)
def test_shapes_that_do_not_go_together(shapes):
    with pytest.raises(ShapeError):
        run(Case("aten::bilinear", None, [random(*shape) for shape in shapes]))


def test_features_that_are_not_those_of_the_weight():
    with pytest.raises(ShapeError, match="features"):
        run(Case("nn.Bilinear", None, [random(2, 3), random(2, 4)], {"out_features": 4}, {"weight": random(5, 3, 4)}))
