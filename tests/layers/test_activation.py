"""Activations against PyTorch: every operator, every dtype, values at the ends of the range."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kuiperinfer.errors import DTypeError, InputError, KuiperError, ModelFileError, ShapeError
from tests.layers.harness import ALL_DTYPES, Case, check, check_like_torch, random, run

# nn type, F type, PyTorch's function, parameters
OPERATORS = [
    ("nn.ReLU", "F.relu", F.relu, {}),
    ("nn.ReLU6", "F.relu6", F.relu6, {}),
    ("nn.LeakyReLU", "F.leaky_relu", F.leaky_relu, {}),
    ("nn.LeakyReLU", "F.leaky_relu", F.leaky_relu, {"negative_slope": -0.3}),
    ("nn.RReLU", "F.rrelu", F.rrelu, {}),
    ("nn.RReLU", "F.rrelu", F.rrelu, {"lower": 0.4, "upper": 0.4}),
    ("nn.Threshold", "F.threshold", F.threshold, {"threshold": 0.5, "value": 2.75}),
    ("nn.Threshold", "F.threshold", F.threshold, {"threshold": 1, "value": -3}),
    ("nn.Hardtanh", "F.hardtanh", F.hardtanh, {}),
    ("nn.Hardtanh", "F.hardtanh", F.hardtanh, {"min_val": 0.5, "max_val": 1.75}),
    ("nn.ELU", "F.elu", F.elu, {}),
    ("nn.ELU", "F.elu", F.elu, {"alpha": -0.6}),
    ("nn.ELU", "F.elu", F.elu, {"alpha": 0}),
    ("nn.CELU", "F.celu", F.celu, {}),
    ("nn.CELU", "F.celu", F.celu, {"alpha": 2}),
    ("nn.CELU", "F.celu", F.celu, {"alpha": -0.8}),
    ("nn.SELU", "F.selu", F.selu, {}),
    ("nn.GELU", "F.gelu", F.gelu, {}),
    ("nn.GELU", "F.gelu", F.gelu, {"approximate": "tanh"}),
    ("nn.Sigmoid", "F.sigmoid", torch.sigmoid, {}),
    ("nn.Tanh", "F.tanh", torch.tanh, {}),
    ("nn.LogSigmoid", "F.logsigmoid", F.logsigmoid, {}),
    ("nn.SiLU", "F.silu", F.silu, {}),
    ("nn.Mish", "F.mish", F.mish, {}),
    ("nn.Softplus", "F.softplus", F.softplus, {}),
    ("nn.Softplus", "F.softplus", F.softplus, {"beta": 0.7, "threshold": 1}),
    ("nn.Softplus", "F.softplus", F.softplus, {"beta": -2.0}),
    ("nn.Softsign", "F.softsign", F.softsign, {}),
    ("nn.Softshrink", "F.softshrink", F.softshrink, {}),
    ("nn.Softshrink", "F.softshrink", F.softshrink, {"lambd": 0}),
    ("nn.Hardshrink", "F.hardshrink", F.hardshrink, {}),
    ("nn.Hardshrink", "F.hardshrink", F.hardshrink, {"lambd": 1}),
    ("nn.Tanhshrink", "F.tanhshrink", F.tanhshrink, {}),
    ("nn.Hardsigmoid", "F.hardsigmoid", F.hardsigmoid, {}),
    ("nn.Hardswish", "F.hardswish", F.hardswish, {}),
]
IDS = [f"{name} {' '.join(f'{k}={v}' for k, v in params.items())}" for _, name, _, params in OPERATORS]
each_operator = pytest.mark.parametrize(("module", "function", "reference", "params"), OPERATORS, ids=IDS)


@each_operator
def test_shapes_and_dtypes(module, function, reference, params):
    def in_torch(x):
        return reference(x, **params)

    for dtype in ALL_DTYPES:
        x = random(5, 7, dtype=dtype, low=-4, high=4)
        check_like_torch(Case(function, in_torch, [x], params, names=["input"]))
    for shape in [(), (1,), (0,), (3, 0, 2), (17,), (2, 3, 1, 5, 1)]:
        check(Case(module, in_torch, [random(*shape)], params))
    check(Case(module, in_torch, [random(6, 8).T], params, id="transposed"))
    check(Case(function, in_torch, [random(3)], {**params, "inplace": False}, id="inplace"))


@each_operator
def test_ends_of_the_range(module, function, reference, params):
    ends = [math.nan, math.inf, -math.inf, 1e30, -1e30, 0.0, -0.0, 1e-40, -1e-40, 100.0, -100.0, 20.0, -3.0, 3.0]
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for value in ends:
            x = torch.tensor([value, 2.0, value]).to(dtype)  # 2.0 is the scale of the tolerance
            if reference is F.gelu and not params and x[0] == math.inf:
                continue  # PyTorch's vectorised form has NaN here, its scalar form has infinity
            check(Case(module, lambda x: reference(x, **params), [x], params, id=f"{function} {value}"))


@each_operator
def test_fine_grid(module, function, reference, params):
    x = torch.linspace(-12, 12, 4001)
    check(Case(module, lambda x: reference(x, **params), [x], params))
    check(Case(module, lambda x: reference(x, **params), [x.double()], params))


@pytest.mark.parametrize("params", [{}, {"approximate": "tanh"}])
def test_gelu_is_exact_far_out(params):
    x = torch.linspace(-100, 100, 2001, dtype=torch.float64)
    check(Case("nn.GELU", lambda x: F.gelu(x, **params), [x], params, tolerance=1e-15))
    [infinite] = run(Case("nn.GELU", F.gelu, [torch.tensor([math.inf])], params))
    assert infinite[0] == math.inf


GLU_CASES = [
    *(
        Case("nn.GLU", lambda x, d=dim: F.glu(x, d), [random(4, 6, 8, dtype=dtype)], {"dim": dim})
        for dim in (0, 1, -1, -3)
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)
    ),
    Case("F.glu", F.glu, [random(18)], names=["input"]),
    Case("F.glu", F.glu, [random(0)]),
    Case("F.glu", F.glu, [random(3, 0)]),
    Case("F.glu", F.glu, [torch.tensor([math.nan, math.inf, -math.inf, 1.0, -1.0, math.inf])]),
]


@pytest.mark.parametrize("case", GLU_CASES, ids=str)
def test_glu(case):
    check(case)


def _prelu(input_shape, weight_shape, dtype=torch.float32):
    inputs = [random(*input_shape, dtype=dtype), random(*weight_shape, dtype=dtype, seed=3)]
    return Case("F.prelu", F.prelu, inputs, names=["input", "weight"])


PRELU_CASES = [
    _prelu((), ()),
    _prelu((), (1,)),
    _prelu((5,), (1,)),
    _prelu((2, 5), (5,)),
    _prelu((2, 5), ()),
    _prelu((2, 5, 3), (5,)),
    _prelu((2, 5, 3, 4, 2), (5,), torch.float64),
    _prelu((2, 5, 3), (5,), torch.float16),
    _prelu((2, 5, 3), (1,), torch.bfloat16),
    _prelu((0, 5), (5,)),
    _prelu((2, 0), (0,)),
]


@pytest.mark.parametrize("case", PRELU_CASES, ids=str)
def test_prelu(case):
    check(case)


def test_prelu_with_a_weight():
    weight = random(4)
    x = random(2, 4, 3)
    check(Case("nn.PReLU", lambda x: F.prelu(x, weight), [x], {"num_parameters": 4}, {"weight": weight}))
    # A weight that was stored in half precision serves a float32 input.
    half = weight.half()
    check(Case("nn.PReLU", lambda x: F.prelu(x, half.float()), [x], {"num_parameters": 4}, {"weight": half}))


def _refused(type, inputs, params=None, torch_function=None):
    return Case(type, torch_function, inputs, params or {})


REFUSED = [
    (_refused("F.prelu", [random(2, 4), random(3)]), ShapeError, "channels"),
    (_refused("F.prelu", [random(3), random(3)]), ShapeError, "channels"),
    (_refused("F.prelu", [random(3), random(1, 1)]), ShapeError, "one dimension"),
    (_refused("nn.PReLU", [random(2, 3), random(3)], {"num_parameters": 2}), ShapeError, "num_parameters=2"),
    (_refused("F.prelu", [random(3), torch.ones(1, dtype=torch.int64)]), DTypeError, "weight"),
    (_refused("F.prelu", [random(3)]), ModelFileError, "weight"),
    (_refused("nn.GLU", [random(2, 3)]), ShapeError, "odd"),
    (_refused("nn.GLU", [random(2, 4)], {"dim": 2}), ShapeError, "out of range"),
    (_refused("nn.GLU", [torch.tensor(1.0)]), ShapeError, "0-d"),
    (_refused("nn.GELU", [random(3)], {"approximate": "fast"}), InputError, "none, tanh"),
    (_refused("nn.CELU", [random(3)], {"alpha": 0.0}), InputError, "alpha"),
    (_refused("nn.Softshrink", [random(3)], {"lambd": -1.0}), InputError, "lambd"),
    (_refused("nn.Softshrink", [random(3)], {"lambd": math.nan}), InputError, "lambd"),
    (_refused("nn.Hardtanh", [random(3)], {"min_val": 2.0}), InputError, "greater"),
    (_refused("nn.RReLU", [random(3)], {"lower": 2.0}), InputError, "upper"),
    (_refused("F.rrelu", [random(3)], {"training": True}), InputError, "training"),
    (_refused("nn.ReLU", [random(3)], {"slope": 1}), ModelFileError, "slope"),
    (_refused("nn.Threshold", [random(3)]), ModelFileError, "threshold"),
    (_refused("F.threshold", [torch.ones(2, dtype=torch.uint8)], {"threshold": 300, "value": 1}), DTypeError, "300"),
    (
        _refused("F.threshold", [torch.ones(2, dtype=torch.int8)], {"threshold": math.inf, "value": 1}),
        DTypeError,
        "inf",
    ),
]


@pytest.mark.parametrize(("case", "error", "words"), REFUSED, ids=str)
def test_refused(case, error, words):
    with pytest.raises(error, match=words):
        run(case)


def test_numbers_beside_integers():
    """Bounds are cut to integers, and wrap for unsigned inputs, as PyTorch does."""
    for dtype in (torch.uint8, torch.int8, torch.int64):
        x = torch.arange(0, 7).to(dtype)
        for threshold, value in [(2.9, 5.9), (-1, -1), (0, 100)]:
            params = {"threshold": threshold, "value": value}
            check_like_torch(Case("F.threshold", lambda x, p=params: F.threshold(x, **p), [x], params))
        for low, high in [(1.9, 3.2), (-2.5, 3), (0, 300), (-200, 5)]:
            params = {"min_val": low, "max_val": high}
            check_like_torch(Case("F.hardtanh", lambda x, p=params: F.hardtanh(x, **p), [x], params))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_ends_of_integers(dtype):
    """Softsign adds 1 to |x| as an integer, which wraps around."""
    limits = torch.iinfo(dtype)
    x = torch.tensor([limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 3], dtype=dtype)
    for name in ("relu", "relu6", "softsign", "tanhshrink", "hardtanh", "sigmoid", "tanh"):
        check_like_torch(Case(f"F.{name}", getattr(F, name), [x]))


def test_a_number_is_a_0d_tensor():
    [result] = run(Case("F.sigmoid", None, [2]))
    assert result.shape == () and result.dtype == np.float32
    assert abs(result - 1 / (1 + math.exp(-2))) < 1e-7
    with pytest.raises(KuiperError):
        run(Case("F.sigmoid", None, ["two"]))


def test_modules_agree_with_their_functions():
    """One module each, so that defaults of nn and F are the same thing."""
    x = random(4, 6)
    modules = [nn.RReLU(), nn.GLU(), nn.Softplus(), nn.Hardtanh(), nn.LeakyReLU(), nn.Hardshrink(), nn.CELU(), nn.ELU()]
    for module in modules:
        check(Case(f"nn.{type(module).__name__}", module.eval(), [x]))
