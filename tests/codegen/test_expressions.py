"""Expressions as vector code, against their NumPy evaluation."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

import numpy as np
import pytest

from kuiperinfer.codegen.builder import Code, Vector
from kuiperinfer.codegen.expressions import (
    call_expression,
    call_expressions,
    emit_expression,
    is_vectorizable,
    vectors_a_turn,
)
from kuiperinfer.codegen.kernels.map import plan_map, row_major
from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.target import target_named
from kuiperinfer.dtypes import Array, DType, TensorSpec, bool_, f32, f64, i64
from kuiperinfer.errors import CompileError
from kuiperinfer.expression import ACTIVATIONS, evaluate, operands, parse
from tests.codegen.native import TARGETS, compile_specs, module_of

ACTIVATION_TEXTS = [
    "relu(@0)",
    "relu6(@0)",
    "clamp(@0,-1.5,2.5)",
    "clamp(@0,@1,2.5)",
    "threshold(@0,0.5,-2.0)",
    "leaky_relu(@0,0.3)",
    "leaky_relu(@0,-0.3)",
    "leaky_relu(@0,1.5)",
    "elu(@0,1.3)",
    "celu(@0,0.7)",
    "selu(@0)",
    "sigmoid(@0)",
    "logsigmoid(@0)",
    "silu(@0)",
    "mish(@0)",
    "gelu(@0)",
    "gelu_tanh(@0)",
    "softplus(@0,1.0,20.0)",
    "softplus(@0,2.0,3.0)",
    "softsign(@0)",
    "softshrink(@0,0.5)",
    "hardshrink(@0,0.5)",
    "tanhshrink(@0)",
    "hardsigmoid(@0)",
    "hardswish(@0)",
]
# Sums, products, quotients and roots are rounded as NumPy rounds them: results are equal to the last bit.
EXACT_TEXTS = [
    "add(mul(@0,@1),-1.5)",
    "sub(2,div(@0,@1))",
    "div(@0,-8)",
    "div(@0,3)",
    "div(@0,0)",
    "sqrt(abs(mul(@0,sqrt(2))))",
    "where(gt(@0,@1),@0,neg(@1))",
    "where(@0,1,@1)",
    "add(ge(@0,0.5),@1)",
    "mul(@0,ne(@1,@1))",
    "mul(lt(@0,@1),le(@1,0))",
    "maximum(minimum(@0,@1),max(@1,0))",
    "min(@0,nan.0)",
    "add(sign(@0),round(mul(@1,2)))",
    "pow(@0,2)",
    "pow(@0,-1)",
    "torch.float(eq(@0,@1))",
    "fmod(@0,add(@1,3))",
]
TEXTS = [
    *ACTIVATION_TEXTS,
    *EXACT_TEXTS,
    "pow(@0,3)",
    "pow(@0,-2)",
    "pow(abs(@0),1.7)",
    "pow(2,@0)",
    "square(add(tanh(@0),tanh(@0)))",
]


@functools.cache
def inputs() -> list[Array]:
    generator = np.random.default_rng(0)
    edges = [0.0, -0.0, 0.5, -0.5, 1.0, -1.5, 2.5, 3.0, -3.0, 6.0, np.nan, np.inf, -np.inf, 100.0, -100.0, 1e30, -1e30]
    x = np.concatenate([edges, generator.normal(0, 4, 982)]).astype(np.float32)
    y = np.concatenate([edges[::-1], generator.normal(0, 4, 982)]).astype(np.float32)
    return [x, y]


@functools.cache
def kernels(target: str) -> dict[str, Callable[..., None]]:
    shape = inputs()[0].shape
    specs = [
        plan_map(text, shape, [row_major(shape)] * len(operands(parse(text, internal=True))), row_major(shape))
        for text in TEXTS
    ]
    return dict(zip(TEXTS, compile_specs(specs, target), strict=True))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", TEXTS)
def test_as_numpy_has_it(text: str, target: str) -> None:
    tree = parse(text, internal=True)
    arguments = inputs()[: len(operands(tree))]
    expected = evaluate(tree, arguments).astype(np.float32)
    result = np.empty_like(expected)
    kernels(target)[text](*arguments, result)
    if text in EXACT_TEXTS:
        np.testing.assert_array_equal(result, expected)
    else:
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=3e-7)


def test_all_activations_are_here() -> None:
    assert {text.partition("(")[0] for text in ACTIVATION_TEXTS} == set(ACTIVATIONS)


# ------------------------------------------------------------------------------------------- what is emitted


def emitted(text: str) -> tuple[str, list[int]]:
    """The LLVM IR of an expression, and the operands it asked for."""
    code = Code("kernel", target_named("x86-64-v4"))
    pointers, asked = code.pointers(4), []

    def operand(index: int) -> Vector:
        asked.append(index)
        return code.load(pointers[index])

    code.store(emit_expression(code, text, operand), pointers[3])
    return str(code.finish()), asked


def test_common_subexpressions_are_calculated_once() -> None:
    module, asked = emitted("mul(add(@0,@1),sqrt(add(@0,@1)))")
    assert asked == [0, 1] and module.count(" fadd ") == 1


def test_constants_are_calculated_beforehand() -> None:
    module, asked = emitted("mul(@2,add(exp(0),div(3,2)))")
    assert asked == [2] and module.count(" fmul ") == 1 and " fadd " not in module and "0x4004000000000000" in module


def test_a_constant_expression() -> None:
    module, asked = emitted("add(1,2)")
    assert asked == [] and "0x4008000000000000" in module


@pytest.mark.parametrize("text", ["relu(@0)", "maximum(@0,1.5)", "minimum(-1,@0)", "leaky_relu(@0,0.1)"])
def test_comparison_with_a_number_is_one_instruction(text: str) -> None:
    target = target_named("x86-64-v4")
    spec = plan_map(text, (1 << 20,), [row_major((1 << 20,))], row_major((1 << 20,)))
    assembly = assembly_of(module_of([spec], target), target)
    assert re.search(r"v(max|min)ps", assembly) and not re.search(r"vcmp|vblend|\{%k", assembly)


def test_short_expressions_take_several_vectors_a_turn() -> None:
    assert vectors_a_turn("relu(add(@0,@1))") == 4 and vectors_a_turn("silu(@0)") == 1


# ------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("text", "dtypes", "expected"),
    [
        ("add(@0,1)", (f32,), True),
        ("add(@0,1+2j)", (f32,), False),
        ("add(@0,@1)", (i64, i64), False),
        ("add(@0,@1)", (i64, f32), True),
        ("add(add(@0,@1),@2)", (i64, i64, f32), False),
        ("div(@0,2)", (i64,), True),
        ("mul(@0,@1)", (f32, f64), False),
        ("torch.float(@0)", (f64,), False),
        ("gt(@0,0)", (f32,), True),
        ("gt(@0,0)", (i64,), False),
        ("where(@0,@1,0.0)", (bool_, f32), True),
        ("and(@0,@0)", (bool_,), False),
        ("torch.float(@0)", (i64,), True),
        ("torch.int(@0)", (f32,), False),
        ("@0", (f32,), True),
        ("@0", (i64,), False),
        ("mul(@0,size(@0,0))", (f32,), False),
        ("[@0,1]", (f32,), False),
        ("add(1,2)", (), False),
    ],
)
def test_what_is_vectorizable(text: str, dtypes: tuple[DType, ...], expected: bool) -> None:
    assert is_vectorizable(parse(text, internal=True), [TensorSpec((4,), dtype) for dtype in dtypes]) is expected


def test_a_number_as_operand_is_not() -> None:
    assert not is_vectorizable(parse("add(@0,@1)"), [TensorSpec((4,), f32), 2.0])


@pytest.mark.parametrize("text", ["lshift(@0,1)", "add(@0,1+2j)", "[@0,1]", "add(@0,floor_divide(1,0))"])
def test_others_raise(text: str) -> None:
    with pytest.raises(CompileError):
        emitted(text)


def test_long_expressions_can_be_functions() -> None:
    """One for each expression and number of vectors that it takes together."""
    code = Code("kernel", target_named("x86-64-v4"))
    (pointer,) = code.pointers(1)
    values = [code.load(code.at(pointer, 16 * index)) for index in range(7)]
    sets = [lambda operand, index=index: values[index - operand] for index in range(7)]
    results = call_expressions(code, "silu(@0)", sets)  # four and three
    results += [
        call_expression(code, text, sets[6]) for text in ("silu(@0)", "silu(@0)", "relu(@0)", "mul(@2,sigmoid(@0))")
    ]
    for index, result in enumerate(results):
        code.store(result, code.at(pointer, 16 * index))
    module = str(code.finish())
    assert len(re.findall(r"define internal {[^}]*} @\"expression_\w+\"", module)) == 4
    assert len(re.findall(r"call {[^}]*} @\"expression_\w+\"", module)) == 5
    assert assembly_of(module, target_named("x86-64-v4"))
