"""`kuiper run`: arrays in, arrays out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .models import Number, input_shapes, json_option, load_model, mistake, model_argument, shape_option

if TYPE_CHECKING:
    from ..dtypes import Array, DType
    from ..runtime import Model
    from ..runtime.comparison import Comparison


@click.command("run")
@model_argument
@click.argument("inputs", nargs=-1, metavar="[INPUT]...")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the outputs to this .npz file: out0, out1, …"
)
@click.option(
    "--assert", "expected", type=click.Path(path_type=Path), help="Compare with the outputs in this .npz file."
)
@click.option("--tol", type=Number(min=0), help="Tolerance of --assert for floats, of the largest magnitude.")
@shape_option
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of random inputs.")
@json_option
def command(
    model_path: Path,
    inputs: tuple[str, ...],
    output: Path | None,
    expected: Path | None,
    tol: float | None,
    shapes: tuple[str, ...],
    seed: int,
    as_json: bool,
) -> int:
    """Run a model on arrays.

    An INPUT is an .npz archive with in0, in1, … or the inputs' own names, an .npy file (in the order of the inputs), or
    NAME=file.npy. Without any, the inputs are random. bf16 arrays stand in files as uint16 bit patterns. Exit code 1 if the
    outputs differ from those of --assert.
    """
    if inputs and shapes:
        raise mistake("--shape", "it is for random inputs; those that are given have their own shapes")
    if tol is not None and expected is None:
        raise mistake("--tol", "there is nothing to compare with: it goes with --assert")
    model = load_model(model_path)
    arrays = read_inputs(model, inputs) if inputs else random_inputs(model, shapes, seed)
    start = time.perf_counter()
    results = model(*(arrays[info.name] for info in model.inputs))
    seconds = time.perf_counter() - start
    outputs = list(results) if isinstance(results, tuple) else [results]
    comparisons = compare_outputs(model, outputs, expected, tol) if expected else []
    if output:
        from .array_files import write_archive

        write_archive(output, {f"out{index}": array for index, array in enumerate(outputs)})
    _report(model, outputs, comparisons, seconds, seed if not inputs and model.inputs else None, as_json)
    return 0 if all(comparison.ok for comparison in comparisons) else 1


def read_inputs(model: Model, sources: Sequence[str]) -> dict[str, Array]:
    """Input name -> array, from INPUT arguments. Raises `InputError` where archives do not have exactly the model's inputs."""
    from ..errors import InputError, did_you_mean
    from .array_files import from_stored, read_archive, read_array

    names = [info.name for info in model.inputs]
    found: dict[str, Array] = {}

    def put(name: str, array: Array, source: str) -> None:
        if name not in names:
            raise InputError(
                f"{source}: there is no input '{name}', only {', '.join(names)}{did_you_mean(name, names)}"
            )
        if name in found:
            raise InputError(f"{source}: input '{name}' is given twice")
        found[name] = from_stored(array, model.inputs[names.index(name)].dtype)

    for source in sources:
        name, equals, file = source.rpartition("=")
        if equals and (name in names or not Path(source).exists()):
            if name not in names:
                raise mistake(
                    "INPUT",
                    f"{source}: there is no input '{name}', only {', '.join(names)}{did_you_mean(name, names)}",
                )
            put(name, read_array(Path(file)), source)
        elif source.endswith(".npz"):
            arrays = read_archive(Path(source))
            numbered = {f"in{index}": name for index, name in enumerate(names)}
            for key, array in arrays.items():
                put(key if key in names else numbered.get(key, key), array, source)
        else:
            free = [name for name in names if name not in found]
            if not free:
                count = "1 input" if len(names) == 1 else f"{len(names)} inputs"
                raise mistake("INPUT", f"{source}: the model has only {count}: {', '.join(names)}")
            put(free[0], read_array(Path(source)), source)
    if missing := [name for name in names if name not in found]:
        raise InputError(f"no array for input {', '.join(missing)}; the inputs are {', '.join(map(str, model.inputs))}")
    return found


