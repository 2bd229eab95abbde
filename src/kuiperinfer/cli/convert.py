"""`kuiper convert`: TorchScript and ONNX files to PNNX."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .models import Number, json_option

if TYPE_CHECKING:
    from ..convert import Conversion

_ENDINGS = (".pt", ".pth", ".ts", ".jit", ".torchscript", ".onnx")


def _checked_shapes(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """The texts as they are, if they are shapes."""
    from ..convert.input_shape import parse_input_shape
    from ..errors import InputError

    try:
        for text in texts:
            parse_input_shape(text)
    except InputError as error:
        raise click.BadParameter(str(error), context, option) from error
    return texts


@click.command("convert")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="DIMS[DTYPE]",
    callback=_checked_shapes,
    help="Shape of an input, such as 1x3x640x640 or 1x128i64; once an input. Traced and ONNX files know their own.",
)
@click.option(
    "--shape2",
    "shapes2",
    multiple=True,
    metavar="DIMS[DTYPE]",
    callback=_checked_shapes,
    help="Another: dimensions that differ stay free.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for the result.  [default: that of FILE]")
@click.option("--verify", is_flag=True, help="Compare with torch or onnxruntime on random inputs; runs FILE: trust it.")
@click.option(
    "--module-operator", "module_operators", multiple=True, metavar="CLASS", help="Keep modules of a class whole."
)
@click.option("--optlevel", type=click.IntRange(0, 2), default=2, show_default=True, help="How much pnnx simplifies.")
@click.option("--time-limit", type=Number(min=0, min_open=True), default=600.0, show_default=True, help="In seconds.")
@json_option
def command(
    source: Path,
    shapes: tuple[str, ...],
    shapes2: tuple[str, ...],
    output: Path | None,
    verify: bool,
    module_operators: tuple[str, ...],
    optlevel: int,
    time_limit: float,
    as_json: bool,
) -> int:
    """Convert a TorchScript or ONNX file to PNNX.

    Writes NAME.pnnx.param and NAME.pnnx.bin, and nothing else, and reads them at once. Exit code 2 if operators are not
    supported (the files are written, kuiper check lists them), 1 if the conversion fails, or --verify finds a difference or has
    no shapes to compare with.
    """
    from ..convert import convert_file
    from ..convert.conversion import FREE_DIMENSIONS
    from ..errors import UnsupportedOperatorError
    from .check import report_unsupported

    save = (source.parent if output is None else output) / name_of(source)
    start = time.perf_counter()
    try:
        conversion = convert_file(
            source,
            shapes,
            shapes2,
            save=save,
            verify=verify,
            module_operators=module_operators,
            optimization_level=optlevel,
            time_limit=time_limit,
        )
    except UnsupportedOperatorError as error:
        report_unsupported(save.with_name(save.name + ".pnnx.param"), error.operators, as_json)
        if FREE_DIMENSIONS in error.message:
            click.echo(f"{FREE_DIMENSIONS}, such as --shape 1x3x640x640", err=True)
        return 2
    _report(conversion, time.perf_counter() - start, as_json)
    if verify and not conversion.verified:
        return 1  # a warning says why nothing was compared
    return 0 if all(verified.ok for verified in conversion.verified) else 1


def name_of(source: Path) -> str:
    """The file's name without the endings of models; ``yolov8n.torchscript.pt`` has two."""
    name = source.name
    while name.lower().endswith(_ENDINGS) and Path(name).stem != name:
        name = Path(name).stem
    return name


def as_data(conversion: Conversion, seconds: float) -> dict[str, Any]:
    """All results as plain data."""
    from .info import operator_counts

    model = conversion.model
    return {
        "files": [str(path) for path in conversion.files or ()],
        "seconds": seconds,
        "inputs": [_info(info) for info in model.inputs],
        "outputs": [_info(info) for info in model.outputs],
        "operators": operator_counts(model.graph),
        "warnings": list(conversion.warnings),
        "verified": [
            {
                "engine": verified.engine,
                "inputs": [str(spec) for spec in verified.inputs],
                "ok": verified.ok,
                "outputs": [
                    {"ok": one.ok, "error": one.error, "tolerance": one.tolerance, "problem": one.problem}
                    for one in verified.outputs
                ],
            }
            for verified in conversion.verified
        ],
    }


def _info(info: Any) -> dict[str, Any]:
    return {"name": info.name, "shape": info.shape, "dtype": info.dtype.name if info.dtype else None}


def _report(conversion: Conversion, seconds: float, as_json: bool) -> None:
    from rich.text import Text

    from .console import ACCENT, bytes_text, console, dims_text, print_json, printable, seconds_text, table

    data = as_data(conversion, seconds)
    if as_json:
        print_json(data)
        return
    out = console()
    param, archive = conversion.files or (Path(), Path())
    facts = (
        f"{sum(data['operators'].values())} operators, {bytes_text(archive.stat().st_size)} of weights, "
        f"in {seconds_text(seconds)}"
    )
    out.print(Text.assemble((printable(str(param)), "bold"), (f"  {facts}", "dim")))
    ends = table("", "", "", "")
    for what in ("inputs", "outputs"):
        for info in data[what]:
            shape = Text(dims_text(info["shape"]), style=ACCENT)
            ends.add_row(Text(what[:-1], style="dim"), printable(info["name"]), shape, info["dtype"] or "?")
    out.print(ends)
    rows = table("", "", "", "")
    for verified in conversion.verified:
        errors = [one.error for one in verified.outputs if one.error is not None]
        worst = f"{max(errors):.1e}" if errors else ""
        problem = next(
            (f"output {index}: {one.problem}" for index, one in enumerate(verified.outputs) if not one.ok), ""
        )
        verdict = Text(printable(problem), style="bold red") if problem else Text("agrees", style="green")
        rows.add_row(Text(verified.engine, style="dim"), ", ".join(map(str, verified.inputs)), worst, verdict)
    if conversion.verified:
        out.print(rows)
    for warning in conversion.warnings:
        out.print(Text(f"warning: {printable(warning)}", style="yellow"), soft_wrap=True)
