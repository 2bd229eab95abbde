"""Values and specs of whole expressions: tensors, Python numbers, lists, and what has neither."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given

from kuiperinfer.dtypes import DataDependent, TensorSpec, bf16, c64, dtype_of, f16, f32, f64, i64, narrow, widen
from kuiperinfer.errors import (
    DTypeError,
    ExpressionError,
    InputError,
    KuiperError,
    ResourceLimitError,
    ShapeError,
)
from kuiperinfer.expression import evaluate, infer, parse
from kuiperinfer.settings import settings
from tests.expression.pytorch import to_numpy, to_torch
from tests.expression.trees import trees


def value(text: str, *inputs: Any) -> Any:
    return evaluate(parse(text), inputs)


def spec(text: str, *inputs: Any) -> Any:
    return infer(parse(text), inputs)


@pytest.mark.parametrize(
    ("text", "inputs", "result"),
    [
        ("add(@0,@1)", [1, 1], 2),
        ("add(@0,@1)", [2, 3], 5),
        ("mul(@0,@1)", [2, 3], 6),
        ("mul(@2,add(@0,@1))", [2, 3, 4], 20),
        ("mul(add(@0,@1),add(@2,@3))", [2, 3, 4, 4], 40),
        ("mul(mul(@0,@1),add(@2,@3))", [2, 3, 4, 4], 48),
        ("mul(mul(@0,@1),mul(@2,@3))", [2, 3, 4, 4], 96),
        ("mul(mul(@0,@1),mul(@2,add(@3,@4)))", [1, 2, 3, 4, 5], 54),
        ("mul(mul(@0,@1),mul(@2,mul(@3,@4)))", [1, 2, 3, 4, 5], 120),
        ("mul(@1,sin(@0))", [2, 3], 2.72789),
    ],
)
def test_the_course(text: str, inputs: list[float], result: float) -> None:
    arrays = [np.full((1, 3, 4), number, np.float32) for number in inputs]
    got = value(text, *arrays)
    assert dtype_of(got) is f32
    np.testing.assert_allclose(got, np.full((1, 3, 4), result), rtol=0, atol=1e-5)


def test_order_of_the_arguments() -> None:
    x, y = np.float32([6, 8]), np.float32([2, 16])
    np.testing.assert_array_equal(value("sub(@0,@1)", x, y), [4, -8])
    np.testing.assert_array_equal(value("div(@0,@1)", x, y), [3, 0.5])
    np.testing.assert_array_equal(value("sub(10,@0)", x), [4, 2])
    np.testing.assert_array_equal(value("pow(2,@1)", x, y), [4, 65536])


@pytest.mark.parametrize(
    ("text", "shapes", "result"),
    [
        ("add(@0,@1)", [(2, 3), (3,)], (2, 3)),
        ("add(@0,@1)", [(2, 1, 4), (3, 1)], (2, 3, 4)),
        ("add(@0,@1)", [(), (5,)], (5,)),
        ("mul(add(@0,@1),@2)", [(4, 5, 6), (1,), (5, 1)], (4, 5, 6)),
        ("mul(@0,@1)", [(32, 64, 64), (1, 1, 1)], (32, 64, 64)),
        ("add(@0,@1)", [(0, 3), (1, 3)], (0, 3)),
    ],
)
def test_broadcasting(text: str, shapes: list[tuple[int, ...]], result: tuple[int, ...]) -> None:
    assert value(text, *(np.ones(shape, np.float32) for shape in shapes)).shape == result
    assert spec(text, *(TensorSpec(shape, f32) for shape in shapes)) == TensorSpec(result, f32)


# ------------------------------------------------------------------------------------------- rounding


def test_every_function_rounds() -> None:
    """As in PyTorch without fusion: bfloat16 after every step, which one rounding at the end would not give."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(1000, generator=generator).to(torch.bfloat16) for _ in range(2))
    expected = torch.sqrt(torch.exp(x * y + x) * 0.1) - y
    got = value("sub(sqrt(mul(exp(add(mul(@0,@1),@0)),0.1)),@1)", to_numpy(x), to_numpy(y))
    assert dtype_of(got) is bf16
    assert torch.equal(to_torch(got), expected)
    once = torch.sqrt(torch.exp(x.float() * y.float() + x.float()) * 0.1) - y.float()
    assert not torch.equal(once.to(torch.bfloat16), expected)


