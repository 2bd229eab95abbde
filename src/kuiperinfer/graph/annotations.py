"""The shapes that a file notes of its operands, held against those that the graph infers."""

from __future__ import annotations

from collections.abc import Mapping

from ..dtypes import TensorSpec
from ..errors import InputError
from .runtime_graph import RuntimeGraph


def annotation_mismatches(graph: RuntimeGraph, inputs: Mapping[str, TensorSpec] | None = None) -> list[str]:
    """Where inferred shapes differ from those that the converter noted in the file, one line each; none where all agree.

    `inputs` are specs of inputs by name, by default as annotated; where these are not complete there is nothing to compare.
    """
    try:
        specs = graph.infer(inputs)
    except InputError:
        return []
    found = []
    for operand, spec in specs.items():
        if not isinstance(spec, TensorSpec) or operand.shape is None:
            continue
        fits = len(operand.shape) == spec.ndim and all(
            noted in (None, dim) for noted, dim in zip(operand.shape, spec.shape, strict=True)
        )
        if not fits:
            noted = "(" + ",".join("?" if dim is None else str(dim) for dim in operand.shape) + ")"
            found.append(f"operand '{operand.name}' of {operand.producer.place}: the file says {noted}, found {spec}")
    return found
