"""What passes change a graph with. A pass works on a copy: the model's own graph stays as it was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..dtypes import TensorSpec
from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.base import Layer, Spec
from ..layers.binding import Binding, FromInput, Source

Specs: TypeAlias = dict[RuntimeOperand, Spec]


def copy_graph(
    operators: Sequence[RuntimeOperator], specs: Mapping[RuntimeOperand, Spec]
) -> tuple[list[RuntimeOperator], Specs]:
    """Operators and operands of their own, weights shared, and the specs of the new operands."""
    operands: dict[RuntimeOperand, RuntimeOperand] = {}
    copies: list[RuntimeOperator] = []
    for operator in operators:
        copy = RuntimeOperator(
            operator.name,
            operator.type,
            input_names=list(operator.input_names),
            params=dict(operator.params),
            attributes=dict(operator.attributes),
            line=operator.line,
            binding=operator.binding,
        )
        for operand in operator.output_operands:
            operands[operand] = RuntimeOperand(operand.name, copy, shape=operand.shape, dtype=operand.dtype)
            copy.output_operands.append(operands[operand])
        copies.append(copy)
    for operator, copy in zip(operators, copies, strict=True):
        copy.input_operands_seq = [operands[operand] for operand in operator.input_operands_seq]
        for operand in copy.input_operands_seq:
            operand.consumers.append(copy)
    return copies, {operands[operand]: spec for operand, spec in specs.items() if operand in operands}


def replace_uses(old: RuntimeOperand, new: RuntimeOperand) -> None:
    """All that used `old` uses `new`."""
    for consumer in dict.fromkeys(old.consumers):
        consumer.input_operands_seq = [new if o is old else o for o in consumer.input_operands_seq]
    new.consumers += old.consumers
    old.consumers = []


def set_inputs(operator: RuntimeOperator, inputs: Sequence[RuntimeOperand]) -> None:
    """Gives an operator other inputs."""
    for operand in operator.input_operands_seq:
        operand.consumers.remove(operator)
    operator.input_operands_seq = list(inputs)
    operator.input_names = []
    for operand in inputs:
        operand.consumers.append(operator)


def take_over_output(operator: RuntimeOperator, of: RuntimeOperator) -> None:
    """`operator` makes the only output of `of` from now on, instead of its own; `of` is left without outputs and inputs."""
    (output,) = of.output_operands
    output.producer = operator
    operator.output_operands = [output]
    set_inputs(of, [])
    of.output_operands = []


def single_use(operand: RuntimeOperand) -> bool:
    """Whether one operator alone uses an operand, and once."""
    return len(operand.consumers) == 1


def bind_inputs(layer: Layer, names: Sequence[str] = (), count: int = 0, **constants: Any) -> Binding:
    """A binding of a layer whose arguments are the operator's inputs: named ones, or `count` positional ones."""
    named: dict[str, Source] = {name: FromInput(index) for index, name in enumerate(names)}
    return Binding(layer, tuple(FromInput(index) for index in range(count)), named)


def tensor(specs: Mapping[RuntimeOperand, Spec], operand: RuntimeOperand) -> TensorSpec | None:
    """The spec of an operand that is a tensor of known shape, else None."""
    spec = specs.get(operand)
    return spec if isinstance(spec, TensorSpec) else None
