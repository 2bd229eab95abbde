"""How reshapes are lowered: views of row-major memory."""

from __future__ import annotations

from ..graph import RuntimeOperator
from ..layers.shape import Flatten, Reshape, ReshapeAs, Squeeze, Unflatten, Unsqueeze
from .lowering import Home, Lowering, lowers


@lowers(Flatten, Reshape, ReshapeAs, Squeeze, Unflatten, Unsqueeze, layout=lambda lowering, operator: False)
def lower_view(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """The same elements in the same order."""
    output = operator.output_operands[0]
    source = lowering.rows(operator.input_operands_seq[0])
    lowering.alias(output, Home(rows=source))
    return True
