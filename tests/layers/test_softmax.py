"""Softmax, log-softmax and softmin against PyTorch."""

import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kuiperinfer.errors import DTypeError, ShapeError
from tests.layers.harness import Case, check, check_like_torch, random, run

FUNCTIONS = {"softmax": F.softmax, "log_softmax": F.log_softmax, "softmin": F.softmin}
MODULES = {"softmax": "nn.Softmax", "log_softmax": "nn.LogSoftmax", "softmin": "nn.Softmin"}
each = pytest.mark.parametrize("name", FUNCTIONS)
SHAPES = [(), (1,), (0,), (5,), (0, 3), (3, 0), (2, 17), (4, 3, 5), (2, 3, 4, 5), (1, 2, 3, 4, 5)]


@each
def test_every_dim(name):
    for shape in SHAPES:
        for dim in (*range(-max(len(shape), 1), max(len(shape), 1)), len(shape) + 1):
            case = Case(f"F.{name}", lambda x, d=dim: FUNCTIONS[name](x, d), [random(*shape)], {"dim": dim})
            check_like_torch(case)


@each
def test_every_dtype(name):
    for dtype in (
        torch.bool,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
    ):
        x = random(6, 33, dtype=dtype, low=-9, high=9)
        check_like_torch(Case(MODULES[name], lambda x: FUNCTIONS[name](x, -1), [x], {"dim": -1}))
        for wanted in (torch.float16, torch.float32, torch.float64, torch.int64):
            params = {"dim": 0, "dtype": str(wanted)}

            def in_torch(x, wanted=wanted):
                return FUNCTIONS[name](x, 0, dtype=wanted)

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of an imaginary part that is lost
                check_like_torch(Case(f"F.{name}", in_torch, [x], params))


@each
def test_dim_of_old(name):
    """Without `dim`, PyTorch picks one by the number of dimensions, and warns."""

    def in_torch(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return FUNCTIONS[name](x)

    for shape in [(), (4,), (3, 4), (2, 3, 4), (2, 3, 4, 5), (2, 2, 2, 2, 2)]:
        check(Case(MODULES[name], in_torch, [random(*shape)]))
        check(Case(f"F.{name}", in_torch, [random(*shape)], {"dim": None, "_stacklevel": 3}))


ROWS = {
    "all -inf": [-math.inf] * 4,
    "one inf": [math.inf, 0.0, 1.0, -math.inf],
    "two inf": [math.inf, math.inf, 1.0, -math.inf],
    "nan": [math.nan, 0.0, 1.0, -math.inf],
    "masked": [-math.inf, 0.0, 1.0, -math.inf],
    "large": [1e30, -1e30, 1e30, 0.0],
    "far apart": [0.0, -200.0, 88.0, 104.0],
    "subnormal": [1e-40, -1e-40, 0.0, -0.0],
}


@each
@pytest.mark.parametrize("row", ROWS)
def test_rows_of_special_values(name, row):
    rows = torch.tensor([[0.0, 1.0, 2.0, 3.0], ROWS[row]])
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = rows.to(dtype)
        check(Case(MODULES[name], lambda x: FUNCTIONS[name](x, 1), [x], {"dim": 1}))
        check(Case(MODULES[name], lambda x: FUNCTIONS[name](x, 0), [x.T], {"dim": 0}))


def test_long_rows_stay_exact():
    x = random(3, 100_000)
    check(Case("nn.Softmax", lambda x: F.softmax(x.double(), 1).float(), [x], {"dim": 1}))
    check(Case("nn.Softmax", lambda x: F.softmax(x.double(), 0).float(), [x.T], {"dim": 0}))


def test_softmax_over_channels():
    check(Case("nn.Softmax2d", nn.Softmax2d(), [random(2, 3, 4, 5)]))
    check(Case("nn.Softmax2d", nn.Softmax2d(), [random(3, 4, 5)]))
    with pytest.raises(ShapeError, match="3 or 4 dimensions"):
        run(Case("nn.Softmax2d", None, [random(3, 4)]))


def test_refused():
    with pytest.raises(DTypeError, match="dtype="):
        run(Case("nn.Softmax", None, [torch.arange(3)], {"dim": 0}))
    with pytest.raises(ShapeError, match="out of range"):
        run(Case("nn.Softmax", None, [random(3)], {"dim": 1}))
