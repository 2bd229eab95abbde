"""Comparisons and choices as functions of expressions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kuiperinfer.dtypes import TensorSpec, bool_, f32
from kuiperinfer.errors import ExpressionError
from kuiperinfer.expression import COMPARISONS, Operand, evaluate, gradients, infer, parse

X = np.array([1, 2, np.nan, -0.0, np.inf, -1], np.float32)
Y = np.array([2, 2, np.nan, 0.0, np.inf, -2], np.float32)


@pytest.mark.parametrize("name", [name for name in COMPARISONS if name != "where"])
def test_comparison(name: str) -> None:
    tree = parse(f"{name}(@0,@1)", internal=True)
    got = evaluate(tree, [X, Y])
    expected = getattr(torch, name)(torch.from_numpy(X), torch.from_numpy(Y)).numpy()
    assert got.dtype == np.bool_ and got.tolist() == expected.tolist()
    assert infer(tree, [TensorSpec(X.shape, f32), TensorSpec((), f32)]) == TensorSpec(X.shape, bool_)


def test_numbers_are_compared_in_the_tensors_dtype() -> None:
    assert evaluate(parse("eq(@0,0.1)", internal=True), [np.array([0.1], np.float32)]).tolist() == [True]


def test_where() -> None:
    tree = parse("where(gt(@0,@1),@0,mul(@1,2))", internal=True)
    np.testing.assert_array_equal(evaluate(tree, [X, Y]), np.where(X > Y, X, Y * 2))
    assert evaluate(tree, [X, Y]).dtype == np.float32
    found = gradients(tree, Operand(2))
    assert str(found[0]) == "where(gt(@0,@1),@2,0)" and str(found[1]) == "mul(where(gt(@0,@1),0,@2),2)"


@pytest.mark.parametrize("name", COMPARISONS)
def test_files_cannot_call_them(name: str) -> None:
    with pytest.raises(ExpressionError, match="no function"):
        parse(f"{name}({','.join(['@0'] * COMPARISONS[name].arity)})")
