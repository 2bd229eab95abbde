"""Gradients against PyTorch's autograd and against finite differences."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from kuiperinfer.errors import ExpressionError
from kuiperinfer.expression import FUNCTIONS, Call, Expression, Literal, Operand, derivative, evaluate, gradients, parse
from tests.expression.pytorch import torch_function

DIFFERENTIABLE = [name for name, row in FUNCTIONS.items() if row.derivative and not name.startswith("torch.")]

# Where the functions and their slopes are finite.
DOMAIN = {"acosh": (1.1, 4.0), **dict.fromkeys(("acos", "asin", "atanh"), (-0.9, 0.9))}
DOMAIN |= dict.fromkeys(("log", "log10", "sqrt", "rsqrt", "pow"), (0.1, 4.0)) | {"log1p": (-0.9, 4.0)}


def differentiable(name: str) -> Callable[..., Any]:
    """PyTorch's function; `//` has no derivative there, but rounded division has."""
    if name == "floor_divide":
        return lambda x, y: torch.div(x, y, rounding_mode="floor")
    return torch_function(name)


def gradient_values(tree: Expression, inputs: list[np.ndarray[Any, Any]], grad: Any) -> list[Any]:
    count = len(inputs)
    found = gradients(tree, Operand(count))
    return [np.broadcast_to(evaluate(found[i], [*inputs, grad]), grad.shape) for i in range(count)]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_every_function_against_autograd(name: str) -> None:
    low, high = DOMAIN.get(name, (-4.0, 4.0))
    generator = np.random.default_rng(0)
    inputs = [generator.uniform(low, high, 200) for _ in range(FUNCTIONS[name].arity)]
    grad = generator.normal(size=200)
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    differentiable(name)(*tensors).backward(torch.tensor(grad))
    tree = Call(name, tuple(map(Operand, range(len(inputs)))))
    for got, tensor in zip(gradient_values(tree, inputs, grad), tensors, strict=True):
        assert tensor.grad is not None
        np.testing.assert_allclose(got, tensor.grad.numpy(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_every_function_against_differences(name: str) -> None:
    low, high = DOMAIN.get(name, (-4.0, 4.0))
    if low < 0 < high:
        low = 0.3  # away from the steps at zero
    generator = np.random.default_rng(1)
    inputs = [generator.uniform(low + 1e-3, high - 1e-3, 50) for _ in range(FUNCTIONS[name].arity)]
    inputs = [np.where(abs(x - np.round(x)) < 0.01, x + 0.02, x) for x in inputs]
    if FUNCTIONS[name].arity == 2:
        ratio = inputs[0] / inputs[1]
        inputs = [x[np.abs(ratio - np.round(ratio)) > 1e-3] for x in inputs]
    tree = Call(name, tuple(map(Operand, range(len(inputs)))))
    step = 1e-6
    for position, got in enumerate(gradient_values(tree, inputs, np.ones_like(inputs[0]))):
        ahead, behind = ([*inputs] for _ in range(2))
        ahead[position], behind[position] = inputs[position] + step, inputs[position] - step
        slope = (evaluate(tree, ahead) - evaluate(tree, behind)) / (2 * step)
        np.testing.assert_allclose(got, slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_edges(name: str) -> None:
    """Zeros and equals, of which PyTorch has its own opinion."""
    if name in ("remainder", "fmod", "floor_divide"):
        edges = [1.0, 2.0, -1.0, -2.0, 0.5]
    else:
        edges = [0.0, 1.0, 2.0, -1.0]
    inputs = [np.array(column) for column in zip(*itertools.product(edges, repeat=FUNCTIONS[name].arity), strict=True)]
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    differentiable(name)(*tensors).sum().backward()
    tree = Call(name, tuple(map(Operand, range(len(inputs)))))
    for got, tensor in zip(gradient_values(tree, inputs, np.ones_like(inputs[0])), tensors, strict=True):
        assert tensor.grad is not None
        np.testing.assert_allclose(got, tensor.grad.numpy(), rtol=1e-12, atol=1e-13)


def test_random_expressions_against_autograd() -> None:
    generator = random.Random(0)
    unary = ["sin", "cos", "tanh", "erf", "neg", "square", "atan", "asinh", "abs"]
    binary = ["add", "sub", "mul", "maximum", "atan2", "logaddexp"]

    def grow(depth: int) -> Expression:
        if depth == 0 or generator.random() < 0.1:
            return generator.choice([Operand(0), Operand(1), parse("mul(@2,0.5)")])
        if generator.random() < 0.4:
            return Call(generator.choice(unary), (grow(depth - 1),))
        return Call(generator.choice(binary), (grow(depth - 1), grow(depth - 1)))

    def run(tree: Expression, tensors: list[Any]) -> Any:
        if isinstance(tree, Operand):
            return tensors[tree.index]
        if isinstance(tree, Literal):
            return torch.tensor(tree.value, dtype=torch.float64)
        assert isinstance(tree, Call)
        return torch_function(tree.function)(*(run(argument, tensors) for argument in tree.arguments))

    data = np.random.default_rng(2)
    for _ in range(60):
        tree = Call("add", (grow(5), parse("mul(mul(@0,@1),@2)")))
        inputs = [data.uniform(0.5, 1.5, 20) for _ in range(3)]
        grad = data.normal(size=20)
        tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
        run(tree, tensors).backward(torch.tensor(grad))
        for got, tensor in zip(gradient_values(tree, inputs, grad), tensors, strict=True):
            assert tensor.grad is not None
            np.testing.assert_allclose(got, tensor.grad.numpy(), rtol=1e-9, atol=1e-9)


def test_gradients_are_expressions() -> None:
    texts = {i: str(tree) for i, tree in gradients(parse("mul(@0,sin(@1))"), Operand(2)).items()}
    assert texts == {0: "mul(@2,sin(@1))", 1: "mul(mul(@2,@0),cos(@1))"}
    assert {i: str(tree) for i, tree in gradients(parse("mul(@0,@0)"), Operand(1)).items()} == {
        0: "add(mul(@1,@0),mul(@1,@0))"
    }
    assert [str(rule) for rule in derivative("sqrt")] == ["div(@4,mul(2,@3))"]
    assert gradients(parse("@4"), Literal(1)) == {4: Literal(1)}


def test_what_has_no_gradient_gets_zero() -> None:
    zero = Literal(0)
    assert gradients(parse("floor(@0)"), Literal(1)) == {0: zero}
    assert gradients(parse("mul(@0,size(@1,0))"), Literal(1))[1] == zero
    assert gradients(parse("and(@0,@1)"), Literal(1)) == {0: zero, 1: zero}
    assert gradients(parse("torch.long(@0)"), Literal(1)) == {0: zero}
    assert str(gradients(parse("torch.float(@0)"), Operand(1))[0]) == "@1"
    with pytest.raises(ExpressionError, match="has no gradient"):
        gradients(parse("[@0]"), Literal(1))


def test_deep_and_shared_trees() -> None:
    tree: Expression = Operand(0)
    for _ in range(2_000):
        tree = Call("add", (tree, tree))
    chain: Expression = Operand(0)
    for _ in range(3_000):
        chain = Call("neg", (chain,))
    assert evaluate(gradients(chain, Literal(3))[0], [1.0]) == 3
