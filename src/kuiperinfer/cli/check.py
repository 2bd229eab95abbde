"""`kuiper check`: whether a model runs here, and everything that stands in its way."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .models import json_option, model_argument, model_file

if TYPE_CHECKING:
    from ..runtime import Model


@click.command("check")
@model_argument
@json_option
def command(model_path: Path, as_json: bool) -> int:
    """Tell whether a model is supported.

    Exit code 0 if it is, 2 if operators are not supported (all of them are listed), 1 if the files are broken.
    Compare the outputs with those of the original network: a converter may drop operators at the end.
    """
    from ..errors import UnsupportedOperatorError
    from ..runtime import load

    path = model_file(model_path)
    try:
        model = load(path)
    except UnsupportedOperatorError as error:
        report_unsupported(path, error.operators, as_json)
        return 2
    _report_supported(path, model, as_json)
    return 0


def nearest(kind: str) -> list[str]:
    """Registered operator types with names like the given one, the nearest first."""
    from ..layers import registered

    by_last_part = [
        known for known in registered() if known.rpartition(".")[2].lower() == kind.rpartition(".")[2].lower()
    ]
    alike = difflib.get_close_matches(kind, list(registered()), n=3, cutoff=0.6)
    return list(dict.fromkeys([*by_last_part, *alike]))[:3]


def _report_supported(path: Path, model: Model, as_json: bool) -> None:
    from rich.text import Text

    from ..graph import annotation_mismatches
    from .console import ACCENT, console, dims_text, print_json, printable, table
    from .info import operator_counts

    differences = annotation_mismatches(model.graph)
    counts = operator_counts(model.graph)
    if as_json:
        outputs = [
            {"name": o.name, "shape": o.shape, "dtype": o.dtype.name if o.dtype else None} for o in model.outputs
        ]
        data: dict[str, Any] = {"model": str(path), "supported": True, "unsupported": [], "operators": counts}
        print_json(data | {"outputs": outputs, "differences": differences})
        return
    out = console()
    many = f"{sum(counts.values())} operators of {len(counts)} types"
    out.print(Text.assemble(("supported  ", "bold green"), printable(str(path)), (f"  {many}", "dim")))
    ends = table("", "", "", "")
    for info in model.outputs:
        dtype = info.dtype.name if info.dtype else "?"
        ends.add_row(
            Text("output", style="dim"), printable(info.name), Text(dims_text(info.shape), style=ACCENT), dtype
        )
    out.print(ends)
    for difference in differences:
        out.print(Text(f"shape differs: {printable(difference)}", style="yellow"))


def report_unsupported(path: Path, operators: Mapping[str, Sequence[str]], as_json: bool) -> None:
    """Prints the operators that a model needs and nobody registered, type -> names."""
    from rich.text import Text

    from .console import console, print_json, printable, table

    ordered = sorted(operators.items(), key=lambda item: (-len(item[1]), item[0]))
    if as_json:
        unsupported = [
            {"type": kind, "count": len(names), "operators": list(names), "nearest": nearest(kind)}
            for kind, names in ordered
        ]
        print_json({"model": str(path), "supported": False, "unsupported": unsupported})
        return
    out = console()
    kinds = f"{len(ordered)} operator type{'s' if len(ordered) > 1 else ''} unknown"
    out.print(Text.assemble(("not supported  ", "bold red"), printable(str(path)), (f"  {kinds}", "dim")))
    rows = table("type", "count", "operators", "nearest known types", right=[1])
    for kind, names in ordered:
        some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        rows.add_row(Text(printable(kind), style="red"), str(len(names)), printable(some), ", ".join(nearest(kind)))
    out.print(rows)
    out.print(
        Text("Register a layer for a type with @kuiperinfer.register, or convert the model without it.", style="dim")
    )