def test_float32_stays_float32() -> None:
    x = np.float32([1e-3, 16777216.0])
    got = value("add(mul(@0,1.000000e-30),1.67772160e7)", x)
    np.testing.assert_array_equal(got, np.float32([16777216.0, 16777216.0]))
    assert value("add(@0,@1)", x, np.array([1, 1])).tolist() == [np.float32(1.001), 16777216.0]  # not through float64
    assert dtype_of(value("mul(@0,2.5)", np.array([1, 2]))) is f32
    assert dtype_of(value("mul(@0,2.5)", np.float64([1]))) is f64
    assert dtype_of(value("add(@0,1.0e+00+0.0e+00j)", np.float32([1]))) is c64
    assert dtype_of(value("max(@0,2.5)", narrow(np.float32([1, 3]), f16))) is f16


def test_constants_beside_a_zero_dimensional_tensor() -> None:
    assert dtype_of(value("add(2.5,@0)", np.float32(1.0))) is f32
    assert dtype_of(value("mul(@0,2)", np.array(3))) is i64
    assert dtype_of(value("maximum(@0,2.5)", narrow(np.array(1.0), f16))) is f32  # a tensor of its own, of float32
    assert value("add(2.5,@0)", np.float32(1.0)).shape == ()


# ------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("add(2,3)", 5),
        ("div(7,2)", 3.5),
        ("div(6,2)", 3.0),
        ("floor_divide(7,2)", 3),
        ("floor_divide(-7,2)", -4),
        ("floor_divide(7.0,2)", 3.0),
        ("remainder(-7,3)", 2),
        ("fmod(-7,3)", -1),
        ("fmod(7,-3)", 1),
        ("fmod(-7.5,2)", -1.5),
        ("int(2.9)", 2),
        ("int(-2.9)", -2),
        ("int(True)", 1),
        ("floor(2.5)", 2),
        ("ceil(-2.5)", -2),
        ("round(2.5)", 2),
        ("trunc(-2.5)", -2),
        ("floor(3)", 3),
        ("pow(2,10)", 1024),
        ("pow(2,-1)", 0.5),
        ("pow(2.0,0.5)", math.sqrt(2)),
        ("neg(3)", -3),
        ("abs(-3)", 3),
        ("sign(-2.5)", -1.0),
        ("sign(7)", 1),
        ("square(-3)", 9),
        ("sqrt(4)", 2.0),
        ("reciprocal(4)", 0.25),
        ("max(3,4)", 4),
        ("minimum(3,2.5)", 2.5),
        ("and(6,3)", 2),
        ("and(True,False)", False),
        ("or(6,3)", 7),
        ("xor(6,3)", 5),
        ("lshift(3,4)", 48),
        ("rshift(-5,1)", -3),
        ("torch.float(3)", 3.0),
        ("torch.long(3.9)", 3),
        ("torch.bool(0.5)", True),
        ("add(True,True)", 2),
        ("mul(2,1.5)", 3.0),
        ("exp(0)", 1.0),
        ("erf(0.5)", math.erf(0.5)),
        ("mul(1.0e+00+2.0e+00j,2)", 2 + 4j),
        ("pow(0.0e+00+1.0e+00j,2)", -1 + 0j),
        ("[1,2.5,True,None,a]", [1, 2.5, True, None, "a"]),
        ("[[1,[]],mul(2,3)]", [[1, []], 6]),
        ("a", "a"),
        ("None", None),
        ("3", 3),
        ("inf", math.inf),
    ],
)
def test_numbers(text: str, result: Any) -> None:
    for got in (value(text), spec(text)):
        assert type(got) is type(result)
        assert got == pytest.approx(result) if isinstance(result, (float, complex)) else got == result


@pytest.mark.parametrize("text", ["sqrt(-1.0)", "pow(-8,0.5)", "log(-1)", "acos(2)", "mul(0,inf)", "max(1,nan.0)"])
def test_numbers_that_are_not(text: str) -> None:
    assert math.isnan(value(text))


