"""A built graph applied to specs (shape inference) and to arrays (the reference run)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..dtypes import TensorSpec
from ..errors import KuiperError
from ..layers.base import DataDependent, Spec, Value, apply, infer, map_value
from ..layers.binding import FromAttribute, FromInput, Source
from .parts import RuntimeOperand, RuntimeOperator


class Unknown:
    """The spec of a value whose shape hangs on data, such as the result of `masked_select`."""

    def __repr__(self) -> str:
        return "?"


UNKNOWN = Unknown()

Step = Callable[[RuntimeOperator, float], None]


def _arguments(
    operator: RuntimeOperator, of_operand: Callable[[RuntimeOperand], Any], of_attribute: Callable[[Any], Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of an operator's layer, positional and named, each fetched from where the binding says."""
    assert operator.binding is not None

    def fetch(source: Source) -> Any:
        if isinstance(source, FromInput):
            return of_operand(operator.input_operands_seq[source.index])
        if isinstance(source, FromAttribute):
            return of_attribute(operator.attributes[source.name])
        return source.value

    named = {name: fetch(source) for name, source in operator.binding.named.items()}
    return [fetch(source) for source in operator.binding.arguments], named


def _explain(error: Exception, operator: RuntimeOperator) -> KuiperError:
    if isinstance(error, KuiperError):
        return error.at(operator.place)
    kind = type(error).__name__
    return KuiperError(f"{operator.place}: failed in an unforeseen way ({kind}: {error}); please report this model")


def infer_shapes(order: Sequence[RuntimeOperator], inputs: Mapping[str, TensorSpec]) -> dict[RuntimeOperand, Spec]:
    """The spec of every operand, given those of the `pnnx.Input` operators by name.

    What hangs on data is `UNKNOWN`. Errors name the operator.
    """
    specs: dict[RuntimeOperand, Spec] = {}
    for operator in order:
        if operator.type == "pnnx.Input":
            specs[operator.output_operands[0]] = inputs[operator.name]
        elif operator.binding is not None:
            specs.update(zip(operator.output_operands, _infer_one(operator, specs), strict=True))
    return specs


def _infer_one(operator: RuntimeOperator, specs: Mapping[RuntimeOperand, Spec]) -> Sequence[Spec]:
    assert operator.binding is not None
    unknown = [UNKNOWN] * len(operator.output_operands)
    if any(specs[operand] is UNKNOWN for operand in operator.input_operands_seq):
        return unknown
    arguments, named = _arguments(
        operator, specs.__getitem__, lambda attribute: TensorSpec(attribute.shape, attribute.dtype, attribute.data)
    )
    try:
        return infer(operator.binding.layer, arguments, named)
    except DataDependent:
        return unknown
    except Exception as error:
        raise _explain(error, operator) from error


def run_operator(operator: RuntimeOperator, value_of: Callable[[RuntimeOperand], Value]) -> tuple[Value, ...]:
    """One operator by its NumPy `forward`; errors name it."""
    assert operator.binding is not None
    arguments, named = _arguments(operator, value_of, lambda attribute: attribute.data)
    try:
        return apply(operator.binding.layer, arguments, named)
    except Exception as error:
        raise _explain(error, operator) from error


def run_reference(
    order: Sequence[RuntimeOperator],
    inputs: Mapping[str, Value],
    *,
    keep: bool = False,
    on_step: Step | None = None,
) -> dict[RuntimeOperand, Value]:
    """Runs all operators by their NumPy `forward`; returns the values that `pnnx.Output` operators take, with `keep` all.

    Values are let go after their last use. `on_step` hears of each operator and the seconds that it took.
    """
    values: dict[RuntimeOperand, Value] = {}
    remaining = {operand: len(operand.consumers) for operator in order for operand in operator.output_operands}
    for operator in order:
        start = time.perf_counter()
        if operator.type == "pnnx.Input":
            values[operator.output_operands[0]] = inputs[operator.name]
        elif operator.binding is not None:
            values.update(zip(operator.output_operands, run_operator(operator, values.__getitem__), strict=True))
        if on_step is not None:
            on_step(operator, time.perf_counter() - start)
        if not keep and operator.type != "pnnx.Output":
            for operand in operator.input_operands_seq:
                remaining[operand] -= 1
                if not remaining[operand]:
                    values.pop(operand, None)
    return values


def leaves(value: Any) -> list[Any]:
    """Arrays and numbers of a nested value, depth first; strings and None are left out. Works on specs too."""
    found: list[Any] = []

    def note(leaf: Any) -> None:
        if leaf is not None and not isinstance(leaf, str):
            found.append(leaf)

    map_value(note, value)
    return found


def as_array(leaf: Value) -> np.ndarray[Any, Any]:
    """A leaf as an array: numbers become 0-d arrays of int64, float64, bool or complex128."""
    return leaf if isinstance(leaf, np.ndarray) else np.asarray(leaf)
