"""`kuiper memory`: where the values of a run lie, and how long."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .compiling import CompileOptions, compile_options, load_any, title
from .models import json_option, mistake, write_text

if TYPE_CHECKING:
    from ..runtime.compiled import CompiledModel
    from ..runtime.plan_text import PlacedBuffer


@click.command("memory")
@compile_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Draw the plan into this .svg file.")
@json_option
def command(model_path: Path, options: CompileOptions, output: Path | None, as_json: bool) -> None:
    """Show the memory plan of a compiled model, or draw it.

    Every buffer lives from the step that first writes it to the one that last reads it; buffers whose lives do not overlap
    share addresses. The arena cannot be smaller than what is alive at once.
    """
    if output is not None and output.suffix.lower() != ".svg":
        raise mistake("--output", f"{output}: the plan is drawn as .svg")
    from ..runtime.plan_text import placed_buffers
    from .console import print_json
    from .memory_drawing import memory_svg

    with options.applied():
        model, random_weights = load_any(model_path)
        compiled = options.compile(model)
    buffers = placed_buffers(compiled.plan)
    if output is not None:
        write_text(output, memory_svg(compiled.plan, buffers))
    if as_json:
        print_json({"model": str(model_path)} | as_data(compiled, buffers))
    elif output is None:
        _print(compiled, buffers, title(model_path, compiled, random_weights))


def as_data(compiled: CompiledModel, buffers: Sequence[PlacedBuffer]) -> dict[str, Any]:
    """The plan as plain data; sizes and offsets in bytes, the numbers of the first and the last step of each buffer."""
    from ..runtime.plan_text import constant_bytes

    plan = compiled.plan
    return {
        "steps": len(plan.steps),
        "arena_bytes": plan.memory.nbytes,
        "lower_bound_bytes": plan.memory.lower_bound,
        "constant_bytes": constant_bytes(plan),
        "scratch_bytes": 4 * plan.scratch_floats * compiled.threads,
        "buffers": [
            {
                "contents": buffer.contents,
                "bytes": buffer.lifetime.nbytes,
                "offset": buffer.offset,
                "first_step": buffer.lifetime.first,
                "last_step": buffer.lifetime.last,
            }
            for buffer in buffers
        ],
    }


def _print(compiled: CompiledModel, buffers: Sequence[PlacedBuffer], heading: str) -> None:
    from rich.text import Text

    from .console import bytes_text, console, printable, table

    facts = as_data(compiled, buffers)
    out = console()
    out.print(Text(heading, style="bold"))
    out.print()
    sums = table("", "", "", right=[1])
    bound = facts["lower_bound_bytes"]
    over = f"{facts['arena_bytes'] / bound:.2f} times what is alive at once" if bound else ""
    sums.add_row(Text("arena", style="dim"), bytes_text(facts["arena_bytes"]), Text(over, style="dim"))
    sums.add_row(Text("alive at once", style="dim"), bytes_text(bound), "")
    sums.add_row(
        Text("constants", style="dim"), bytes_text(facts["constant_bytes"]), Text("packed weights", style="dim")
    )
    sums.add_row(Text("scratch", style="dim"), bytes_text(facts["scratch_bytes"]), Text("of all threads", style="dim"))
    out.print(sums)
    out.print()
    rows = table("buffer", "size", "offset", "steps", right=[1, 2, 3])
    for buffer in buffers:
        life = buffer.lifetime
        rows.add_row(printable(buffer.name), f"{life.nbytes:,}", f"{buffer.offset:,}", f"{life.first} – {life.last}")
    out.print(rows)