def random_inputs(model: Model, shape_texts: Sequence[str], seed: int) -> dict[str, Array]:
    """Input name -> random array of the shape that --shape options or the model give."""
    return random_by_name(model, input_shapes(shape_texts, model.inputs), seed)


def random_by_name(model: Model, shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, Array]:
    """Input name -> random array; see `random_arrays`."""
    from ..dtypes import TensorSpec, f32
    from ..runtime.inputs import random_arrays

    specs = [TensorSpec(shapes[info.name], info.dtype or f32) for info in model.inputs]
    return dict(zip(shapes, random_arrays(specs, seed), strict=True))


def compare_outputs(model: Model, outputs: Sequence[Array], path: Path, tolerance: float | None) -> list[Comparison]:
    """The outputs held against those of an archive, which has out0, out1, … or the outputs' own names."""
    from ..dtypes import dtype_of
    from ..errors import InputError
    from ..runtime.comparison import compare
    from .array_files import from_stored, numbered, read_archive

    arrays = read_archive(path)
    names = [info.name for info in model.outputs]
    expected = [arrays[name] for name in names] if set(names) == set(arrays) else numbered(arrays, "out", path)
    if len(expected) != len(outputs):
        raise InputError(f"{path}: has {len(expected)} outputs, the model gave {len(outputs)}")
    return [
        compare(found, from_stored(array, dtype_of(found)), tolerance)
        for found, array in zip(outputs, expected, strict=True)
    ]


def summary(name: str, array: Array) -> dict[str, Any]:
    """Name, shape, dtype and a few numbers of an output; the numbers are None for complex and empty ones."""
    import numpy as np

    from ..dtypes import dtype_of, widen

    dtype: DType = dtype_of(array)
    numbers = widen(array)
    facts: dict[str, Any] = {
        "name": name,
        "shape": array.shape,
        "dtype": dtype.name,
        "min": None,
        "max": None,
        "mean": None,
    }
    if dtype.kind != "complex" and numbers.size:
        with np.errstate(all="ignore"):
            facts |= {
                "min": numbers.min().item(),
                "max": numbers.max().item(),
                "mean": float(numbers.mean(dtype=np.float64)),
            }
    return facts


def _report(
    model: Model,
    outputs: Sequence[Array],
    comparisons: Sequence[Comparison],
    seconds: float,
    seed: int | None,
    as_json: bool,
) -> None:
    from .console import print_json

    names = [info.name for info in model.outputs]
    if len(names) != len(outputs):
        names = [f"out{index}" for index in range(len(outputs))]
    facts = [summary(name, array) for name, array in zip(names, outputs, strict=True)]
    for fact, comparison in zip(facts, comparisons, strict=False):
        fact |= {"ok": comparison.ok, "error": comparison.error, "tolerance": comparison.tolerance}
        fact["problem"] = comparison.problem
    if as_json:
        print_json({"seconds": seconds, "random_seed": seed, "outputs": facts})
    else:
        _print(facts, seconds, seed)


def _print(facts: Sequence[Mapping[str, Any]], seconds: float, seed: int | None) -> None:
    from rich.text import Text

    from .console import ACCENT, console, dims_text, printable, seconds_text, table

    def number(value: Any) -> str:
        return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)

    compared = any("ok" in fact for fact in facts)
    out = console()
    rows = table(
        "output", "shape", "dtype", "min", "max", "mean", *(["error", ""] if compared else []), right=[3, 4, 5, 6]
    )
    for fact in facts:
        cells: list[Any] = [printable(fact["name"]), Text(dims_text(fact["shape"]), style=ACCENT), fact["dtype"]]
        cells += [number(fact[key]) for key in ("min", "max", "mean")]
        if compared:
            right = (
                Text("as expected", style="green") if fact["ok"] else Text(printable(fact["problem"]), style="bold red")
            )
            cells += ["" if fact["error"] is None else f"{fact['error']:.1e}", right]
        rows.add_row(*cells)
    out.print(rows)
    note = f"ran in {seconds_text(seconds)}" + (f", on random inputs (seed {seed})" if seed is not None else "")
    out.print(Text(note, style="dim"))
