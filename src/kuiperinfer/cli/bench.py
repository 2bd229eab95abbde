"""`kuiper bench`: how long a model takes, from its files to the thousandth run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .compiling import CompileOptions, compile_options, fallback_text, read_model, title
from .models import json_option

if TYPE_CHECKING:
    from ..dtypes import Array
    from ..runtime.compiled import CompiledModel

Result = TypeVar("Result")

_SECONDS, _LEAST_RUNS, _MOST_RUNS, _WARM_UP = 3.0, 20, 1000, 3


@click.command("bench")
@compile_options
@click.option(
    "--runs", type=click.IntRange(min=1), help="How many steady runs. [default: as many as fit in 3 s, 20 to 1000]"
)
@json_option
def command(model_path: Path, options: CompileOptions, runs: int | None, as_json: bool) -> None:
    """Time a model: reading, compiling with an empty and with a filled cache, and running.

    Works from the .pnnx.param alone: without weights beside it, they are random. Inputs are random.
    """
    from .console import print_json

    with options.applied():
        facts = measure(model_path, options, runs)
    if as_json:
        print_json(facts)
    else:
        _print(facts)


def measure(model_path: Path, options: CompileOptions, runs: int | None) -> dict[str, Any]:
    """All that the command shows; times in seconds."""
    from ..codegen.cache import load_kernels  # noqa: F401  (imports are not what is measured)
    from ..graph import RuntimeGraph
    from ..pnnx.random_weights import fill_random_weights
    from ..runtime import Model
    from ..settings import settings

    read_seconds, (graph, random_weights) = _timed(lambda: read_model(model_path))
    fill_random_weights(graph)
    build_seconds, model = _timed(lambda: Model(RuntimeGraph.from_pnnx(graph)))
    with tempfile.TemporaryDirectory(prefix="kuiper-bench-") as empty, settings(cache=True, cache_dir=empty):
        cold_seconds, _ = _timed(lambda: options.compile(model))
        fresh = Model(RuntimeGraph.from_pnnx(graph))  # a model keeps what it has compiled
        warm_seconds, compiled = _timed(lambda: options.compile(fresh))
    arrays = options.random_arrays(model)
    first_seconds, _ = _timed(lambda: compiled.run(arrays))
    times = steady_runs(compiled, arrays, runs)
    plan = compiled.plan
    return {
        "model": str(model_path),
        "title": title(model_path, compiled, random_weights),
        "input_shapes": {info.name: spec.shape for info, spec in zip(model.inputs, plan.input_specs, strict=True)},
        "threads": compiled.threads,
        "target": plan.target.name,
        "random_weights": random_weights,
        "steps": len(plan.steps),
        "kernels": len(set(plan.names) - {""}),
        "fallbacks": [operator.type for operator in compiled.fallbacks],
        "arena_bytes": plan.memory.nbytes,
        "seconds": {
            "read": read_seconds,
            "build": build_seconds,
            "compile_cold": cold_seconds,
            "compile_warm": warm_seconds,
            "first_run": first_seconds,
        },
        "runs": len(times),
        "run_seconds": statistics_of(times),
    }


def _timed(action: Callable[[], Result]) -> tuple[float, Result]:
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def steady_runs(compiled: CompiledModel, arrays: Sequence[Array], runs: int | None) -> list[float]:
    """Seconds of each of `runs` runs, after a few that do not count; without `runs`, of as many as fit in some seconds."""
    for _ in range(_WARM_UP):
        compiled.run(arrays)
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(times) < (runs or _LEAST_RUNS) or (
        runs is None and time.perf_counter() < end and len(times) < _MOST_RUNS
    ):
        start = time.perf_counter()
        compiled.run(arrays)
        times.append(time.perf_counter() - start)
    return times


def statistics_of(times: Sequence[float]) -> dict[str, float]:
    """Minimum, median, mean and the 90th and 99th percentile."""
    import numpy as np

    low, median, p90, p99 = np.percentile(np.asarray(times), [0, 50, 90, 99]).tolist()
    return {"min": low, "median": median, "mean": float(np.mean(times)), "p90": p90, "p99": p99}


def _print(facts: dict[str, Any]) -> None:
    from rich.text import Text

    from .console import bytes_text, console, table

    out = console()
    out.print(Text(facts["title"], style="bold"))
    out.print()
    rows = table("", "", "", right=[1])
    notes = {
        "compile_cold": f"{facts['kernels']} kernels, with an empty cache",
        "compile_warm": "with all kernels in the cache",
    }
    for name, seconds in facts["seconds"].items():
        note = Text(notes.get(name, ""), style="dim")
        rows.add_row(Text(name.replace("_", " "), style="dim"), milliseconds_text(seconds), note)
    rows.add_row("")
    for name, seconds in facts["run_seconds"].items():
        style = "bold" if name == "median" else ""
        note = Text(f"of {facts['runs']} runs" if name == "min" else "", style="dim")
        label = {"p90": "P90", "p99": "P99"}.get(name, name)
        rows.add_row(Text(label, style="dim"), Text(milliseconds_text(seconds), style=style), note)
    out.print(rows)
    out.print()
    steps = f"{facts['steps']} steps, {bytes_text(facts['arena_bytes'])} of activations; "
    fallbacks = fallback_text(facts["fallbacks"])
    out.print(Text.assemble((steps, "dim"), (fallbacks, "yellow" if facts["fallbacks"] else "dim")))


def milliseconds_text(seconds: float) -> str:
    """A time in milliseconds, with three digits that count at least: ``12.34 ms``, ``0.123 ms``."""
    milliseconds = seconds * 1e3
    digits = 1 if milliseconds >= 100 else 2 if milliseconds >= 10 else 3
    return f"{milliseconds:.{digits}f} ms"
