"""Operations of both libraries with inputs for them: what the tests of operations and of functions go through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kuiperinfer import tensor as kt
from kuiperinfer.dtypes import Array


@dataclass(frozen=True)
class Case:
    """`ours` and `theirs` take tensors of `inputs`; those of floats are differentiated."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    inputs: Sequence[Array]
    smooth: bool = True  # whether finite differences make sense at these inputs

    def __str__(self) -> str:
        return self.name


def same(name: str, function: Callable[..., Any], *inputs: Array, smooth: bool = True) -> Case:
    """A case whose text is the same in both libraries: methods and operators."""
    return Case(name, function, function, inputs, smooth)


def spread(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Array:
    """Different numbers in random order, none of them at 0, where many functions have a kink."""
    count = int(np.prod(shape))
    values = np.linspace(low, high, count + 2)[1:-1] + 0.013
    return np.random.default_rng(seed).permutation(values).reshape(shape)


def run_ours(case: Case, dtype: Any = np.float64) -> tuple[Any, list[Any]]:
    """The result and the tensors that it was calculated from."""
    tensors = []
    for array in case.inputs:
        tensor = kt.tensor(array.astype(dtype) if array.dtype.kind == "f" else array)
        tensor.requires_grad = array.dtype.kind == "f"
        tensors.append(tensor)
    return case.ours(*tensors), tensors


def run_theirs(case: Case, dtype: Any = np.float64) -> tuple[Any, list[Any]]:
    """The same in torch."""
    tensors = []
    for array in case.inputs:
        tensor = torch.from_numpy(np.array(array.astype(dtype) if array.dtype.kind == "f" else array))
        tensors.append(tensor.requires_grad_() if array.dtype.kind == "f" else tensor)
    return case.theirs(*tensors), tensors


def check_against_torch(case: Case, dtype: Any, rtol: float, atol: float) -> None:
    """Equal results and, for random gradients of the result, equal gradients."""
    (ours, our_inputs), (theirs, their_inputs) = run_ours(case, dtype), run_theirs(case, dtype)
    assert ours.shape == tuple(theirs.shape)
    assert ours.dtype.torch_name == str(theirs.dtype)
    np.testing.assert_allclose(ours.array, theirs.detach().numpy(), rtol=rtol, atol=atol)
    if not theirs.requires_grad:
        assert not ours.requires_grad
        return
    gradient = np.random.default_rng(1).standard_normal(theirs.shape).astype(dtype)
    ours.backward(kt.tensor(gradient))
    theirs.backward(torch.from_numpy(gradient))
    for one, other in zip(our_inputs, their_inputs, strict=True):
        if other.requires_grad:
            expected = np.zeros(other.shape) if other.grad is None else other.grad.numpy()
            found = np.zeros(other.shape) if one.grad is None else one.grad.array
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def check_differences(case: Case) -> None:
    """Gradients as finite differences give them."""
    _, tensors = run_ours(case)
    kt.gradcheck(case.ours, tensors)
