"""The one way through which everything is calculated: `apply(operation, *inputs, **parameters)`.

Three kinds of operations: `Elementwise`, an expression, put off until it is needed; `ArrayOperation`, functions of NumPy
arrays for the result and for the gradients; `Composite`, made of other operations. Whoever listens (`recording`) is told
the operation that was called, and not what it is made of.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..dtypes import Array, Scalar
from ..errors import DTypeError
from ..expression import Expression, Literal, Operand, evaluate, operands, substitute
from ..expression.derivative import derivative
from ..expression.tree import Call, fold
from . import lazy
from .autograd import Gradient, Node, Saved, attach, edge_of, sum_to, wanted
from .fused import fused
from .operand import OPERAND_TYPES, as_operand
from .recording import current_recorder, recording
from .wrapping import wrap

if TYPE_CHECKING:
    from .tensor import Tensor


class Operation:
    """What can be applied to tensors; `name` is what recorders and errors call it.

    `numbers` are arguments that are part of the operation: recorders see them after its inputs.
    """

    name: str
    numbers: tuple[Scalar, ...] = ()

    def run(self, *inputs: Any, **parameters: Any) -> Any:
        """The result: a tensor, or a tuple of tensors, with its history where that is wanted."""
        raise NotImplementedError

    def _operand(self, value: Any) -> Any:
        operand = as_operand(value)
        if operand is None:
            raise DTypeError(f"'{self.name}' takes tensors and numbers, found {value!r}")
        return operand

    def __repr__(self) -> str:
        return f"<operation {self.name}>"


def apply(operation: Operation, *inputs: Any, **parameters: Any) -> Any:
    """The operation's result for some inputs: tensors, numbers or None."""
    recorder = current_recorder()
    if recorder is None:
        return operation.run(*inputs, **parameters)
    with recording(None):
        result = operation.run(*inputs, **parameters)
    recorder(operation.name, (*inputs, *operation.numbers), parameters, result)
    return result


# ------------------------------------------------------------------------------------------- element by element


class Rule:
    """The gradient of one operand of an expression: an expression of some of the operands, the result and its gradient."""

    def __init__(self, tree: Expression) -> None:
        tree = _without_arithmetic_of_numbers(tree)
        self.used = operands(tree)
        self.is_zero = tree == Literal(0)
        self.loop = fused(substitute(tree, {index: Operand(place) for place, index in enumerate(self.used)}))


def _without_arithmetic_of_numbers(tree: Expression) -> Expression:
    """The tree with calls of numbers alone replaced by their value: what a number as an argument leaves of a rule."""

    def simplify(node: Expression, children: Sequence[Expression]) -> Expression:
        if not isinstance(node, Call):
            return node
        call = Call(node.function, tuple(children))
        return Literal(evaluate(call, [])) if all(isinstance(child, Literal) for child in children) else call

    result: Expression = fold(tree, simplify)
    return result


class Elementwise(Operation):
    """A function of the expression language, applied element by element, broadcast; its numbers may be of any value."""

    def __init__(self, name: str, tree: Expression, rules: Sequence[Expression], arity: int) -> None:
        self.name = name
        self.loop = fused(tree)
        self.rules = [Rule(rule) for rule in rules]
        self.arity = arity
        needed = {index for rule in self.rules for index in rule.used}
        self._saves = [index in needed for index in range(arity)]
        self._saves_result = arity in needed

    def run(self, *inputs: Any, **parameters: Any) -> Tensor:
        for one in inputs:
            if type(one) not in OPERAND_TYPES:
                inputs = tuple(self._operand(given) for given in inputs)
                break
        result = lazy.defer(self.loop, *inputs)
        if result._dtype.kind == "float" and wanted(*inputs):
            values = [
                one if isinstance(one, lazy.NUMBERS) else (Saved(one) if saves else None, one._shape, one._dtype)
                for one, saves in zip(inputs, self._saves, strict=True)
            ]
            shown = Saved(lazy.alias(result)) if self._saves_result else None
            attach(result, self.name, inputs, self._gradients, *values, shown)
        return result

    def _gradients(self, node: Node, gradient: Tensor) -> Sequence[Gradient]:
        parts: list[Gradient] = [None] * len(node.edges)
        for number, rule in enumerate(self.rules):
            if node.edges[number] is None:
                continue
            _, shape, dtype = node.values[number]
            given = [gradient if index > self.arity else self._value(node, index) for index in rule.used]
            if rule.is_zero:
                part = wrap(np.zeros(gradient._shape, gradient._dtype.storage))
            else:
                part = (
                    gradient
                    if rule.used == (self.arity + 1,) and rule.loop.calls == 0
                    else lazy.defer(rule.loop, *given)
                )
            parts[number] = sum_to(part, shape, dtype)
        return parts

    @staticmethod
    def _value(node: Node, index: int) -> Any:
        value = node.values[index]
        if isinstance(value, tuple):
            value = value[0]
        return value.get(node.name) if isinstance(value, Saved) else value


