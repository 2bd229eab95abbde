"""Every function against PyTorch: values, dtypes, and what is refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from kuiperinfer.dtypes import DType, TensorSpec, c32, dtype_from_name, dtype_of, widen
from kuiperinfer.errors import KuiperError
from kuiperinfer.expression import FUNCTIONS, Call, Operand, evaluate, infer
from kuiperinfer.expression.erf import erf
from tests.expression.pytorch import DTYPES, call, to_numpy

UNARY = [name for name, row in FUNCTIONS.items() if row.arity == 1 and row.numpy]
BINARY = [name for name, row in FUNCTIONS.items() if row.arity == 2 and row.numpy]

# Units in the last place. PyTorch's own powers of float32 differ by this much between the body and the rest of a loop.
ULPS = {"pow": 20}

_FINITE = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 2.0, 3.3, -0.3, 7.0, -7.0, 1.5, 100.0, -100.0, 1e6]
_SPECIAL = [math.inf, -math.inf, math.nan, 1e-40, 65504.0, 3e38]
_COMPLEX = [complex(a, b) for a in (0.5, 1.0, -1.0, -2.5, 3.0) for b in (1.0, -0.5, 2.0)]


def values(dtype: str, finite: bool = False) -> torch.Tensor:
    kind = dtype_from_name(dtype).kind
    if kind == "complex":
        return torch.tensor(_COMPLEX, dtype=DTYPES[dtype])
    if kind == "bool":
        return torch.tensor([True, False, True])
    if kind == "int":
        limits = torch.iinfo(DTYPES[dtype])
        listed = [0, 1, 2, 3, 7, 100, limits.max] + ([-1, -2, -3, -7, -100, limits.min] if limits.min else [128, 255])
        return torch.tensor(listed, dtype=DTYPES[dtype])
    listed = torch.tensor(_FINITE if finite else _FINITE + _SPECIAL, dtype=torch.float64).to(DTYPES[dtype])
    return listed[torch.isfinite(listed)] if finite else listed


def compare(name: str, arguments: Sequence[Any]) -> None:
    """Our result beside PyTorch's; a refusal where PyTorch refuses."""
    tree = Call(name, tuple(map(Operand, range(len(arguments)))))
    expected = call(name, arguments)
    inputs = [to_numpy(argument) for argument in arguments]
    if expected is None:
        try:
            result = evaluate(tree, inputs)
        except KuiperError:
            return
        assert dtype_of(result) is c32, "PyTorch refuses"  # for which it has few functions
        return
    result, expected = evaluate(tree, inputs), to_numpy(expected)
    assert isinstance(result, np.ndarray)
    assert TensorSpec.of(result) == TensorSpec.of(expected)
    specs = [TensorSpec.of(value).like() if isinstance(value, np.ndarray) else value for value in inputs]
    assert infer(tree, specs) == TensorSpec.of(expected)
    assert_close(result, expected, dtype_of(expected), ULPS.get(name, 4))
    if not name.startswith(("max", "min")):  # either of two equals
        zero = np.asarray(widen(expected) == 0)
        np.testing.assert_array_equal(*(np.signbit(np.asarray(widen(a).real)[zero]) for a in (result, expected)))


def assert_close(result: Any, expected: Any, dtype: DType, ulps: float) -> None:
    result, expected = np.asarray(widen(result)), np.asarray(widen(expected))
    if dtype.kind in ("bool", "int"):
        np.testing.assert_array_equal(result, expected)
        return
    if dtype.kind == "complex":
        tolerance = {"c32": 2e-3, "c64": 2e-6, "c128": 1e-14}[dtype.name]
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
        return
    smallest = {"f32": 2.0**-149, "f64": 5e-324, "f16": 2.0**-24, "bf16": 2.0**-133}[dtype.name]
    epsilon = {"f32": 2.0**-23, "f64": 2.0**-52, "f16": 2.0**-10, "bf16": 2.0**-7}[dtype.name]
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(result[~finite], expected[~finite])
    result, expected = result[finite].astype(np.float64), expected[finite].astype(np.float64)
    if dtype.name in ("f16", "bf16"):
        ulps = 1
    allowed = ulps * np.maximum(np.abs(expected) * epsilon, smallest)
    assert np.all(np.abs(result - expected) <= allowed)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_argument(name: str, dtype: str) -> None:
    array = values(dtype, finite=name.startswith("torch."))  # what becomes of NaN as an integer is left to the machine
    compare(name, [array])
    compare(name, [array[1]])
    compare(name, [array[:0]])


def pairs(name: str, first: str, second: str) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    kinds = {dtype_from_name(dtype).kind for dtype in (first, second)}
    # Complex infinities are NaN in changing places; PyTorch's fmod and logaddexp lose themselves in extreme values.
    finite = "complex" in kinds or name in ("fmod", "remainder", "floor_divide")
    x, y = values(first, finite), values(second, finite)
    if "complex" in kinds and name in ("pow", "logaddexp", "div"):
        x, y = (value[(value != 0) & (torch.abs(value.to(torch.complex64)) < 5)] for value in (x, y))
    yield x[:, None], y
    yield x[:, None], y[:1]
    yield x[1], y
    yield x, y[-1]
    yield x[1], y[1]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("first", DTYPES)
