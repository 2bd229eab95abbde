"""The run-time graph: a PNNX graph with a layer attached to every operator."""

from .annotations import annotation_mismatches
from .execution import UNKNOWN, Unknown, infer_shapes, leaves, run_reference
from .order import execution_order, kahn_order, reverse_dfs_order
from .parts import (
    RuntimeAttribute,
    RuntimeOperand,
    RuntimeOperator,
    RuntimeParameter,
    RuntimeParameterBool,
    RuntimeParameterComplex,
    RuntimeParameterComplexArray,
    RuntimeParameterFloat,
    RuntimeParameterFloatArray,
    RuntimeParameterInt,
    RuntimeParameterIntArray,
    RuntimeParameterString,
    RuntimeParameterStringArray,
)
from .registerer import LayerRegisterer
from .runtime_graph import GraphState, RuntimeGraph
from .text import graph_text

__all__ = [
    "UNKNOWN",
    "GraphState",
    "LayerRegisterer",
    "RuntimeAttribute",
    "RuntimeGraph",
    "RuntimeOperand",
    "RuntimeOperator",
    "RuntimeParameter",
    "RuntimeParameterBool",
    "RuntimeParameterComplex",
    "RuntimeParameterComplexArray",
    "RuntimeParameterFloat",
    "RuntimeParameterFloatArray",
    "RuntimeParameterInt",
    "RuntimeParameterIntArray",
    "RuntimeParameterString",
    "RuntimeParameterStringArray",
    "Unknown",
    "annotation_mismatches",
    "execution_order",
    "graph_text",
    "infer_shapes",
    "kahn_order",
    "leaves",
    "reverse_dfs_order",
    "run_reference",
]
