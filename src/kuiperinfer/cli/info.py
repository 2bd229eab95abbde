"""`kuiper info`: what a model takes, gives, and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .models import input_shapes, json_option, model_argument, model_file, shape_option

if TYPE_CHECKING:
    from ..graph import RuntimeGraph, RuntimeOperand
    from ..runtime import ValueInfo


@dataclass(frozen=True)
class Costs:
    """What a run costs for the given input shapes."""

    shapes: dict[str, tuple[int, ...]]
    multiply_adds: int
    peak_bytes: int
    peak_operator: str
    complete: bool


@dataclass(frozen=True)
class Facts:
    """All that the command shows; `costs` is None where they cannot be told, and `problem` says why."""

    path: Path
    graph: RuntimeGraph
    inputs: Sequence[ValueInfo]
    outputs: Sequence[ValueInfo]
    costs: Costs | None
    problem: str | None


@click.command("info")
@model_argument
@shape_option
@json_option
def command(model_path: Path, shapes: tuple[str, ...], as_json: bool) -> None:
    """Show a model's inputs, outputs, operators and costs."""
    from .console import print_json

    facts = gather(model_file(model_path), shapes)
    if as_json:
        print_json(as_data(facts))
    else:
        _print(facts)


def gather(path: Path, shape_texts: tuple[str, ...]) -> Facts:
    """The facts of a model, for the shapes of --shape options, else for those that the model declares.

    A model with unsupported operators is described as its file describes it.
    """
    from ..errors import KuiperError, UnsupportedOperatorError
    from ..graph import RuntimeGraph
    from ..runtime import Model

    graph = RuntimeGraph(path)
    graph.init()
    try:
        model = Model(graph)
    except UnsupportedOperatorError as error:
        types = ", ".join(error.operators)
        inputs = [_annotated(operator.name, operator.output_operands[0]) for operator in graph.input_operators]
        outputs = [_annotated(operator.name, operator.input_operands_seq[0]) for operator in graph.output_operators]
        return Facts(path, graph, inputs, outputs, None, f"{types} not supported, see kuiper check")
    try:
        return Facts(path, graph, model.inputs, model.outputs, costs_of(graph, model.inputs, shape_texts), None)
    except (KuiperError, click.UsageError) as error:
        if shape_texts:
            raise
        return Facts(path, graph, model.inputs, model.outputs, None, str(error))


def _annotated(name: str, operand: RuntimeOperand) -> ValueInfo:
    from ..runtime import ValueInfo

    return ValueInfo(name, operand.shape, operand.dtype)


def costs_of(graph: RuntimeGraph, inputs: Sequence[ValueInfo], shape_texts: tuple[str, ...]) -> Costs:
    """Multiply-adds and memory of a run. Raises what inference and `input_shapes` raise."""
    from ..dtypes import TensorSpec, f32
    from ..graph.memory_need import memory_need
    from ..graph.multiply_adds import total_multiply_adds

    shapes = input_shapes(shape_texts, inputs)
    specs = graph.infer({info.name: TensorSpec(shapes[info.name], info.dtype or f32) for info in inputs})
    order = graph.topo_operators
    need = memory_need(order, specs)
    return Costs(shapes, total_multiply_adds(order, specs), need.peak, need.operator, need.complete)


def operator_counts(graph: RuntimeGraph) -> dict[str, int]:
    """Operator type -> how many, the most frequent first."""
    counts = Counter(operator.type for operator in graph.operators)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def as_data(facts: Facts) -> dict[str, Any]:
    """The facts as plain data."""
    from ..graph.memory_need import weight_bytes, weight_count

    costs = facts.costs

    def values(infos: Sequence[ValueInfo]) -> list[dict[str, Any]]:
        return [{"name": i.name, "shape": i.shape, "dtype": i.dtype.name if i.dtype else None} for i in infos]

    return {
        "model": str(facts.path),
        "inputs": values(facts.inputs),
        "outputs": values(facts.outputs),
        "operators": operator_counts(facts.graph),
        "parameters": weight_count(facts.graph.operators),
        "weight_bytes": weight_bytes(facts.graph.operators),
        "input_shapes": costs.shapes if costs else None,
        "multiply_adds": costs.multiply_adds if costs else None,
        "peak_activation_bytes": costs.peak_bytes if costs else None,
        "peak_activation_operator": costs.peak_operator if costs else None,
        "problem": facts.problem,
    }


def _print(facts: Facts) -> None:
    from rich.text import Text

    from ..graph.memory_need import weight_bytes, weight_count
    from .console import ACCENT, bar, bytes_text, console, count_text, dims_text, printable, table

    out = console()
    out.print(Text(printable(str(facts.path)), style="bold"))
    out.print()

    ends = table("", "", "", "")
    for title, infos in (("input", facts.inputs), ("output", facts.outputs)):
        for info in infos:
            dtype = info.dtype.name if info.dtype else "?"
            ends.add_row(
                Text(title, style="dim"), printable(info.name), Text(dims_text(info.shape), style=ACCENT), dtype
            )
    out.print(ends)
    out.print()

    numbers = table("", "")
    numbers.add_row(Text("parameters", style="dim"), f"{weight_count(facts.graph.operators):,}")
    numbers.add_row(Text("weights", style="dim"), bytes_text(weight_bytes(facts.graph.operators)))
    if facts.costs:
        numbers.add_row(Text("multiply-adds", style="dim"), count_text(facts.costs.multiply_adds))
        at = f", at operator '{printable(facts.costs.peak_operator)}'" if facts.costs.peak_operator else ""
        more = "" if facts.costs.complete else ", not counting values whose shape hangs on data"
        numbers.add_row(Text("activations", style="dim"), f"{bytes_text(facts.costs.peak_bytes)} at most{at}{more}")
    out.print(numbers)
    if facts.problem:
        out.print(Text(f"multiply-adds and activations are unknown: {printable(facts.problem)}", style="yellow"))
    out.print()

    counts = operator_counts(facts.graph)
    most = max(counts.values(), default=1)
    operators = table("operators", "", "", right=[1])
    for kind, count in counts.items():
        shown = bar(count / most, 24, ascii_only=out.options.ascii_only)
        operators.add_row(printable(kind), str(count), Text(shown, style=ACCENT))
    out.print(operators)