@pytest.mark.parametrize(
    ("text", "column", "error", "message"),
    [
        ("add(1,div(2,0))", 7, InputError, "'div' divides by zero"),
        ("div(2.0,0.0)", 1, InputError, "divides by zero"),
        ("floor_divide(1,0)", 1, InputError, "divides by zero"),
        ("remainder(1,0)", 1, InputError, "divides by zero"),
        ("fmod(1,0)", 1, InputError, "divides by zero"),
        ("reciprocal(0)", 1, InputError, "divides by zero"),
        ("pow(0,-1)", 1, InputError, "divides by zero"),
        ("int(inf)", 1, InputError, "no such integer"),
        ("int(nan.0)", 1, InputError, "no such integer"),
        ("floor(inf)", 1, InputError, "no value"),
        ("torch.long(nan.0)", 1, InputError, "no value"),
        ("add(9223372036854775807,1)", 1, InputError, "64 bits"),
        ("pow(3,41)", 1, InputError, "64 bits"),
        ("pow(9,9223372036854775807)", 1, InputError, "64 bits"),
        ("lshift(1,63)", 1, InputError, "64 bits"),
        ("lshift(1,9223372036854775807)", 1, InputError, "64 bits"),
        ("lshift(1,-1)", 1, InputError, "no value"),
        ("and(1.5,1)", 1, DTypeError, "'and' does not take 1.5, 1"),
        ("erf(1.000000e+00+1.000000e+00j)", 1, DTypeError, "does not take c64"),
        ("logaddexp(1,2)", 1, DTypeError, "does not take i64"),
        ("int(1.000000e+00+1.000000e+00j)", 1, DTypeError, "real number"),
        ("add(1,None)", 1, DTypeError, "argument 2 of 'add' is None"),
        ("size(3)", 1, DTypeError, "takes a tensor, found 3"),
        ("add(1,@0)", 7, ExpressionError, "'@0' is out of range"),
    ],
)
def test_what_has_no_value(text: str, column: int, error: type[KuiperError], message: str) -> None:
    for attempt in (value, spec):
        with pytest.raises(error, match=message) as caught:
            attempt(text)
        assert f"expression '{text}', column {column}: " in str(caught.value)


@given(trees)
def test_random_trees_raise_our_errors_only(tree: Any) -> None:
    inputs = [3, 2.5, np.float32([1, 2]), np.array([True, False]), np.array(7), np.complex64([1j, 2])] * 4
    specs = [TensorSpec.of(item).like() if isinstance(item, np.ndarray) else item for item in inputs]
    try:
        result = evaluate(tree, inputs)
    except KuiperError:
        return
    try:
        inferred = infer(tree, specs)
    except (DataDependent, InputError):
        return

    def same(one: Any, other: Any) -> bool:
        if isinstance(one, list):
            return all(map(same, one, other))
        return TensorSpec.of(one) == other if isinstance(one, np.ndarray) else repr(one) == repr(other)

    assert same(result, inferred)


# ------------------------------------------------------------------------------------------- size, int, lists


def test_sizes() -> None:
    x = np.zeros((2, 3, 5), np.float32)
    for attempt, tensor in ((value, x), (spec, TensorSpec.of(x).like())):
        assert attempt("size(@0)", tensor) == [2, 3, 5]
        assert attempt("size(@0,1)", tensor) == 3
        assert attempt("size(@0,-1)", tensor) == 5
        assert attempt("[size(@0,0),16,mul(size(@0,2),2),-1]", tensor) == [2, 16, 10, -1]
        assert attempt("floor_divide(size(@0,1),2)", tensor) == 1
        assert attempt("floor(mul(torch.float(size(@0,2)),1.5))", tensor) == 7
        assert attempt("size(add(@0,@1),0)", tensor, TensorSpec((7, 1, 1, 1), f32) if attempt is spec else x[None]) in (
            7,
            1,
        )
        with pytest.raises(ShapeError, match=r"column 2: 'size' of dimension 3: the tensor has shape \(2, 3, 5\)"):
            attempt("[size(@0,3)]", tensor)
        with pytest.raises(ShapeError, match="dimension -4"):
            attempt("size(@0,-4)", tensor)
        with pytest.raises(DTypeError, match="number of a dimension"):
            attempt("size(@0,1.0)", tensor)
    assert spec("size(@0)", TensorSpec((), f32)) == []
    with pytest.raises(ShapeError, match="dimension 0"):
        spec("size(@0,0)", TensorSpec((), f32))


def test_int_of_a_tensor() -> None:
    assert value("int(@0)", np.array(-2.7, np.float32)) == -2
    assert value("int(@0)", np.array([[5]])) == 5
    assert value("int(@0)", np.array(True)) == 1
    assert value("int(@0)", narrow(np.array(2.5), bf16)) == 2
    assert type(value("int(@0)", np.array(3, np.int8))) is int
    with pytest.raises(ShapeError, match="one number"):
        value("int(@0)", np.zeros(2))
    with pytest.raises(InputError, match="no such integer"):
        value("int(@0)", np.array(math.nan))


def test_int_of_a_spec() -> None:
    with pytest.raises(DataDependent):
        spec("[int(@0),2]", TensorSpec((), i64))
    with pytest.raises(DataDependent):
        spec("int(add(@0,@1))", TensorSpec.of(np.array(3)), TensorSpec((), i64))
    with pytest.raises(ShapeError):
        spec("int(@0)", TensorSpec((2,), i64))
    known = TensorSpec.of(np.array(7))
    assert spec("[int(@0),-1]", known) == [7, -1]
    assert spec("int(floor_divide(add(@0,1),2))", known) == 4
    assert spec("int(div(@0,2))", known) == 3
    assert spec("add(@0,size(@1,0))", known, TensorSpec((5,), f32)).value == 12
    assert spec("add(@0,1)", TensorSpec.of(np.zeros(3))).value is None  # only what is small


