"""How softmax is lowered: along the last dimension, or across the ones that lie within."""

from __future__ import annotations

import math

from ..graph import RuntimeOperator
from ..layers.base import normalize_dim
from ..layers.softmax import LogSoftmax, Softmax, Softmin
from .kernels.softmax import SoftmaxSpec
from .lowering import Lowering, lowers

_KINDS = {LogSoftmax: "log_softmax", Softmin: "softmin"}


@lowers(Softmax, LogSoftmax, Softmin, layout=lambda lowering, operator: False)
def lower_softmax(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """In the order in which the input's elements lie; the output's lie in the same."""
    layer = operator.layer
    assert isinstance(layer, Softmax)
    source, output = operator.input_operands_seq[0], operator.output_operands[0]
    shape = lowering.spec(source).shape or (1,)
    if 0 in shape:
        return False
    axis = normalize_dim(layer.axis(len(lowering.spec(source).shape)), len(shape))
    kind = _KINDS.get(type(layer), "softmax")
    place, order = lowering.in_memory_order(source)
    shape, axis = tuple(shape[dim] for dim in order) or shape, order.index(axis) if order else 0
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    spec = SoftmaxSpec(outer, shape[axis], inner, kind, lowering.target.lanes)
    lowering.add(spec, place, lowering.new_in_order(output, order))
    return True
