"""Small models for the tests of this room."""

from __future__ import annotations

from typing import Any

import numpy as np

from kuiperinfer import pnnx
from kuiperinfer.dtypes import Array
from kuiperinfer.pnnx import Attribute, Graph, Operand, Operator


def text(*lines: str, operators: object = None, operands: object = None) -> str:
    """A param text of operator lines, with the counts that belong to it unless others are given."""
    if operands is None:
        operands = sum(int(line.split()[3]) for line in lines if len(line.split()) > 3 and line.split()[3].isdigit())
    counts = f"{len(lines) if operators is None else operators} {operands}"
    return "\n".join(("7767517", counts, *lines)) + "\n"


INPUT = "pnnx.Input               pnnx_input_0             0 1 0"
OUTPUT = "pnnx.Output              pnnx_output_0            1 0 1"
RELU = "F.relu                   F.relu_0                 1 1 0 1"


def around(line: str) -> str:
    """A model of an input 0, the given operator with the output 1, and an output; the line under test is line 4."""
    return text(INPUT, line, OUTPUT, operands=2)


def add(graph: Graph, kind: str, name: str, inputs: list[Operand], outputs: int = 1, **more: Any) -> list[Operand]:
    """Appends an operator to a graph; returns its new outputs."""
    operator = Operator(kind, name, list(inputs), input_names=more.pop("input_names", [None] * len(inputs)), **more)
    for operand in inputs:
        operand.consumers.append(operator)
    for _ in range(outputs):
        operand = Operand(str(len(graph.operands)), operator)
        operator.outputs.append(operand)
        graph.operands[operand.name] = operand
    graph.operators.append(operator)
    return operator.outputs


def small() -> Graph:
    """A model that has some of everything: parameters, weights of several dtypes, argument names, annotations."""
    text_ = text(
        "pnnx.Input               pnnx_input_0             0 1 0 #0=(1,3)f32",
        "nn.Linear                fc                       1 1 0 1 bias=True eps=1.000000e-5 @bias=(2)f32 @weight=(2,3)f32 "
        "$input=0 #0=(1,3)f32 #1=(1,2)f32",
        "pnnx.Attribute           pnnx_fold_0              0 1 2 @data=(3)bool #2=(3)bool",
        "pnnx.Attribute           a.é/b                    0 1 3 @data=()f16",
        "torch.where              torch.where_0            3 1 2 1 1 4 $condition=2 $input=1 "
        "#2=(3)bool #1=(1,2)f32 #1=(1,2)f32",
        "pnnx.Output              pnnx_output_0            1 0 4",
    )
    graph = pnnx.read(text_.encode(), weights=False)
    data: dict[str, dict[str, Array]] = {
        "fc": {
            "bias": np.array([1, -2], np.float32),
            "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        },
        "pnnx_fold_0": {"data": np.array([True, False, True])},
        "a.é/b": {"data": np.array(0.5, np.float16)},
    }
    for operator in graph.operators:
        operator.attributes = {key: Attribute.of(data[operator.name][key]) for key in operator.attributes}
    return graph


def chain(length: int) -> Graph:
    """A model of `length` operators, each of which takes the output of the one before."""
    graph = Graph()
    operands = add(graph, "pnnx.Input", "in", [])
    for number in range(length):
        operands = add(graph, "F.relu", f"relu_{number}", operands)
    add(graph, "pnnx.Output", "out", operands, 0)
    return graph


def weights_of(graph: Graph) -> dict[str, tuple[str, tuple[int, ...], bytes | None]]:
    """All weights of a graph: dtype, shape and bytes by entry name."""
    return {
        f"{operator.name}.{key}": (str(a.dtype), a.shape, None if a.data is None else a.data.tobytes())
        for operator in graph.operators
        for key, a in operator.attributes.items()
    }
