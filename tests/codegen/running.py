"""Small graphs compiled for several targets, and compared with their reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kuiperinfer.codegen.lowering import KernelStep
from kuiperinfer.codegen.target import target_named
from kuiperinfer.dtypes import Array, TensorSpec, dtype_of
from kuiperinfer.graph import RuntimeGraph
from kuiperinfer.graph.execution import run_reference
from kuiperinfer.runtime.plan import Plan, make_plan
from kuiperinfer.runtime.session import Session
from kuiperinfer.runtime.team import team
from kuiperinfer.settings import settings
from tests.codegen.native import TARGETS
from tests.graph.build import build

TOLERANCE = 1e-5  # of an output's largest magnitude
Line = tuple[Any, ...]


def graph_of(
    inputs: Sequence[Array],
    lines: Sequence[Line],
    outputs: Sequence[str],
    names: Mapping[str, Sequence[str | None]] | None = None,
) -> RuntimeGraph:
    """A graph with inputs `x0`, `x1`, … of the arrays' shapes, the given operators, and outputs.

    `names` has the operand keys (`$key=`) of operators by their name.
    """
    made = [("pnnx.Input", f"in{i}", "", f"x{i}", {}, {}, array.shape) for i, array in enumerate(inputs)]
    source = build(*made, *lines, *(("pnnx.Output", f"out{i}", name, "") for i, name in enumerate(outputs)))
    for i, array in enumerate(inputs):
        source.operands[f"x{i}"].dtype = dtype_of(array)
    for operator in source.operators:
        operator.input_names = list((names or {}).get(operator.name, operator.input_names))
    graph = RuntimeGraph.from_pnnx(source)
    graph.build()
    return graph


def compile_graph(graph: RuntimeGraph, inputs: Sequence[Array], target: str = "host", **changes: Any) -> Plan:
    """A plan made without the cache on disk, the graph verified after every pass."""
    specs = {operator.name: TensorSpec.of(x) for operator, x in zip(graph.input_operators, inputs, strict=True)}
    with settings(cache=False, verify=True, **changes):
        return make_plan(graph, specs, target_named(target), exact=False)


def expected_outputs(graph: RuntimeGraph, inputs: Sequence[Array]) -> list[Array]:
    """What the reference gives."""
    named = {operator.name: x for operator, x in zip(graph.input_operators, inputs, strict=True)}
    values = run_reference(graph.topo_operators, named)
    return [np.asarray(values[operator.input_operands_seq[0]]) for operator in graph.output_operators]


def fallbacks(plan: Plan) -> list[str]:
    """Types of the operators that run their NumPy `forward`."""
    return [step.operator.type for step in plan.steps if not isinstance(step, KernelStep)]


def kernels(plan: Plan) -> list[str]:
    """The kinds of kernels, in order."""
    return [type(step.spec).__name__ for step in plan.steps if isinstance(step, KernelStep)]


def assert_close(found: Array, expected: Array, tolerance: float = TOLERANCE) -> None:
    """Equal shapes, dtypes and NaN, infinities and integers equal, and errors small beside the largest finite magnitude."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    assert np.isfinite(found[finite]).all()
    largest = np.abs(expected[finite]).max(initial=1e-30)
    error = np.abs(found[finite].astype(np.float64) - expected[finite]).max(initial=0) / largest
    assert error <= tolerance, f"error {error:.1e} of the largest magnitude"


def check_graph(
    inputs: Sequence[Array],
    lines: Sequence[Line],
    outputs: Sequence[str],
    *,
    targets: Sequence[str] = TARGETS,
    tolerance: float = TOLERANCE,
    compiled: bool = True,
    threads: int = 1,
    names: Mapping[str, Sequence[str | None]] | None = None,
    **changes: Any,
) -> Plan:
    """Compiles and runs for each target and compares with the reference; `compiled` demands that no step runs the reference.

    Inputs are placed at addresses that are multiples of 4 alone, as a user's arrays may be. Returns the last plan.
    """
    graph = graph_of(inputs, lines, outputs, names)
    expected = expected_outputs(graph, inputs)
    placed = [_displaced(array) for array in inputs]
    for target in targets:
        plan = compile_graph(graph, inputs, target, **changes)
        if compiled:
            assert not fallbacks(plan)
        session = Session(plan, threads)
        for _ in range(2):  # the second run finds what the first one left in the arena
            for found, wanted in zip(session.run(placed, team()), expected, strict=True):
                assert_close(found, wanted, tolerance)
    return plan


def check_operator(
    type_name: str,
    inputs: Sequence[Array],
    params: Mapping[str, Any] | None = None,
    weights: Mapping[str, Array] | None = None,
    *,
    outputs: int = 1,
    names: Sequence[str | None] | None = None,
    **options: Any,
) -> Plan:
    """The same for one operator with inputs in the order of its arguments; `names` are the operand keys of the file."""
    made = [f"y{i}" for i in range(outputs)]
    arguments = " ".join(f"x{i}" for i in range(len(inputs)))
    line = (type_name, "op", arguments, " ".join(made), params or {}, weights or {})
    return check_graph(inputs, [line], made, names={} if names is None else {"op": names}, **options)


def _displaced(array: Array) -> Array:
    """A copy that lies 4 bytes (or one element) behind a multiple of 64."""
    shift = max(4, array.itemsize)
    memory = np.empty(array.nbytes + 64 + shift, np.uint8)
    start = -memory.ctypes.data % 64 + shift
    copy: Array = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def random(*shape: int, seed: int = 0) -> Array:
    """Normally distributed float32 values."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)
