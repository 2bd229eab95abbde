"""What is done again and again to tensors of a kind, such as a step of training: one loop, made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..expression import Expression, Literal, Operand, substitute
from . import lazy
from .autograd import no_grad
from .fused import FusedLoop, fused
from .recording import recording
from .wrapping import wrap

if TYPE_CHECKING:
    from .tensor import Tensor


class Update:
    """A formula for new values of tensors: its results are written into as many of its first arguments, by the old values.

        @Update
        def momentum(velocity, parameter, gradient, factor, rate):
            velocity = factor * velocity + gradient
            return velocity, parameter - rate * velocity

        momentum(v, p, g, 0.9, 0.1)     # changes v and p

    The formula is arithmetic of tensors and numbers, element by element; it is called once, with stand-ins, and its results
    may hang on nothing else. Nothing is recorded for gradients.
    """

    def __init__(self, formula: Callable[..., Any]) -> None:
        self._formula = formula
        self._loop: FusedLoop | None = None

    def __call__(self, *operands: Tensor | float) -> None:
        """Changes the first operands; all tensors have one shape. Operands are tensors and numbers."""
        if self._loop is None:
            self._loop = _trace(self._formula, len(operands))
        given: Sequence[Any] = operands
        values = [one if type(one) in lazy.NUMBER_TYPES else one.array for one in given]
        outputs = [one.writable_array() for one in given[: len(self._loop.trees)]]
        self._loop(values, outputs)


def _trace(formula: Callable[..., Any], count: int) -> FusedLoop:
    """The loop that a formula of so many operands comes to."""
    with no_grad(), recording(None):
        stand_ins: Sequence[Tensor] = [wrap(np.ones(2, np.float32)) for _ in range(count)]
        found = formula(*stand_ins)
        targets = [result._pending for result in (found if isinstance(found, tuple) else (found,))]
        loop, operands = lazy.gather(targets)
    numbers = {id(stand_in.array): number for number, stand_in in enumerate(stand_ins)}
    places: list[Expression] = [
        Operand(numbers[id(one)]) if isinstance(one, np.ndarray) else Literal(one) for one in operands
    ]
    return fused(*(substitute(tree, places) for tree in loop.trees))