def test_two_tensors(name: str, first: str) -> None:
    for second in DTYPES:
        for x, y in pairs(name, first, second):
            compare(name, [x, y])
            compare(name, [x, torch.where(y == 0, torch.ones_like(y), y)])  # integers, not divided by zero


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensor_and_number(name: str, dtype: str) -> None:
    numbers = [True, False, 0, 1, 2, -1, 3, 300, 0.1, 2.5, -1.7, 0.5, math.nan, math.inf, 1.5 - 2j]
    arrays = [y for _, y in pairs(name, dtype, dtype)][2:4]  # with dimensions and without
    for number, array in itertools.product(numbers, arrays):
        if isinstance(number, float) and not math.isfinite(number) and array.is_complex():
            continue
        if isinstance(number, complex):
            array = array[(array != 0) & (torch.abs(array.to(torch.complex64)) < 5)]
        if name == "pow" and number == 0.5:
            array = array[torch.isfinite(array) & (array != 0)]  # a square root in float32, but not in float16
        if name == "pow" and isinstance(number, bool) and dtype == "bool":
            continue  # a short cut that pow(bool tensor, bool tensor) does not have
        compare(name, [array, number])
        compare(name, [number, array])


# ------------------------------------------------------------------------------------------- by hand


def f32(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("round", [f32(0.5, 1.5, 2.5, -0.5, -1.5)], f32(0, 2, 2, -0.0, -2)),
        ("remainder", [f32(7, -7, 7, -7), f32(3, 3, -3, -3)], f32(1, 2, -2, -1)),
        ("fmod", [f32(7, -7, 7, -7), f32(3, 3, -3, -3)], f32(1, -1, 1, -1)),
        ("floor_divide", [f32(7, -7, 7, -7), f32(3, 3, -3, -3)], f32(2, -3, -3, 2)),
        ("floor_divide", [np.array([7, -7]), 2], np.array([3, -4])),
        ("remainder", [np.array([7, -7]), -4], np.array([-1, -3])),
        ("div", [np.array([7, -7]), 2], f32(3.5, -3.5)),
        ("sign", [f32(-2, 0, 3, math.nan)], f32(-1, 0, 1, 0)),
        ("maximum", [f32(1, math.nan, 2), f32(math.nan, 1, 3)], f32(math.nan, math.nan, 3)),
        ("min", [np.array([1, 5]), 3], np.array([1, 3])),
        ("max", [np.array([1, 5]), 2.5], f32(2.5, 5)),
        ("add", [np.array([True, False]), np.array([True, False])], np.array([True, False])),
        ("add", [np.array([120], np.int8), 10], np.array([-126], np.int8)),
        ("mul", [np.array([True, False]), 2], np.array([2, 0])),
        ("abs", [np.array([3 + 4j], np.complex64)], f32(5)),
        ("neg", [np.array([1, 0], np.uint8)], np.array([255, 0], np.uint8)),
        ("pow", [np.array([2, -1, -1, 1, 0, 3]), np.array([-1, -1, -2, -5, -1, 2])], np.array([0, -1, 1, 1, 0, 9])),
        ("pow", [np.array([10], np.int8), 2], np.array([100], np.int8)),
        ("lshift", [np.array([1, 1, 1], np.int8), np.array([3, 8, -1], np.int8)], np.array([8, 0, 0], np.int8)),
        ("rshift", [np.array([-5, -5, 5], np.int8), np.array([1, 9, -1], np.int8)], np.array([-3, -1, 0], np.int8)),
        ("rshift", [np.array([200, 200], np.uint8), np.array([1, 8], np.uint8)], np.array([100, 0], np.uint8)),
        ("logaddexp", [f32(-math.inf, math.inf, 0), f32(-math.inf, 1, 0)], f32(-math.inf, math.inf, math.log(2))),
        ("torch.bool", [f32(0, -0.0, math.nan, 2)], np.array([False, False, True, True])),
        ("torch.long", [f32(-2.7, 2.7)], np.array([-2, 2])),
        ("torch.float", [np.array([1 + 2j])], f32(1)),
    ],
)
def test_by_hand(name: str, arguments: list[Any], expected: Any) -> None:
    result = evaluate(Call(name, tuple(map(Operand, range(len(arguments))))), arguments)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result.real), np.signbit(expected.real))


def test_erf() -> None:
    x = np.concatenate([np.linspace(-7, 7, 40_001), np.logspace(-300, 0, 500), [math.inf, -math.inf]])
    exact = np.array([math.erf(value) for value in x])
    assert np.max(np.abs(erf(x) - exact) / np.spacing(np.abs(exact))) <= 4
    single = x.astype(np.float32)
    exact = np.array([math.erf(value) for value in single]).astype(np.float32)
    assert np.max(np.abs(erf(single) - exact) / np.spacing(np.abs(exact))) <= 1
    zeros = erf(np.array([0.0, -0.0]))
    assert list(np.signbit(zeros)) == [False, True]
    assert np.isnan(erf(np.array([math.nan])))[0]


def test_the_table_is_complete() -> None:
    """PNNX_FORMAT: what the converter may write."""
    unary = (
        "int abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log log10 log1p neg reciprocal round "
        "rsqrt sign sin sinh sqrt square tan tanh trunc torch.bool torch.float torch.long"
    )
    binary = "add sub mul div floor_divide remainder fmod pow atan2 max min maximum minimum logaddexp and or xor lshift rshift"
    assert all(FUNCTIONS[name].arity == 1 for name in unary.split())
    assert all(FUNCTIONS[name].arity == 2 for name in binary.split())
    assert FUNCTIONS["size"].arity_error(1) is None
    assert FUNCTIONS["size"].arity_error(2) is None
