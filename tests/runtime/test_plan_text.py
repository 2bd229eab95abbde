"""The printed plan, the trace of a run, and the measured peak."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import kuiperinfer
from kuiperinfer.codegen.kernels.peak import CopyPeakSpec, MultiplyAddPeakSpec
from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.target import target_named
from kuiperinfer.runtime.compiled import CompiledModel
from kuiperinfer.runtime.peak import measure_peak
from kuiperinfer.runtime.plan_text import constant_bytes, placed_buffers
from kuiperinfer.runtime.trace import trace
from tests.codegen.native import TARGETS
from tests.runtime.test_against_reference import compiled, inputs_of, residual


def small() -> CompiledModel:
    return compiled(
        ("pnnx.Input", "in", "", "x", {}, {}, (2, 20)),
        ("F.silu", "silu", "x", "y"),
        ("torch.cumsum", "sum", "y", "z", {"dim": 1}),
        ("F.relu", "relu", "z", "u"),
        ("pnnx.Output", "out", "u", ""),
    )


def test_the_printed_plan() -> None:
    model = small()
    assert str(model.plan).splitlines() == [
        f"plan for ((2,20)f32) on {model.plan.target.name}: 3 steps, 2 kernels, "
        "arena 384 bytes (at least 384 are alive at once)",
        "   0 Map       F.silu silu tasks=1 (input0) -> arena+0",
        "   1 reference torch.cumsum sum arena+0 arena+192",
        "   2 Map       F.relu relu tasks=1 (arena+192) -> output0",
    ]


def test_buffers_are_named_after_what_lies_in_them() -> None:
    buffers = placed_buffers(small().plan)
    assert [buffer.name for buffer in buffers] == ["operand y", "operand z"]
    assert [(buffer.lifetime.first, buffer.lifetime.last) for buffer in buffers] == [(0, 1), (1, 2)]
    assert [buffer.offset for buffer in buffers] == [0, 192]


def test_buffers_that_live_at_the_same_time_do_not_overlap() -> None:
    plan = residual().plan
    buffers = placed_buffers(plan)
    assert buffers
    assert constant_bytes(plan) > 0
    for index, one in enumerate(buffers):
        assert one.offset + one.lifetime.nbytes <= plan.memory.nbytes
        for other in buffers[:index]:
            apart_in_time = one.lifetime.last < other.lifetime.first or other.lifetime.last < one.lifetime.first
            below = one.offset + one.lifetime.nbytes <= other.offset
            above = other.offset + other.lifetime.nbytes <= one.offset
            assert apart_in_time or below or above


def test_a_trace_has_a_bar_for_every_step() -> None:
    model = residual()
    (spans,) = model.time_steps(*inputs_of(model), repeat=1)
    data: dict[str, Any] = json.loads(json.dumps(trace(model, spans)))
    bars = [event for event in data["traceEvents"] if event["ph"] == "X"]
    assert [bar["name"] for bar in bars] == [step.operator.name for step in model.plan.steps]
    assert [bar["args"]["step"] for bar in bars] == list(range(len(bars)))
    ends = [bar["ts"] + bar["dur"] for bar in bars]
    assert all(bar["ts"] >= 0 and bar["dur"] >= 0 for bar in bars)
    assert all(begin["ts"] >= end - 0.01 for begin, end in zip(bars[1:], ends, strict=False))
    alive = [event["args"]["bytes alive"] for event in data["traceEvents"] if event["ph"] == "C"]
    assert max(alive) == model.plan.memory.lower_bound
    assert all({"pid", "tid", "name"} <= event.keys() for event in data["traceEvents"])


def test_profiles_keep_the_least_time_of_each_step() -> None:
    model = small()
    rows = model.profile(repeat=3)
    assert [row.kernel for row in rows] == ["Map", "", "Map"]
    assert all(row.seconds > 0 for row in rows)
    with pytest.raises(kuiperinfer.InputError, match="repeat: expected at least 1, found 0"):
        model.profile(repeat=0)


@pytest.mark.parametrize("name", ["host", *TARGETS])
def test_peaks_are_measured_for_each_target(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kuiperinfer.runtime.peak._COPIED_FLOATS", 1 << 20)
    with kuiperinfer.settings(cache=False):
        peak = measure_peak(target_named(name), 1)
    assert peak.flops > 1e8
    assert peak.bandwidth > 1e7


def test_the_peak_kernels_on_arm() -> None:
    arm = target_named("aarch64")
    arithmetic = MultiplyAddPeakSpec(1, 100, arm.registers - 4, arm.lanes)
    assert arithmetic.flops == 2 * 100 * 4 * 28 * 4
    text = assembly_of(arithmetic.module("peak", arm), arm)
    assert len(re.findall(r"\bfmla\b|\bfmad\b", text)) >= 4 * 28
    assert re.search(r"\bld[pr]\tq", assembly_of(CopyPeakSpec(1024, 256).module("copy", arm), arm))


def test_the_copy_of_the_bandwidth_copies() -> None:
    from kuiperinfer.runtime.peak import _fastest

    source, target = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    with kuiperinfer.settings(cache=False):
        assert _fastest(CopyPeakSpec(1024, 256), target_named("host"), 1, [source, target], 1) > 0
    np.testing.assert_array_equal(source, target)


@pytest.mark.parametrize("level", range(7))
def test_the_debug_ladder(level: int, capsys: pytest.CaptureFixture[str]) -> None:
    with kuiperinfer.settings(debug=level):
        model = small()
        model.run(inputs_of(model))
    printed = capsys.readouterr().err
    shown = {
        1: "graph: 5 operators",
        2: r"Map +silu +[\d.]+ ms",
        3: "drop_dead: 5 -> 5 operators",
        4: "plan for ",
        5: "define void @",
        6: r"\.globl|\.text",
    }
    for rung, pattern in shown.items():
        assert bool(re.search(pattern, printed)) == (level >= rung), rung
