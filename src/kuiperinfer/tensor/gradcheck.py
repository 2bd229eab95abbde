"""Gradients held against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import Array, f64
from ..errors import GradientError
from .autograd import grad, no_grad
from .wrapping import wrap

if TYPE_CHECKING:
    from .tensor import Tensor


def gradcheck(
    function: Callable[..., Tensor],
    inputs: Sequence[Any],
    step: float = 1e-6,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    seed: int = 0,
) -> None:
    """`GradientError` unless the gradients of `function` are those that finite differences give.

    `inputs` are arguments of the function: f64 tensors that require gradients are checked, all else is passed on. The result
    is multiplied by random numbers and summed, so that one number is differentiated.
    """
    checked = [number for number, one in enumerate(inputs) if getattr(one, "requires_grad", False)]
    if not checked or any(inputs[number].dtype is not f64 for number in checked):
        raise GradientError("gradcheck: expected at least one input that requires a gradient, and all of these as f64")
    result = function(*inputs)
    weights = np.random.default_rng(seed).standard_normal(result.shape)
    found = grad(result, [inputs[number] for number in checked], wrap(weights), allow_unused=True)
    for number, gradient in zip(checked, found, strict=True):
        expected = _differences(function, inputs, number, weights, step)
        actual = np.zeros_like(expected) if gradient is None else gradient.array
        if not np.allclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True):
            worst = np.unravel_index(np.nanargmax(np.abs(actual - expected)), expected.shape)
            place = tuple(int(index) for index in worst)
            raise GradientError(
                f"gradcheck: the gradient of input {number} at {place} is {actual[worst]:.9g}; "
                f"finite differences give {expected[worst]:.9g}"
            )


def _differences(
    function: Callable[..., Tensor], inputs: Sequence[Any], number: int, weights: Array, step: float
) -> Array:
    """How much the weighted sum of the result changes with each element of an input."""
    place = np.array(inputs[number].array)
    result = np.empty(place.shape)
    with no_grad():
        for index in np.ndindex(place.shape):
            sums = []
            for change in (step, -step):
                moved = place.copy()
                moved[index] += change
                arguments = [wrap(moved) if i == number else one for i, one in enumerate(inputs)]
                sums.append(float((function(*arguments).array * weights).sum()))
            result[index] = (sums[0] - sums[1]) / (2 * step)
    return result
