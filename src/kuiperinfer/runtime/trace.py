"""A run as a trace for Chrome's `about:tracing` and for Perfetto: a bar a step, and the memory that is alive.

Definition of the format: Trace Event Format, "complete" (X) and "counter" (C) events; times in microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..codegen.lowering import KernelStep
from .compiled import CompiledModel, Span
from .plan_text import kernel_of, title_of


def trace(compiled: CompiledModel, spans: Sequence[Span]) -> dict[str, Any]:
    """One run of a compiled model, as data for a JSON file; `spans` are those of one run of `time_steps`."""
    process: dict[str, Any] = {"pid": 1, "tid": 1}
    shapes = ", ".join(map(str, compiled.plan.input_specs))
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "args": {"name": f"kuiperinfer ({shapes})"}} | process,
        {"ph": "M", "name": "thread_name", "args": {"name": f"steps, threads={compiled.threads}"}} | process,
    ]
    alive = _alive_bytes(compiled)
    for index, (step, span) in enumerate(zip(compiled.plan.steps, spans, strict=True)):
        start, duration = round(span.start * 1e6, 3), round(span.seconds * 1e6, 3)
        details: dict[str, Any] = {"step": index, "type": step.operator.type, "kernel": kernel_of(step) or "reference"}
        if isinstance(step, KernelStep):
            details |= {"tasks": step.spec.tasks, "flops": step.spec.flops, "bytes": step.spec.traffic}
            if step.spec.flops and duration:
                details["GFLOP/s"] = round(step.spec.flops / duration / 1e3, 1)
        kind = details["kernel"]
        event = {"ph": "X", "name": title_of(step), "cat": kind, "ts": start, "dur": duration, "args": details}
        events.append(event | process)
        events.append({"ph": "C", "name": "arena", "ts": start, "args": {"bytes alive": alive[index]}} | process)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _alive_bytes(compiled: CompiledModel) -> list[int]:
    """Bytes of the arena that are alive during each step."""
    alive = [0] * len(compiled.plan.steps)
    for lifetime in compiled.plan.lifetimes.values():
        for index in range(lifetime.first, lifetime.last + 1):
            alive[index] += lifetime.padded
    return alive
