"""Expressions as vector code: every distinct subtree once, constant ones beforehand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from llvmlite import ir

from ..dtypes import DType, TensorSpec, bool_, f32, result_type
from ..errors import CompileError, KuiperError
from ..expression import ALL_FUNCTIONS, Call, Expression, ListNode, Literal, Operand, evaluate, infer, operands
from ..expression.tree import distinct_nodes, fold
from ..passes.fused import parse
from .builder import Code, Vector
from .vector_math import VECTOR_FUNCTIONS, Lanes

Value: TypeAlias = "Lanes | float"

TOGETHER = 4  # vectors that a function returns in registers


def emit_expression(code: Code, text: str, operand: Callable[[int], Vector]) -> Vector:
    """The value of an expression, as float32 vector; `operand(i)` gives that of `@i`, and is asked once for each.

    Bools are 0 and 1. Raises `CompileError` for what `is_vectorizable` refuses.
    """

    def visit(node: Expression, children: Sequence[Value]) -> Value:
        if isinstance(node, Operand):
            return Lanes(code, operand(node.index))
        if isinstance(node, Literal) and isinstance(node.value, (bool, int, float)):
            return float(node.value)
        if isinstance(node, Call) and node.function in VECTOR_FUNCTIONS:
            if not any(isinstance(child, Lanes) for child in children):
                return _number(node)
            return _call(node.function, children)
        raise CompileError(f"'{node}' cannot be part of a compiled expression")

    result: Value = fold(parse(text), visit)
    return result.value if isinstance(result, Lanes) else code.splat(result)


def call_expression(code: Code, text: str, operand: Callable[[int], Vector]) -> Vector:
    """The same, by a function of its own where the expression is long: for code that applies it to many vectors in a row."""
    return call_expressions(code, text, [operand])[0]


def call_expressions(code: Code, text: str, operand_sets: Sequence[Callable[[int], Vector]]) -> list[Vector]:
    """The values for several sets of operands. A function takes some at a time, so that what they wait for overlaps."""
    if is_short(text):
        return [emit_expression(code, text, operand) for operand in operand_sets]
    results: list[Vector] = []
    for start in range(0, len(operand_sets), TOGETHER):
        some = operand_sets[start : start + TOGETHER]
        function, indices = _function(code, text, len(some))
        returned = code.builder.call(function, [operand(index) for operand in some for index in indices])
        results += [code.builder.extract_value(returned, number) for number in range(len(some))]
    return results


def _function(code: Code, text: str, count: int) -> tuple[ir.Function, list[int]]:
    """The function for so many sets of operands, all operands of one set after those of another; and their numbers."""
    indices = list(operands(parse(text)))
    name = f"expression_{hashlib.sha256(text.encode()).hexdigest()[:24]}_{count}"
    function = code.module.globals.get(name)
    if function is None:
        results = ir.LiteralStructType([code.vector_type] * count)
        function = ir.Function(code.module, ir.FunctionType(results, [code.vector_type] * len(indices) * count), name)
        function.linkage = "internal"
        with code.within(function):
            values = ir.Constant(results, ir.Undefined)
            for number in range(count):
                own = function.args[number * len(indices) : (number + 1) * len(indices)]
                value = emit_expression(code, text, dict(zip(indices, own, strict=True)).__getitem__)
                values = code.builder.insert_value(values, value, number)
            code.builder.ret(values)
    return function, indices


def _number(node: Call) -> float:
    try:
        return float(evaluate(node, []))
    except KuiperError as error:
        raise CompileError(f"'{node}' has no value: {error}") from error


def _call(name: str, arguments: Sequence[Value]) -> Value:
    if name in _WITH_NUMBER and isinstance(arguments[1], float):
        result = _WITH_NUMBER[name](arguments[0], arguments[1])
        if result is not None:
            return result
    like = next(argument for argument in arguments if isinstance(argument, Lanes))
    return VECTOR_FUNCTIONS[name].emit(*(like.same(argument) for argument in arguments))


# ------------------------------------------------------------------------------------------- numbers as second argument

# The powers that PyTorch calculates by other means too.
_POWERS: Mapping[float, Callable[[Lanes], Lanes]] = {
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    -1.0: lambda x: 1.0 / x,
    -2.0: lambda x: 1.0 / (x * x),
    0.5: lambda x: x.sqrt(),
    -0.5: lambda x: 1.0 / x.sqrt(),
}


def _power(x: Any, exponent: float) -> Lanes | None:
    return _POWERS[exponent](x) if exponent in _POWERS else None


def _divide(x: Any, divisor: float) -> Lanes | None:
    """By a power of two: multiplied by its inverse, which is exact."""
    mantissa, exponent = abs(divisor).hex().partition("p")[::2]
    is_power = mantissa == "0x1.0000000000000" and abs(int(exponent)) < 126
    return x * (1 / divisor) if is_power else None


_WITH_NUMBER: Mapping[str, Callable[[Any, float], Lanes | None]] = {"pow": _power, "div": _divide}


# ------------------------------------------------------------------------------------------- what can be emitted


def is_vectorizable(tree: Expression, specs: Sequence[Any]) -> bool:
    """Whether `emit_expression` gives an expression's value, the operands being of these specs (tensors or numbers).

    All is calculated in float32. So every function has to calculate in that dtype, where PyTorch's promotion of its arguments
    counts, and the result has to be f32 or bool; integers and bools may be arguments beside floats.
    """

    def visit(node: Expression, children: Sequence[Any]) -> Any:
        """The spec of a node; None for what cannot be emitted."""
        if isinstance(node, ListNode) or any(child is None for child in children):
            return None
        if isinstance(node, Operand):
            spec = specs[node.index]
            return spec.like() if isinstance(spec, TensorSpec) and _is_readable(spec.dtype) else None
        if isinstance(node, Literal):
            return node.value if isinstance(node.value, (bool, int, float)) else None
        assert isinstance(node, Call)
        if node.function not in VECTOR_FUNCTIONS:
            return None
        spec = infer(Call(node.function, tuple(Operand(i) for i in range(len(children)))), children)
        if not isinstance(spec, TensorSpec):
            return spec
        function = ALL_FUNCTIONS[node.function]
        return spec.like() if function.common(result_type(*children)) is f32 else None

    result = fold(tree, visit)
    return isinstance(result, TensorSpec) and result.dtype in (f32, bool_)


def _is_readable(dtype: DType) -> bool:
    return dtype is f32 or dtype.kind in ("bool", "int")


# ------------------------------------------------------------------------------------------- how much there is to do

# Functions of so few instructions that those of the loop itself count beside them.
_SHORT = frozenset(
    "add sub mul neg abs square max min maximum minimum relu relu6 clamp leaky_relu where eq ne lt le gt ge".split()
)


def _calls(text: str) -> list[Call]:
    return [node for node in distinct_nodes(parse(text)) if isinstance(node, Call)]


def count_calls(text: str) -> int:
    """The number of functions that one element takes."""
    return len(_calls(text))


def is_short(text: str) -> bool:
    """Whether an expression takes a few instructions only."""
    calls = _calls(text)
    return len(calls) <= 4 and all(call.function in _SHORT for call in calls)


def vectors_a_turn(text: str) -> int:
    """How many vectors one turn of a loop should take: several where the loop's own instructions would count."""
    return 4 if is_short(text) else 1
