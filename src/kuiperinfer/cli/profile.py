"""`kuiper profile`: where the time of a run goes, and how far each step is from what the machine can do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .compiling import CompileOptions, compile_options, fallback_text, load_any, title
from .models import json_option, write_text

if TYPE_CHECKING:
    from ..runtime.compiled import CompiledModel, Span
    from ..runtime.peak import Peak


@click.command("profile")
@compile_options
@click.option("--repeat", default=20, show_default=True, type=click.IntRange(min=1), help="How many runs.")
@click.option("--top", type=click.IntRange(min=1), help="Show only the slowest steps, the slowest first.")
@click.option(
    "--trace", type=click.Path(path_type=Path), help="Write the fastest run for Chrome's tracing or Perfetto."
)
@json_option
def command(
    model_path: Path, options: CompileOptions, repeat: int, top: int | None, trace: Path | None, as_json: bool
) -> None:
    """Show the time of each step, its share, and its rates against this machine's measured peak.

    A step's time is its least one over all runs. GFLOP/s count what the operator is defined to calculate, so that Winograd's
    algorithm may exceed the peak; GB/s count what must be read and written at least, and caches may exceed the memory's peak.
    """
    from ..runtime.peak import measure_peak
    from .console import print_json

    with options.applied():
        model, random_weights = load_any(model_path)
        compiled = options.compile(model)
        runs = compiled.time_steps(*options.random_arrays(model), repeat=repeat)
        peak = measure_peak(compiled.plan.target, compiled.threads)
    facts = as_data(compiled, runs, peak) | {"model": str(model_path), "random_weights": random_weights}
    if trace is not None:
        from ..runtime.trace import trace as trace_of

        fastest = min(runs, key=lambda spans: sum(span.seconds for span in spans))
        write_text(trace, json.dumps(trace_of(compiled, fastest)))
    if as_json:
        print_json(facts)
    else:
        _print(facts, title(model_path, compiled, random_weights), top)


def as_data(compiled: CompiledModel, runs: Sequence[Sequence[Span]], peak: Peak) -> dict[str, Any]:
    """Steps in order, their sums by kernel, and the peak, as plain data."""
    seconds = [min(span.seconds for span in spans) for spans in zip(*runs, strict=True)]
    total = sum(seconds)
    steps: list[dict[str, Any]] = []
    for index, (row, least) in enumerate(zip(compiled.describe_steps(seconds), seconds, strict=True)):
        step = {
            "step": index,
            "operator": row.title,
            "type": row.operator.type,
            "kernel": row.kernel or None,
            "seconds": least,
            "share": least / total if total else 0.0,
            "flops": row.flops,
            "bytes": row.traffic,
        }
        steps.append(step | _rates(row.flops, row.traffic, least, peak))
    return {
        "threads": compiled.threads,
        "target": compiled.plan.target.name,
        "seconds": total,
        "peak": {"flops_per_second": peak.flops, "bytes_per_second": peak.bandwidth},
        "steps": steps,
        "kernels": _by_kernel(steps, peak),
        "fallbacks": [operator.type for operator in compiled.fallbacks],
    }


def _rates(flops: int, traffic: int, seconds: float, peak: Peak) -> dict[str, float | None]:
    """Rates, and their parts of the peak; None where nothing is known of what is to be done."""
    flop_rate = flops / seconds if flops and seconds else None
    byte_rate = traffic / seconds if traffic and seconds else None
    return {
        "flops_per_second": flop_rate,
        "of_peak_flops": flop_rate / peak.flops if flop_rate else None,
        "bytes_per_second": byte_rate,
        "of_peak_bandwidth": byte_rate / peak.bandwidth if byte_rate else None,
    }


def _by_kernel(steps: Sequence[dict[str, Any]], peak: Peak) -> list[dict[str, Any]]:
    """Sums over the steps of each kind of kernel, the slowest kind first."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for step in steps:
        groups.setdefault(step["kernel"] or f"reference: {step['type']}", []).append(step)
    summed = []
    for kernel, members in groups.items():
        seconds, flops, traffic = (sum(step[key] for step in members) for key in ("seconds", "flops", "bytes"))
        share = sum(step["share"] for step in members)
        group = {"kernel": kernel, "steps": len(members), "seconds": seconds, "share": share, "flops": flops}
        summed.append(group | {"bytes": traffic} | _rates(flops, traffic, seconds, peak))
    return sorted(summed, key=lambda group: -group["seconds"])


def _print(facts: dict[str, Any], heading: str, top: int | None) -> None:
    from rich.text import Text

    from .bench import milliseconds_text
    from .console import ACCENT, bar, console, printable, table

    out = console()
    out.print(Text(heading, style="bold"))
    peak = facts["peak"]
    out.print(
        Text(
            f"peak of this machine: {peak['flops_per_second'] / 1e9:.1f} GFLOP/s, "
            f"{peak['bytes_per_second'] / 1e9:.1f} GB/s of memory",
            style="dim",
        )
    )
    out.print()

    def rates(row: dict[str, Any]) -> list[str]:
        cells = []
        for rate, share in (("flops_per_second", "of_peak_flops"), ("bytes_per_second", "of_peak_bandwidth")):
            cells += ["", ""] if row[rate] is None else [f"{row[rate] / 1e9:.1f}", f"{row[share]:.0%}"]
        return cells

    steps = facts["steps"]
    if top is not None:
        steps = sorted(steps, key=lambda step: -step["seconds"])[:top]
    rows = table(
        *("step", "operator", "type", "kernel", "time", "share", "GFLOP/s", "of peak", "GB/s", "of peak"),
        right=[0, 4, 5, 6, 7, 8, 9],
    )
    for step in steps:
        kernel = Text(step["kernel"]) if step["kernel"] else Text("reference", style="yellow")
        cells: list[Any] = [str(step["step"]), printable(step["operator"]), printable(step["type"]), kernel]
        rows.add_row(*cells, milliseconds_text(step["seconds"]), f"{step['share']:.1%}", *rates(step))
    out.print(rows)
    out.print()
    groups = table(
        "kernel", "steps", "time", "share", "", "GFLOP/s", "of peak", "GB/s", "of peak", right=[1, 2, 3, 5, 6, 7, 8]
    )
    for group in facts["kernels"]:
        shown = Text(bar(group["share"], 16, ascii_only=out.options.ascii_only), style=ACCENT)
        cells = [printable(group["kernel"]), str(group["steps"]), milliseconds_text(group["seconds"])]
        groups.add_row(*cells, f"{group['share']:.1%}", shown, *rates(group))
    out.print(groups)
    out.print()
    together = f"{milliseconds_text(facts['seconds'])} for all steps one by one; "
    fallbacks = fallback_text(facts["fallbacks"])
    out.print(Text.assemble((together, "dim"), (fallbacks, "yellow" if facts["fallbacks"] else "dim")))