def test_lists_keep_their_tensors() -> None:
    x, y = np.float32([1, 2]), np.float32([3, 4])
    first, (second, third) = value("[@0,[sub(@1,@0),3]]", x, y)
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(second, [2, 2])
    assert third == 3
    assert spec("[@0,[sub(@1,@0),3]]", *map(TensorSpec.of, (x, y))) == [
        TensorSpec((2,), f32),
        [TensorSpec((2,), f32), 3],
    ]
    assert value("@0", [1, x])[0] == 1


def test_inputs_of_other_kinds() -> None:
    assert value("add(@0,1)", np.float32(2.0)).dtype == np.float32
    with pytest.raises(DTypeError, match="argument 1 of 'add' is a list; expected a tensor or a number"):
        value("add(@0,-1)", [1, 2])
    with pytest.raises(InputError, match="64 bits"):
        value("add(@0,@1)", np.array([1]), 2**70)
    with pytest.raises(DTypeError, match="uint16"):
        value("neg(@0)", np.array([1], np.uint16))
    swapped = np.array([1, 2], ">f4")
    np.testing.assert_array_equal(value("mul(@0,2)", swapped), [2, 4])


# ------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("text", "inputs", "error", "message"),
    [
        (
            "add(@0,@1)",
            [np.ones((2, 3)), np.ones(4)],
            ShapeError,
            "column 1: shapes (2, 3) and (4,) cannot be broadcast",
        ),
        ("neg(mul(@0,@1))", [np.ones(2), np.ones(3)], ShapeError, "column 5: "),
        ("sub(@0,@0)", [np.array([True])], DTypeError, "'sub' does not take bool"),
        ("sub(@0,True)", [np.ones(2)], DTypeError, "'sub' does not take bool"),
        ("neg(@0)", [np.array([True])], DTypeError, "'neg' does not take bool; it takes int, float, complex"),
        ("abs(@0)", [np.array([True])], DTypeError, "'abs' does not take bool"),
        ("and(@0,1)", [np.ones(2)], DTypeError, "'and' does not take f64; it takes bool, int"),
        ("lshift(@0,@0)", [np.array([True])], DTypeError, "'lshift' does not take bool"),
        ("floor(@0)", [np.array([1j])], DTypeError, "'floor' does not take c128"),
        ("maximum(@0,1)", [np.array([1j])], DTypeError, "'maximum' does not take c128"),
        ("pow(@0,-1)", [np.array([2])], InputError, "i64 cannot be raised to the power -1"),
        (
            "add(1,remainder(@0,@1))",
            [np.array([1, 2]), np.array([1, 0])],
            InputError,
            "column 7: division of integers by",
        ),
        ("floor_divide(@0,0)", [np.array([1])], InputError, "division of integers by zero"),
    ],
)
def test_what_pytorch_refuses(text: str, inputs: list[Any], error: type[KuiperError], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        value(text, *inputs)
    if "division" not in message:
        with pytest.raises(error, match=re.escape(message)):
            spec(text, *(TensorSpec.of(array).like() for array in inputs))


def test_memory_is_checked_before_it_is_taken() -> None:
    wide, tall = TensorSpec((1, 1 << 20), f32), TensorSpec((1 << 20, 1), f32)
    with settings(max_memory=1 << 30), pytest.raises(ResourceLimitError, match="max_memory"):
        spec("size(add(@0,@1),0)", wide, tall)
    with settings(max_memory=1 << 10), pytest.raises(ResourceLimitError, match=r"'add' would give .* \(100, 100\)"):
        value("add(@0,@1)", np.ones((1, 100)), np.ones((100, 1)))


def test_long_expressions_are_shown_in_part() -> None:
    text = f"add({'add(' * 50}@0{',1)' * 50},div(1,0))"
    with pytest.raises(InputError) as caught:
        value(text, 1)
    assert len(str(caught.value)) < 200
    assert f"column {text.index('div') + 1}: " in str(caught.value)
    assert "…" in str(caught.value)


def test_arguments_are_left_alone() -> None:
    x = np.float32([1, -2])
    x.flags.writeable = False
    for text in ("neg(@0)", "torch.float(@0)", "add(@0,@0)", "floor(@0)", "@0"):
        value(text, x)
    np.testing.assert_array_equal(x, [1, -2])
    assert widen(value("torch.float(@0)", x)).tolist() == [1, -2]
