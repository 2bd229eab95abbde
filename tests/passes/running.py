"""Graphs after passes, run by the reference and compared with the same graphs without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kuiperinfer.dtypes import Array, TensorSpec
from kuiperinfer.graph import RuntimeGraph, RuntimeOperator
from kuiperinfer.graph.execution import run_reference
from kuiperinfer.passes import optimise
from kuiperinfer.settings import settings
from tests.codegen.running import assert_close, expected_outputs, graph_of


def run_passes(graph: RuntimeGraph, inputs: Sequence[Array], off: str = "") -> list[RuntimeOperator]:
    """The operators after all passes but those named in `off`; the graph is verified after each."""
    specs = {operator.name: TensorSpec.of(x) for operator, x in zip(graph.input_operators, inputs, strict=True)}
    with settings(verify=True, passes_off=off):
        return optimise(graph, specs)[0]


def outputs_of(operators: Sequence[RuntimeOperator], inputs: Sequence[Array]) -> list[Array]:
    """What the reference makes of operators."""
    names = [operator.name for operator in operators if operator.type == "pnnx.Input"]
    values = run_reference(operators, dict(zip(names, inputs, strict=True)))
    return [np.asarray(values[o.input_operands_seq[0]]) for o in operators if o.type == "pnnx.Output"]


def check_passes(
    inputs: Sequence[Array],
    lines: Sequence[tuple[Any, ...]],
    outputs: Sequence[str],
    off: str = "",
    tolerance: float = 1e-5,
) -> list[str]:
    """Compares with and without passes; returns the types of the operators that are left, without inputs and outputs."""
    graph = graph_of(inputs, lines, outputs)
    expected = expected_outputs(graph, inputs)
    operators = run_passes(graph, inputs, off)
    for found, wanted in zip(outputs_of(operators, inputs), expected, strict=True):
        assert_close(found, wanted, tolerance)
    for again, wanted in zip(expected_outputs(graph, inputs), expected, strict=True):
        np.testing.assert_array_equal(again, wanted)  # the model's own graph and weights stay as they were
    return [operator.type for operator in operators if operator.type not in ("pnnx.Input", "pnnx.Output")]
