"""`kuiper compare`: the compiled model against the reference, operand by operand, and against other engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .compiling import CompileOptions, compile_options, load_any, title
from .models import Number, json_option, mistake

if TYPE_CHECKING:
    from ..dtypes import Array
    from ..runtime import Model
    from ..runtime.against_reference import OperandResult
    from ..runtime.comparison import Comparison
    from ..runtime.compiled import CompiledModel


@click.command("compare")
@compile_options
@click.argument("inputs", nargs=-1, metavar="[INPUT]...")
@click.option("--onnx", type=click.Path(path_type=Path), help="The same model as ONNX, for onnxruntime to run.")
@click.option("--torchscript", type=click.Path(path_type=Path), help="The same model as TorchScript, for torch to run.")
@click.option("--tol", type=Number(min=0), help="Tolerance for floats, of the largest magnitude.")
@click.option("-v", "--verbose", is_flag=True, help="Show every operand.")
@json_option
def command(
    model_path: Path,
    options: CompileOptions,
    inputs: tuple[str, ...],
    onnx: Path | None,
    torchscript: Path | None,
    tol: float | None,
    verbose: bool,
    as_json: bool,
) -> int:
    """Compare the compiled model with the reference, and with onnxruntime and torch.

    Every operand that exists in both is compared, in the order of the run; passes fuse the others. INPUTs are as for kuiper
    run, random without any. The tolerance is 1e-4, or 1e-3 where Winograd's algorithm is used. Exit code 1 if anything differs.
    """
    from ..convert.other_engines import run_onnx, run_torchscript
    from ..runtime.against_reference import run_both
    from .console import print_json

    others: list[tuple[str, Path, Runner]] = []
    if onnx is not None:
        others.append(("onnxruntime", onnx, run_onnx))
    if torchscript is not None:
        others.append(("torch", torchscript, run_torchscript))
    with options.applied():
        model, random_weights = load_any(model_path)
        if random_weights and others:
            from ..errors import InputError

            raise InputError(
                f"{model_path}: the weights are not beside it; random ones cannot agree with {others[0][1]}"
            )
        if inputs and (options.shapes or options.batch):
            raise mistake("--shape", "it is for random inputs; those that are given have their own shapes")
        arrays = read_arrays(model, inputs) if inputs else options.random_arrays(model)
        compiled = compile_for(model, arrays)
        operands = run_both(compiled, arrays, tol)
        outputs = compiled.run(arrays) if others else []
    engines = {name: compare_outputs(outputs, run(path, arrays), compiled, tol) for name, path, run in others}
    if as_json:
        print_json(as_data(operands, engines) | {"model": str(model_path), "random_weights": random_weights})
    else:
        _print(operands, engines, title(model_path, compiled, random_weights), verbose)
    everything = [result.comparison for result in operands] + [one for found in engines.values() for one in found]
    return 0 if all(comparison.ok for comparison in everything) else 1


Runner = Callable[[Path, "Sequence[Array]"], "list[Array]"]


def read_arrays(model: Model, sources: Sequence[str]) -> list[Array]:
    """The arrays of INPUT arguments, in file order, as the model takes them."""
    from .run import read_inputs

    return model.convert((), read_inputs(model, sources))


def compile_for(model: Model, arrays: Sequence[Array]) -> CompiledModel:
    """The model compiled for the shapes of given arrays."""
    from ..dtypes import TensorSpec, dtype_of

    return model.compile(*(TensorSpec(array.shape, dtype_of(array)) for array in arrays))


def compare_outputs(
    outputs: Sequence[Array], others: Sequence[Array], compiled: CompiledModel, tolerance: float | None
) -> list[Comparison]:
    """The model's outputs against those of another engine, in order."""
    from ..errors import InputError
    from ..runtime.against_reference import tolerance_of
    from ..runtime.comparison import compare

    if len(outputs) != len(others):
        raise InputError(f"the model has {len(outputs)} outputs, the other engine gave {len(others)}")
    allowed = tolerance_of(compiled.plan) if tolerance is None else tolerance
    return [compare(found, expected, allowed) for found, expected in zip(outputs, others, strict=True)]


def as_data(operands: Sequence[OperandResult], engines: dict[str, list[Comparison]]) -> dict[str, Any]:
    """All results as plain data; `first_difference` is the index of an operand, or None."""

    def comparison(found: Comparison) -> dict[str, Any]:
        return {"ok": found.ok, "error": found.error, "tolerance": found.tolerance, "problem": found.problem}

    rows = [
        {"operand": result.operand, "operator": result.operator, "kernel": result.kernel}
        | comparison(result.comparison)
        for result in operands
    ]
    first = next((index for index, result in enumerate(operands) if not result.comparison.ok), None)
    compared = {name: [comparison(one) for one in found] for name, found in engines.items()}
    return {"operands": rows, "first_difference": first, "engines": compared}


def _print(
    operands: Sequence[OperandResult], engines: dict[str, list[Comparison]], heading: str, verbose: bool
) -> None:
    from rich.text import Text

    from .console import console, printable, table

    out = console()
    out.print(Text(heading, style="bold"))
    if verbose:
        rows = table("operand", "of", "kernel", "error", "", right=[3])
        for result in operands:
            kernel = Text(result.kernel, style="yellow" if result.kernel == "reference" else "")
            cells: list[Any] = [printable(result.operand), printable(result.operator), kernel]
            rows.add_row(*cells, *_verdict(result.comparison))
        out.print(rows)
        out.print()
    summary = table("", "", "", "", right=[2])
    compared = {"reference": ("operand", [result.comparison for result in operands])}
    compared |= {name: ("output", list(found)) for name, found in engines.items()}
    for name, (what, found) in compared.items():
        summary.add_row(name, f"{len(found)} {what}{'' if len(found) == 1 else 's'}", *_summary(found))
    out.print(summary)
    first = next((result for result in operands if not result.comparison.ok), None)
    if first is not None:
        out.print(Text(f"first difference: {printable(str(first))}", style="bold red"))


def _summary(found: Sequence[Comparison]) -> tuple[str, Any]:
    """The largest error, and whether all agree."""
    worst = max(found, key=_badness, default=None)
    if worst is None:
        return "", ""
    error, verdict = _verdict(worst)
    wrong = sum(not comparison.ok for comparison in found)
    return error, verdict if wrong <= 1 else f"{wrong} differ"


def _badness(comparison: Comparison) -> float:
    error = float("inf") if comparison.error is None else comparison.error
    return error if comparison.ok else 1e30 + error


def _verdict(comparison: Comparison) -> tuple[str, Any]:
    """The error, and whether it is small enough."""
    from rich.text import Text

    from .console import printable

    error = "" if comparison.error is None else f"{comparison.error:.1e}"
    if comparison.ok:
        return error, Text("agrees", style="green")
    return error, Text(printable(comparison.problem or "differs"), style="bold red")
