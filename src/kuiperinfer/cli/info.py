"""`kuiper info`: what a model takes, gives, and costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .models import input_shapes, json_option, model_argument, model_file, shape_option

if TYPE_CHECKING:
    from ..runtime import Model


@dataclass(frozen=True)
class Costs:
    """What a run costs for the given input shapes."""

    shapes: dict[str, tuple[int, ...]]
    multiply_adds: int
    peak_bytes: int
    peak_operator: str
    complete: bool


@click.command("info")
@model_argument
@shape_option
@json_option
def command(model_path: Path, shapes: tuple[str, ...], as_json: bool) -> None:
    """Show a model's inputs, outputs, operators and costs."""
    from ..errors import KuiperError
    from ..runtime import load
    from .console import print_json

    path = model_file(model_path)
    model = load(path)
    costs: Costs | None = None
    problem = None
    try:
        costs = costs_of(model, shapes)
    except KuiperError as error:
        if shapes:
            raise
        problem = str(error)
    if as_json:
        print_json(as_data(model, path, costs, problem))
    else:
        _print(model, path, costs, problem)


def costs_of(model: Model, shape_texts: tuple[str, ...]) -> Costs:
    """Multiply-adds and memory for the shapes of --shape options, else for those that the model declares."""
    from ..analysis import memory_need, total_multiply_adds
    from ..dtypes import TensorSpec, f32

    shapes = input_shapes(shape_texts, model.inputs)
    given = {info.name: TensorSpec(shapes[info.name], info.dtype or f32) for info in model.inputs}
    specs = model.graph.infer(given)
    order = model.graph.topo_operators
    need = memory_need(order, specs)
    return Costs(shapes, total_multiply_adds(order, specs), need.peak, need.operator, need.complete)


def operator_counts(model: Model) -> dict[str, int]:
    """Operator type -> how many, the most frequent first."""
    counts = Counter(operator.type for operator in model.graph.operators)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def as_data(model: Model, path: Path, costs: Costs | None, problem: str | None) -> dict[str, Any]:
    """Everything that the command shows, as plain data."""
    from ..analysis import weight_bytes, weight_count

    def values(infos: Any) -> list[dict[str, Any]]:
        return [{"name": i.name, "shape": i.shape, "dtype": i.dtype.name if i.dtype else None} for i in infos]

    return {
        "model": str(path),
        "inputs": values(model.inputs),
        "outputs": values(model.outputs),
        "operators": operator_counts(model),
        "parameters": weight_count(model.graph.operators),
        "weight_bytes": weight_bytes(model.graph.operators),
        "input_shapes": costs.shapes if costs else None,
        "multiply_adds": costs.multiply_adds if costs else None,
        "peak_activation_bytes": costs.peak_bytes if costs else None,
        "peak_activation_operator": costs.peak_operator if costs else None,
        "problem": problem,
    }


def _print(model: Model, path: Path, costs: Costs | None, problem: str | None) -> None:
    from rich.text import Text

    from ..analysis import weight_bytes, weight_count
    from .console import ACCENT, bar, bytes_text, console, count_text, dims_text, printable, table

    out = console()
    out.print(Text(printable(str(path)), style="bold"))
    out.print()

    ends = table("", "", "", "")
    for title, infos in (("input", model.inputs), ("output", model.outputs)):
        for info in infos:
            dtype = info.dtype.name if info.dtype else "?"
            ends.add_row(
                Text(title, style="dim"), printable(info.name), Text(dims_text(info.shape), style=ACCENT), dtype
            )
    out.print(ends)
    out.print()

    facts = table("", "")
    facts.add_row(Text("parameters", style="dim"), f"{weight_count(model.graph.operators):,}")
    facts.add_row(Text("weights", style="dim"), bytes_text(weight_bytes(model.graph.operators)))
    if costs:
        facts.add_row(Text("multiply-adds", style="dim"), count_text(costs.multiply_adds))
        at = f", at operator '{printable(costs.peak_operator)}'" if costs.peak_operator else ""
        more = "" if costs.complete else ", not counting values whose shape hangs on data"
        facts.add_row(Text("activations", style="dim"), f"{bytes_text(costs.peak_bytes)} at most{at}{more}")
    out.print(facts)
    if problem:
        out.print(Text(f"multiply-adds and activations are unknown: {printable(problem)}", style="yellow"))
    out.print()

    counts = operator_counts(model)
    most = max(counts.values(), default=1)
    operators = table("operators", "", "", right=[1])
    for kind, count in counts.items():
        shown = bar(count / most, 24, ascii_only=out.options.ascii_only)
        operators.add_row(printable(kind), str(count), Text(shown, style=ACCENT))
    out.print(operators)
