"""Small PNNX graphs made in memory, a line an operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from kuiperinfer import pnnx
from kuiperinfer.dtypes import dtype_of, f32


def attribute(array: np.ndarray[Any, Any]) -> pnnx.Attribute:
    """A weight with the given data."""
    data = np.ascontiguousarray(array)
    data.flags.writeable = False
    return pnnx.Attribute(dtype_of(data), data.shape, data)


def build(*lines: tuple[Any, ...]) -> pnnx.Graph:
    """A graph from ``(type, name, inputs, outputs, params, attributes, shape of the outputs)``, the last three optional.

    Operands may be used before the line that makes them, which no file may do.
    """
    graph = pnnx.Graph()

    def operand(name: str) -> pnnx.Operand:
        return graph.operands.setdefault(name, pnnx.Operand(name))

    for type_name, name, inputs, outputs, *rest in lines:
        params, attributes, shape = [*rest, *({}, {}, None)[len(rest) :]]
        operator = pnnx.Operator(type_name, name)
        operator.inputs = [operand(i) for i in inputs.split()]
        operator.outputs = [operand(o) for o in outputs.split()]
        operator.input_names = [None] * len(operator.inputs)
        operator.params = {key: pnnx.Parameter(value, str(value)) for key, value in params.items()}
        operator.attributes = {key: attribute(value) for key, value in attributes.items()}
        for made in operator.outputs:
            made.producer = operator
            if shape is not None:
                made.shape, made.dtype = shape, f32
        for used in operator.inputs:
            used.consumers.append(operator)
        graph.operators.append(operator)
    return graph
