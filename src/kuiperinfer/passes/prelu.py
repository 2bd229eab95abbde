"""PReLU with known slopes is the expression of a leaky ReLU."""

from __future__ import annotations

import numpy as np

from ..dtypes import Array, f32, widen
from ..expression import Literal
from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.activation import PReLU
from ..layers.binding import FromAttribute, FromInput
from .elementwise import set_map
from .fold_constants import constant_operator
from .rewriting import Specs, set_inputs, tensor


def unify_prelu(operators: list[RuntimeOperator], specs: Specs) -> list[RuntimeOperator]:
    """One slope becomes a number, one a channel a constant of shape (1, C, 1, …)."""
    kept: list[RuntimeOperator] = []
    for operator in operators:
        slopes = _slopes(operator)
        found = tensor(specs, operator.input_operands_seq[0]) if slopes is not None else None
        if slopes is not None and found is not None and found.dtype is f32:
            source = operator.input_operands_seq[0]
            if slopes.size == 1 and np.isfinite(slopes).all():
                set_inputs(operator, [source])
                set_map(operator, f"leaky_relu(@0,{Literal(float(slopes.reshape(())))})")
            else:
                operand = RuntimeOperand(f"{operator.name}.weight", operator)
                data = slopes.reshape((1, -1, *[1] * (found.ndim - 2)) if found.ndim > 1 else [1] * found.ndim)
                kept.append(constant_operator(operand, data, specs))
                set_inputs(operator, [source, operand])
                set_map(operator, "leaky_relu(@0,@1)")
        kept.append(operator)
    return kept


def _slopes(operator: RuntimeOperator) -> Array | None:
    """The weight of a PReLU, in float32, where it is known; None for all other operators."""
    if not isinstance(operator.layer, PReLU) or operator.binding is None:
        return None
    source = operator.binding.named.get("weight")
    if operator.binding.named.get("input") != FromInput(0):
        return None
    data: Array | None = None
    if isinstance(source, FromAttribute):
        data = operator.attributes[source.name].data
    elif isinstance(source, FromInput) and operator.input_operands_seq[source.index].producer.type == "pnnx.Attribute":
        data = next(iter(operator.input_operands_seq[source.index].producer.attributes.values())).data
    return None if data is None or data.dtype == np.float64 else widen(data).astype(np.float32)
