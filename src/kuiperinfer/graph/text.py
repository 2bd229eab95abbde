"""The stable printed form of a graph, a line an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtypes import DType
from .parts import RuntimeOperand, RuntimeOperator


def shape_text(shape: Sequence[int | None] | None, dtype: DType | None) -> str:
    """A shape and dtype as the file spells them, such as ``(1,3,?,?)f32``; empty where nothing is known."""
    if shape is None:
        return ""
    dims = ",".join("?" if dim is None else str(dim) for dim in shape)
    return f"({dims}){dtype.name if dtype else 'null'}"


def graph_text(operators: Sequence[RuntimeOperator]) -> str:
    """``%1: (1,8)f32 = nn.Linear fc(%0) bias=True @weight=(8,4)f32``, a line an operator, in the given order."""
    return "\n".join(operator_text(operator) for operator in operators)


def operator_text(operator: RuntimeOperator) -> str:
    """One line of `graph_text`."""
    outputs = ", ".join(_operand_text(operand) for operand in operator.output_operands)
    inputs = ", ".join(
        f"{name}=%{operand.name}" if name else f"%{operand.name}"
        for name, operand in zip(_names(operator), operator.input_operands_seq, strict=True)
    )
    settings = [f"{name}={_value_text(parameter)}" for name, parameter in operator.params.items()]
    weights = [f"@{name}={shape_text(weight.shape, weight.dtype)}" for name, weight in operator.attributes.items()]
    call = f"{operator.type} {operator.name}({inputs})"
    return " ".join([f"{outputs} = {call}" if outputs else call, *settings, *weights])


def _names(operator: RuntimeOperator) -> Sequence[str | None]:
    return operator.input_names or [None] * len(operator.input_operands_seq)


def _operand_text(operand: RuntimeOperand) -> str:
    annotated = shape_text(operand.shape, operand.dtype)
    return f"%{operand.name}: {annotated}" if annotated else f"%{operand.name}"


def _value_text(parameter: Any) -> str:
    return parameter.text if parameter.text is not None else repr(parameter.value)
