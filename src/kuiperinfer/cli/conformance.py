"""`kuiper conformance`: models with known answers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from ..conformance import CaseResult

ENGINES = ("reference", "compiled")


@click.command("conformance")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--engine", default=ENGINES[0], show_default=True, type=click.Choice(ENGINES), help="What runs the models."
)
@click.option(
    "--json", "json_path", metavar="FILE", help="Also write the results to this file; - prints nothing but them."
)
@click.option("--only", multiple=True, metavar="GLOB", help="Only cases with such a name, for instance 'nn_*'.")
def command(directory: Path, engine: str, json_path: str | None, only: tuple[str, ...]) -> int:
    """Run every case folder under DIR and compare with its expected outputs.

    A case has model.pnnx.param, model.pnnx.bin, inputs.npz (in0, in1, …) and outputs.npz (out0, …). Exit code 0 only if all
    cases pass.
    """
    from ..conformance import case_name, find_cases, run_case
    from ..runtime import load
    from ..settings import settings
    from .console import console

    folders = find_cases(directory, only)
    names = [case_name(folder, directory) for folder in folders]
    quiet = json_path == "-"
    out = console()
    width = max(len(name) for name in names)
    if not quiet:
        out.print(f"  {'case':{width}}  outputs  {'worst error':>11}  tolerance     time", style="dim")
    results = []
    for folder, name in zip(folders, names, strict=True):
        with settings(engine=engine):
            results.append(run_case(folder, name, load))
        if not quiet:
            _print_row(out, results[-1], width)
    failed = sum(not result.ok for result in results)
    if json_path:
        _write_json(json_path, as_data(results, engine))
    if not quiet:
        out.print(f"{len(results) - failed} passed, {failed} failed", style="bold red" if failed else "bold green")
    return 1 if failed else 0


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
    from ..errors import InputError
    from .console import json_text

    if target == "-":
        sys.stdout.write(json_text(data) + "\n")
        return
    try:
        Path(target).write_text(json_text(data) + "\n", "utf-8")
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror or error})") from error
