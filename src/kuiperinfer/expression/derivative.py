"""The gradient of an expression, as expressions."""

from __future__ import annotations

import functools
import re

from ..errors import ExpressionError
from .activations import ALL_FUNCTIONS
from .parser import parse
from .tree import Call, Expression, ListNode, Literal, Operand, distinct_nodes, operands, substitute

_NAMES = {"x": "@0", "y": "@1", "z": "@2", "out": "@3", "grad": "@4"}
_ZERO = Literal(0)


def gradients(tree: Expression, grad: Expression) -> dict[int, Expression]:
    """For every operand in use, the gradient that it gets when the expression's value gets the gradient `grad`.

    For real numbers. The gradient has the broadcast shape of the expression: it is to be summed over the dimensions along
    which the operand was broadcast. An operand that the value does not depend on, or by steps only, gets the literal 0.
    Intermediate values are recalculated; subtrees are shared. `ExpressionError` for a list, which has no gradient.
    """
    order = distinct_nodes(tree)
    received: dict[Expression, Expression] = {tree: grad}
    for node in reversed(order):
        if isinstance(node, ListNode):
            raise ExpressionError(f"the list '{node}' has no gradient")
        if not isinstance(node, Call) or node not in received:
            continue
        for argument, rule in zip(node.arguments, derivative(node.function), strict=False):
            values = [*node.arguments, *[_ZERO] * (3 - len(node.arguments)), node, received[node]]
            gradient = substitute(rule, values)
            if gradient != _ZERO:
                before = received.get(argument)
                received[argument] = gradient if before is None else Call("add", (before, gradient))
    return {index: received.get(Operand(index), _ZERO) for index in operands(tree)}


@functools.cache
def derivative(function: str) -> tuple[Expression, ...]:
    """A function's derivatives, one an argument: expressions of @0, @1, @2 (arguments), @3 (result), @4 (its gradient).

    Nothing where a function has none, fewer where later arguments have none, the literal 0 where it is zero everywhere.
    """
    return tuple(
        parse(re.sub(r"\b(x|y|z|out|grad)\b", lambda name: _NAMES[name[0]], rule), internal=True)
        for rule in ALL_FUNCTIONS[function].derivative or ()
    )
