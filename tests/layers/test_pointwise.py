"""Functions of every element against PyTorch."""

import math

import pytest
import torch

from kuiperinfer.errors import DTypeError, InputError, KuiperError
from kuiperinfer.layers.pointwise import BINARY, OWN, SUMS, UNARY
from tests.layers.harness import ALL_DTYPES, Case, check, check_like_torch, random, run

ENDS = [
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    -1.0,
    -2.0,
    1.0,
    2.0,
    -0.5,
    0.5,
    1e15,
    -1e15,
    1e-40,
    -1e-40,
    37.5,
    -8.5,
]


# Left-over operators are the same under another name: see test_aten.
UNARY, BINARY, SUMS = ([name for name in table if name.startswith("torch.")] for table in (UNARY, BINARY, SUMS))


def in_torch(name):
    return getattr(torch, name.split(".")[1])


@pytest.mark.parametrize("name", [*UNARY, *OWN])
def test_unary_dtypes(name):
    for dtype in ALL_DTYPES:
        low = 1.1 if "acosh" in name or "arccosh" in name else 0.05
        high = 0.95 if any(part in name for part in ("asin", "acos", "arcsin", "arccos", "tanh")) and low < 1 else 5.0
        x = random(3, 5, dtype=dtype, low=low, high=high)
        case = Case(name, in_torch(name), [x], names=["input"])
        if dtype.is_complex:
            case.tolerance = 1e-5 if dtype is torch.complex64 else 1e-12
        check_like_torch(case)


@pytest.mark.parametrize("name", [*UNARY, *(name for name in OWN if "float" in OWN[name].kinds)])
def test_unary_special_values(name):
    for value in ENDS:
        for dtype in (torch.float32, torch.float64):
            if name in ("torch.sin", "torch.cos", "torch.tan", "torch.sinc") and abs(value) > 1e10:
                continue
            x = torch.tensor([value, 0.75, value], dtype=dtype)
            check(Case(name, in_torch(name), [x], tolerance=3e-6 if dtype is torch.float32 else 1e-12))
    for shape in [(), (0,), (2, 0, 3), (1,), (17,)]:
        check(Case(name, in_torch(name), [random(*shape)], tolerance=3e-6))


def test_lgamma_is_exact():
    grid = torch.cat([torch.linspace(-30.01, 30, 20_011), torch.logspace(-30, 30, 501)]).double()
    grid = torch.where((grid - grid.round()).abs() < 1e-6, grid + 0.01, grid)
    for x in grid.split(1000):
        got = run(Case("torch.lgamma", None, [x]))[0]
        expected = torch.lgamma(x).numpy()
        error = abs(got - expected) / (1 + abs(expected))
        assert error.max() < 2e-14
    poles = run(Case("torch.lgamma", None, [torch.tensor([0.0, -1.0, -2.0, -1e30])]))[0]
    assert (poles == math.inf).all()


@pytest.mark.parametrize("name", [*BINARY, *SUMS, "torch.div", "torch.divide"])
def test_binary_dtypes(name):
    for dtype in ALL_DTYPES:
        for other in ALL_DTYPES:
            inputs = [random(3, 5, dtype=dtype, low=1, high=3), random(5, dtype=other, low=1, high=3, seed=3)]
            case = Case(name, in_torch(name), inputs)
            if dtype.is_complex or other.is_complex:
                case.tolerance = 1e-5
            check_like_torch(case)


@pytest.mark.parametrize("name", [*BINARY, *SUMS, "torch.div"])
def test_binary_with_numbers(name):
    for number in (2, 2.5):
        for dtype in (torch.int64, torch.float16, torch.float32):
            x = random(3, 5, dtype=dtype)
            case = Case(name, lambda x, n=number: in_torch(name)(x, n), [x], {"other": number}, names=["input"])
            if name in ("torch.atan2", "torch.arctan2", "torch.logaddexp"):
                continue  # PyTorch takes tensors alone, a file may have numbers
            check_like_torch(case)


def test_pow():
    for dtype in ALL_DTYPES:
        x = random(3, 5, dtype=dtype, low=1, high=3)
        check_like_torch(Case("torch.pow", lambda x: torch.pow(x, 2), [x], {"exponent": 2}, names=["input"]))
    x, y = random(3, 5, low=0.1), random(5)
    check(Case("torch.pow", torch.pow, [x, y], names=["input", "exponent"]))


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("alpha", [1, 2, 0.5, -3, True])
def test_alpha(name, alpha):
    for dtype in (torch.bool, torch.int32, torch.float16, torch.float32):
        inputs = [random(3, 5, dtype=dtype), random(3, 5, dtype=dtype, seed=3)]
        if alpha is True and dtype is not torch.bool:
            continue
        check_like_torch(Case(name, lambda x, y: in_torch(name)(x, y, alpha=alpha), inputs, {"alpha": alpha}))


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_rounding_modes(mode):
    for dtype in ALL_DTYPES:
        for other in (torch.int32, torch.float32):
            inputs = [random(40, dtype=dtype, low=-9, high=9), random(40, dtype=other, low=1, high=4, seed=3)]
            inputs[1][::2] *= -1
            params = {"rounding_mode": mode}
            check_like_torch(Case("torch.div", lambda x, y: torch.div(x, y, rounding_mode=mode), inputs, params))


def test_refused():
    with pytest.raises(DTypeError, match="alpha"):
        run(Case("torch.add", None, [torch.arange(3), torch.arange(3)], {"alpha": 0.5}))
    with pytest.raises(InputError, match="floor or trunc"):
        run(Case("torch.div", None, [random(3), random(3)], {"rounding_mode": "round"}))
    with pytest.raises(KuiperError, match="broadcast"):
        run(Case("torch.mul", None, [random(3), random(4)]))
    with pytest.raises(DTypeError, match="expected a tensor"):
        run(Case("torch.frac", None, [torch.arange(3)]))


def test_left_over_operators():
    check(Case("aten::log2", torch.log2, [random(4, low=0.1)]))
    check(Case("aten::signbit", torch.signbit, [torch.tensor([-1.0, -0.0, 0.0, math.nan, -math.inf])]))
    check(Case("aten::div", lambda x, y, mode: torch.div(x, y, rounding_mode=mode), [random(9), random(9), "trunc"]))
