"""Activations and arithmetic as one language: layers become expressions, chains of expressions become one."""

from __future__ import annotations

from .. import expression
from ..dtypes import f32
from ..graph import RuntimeOperator
from ..layers.activation import Activation
from ..layers.structural import Expression
from ..settings import settings
from .fused import Map
from .rewriting import Specs, bind_inputs, set_inputs, single_use, tensor

_MOST_NODES = 64  # of a merged expression: more would not stay in registers


def _text(layer: Activation) -> str:
    """What an activation is in the language of expressions."""
    name, numbers = layer.formula()
    return f"{name}(@0{''.join(f',{expression.Literal(number)}' for number in numbers)})"


def unify_elementwise(operators: list[RuntimeOperator], specs: Specs) -> list[RuntimeOperator]:
    """Activations and expressions of float32 tensors become maps."""
    for operator in operators:
        if isinstance(operator.layer, Activation) and _is_float(operator, specs):
            set_map(operator, _text(operator.layer))
        elif isinstance(operator.layer, Expression) and operator.input_operands_seq and _is_float(operator, specs):
            set_map(operator, operator.layer.expr)
    return operators


def set_map(operator: RuntimeOperator, text: str) -> None:
    """Makes an operator an expression of its inputs."""
    operator.binding = bind_inputs(Map(type_name=operator.type, text=text), count=len(operator.input_operands_seq))
    operator.input_names = []


def merge_expressions(operators: list[RuntimeOperator], specs: Specs) -> list[RuntimeOperator]:
    """An expression that one other expression alone uses becomes a part of it; float32 only."""
    merged: set[RuntimeOperator] = set()
    for operator in operators:
        if not _is_map(operator, specs):
            continue
        changed = True
        while changed:
            changed = False
            for operand in operator.input_operands_seq:
                producer = operand.producer
                if (
                    single_use(operand)
                    and producer is not operator
                    and _is_map(producer, specs)
                    and _merge(operator, producer)
                ):
                    merged.add(producer)
                    changed = True
                    break
    return [operator for operator in operators if operator not in merged]


def _is_float(operator: RuntimeOperator, specs: Specs) -> bool:
    found = [tensor(specs, operand) for operand in (*operator.input_operands_seq, *operator.output_operands)]
    return all(spec is not None and spec.dtype is f32 for spec in found)


def _is_map(operator: RuntimeOperator, specs: Specs) -> bool:
    return isinstance(operator.layer, Map) and _is_float(operator, specs)


def _merge(operator: RuntimeOperator, producer: RuntimeOperator) -> bool:
    assert isinstance(operator.layer, Map) and isinstance(producer.layer, Map)
    outer, inner = operator.layer.tree, producer.layer.tree
    place = operator.input_operands_seq.index(producer.output_operands[0])
    inputs = list(dict.fromkeys([*operator.input_operands_seq, *producer.input_operands_seq]))
    inputs.remove(producer.output_operands[0])
    number = {operand: expression.Operand(index) for index, operand in enumerate(inputs)}
    inner = expression.substitute(inner, [number[operand] for operand in producer.input_operands_seq])
    tree = expression.substitute(
        outer, [inner if i == place else number[operand] for i, operand in enumerate(operator.input_operands_seq)]
    )
    text = str(tree)
    if text.count("(") > min(_MOST_NODES, settings.max_expression_nodes):
        return False
    set_inputs(producer, [])
    set_inputs(operator, inputs)
    set_map(operator, text)
    return True
