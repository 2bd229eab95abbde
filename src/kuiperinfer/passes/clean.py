"""Operators that change nothing, and those that nobody needs."""

from __future__ import annotations

from ..graph import RuntimeOperator
from ..layers import casting, dropout
from .rewriting import Specs, replace_uses, set_inputs, tensor

_COPIES = (dropout.Dropout, casting.Identity, casting.To, casting.TypeAs)


def drop_copies(operators: list[RuntimeOperator], specs: Specs) -> list[RuntimeOperator]:
    """Dropout, clones and conversions that keep shape and dtype: what used their result uses their input."""
    kept = []
    for operator in operators:
        if isinstance(operator.layer, _COPIES):
            source, output = operator.input_operands_seq[0], operator.output_operands[0]
            if tensor(specs, source) is not None and tensor(specs, source) == tensor(specs, output):
                set_inputs(operator, [])
                replace_uses(output, source)
                continue
        kept.append(operator)
    return kept


def drop_dead(operators: list[RuntimeOperator], specs: Specs) -> list[RuntimeOperator]:
    """Operators none of whose results reach an output. Inputs stay."""
    kept = []
    for operator in reversed(operators):
        used = any(operand.consumers for operand in operator.output_operands)
        if used or operator.type in ("pnnx.Input", "pnnx.Output"):
            kept.append(operator)
        else:
            set_inputs(operator, [])
    return kept[::-1]
