"""Operators and methods against torch, and their gradients against torch and finite differences."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from kuiperinfer import tensor as kt
from kuiperinfer.dtypes import bf16, f16, f32, f64, i64
from kuiperinfer.errors import DTypeError, InputError, KuiperError, ShapeError
from kuiperinfer.tensor import functional as F
from kuiperinfer.tensor.operation import apply
from kuiperinfer.tensor.operations.layer import LayerOperation

from .operation_cases import Case, check_against_torch, check_differences, same, spread

x, y = spread(3, 4), spread(3, 4, seed=1) + 0.07
positive = spread(3, 4, low=0.1, high=2.5)
inside = spread(3, 4, low=-0.9, high=0.9)
cube = spread(2, 3, 4, seed=2)

_UNARY: dict[str, Any] = {
    **dict.fromkeys("neg abs sign square exp expm1 sin cos atan sinh cosh tanh asinh erf sigmoid relu".split(), x),
    **dict.fromkeys("ceil floor round trunc".split(), x),
    **dict.fromkeys("sqrt rsqrt log log10 log1p reciprocal".split(), positive),
    **dict.fromkeys("asin acos atanh tan".split(), inside),
    "acosh": positive + 1,
}


def both(function: str, *arguments: Any) -> Any:
    return lambda tensor: getattr(tensor, function)(*arguments)


def reductions(names: str, *arguments: Any) -> list[Case]:
    return [same(f"{name} {given}", both(name, *given), cube) for name in names.split() for given in arguments]


CASES = [
    *(same(name, both(name), values) for name, values in _UNARY.items()),
    same("add", lambda a, b: a + b, x, y),
    same("sub", lambda a, b: a - b, x, y),
    same("mul", lambda a, b: a * b, x, y),
    same("div", lambda a, b: a / b, x, y),
    same("pow of positive", lambda a, b: a**b, positive, y),
    same("pow by 2", lambda a: a**2, x),
    same("pow by 3", lambda a: a**3, x),
    same("pow by -1.5", lambda a: a**-1.5, positive),
    same("pow by 0", lambda a: a**0, x),
    same("number to a power", lambda a: 2.5**a, x),
    same("remainder", lambda a, b: a % b, x * 3.1, y, smooth=False),
    same("fmod", lambda a, b: a.fmod(b), x * 3.1, y, smooth=False),
    same("floor_divide", lambda a, b: a.detach() // b.detach() * a, x * 3.1, y, smooth=False),
    same("atan2", lambda a, b: a.atan2(b), x, y),
    same("logaddexp", lambda a, b: a.logaddexp(b), x, y),
    same("maximum", lambda a, b: a.maximum(b), x, y),
    same("minimum", lambda a, b: a.minimum(b), x, y),
    same("clamp", lambda a: a.clamp(-0.7, 1.1), x),
    same("clamp from below", lambda a: a.clamp(min=0.3), x),
    same("clamp from above", lambda a: a.clamp(max=0.3), x),
    same("lerp", lambda a, b: a.lerp(b, 0.3), x, y),
    same("numbers on both sides", lambda a: (2 - a) / 3 + 1 / (a + 5), x),
    same("broadcast rows", lambda a, b: a * b + b, x, y[:1]),
    same("broadcast columns", lambda a, b: a / b - a, x, y[:, :1]),
    same("broadcast new dimensions", lambda a, b: a * b, x, cube),
    same("broadcast both", lambda a, b: (a + b) * a, x[:, :1], y[:1]),
    same("broadcast nothing", lambda a, b: a * b, x, np.array(1.5)),
    same("where", lambda a, b: a.where(a > b, b), x, y),
    same("masked_fill", lambda a: a.masked_fill(a > 0.5, -3.0), x),
    Case("where with a number", lambda a: kt.where(a > 0, a, 0.5), lambda a: torch.where(a > 0, a, 0.5), [x]),
    *reductions("sum mean amax amin var std logsumexp", (0,), (-1,), ((0, 2),)),
    *reductions("sum mean amax prod", (1, True)),
    same("var kept", lambda a: a.var(1, keepdim=True), cube),
    *reductions("sum mean prod var std max min", ()),
    same("prod", lambda a: a.prod(1), cube),
    same("prod with zeros", lambda a: a.prod(1), cube * (np.arange(24).reshape(2, 3, 4) % 5 != 0)),
    same("max along", lambda a: a.max(1).values, cube),
    same("min along", lambda a: a.min(-1, keepdim=True)[0], cube),
    same("variance without correction", lambda a: a.var(1, correction=0), cube),
    same("norm", lambda a: a.norm(), x),
    same("norm of rows", lambda a: a.norm(2, 1), x),
    same("norm of 3", lambda a: a.norm(3, 0), x),
    same("largest magnitude", lambda a: a.norm(float("inf"), 0), x),
    *(same(f"matmul {a} {b}", lambda p, q: p @ q, spread(*a), spread(*b, seed=3)) for a, b in [
        ((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)), ((1, 2, 3, 4), (5, 1, 4, 2)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)), ((1, 1), (1, 1)),
    ]),
    same("matmul of views", lambda p, q: p.T @ q[:, ::2], spread(4, 3), spread(4, 6, seed=3)),
    Case("cat", lambda a, b: kt.cat([a, b, a], 1), lambda a, b: torch.cat([a, b, a], 1), [x, y[:, :2]]),
    Case("stack", lambda a, b: kt.stack([a, b], 1), lambda a, b: torch.stack([a, b], 1), [x, y]),
    same("gather", lambda a, i: a.gather(1, i), x, np.array([[0, 0, 3], [1, 2, 1], [3, 3, 3]])),
    same("index_select", lambda a, i: a.index_select(1, i), x, np.array([3, 0, 0])),
    same("indexed by rows and columns", lambda a, i: a[i, 1:], x, np.array([2, 0, 2])),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_torch(case: Case) -> None:
    check_against_torch(case, np.float64, rtol=1e-9, atol=1e-11)
    check_against_torch(case, np.float32, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("case", [case for case in CASES if case.smooth], ids=str)
def test_against_finite_differences(case: Case) -> None:
    check_differences(case)


@pytest.mark.parametrize(
    ("type_name", "theirs", "parameters"),
    [
        ("F.softmin", torch.nn.functional.softmin, {"dim": 1}),
        ("F.adaptive_max_pool2d", torch.nn.functional.adaptive_max_pool2d, {"output_size": (2, 3)}),
        ("torch.sum", torch.sum, {"dim": (0, 2), "keepdim": True}),
        ("torch.mean", torch.mean, {"dim": (1,)}),
        ("F.linear", torch.nn.functional.linear, {}),
        ("torch.matmul", torch.matmul, {}),
    ],
)
def test_layers_as_operations(type_name: str, theirs: Any, parameters: dict[str, Any]) -> None:
    """Every layer with a derivative can be an operation."""
    operation = LayerOperation(type_name)
    others = {"F.linear": [spread(3, 7), spread(3)], "torch.matmul": [spread(2, 7, 3)]}.get(type_name, [])
    case = Case(
        type_name,
        lambda *tensors: apply(operation, *tensors, **parameters),
        lambda *tensors: theirs(*tensors, **parameters),
        [spread(2, 5, 7), *others],
    )
    check_against_torch(case, np.float64, rtol=1e-9, atol=1e-11)
    check_differences(case)


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(name: str) -> None:
    a, b = np.array([1.0, 2.0, np.nan, np.inf]), np.array([2.0, 2.0, np.nan, -np.inf])
    result = getattr(kt.tensor(a), name)(kt.tensor(b))
    expected = getattr(torch.from_numpy(a), name)(torch.from_numpy(b))
    assert result.tolist() == expected.tolist() and result.dtype.name == "bool"
    assert getattr(kt.tensor([1, 5]), name)(3).tolist() == getattr(torch.tensor([1, 5]), name)(3).tolist()


def test_integers_and_bools() -> None:
    a, b = [7, -7, 6, 0], [2, 2, -4, 5]
    ours, theirs = (kt.tensor(a), kt.tensor(b)), (torch.tensor(a), torch.tensor(b))
    functions: list[Any] = [
        lambda p, q: p + q, lambda p, q: p - q, lambda p, q: p * q, lambda p, q: p / q, lambda p, q: p // q,
        lambda p, q: p % q, lambda p, q: p.fmod(q), lambda p, q: p & q, lambda p, q: p | q, lambda p, q: p ^ q,
        lambda p, q: ~p, lambda p, q: p << 2, lambda p, q: p >> 1, lambda p, q: p**2, lambda p, q: -p,
        lambda p, q: abs(p), lambda p, q: p.clamp(-1, 5), lambda p, q: p.clamp(min=0.5), lambda p, q: p.sum(),
        lambda p, q: p.max(), lambda p, q: p.argmax(), lambda p, q: p.argmin(0), lambda p, q: (p > q) & (q > 0),
        lambda p, q: ~(p > q), lambda p, q: (p > q).sum(), lambda p, q: (p > 0).any(), lambda p, q: (p > 0).all(),
        lambda p, q: p.prod(), lambda p, q: p.exp(), lambda p, q: (p > 0) * q, lambda p, q: p.float().mean(),
    ]  # fmt: skip
    for function in functions:
        result, expected = function(*ours), function(*theirs)
        assert result.dtype.torch_name == str(expected.dtype)
        np.testing.assert_allclose(result.tolist(), expected.tolist(), rtol=1e-6)


def test_positions_of_extremes() -> None:
    a = np.array([[1.0, 3.0, 3.0], [np.nan, 5.0, 9.0]])
    ours, theirs = kt.tensor(a), torch.from_numpy(a)
    for dim in (0, 1):
        for name in ("max", "min"):
            values, indices = getattr(ours, name)(dim)
            expected = getattr(theirs, name)(dim)
            np.testing.assert_array_equal(values.array, expected.values.numpy())
            np.testing.assert_array_equal(indices.array, expected.indices.numpy())
    assert ours.argmax().item() == theirs.argmax().item()


def test_ties_share_the_gradient_as_in_torch() -> None:
    values = np.array([[2.0, 2.0, 1.0], [0.0, 0.0, 0.0]])
    for function in (lambda a: a.amax(1), lambda a: a.amin(), lambda a: a.max(1)[0], lambda a: a.maximum(a * 1 + 0),
                     lambda a: a.abs(), lambda a: a.clamp(0.0, 2.0), lambda a: a.relu()):  # fmt: skip
        check_against_torch(same("ties", function, values), np.float64, rtol=1e-12, atol=0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30])
def test_special_values_and_their_gradients(value: float) -> None:
    """Results and gradients at values where much goes wrong are those of torch."""
    values = np.array([value, 1.0])
    for name in (
        "exp",
        "log",
        "sqrt",
        "sigmoid",
        "tanh",
        "abs",
        "square",
        "relu",
        "sin",
        "log1p",
        "reciprocal",
        "sign",
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_against_torch(same(name, both(name), values), np.float64, rtol=1e-12, atol=0)
    for function in (
        lambda a: a * a,
        lambda a: a + a,
        lambda a: a.sum(),
        lambda a: a.mean(),
        lambda a: a / 2,
        lambda a: 1 / a,
    ):
        check_against_torch(same("arithmetic", function, values), np.float64, rtol=1e-12, atol=0)


def test_half_precision() -> None:
    a = kt.tensor([1.0, 2.5, 1000.0], dtype=f16).requires_grad_()
    (a * a + 1).sum().backward()
    assert a.grad is not None and a.grad.dtype is f16 and a.grad.tolist() == [2, 5, 2000]
    for dtype in (f16, bf16):
        p, q = kt.ones(2, 3, dtype=dtype).requires_grad_(), kt.full((3, 2), 2.0, dtype=dtype).requires_grad_()
        (p @ q).sum().backward()
        assert p.grad is not None and p.grad.dtype is dtype and p.grad.tolist() == [[4, 4, 4]] * 2
    assert (a * 100).tolist() == [100, 250, float("inf")]


def test_gradients_have_the_dtype_of_their_leaf() -> None:
    a, b = kt.tensor([1.0, 2.0], dtype=f32).requires_grad_(), kt.tensor([3.0, 4.0], dtype=f64).requires_grad_()
    (a * b).sum().backward()
    assert a.grad is not None and a.grad.dtype is f32 and a.grad.tolist() == [3, 4]
    assert b.grad is not None and b.grad.dtype is f64 and b.grad.tolist() == [1, 2]
    (a.to(f64) * 2).sum().backward()
    assert a.grad.dtype is f32 and a.grad.tolist() == [5, 6]


def test_empty_tensors() -> None:
    a = kt.zeros(0, 3).requires_grad_()
    assert a.sum().item() == 0 and (a * 2).shape == (0, 3) and (a @ kt.ones(3, 2)).shape == (0, 2)
    (a * 2).sum().backward()
    assert a.grad is not None and a.grad.shape == (0, 3)
    assert np.isnan(a.mean().item())
    with pytest.raises(ShapeError, match="no elements"):
        a.amax()
    for dim in (0, 1, None):
        product = a.prod(dim)
        product.backward(kt.ones(*product.shape))
    for features, outputs in ((0, 2), (3, 0)):
        rows, weight = kt.zeros(4, features, requires_grad=True), kt.zeros(outputs, features, requires_grad=True)
        result = F.linear(rows, weight)
        result.backward(kt.ones(*result.shape))
        assert rows.grad is not None and rows.grad.tolist() == [[0] * features] * 4
        assert weight.grad is not None and weight.grad.shape == (outputs, features)


def test_what_is_refused() -> None:
    a = kt.ones(2, 3)
    refusals: list[tuple[Any, type[KuiperError], str]] = [
        (lambda: a @ kt.ones(2, 3), ShapeError, r"\(2, 3\) and \(2, 3\) cannot be multiplied"),
        (lambda: a @ kt.ones(3, 2, dtype=i64), DTypeError, "expected tensors of one dtype"),
        (lambda: a.sum(2), ShapeError, "dimension 2"),
        (lambda: a.sum((0, 0)), ShapeError, "twice"),
        (a.clamp, InputError, "min, max or both"),
        (lambda: kt.cat([]), InputError, "at least one tensor"),
        (lambda: kt.cat([a, kt.ones(3, 3)], 1), ShapeError, "differ in another dimension"),
        (lambda: kt.stack([a, kt.ones(3)]), ShapeError, "of one shape"),
        (lambda: a.gather(0, kt.tensor([[5]])), KuiperError, "out of range|5"),
        (lambda: kt.where(a, a, 0.0), DTypeError, "condition of bool"),
        (lambda: a & a, DTypeError, "'and' does not take f32"),
        (lambda: kt.tensor([1]).mean(), DTypeError, "mean needs floats"),
    ]
    for function, error, message in refusals:
        with pytest.raises(error, match=message):
            function()
