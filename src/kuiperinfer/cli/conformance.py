"""`kuiper conformance`: models with known answers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .compiling import target_option
from .models import mistake, write_text

if TYPE_CHECKING:
    from rich.console import Console

    from ..dtypes import Array
    from .conformance_cases import CaseResult

ENGINES = ("reference", "compiled")


@click.command("conformance")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--engine", type=click.Choice(ENGINES), help="What runs the models. [default: the setting]")
@target_option
@click.option(
    "--json", "json_path", metavar="FILE", help="Also write the results to this file; - prints nothing but them."
)
@click.option("--only", multiple=True, metavar="GLOB", help="Only cases with such a name, for instance 'nn_*'.")
def command(
    directory: Path, engine: str | None, target: str | None, json_path: str | None, only: tuple[str, ...]
) -> int:
    """Run every case folder under DIR and compare with its expected outputs.

    A case has model.pnnx.param, model.pnnx.bin, inputs.npz (in0, in1, …) and outputs.npz (out0, …). Exit code 0 only if all
    cases pass. Where the compiled model uses Winograd's algorithm, the tolerance of floats is 1e-4 at least.
    """
    from ..runtime import load
    from ..settings import settings
    from .conformance_cases import case_name, find_cases, matching, run_case
    from .console import console

    engine = engine or settings.engine
    least_tolerance = winograd_tolerance if engine == "compiled" else None
    folders = all_of_them = find_cases(directory)
    if only and not (folders := matching(all_of_them, directory, only)):
        raise mistake("--only", f"none of the {len(all_of_them)} cases matches {' or '.join(only)}")
    names = [case_name(folder, directory) for folder in folders]
    quiet = json_path == "-"
    out = console()
    width = max(len(name) for name in names)
    if not quiet:
        out.print(f"  {'case':{width}}  outputs  {'worst error':>11}  tolerance     time", style="dim")
    results = []
    for folder, name in zip(folders, names, strict=True):
        with settings(engine=engine, target=target or settings.target):
            results.append(run_case(folder, name, load, least_tolerance))
        if not quiet:
            _print_row(out, results[-1], width)
    failed = sum(not result.ok for result in results)
    if json_path:
        _write_json(json_path, as_data(results, engine))
    if not quiet:
        out.print(f"{len(results) - failed} passed, {failed} failed", style="bold red" if failed else "bold green")
    return 1 if failed else 0


def winograd_tolerance(model: Any, inputs: Sequence[Array]) -> float:
    """What floats need at least, for a model as it is compiled for given inputs."""
    from ..runtime.against_reference import uses_winograd
    from .compare import compile_for

    return 1e-4 if uses_winograd(compile_for(model, model.convert(inputs)).plan) else 0.0


def as_data(results: Sequence[CaseResult], engine: str) -> dict[str, Any]:
    """All results as plain data."""
    return {
        "engine": engine,
        "passed": sum(result.ok for result in results),
        "failed": sum(not result.ok for result in results),
        "cases": [
            {
                "name": result.name,
                "ok": result.ok,
                "problem": result.problem,
                "seconds": result.seconds,
                "outputs": [
                    {
                        "name": output.name,
                        "ok": output.comparison.ok,
                        "error": output.comparison.error,
                        "tolerance": output.comparison.tolerance,
                        "problem": output.comparison.problem,
                    }
                    for output in result.outputs
                ],
            }
            for result in results
        ],
    }


def _print_row(out: Console, result: CaseResult, width: int) -> None:
    from rich.text import Text

    from .console import printable, seconds_text

    marks = ("ok", "no") if out.options.ascii_only else ("✓", "✗")
    mark = (marks[0], "green") if result.ok else (marks[1], "bold red")
    worst = result.worst.comparison if result.worst else None
    error = "" if worst is None or worst.error is None else f"{worst.error:.1e}" if worst.error else "0"
    tolerance = "" if worst is None else f"{worst.tolerance:.0e}" if worst.tolerance else "exact"
    row = f" {printable(result.name):{width}}  {len(result.outputs) or '':>7}  {error:>11}  {tolerance:>9}"
    out.print(Text.assemble(mark, row, (f"  {seconds_text(result.seconds):>7}", "dim")))
    if result.problem:
        out.print(Text(f"    {printable(result.problem)}", style="red"), soft_wrap=True)


def _write_json(target: str, data: dict[str, Any]) -> None:
    from .console import json_text

    if target == "-":
        sys.stdout.write(json_text(data) + "\n")
    else:
        write_text(Path(target), json_text(data))