@functools.lru_cache(maxsize=1024)
def elementwise(function: str, arity: int, numbers: tuple[Scalar, ...] = ()) -> Elementwise:
    """The operation of a row of the tables of `expression`; arguments after the first `arity` are these numbers."""
    arguments: list[Expression] = [*map(Operand, range(arity)), *map(Literal, numbers)]
    tree = Call(function, tuple(arguments))
    # A rule's operands are three arguments, the result and the gradient: here the arguments are followed by these two.
    places: list[Expression] = [*arguments, *[Literal(0)] * (3 - len(arguments)), Operand(arity), Operand(arity + 1)]
    rules = [substitute(rule, places) for rule in derivative(function)[:arity]]
    operation = Elementwise(function, tree, rules, arity)
    operation.numbers = numbers
    return operation


# ------------------------------------------------------------------------------------------- arrays


class Context:
    """What the gradients of an `ArrayOperation` may need: `arrays` of its inputs, `parameters`, `saved` by forward."""

    __slots__ = ("arrays", "needs", "parameters", "saved")

    def __init__(self, arrays: Sequence[Any], parameters: dict[str, Any], needs: Sequence[bool]) -> None:
        self.arrays = arrays
        self.parameters = parameters
        self.needs = needs  # for which inputs a gradient is wanted
        self.saved: Any = None


Forward: TypeAlias = "Callable[..., Any]"
Backward: TypeAlias = "Callable[[Context, Array], Sequence[Array | None]]"


class ArrayOperation(Operation):
    """`forward(context, *arrays, **parameters)` gives an array, `backward(context, gradient)` one for each input or None.

    Where `forward` gives several arrays, the first has a gradient. Without `backward` results have no history.
    """

    def __init__(self, name: str, forward: Forward, backward: Backward | None = None) -> None:
        self.name = name
        self._forward = forward
        self._backward = backward

    def run(self, *inputs: Any, **parameters: Any) -> Any:
        for one in inputs:
            if one is not None and type(one) not in OPERAND_TYPES:
                inputs = tuple(None if given is None else self._operand(given) for given in inputs)
                break
        arrays = [one if one is None or type(one) in lazy.NUMBER_TYPES else one.array for one in inputs]
        record = self._backward is not None and wanted(*inputs)
        needs = [record and hasattr(one, "grad_fn") and edge_of(one) is not None for one in inputs]
        context = Context(arrays, parameters, needs)
        with np.errstate(all="ignore"):  # infinities and NaN are results like others
            outcome = self._forward(context, *arrays, **parameters)
        several = isinstance(outcome, tuple)
        results = [wrap(array) for array in outcome] if several else [wrap(outcome)]
        if record:
            saved = [Saved(one) if hasattr(one, "grad_fn") else one for one in inputs]
            attach(results[0], self.name, inputs, self._gradients, context, *saved)
        return tuple(results) if several else results[0]

    def _gradients(self, node: Node, gradient: Tensor) -> Sequence[Gradient]:
        context, *inputs = node.values
        for one in inputs:
            if isinstance(one, Saved):
                one.get(node.name)
        assert self._backward is not None
        with np.errstate(all="ignore"):
            parts = self._backward(context, gradient.array)
        return [
            None if part is None or edge is None else sum_to(wrap(part), one.tensor._shape, one.tensor._dtype)
            for part, edge, one in zip(parts, node.edges, inputs, strict=False)  # arguments left out have parts too
        ]


class Composite(Operation):
    """A function of tensors that applies other operations."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self._function = function

    def run(self, *inputs: Any, **parameters: Any) -> Any:
        return self._function(*inputs, **parameters)
