"""Activations as functions of expressions, against PyTorch: values and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kuiperinfer.dtypes import TensorSpec, widen
from kuiperinfer.errors import DTypeError, ExpressionError
from kuiperinfer.expression import ACTIVATIONS, Literal, Operand, evaluate, gradients, infer, parse
from tests.expression.pytorch import DTYPES, to_numpy

CASES: dict[str, Callable[..., Any]] = {
    "relu(@0)": F.relu,
    "relu6(@0)": F.relu6,
    "clamp(@0,-1.5,2.5)": lambda x: torch.clamp(x, -1.5, 2.5),
    "threshold(@0,0.5,-2.0)": lambda x: F.threshold(x, 0.5, -2.0),
    "leaky_relu(@0,0.3)": lambda x: F.leaky_relu(x, 0.3),
    "elu(@0,1.3)": lambda x: F.elu(x, 1.3),
    "celu(@0,0.7)": lambda x: F.celu(x, 0.7),
    "selu(@0)": F.selu,
    "sigmoid(@0)": torch.sigmoid,
    "logsigmoid(@0)": F.logsigmoid,
    "silu(@0)": F.silu,
    "mish(@0)": F.mish,
    "gelu(@0)": F.gelu,
    "gelu_tanh(@0)": lambda x: F.gelu(x, approximate="tanh"),
    "softplus(@0,2.0,3.0)": lambda x: F.softplus(x, 2.0, 3.0),
    "softsign(@0)": F.softsign,
    "softshrink(@0,0.5)": lambda x: F.softshrink(x, 0.5),
    "hardshrink(@0,0.5)": lambda x: F.hardshrink(x, 0.5),
    "tanhshrink(@0)": F.tanhshrink,
    "hardsigmoid(@0)": F.hardsigmoid,
    "hardswish(@0)": F.hardswish,
}
EDGES = [0.0, -0.0, 0.5, -0.5, 1.0, -1.5, 2.5, 3.0, -3.0, 6.0]
TOLERANCE = {"f64": 1e-13, "f32": 2e-6, "f16": 1.5e-3, "bf16": 1.2e-2}


def test_all_are_here() -> None:
    assert {text.partition("(")[0] for text in CASES} == set(ACTIVATIONS)


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_values(text: str, dtype: str) -> None:
    generator = torch.Generator().manual_seed(0)
    extremes = torch.tensor([*EDGES, math.nan, math.inf, -math.inf, 100.0, -100.0])
    x = torch.cat([extremes, torch.randn(200, generator=generator) * 4]).to(DTYPES[dtype])
    tree = parse(text, internal=True)
    got, expected = evaluate(tree, [to_numpy(x)]), to_numpy(CASES[text](x))
    assert TensorSpec.of(got) == TensorSpec.of(expected)
    assert infer(tree, [TensorSpec.of(to_numpy(x)).like()]) == TensorSpec.of(expected)
    got, expected = widen(got), widen(expected)
    if text in ("gelu(@0)", "hardswish(@0)"):  # PyTorch's kernels disagree on infinities
        finite = torch.isfinite(x).numpy()
        got, expected = got[finite], expected[finite]
    np.testing.assert_allclose(got, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] / 2)


@pytest.mark.parametrize("text", CASES)
def test_gradients(text: str) -> None:
    x = torch.cat([torch.tensor(EDGES), torch.linspace(-8, 8, 301)]).to(torch.float64).requires_grad_()
    grad = torch.linspace(-1, 1, x.numel(), dtype=torch.float64)
    CASES[text](x).backward(grad)
    got = evaluate(gradients(parse(text, internal=True), Operand(1))[0], [to_numpy(x), to_numpy(grad)])
    assert x.grad is not None
    # PyTorch has some constants of these in single precision only.
    tolerance = 2e-7 if text in ("celu(@0,0.7)", "hardsigmoid(@0)") else 1e-12
    np.testing.assert_allclose(got, x.grad.numpy(), rtol=tolerance, atol=1e-13)


def test_gradients_of_parameters() -> None:
    generator = np.random.default_rng(0)
    x, y, z = generator.normal(size=100), generator.normal(size=100), generator.normal(size=100) + 9
    for text, function in (
        ("leaky_relu(@0,@1)", lambda a, b, _: torch.where(a > 0, a, a * b)),
        ("clamp(@0,@1,@2)", torch.clamp),
        ("elu(@0,@1)", lambda a, b, _: torch.where(a > 0, a, b * torch.expm1(a))),
    ):
        tensors = [torch.tensor(value, requires_grad=True) for value in (x, y, z)]
        function(*tensors).sum().backward()
        for index, tree in gradients(parse(text, internal=True), Literal(1)).items():
            grad = tensors[index].grad
            assert grad is not None
            np.testing.assert_allclose(np.broadcast_to(evaluate(tree, [x, y, z]), 100), grad.numpy(), rtol=1e-12)


def test_integers() -> None:
    x = np.array([-3, 0, 9])
    for text, expected in (("relu(@0)", [0, 0, 9]), ("relu6(@0)", [0, 0, 6]), ("clamp(@0,-1,5)", [-1, 0, 5])):
        got = evaluate(parse(text, internal=True), [x])
        assert got.dtype == np.int64
        assert got.tolist() == expected
    with pytest.raises(DTypeError, match="'gelu' does not take i64; it takes float"):
        evaluate(parse("gelu(@0)", internal=True), [x])


def test_they_are_no_part_of_files() -> None:
    with pytest.raises(ExpressionError, match="there is no function 'sigmoid'"):
        parse("sigmoid(@0)")
    tree = parse("mul(@0,sigmoid(@0))", internal=True)
    assert parse(str(tree), internal=True) == tree
    with pytest.raises(ExpressionError, match="'clamp' takes 3 arguments, found 2"):
        parse("clamp(@0,1)", internal=True)
