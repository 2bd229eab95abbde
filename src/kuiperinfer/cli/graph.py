"""`kuiper graph`: a model's graph as text or as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .models import model_argument, model_file, write_text

if TYPE_CHECKING:
    from ..graph import RuntimeGraph

FORMATS = ("text", "dot", "svg")


@click.command("graph")
@model_argument
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write to this file; .svg and .dot choose the format."
)
@click.option("--format", "wanted", type=click.Choice(FORMATS), help="[default: what the file's name says, else text]")
@click.option("--json", "as_json", is_flag=True, help="Print operators and operands as JSON.")
def command(model_path: Path, output: Path | None, wanted: str | None, as_json: bool) -> None:
    """Print a model's graph, or draw it.

    text: a line an operator. svg: a picture. dot: the same for Graphviz. Unknown operators are shown too.
    """
    from ..graph import RuntimeGraph
    from .console import json_text, printable
    from .drawing import dot_text, svg_text

    graph = RuntimeGraph(model_file(model_path))
    graph.init()
    kind = wanted or _format_of(output)
    if as_json:
        text = json_text(as_data(graph))
    elif kind == "text":
        text = str(graph)
    else:
        text = svg_text(graph.operators) if kind == "svg" else dot_text(graph.operators)
    if output is None:
        print(text if as_json else printable(text))
        return
    write_text(output, text)


def _format_of(output: Path | None) -> str:
    suffix = output.suffix.lower().removeprefix(".") if output else ""
    if suffix in ("png", "pdf", "jpg", "jpeg"):
        raise click.UsageError(
            f"{suffix} is not a format of kuiper's; write .svg, or .dot for Graphviz (dot -T{suffix})"
        )
    return {"svg": "svg", "dot": "dot", "gv": "dot"}.get(suffix, "text")


def as_data(graph: RuntimeGraph) -> dict[str, Any]:
    """Operators with their parameters and weights, and operands, as plain data."""
    return {
        "operators": [
            {
                "type": operator.type,
                "name": operator.name,
                "inputs": [operand.name for operand in operator.input_operands_seq],
                "input_names": operator.input_names,
                "outputs": [operand.name for operand in operator.output_operands],
                "params": {name: parameter.text for name, parameter in operator.params.items()},
                "weights": {
                    name: {"shape": weight.shape, "dtype": weight.dtype.name if weight.dtype else None}
                    for name, weight in operator.attributes.items()
                },
            }
            for operator in graph.operators
        ],
        "operands": [
            {"name": operand.name, "shape": operand.shape, "dtype": operand.dtype.name if operand.dtype else None}
            for operand in graph.operands.values()
        ],
    }
