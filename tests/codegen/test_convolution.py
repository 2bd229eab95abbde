"""Compiled convolutions against the reference: direct, Winograd, depthwise, grouped, first layers, fused, on all targets."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from kuiperinfer.codegen.kernels.direct_convolution import (
    CACHE_LINE,
    Ahead,
    DirectConvolutionSpec,
    choose_tile,
    shares_of,
)
from kuiperinfer.codegen.kernels.winograd import WinogradSpec, plan_winograd, reach
from kuiperinfer.codegen.lowering import KernelStep
from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.target import target_named
from tests.codegen.native import TARGETS
from tests.codegen.running import check_graph, check_operator, compile_graph, graph_of, kernels

GENERATOR = np.random.default_rng(0)
WINOGRAD_TOLERANCE = 1e-4


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def convolution(
    channels: int,
    outputs: int,
    kernel: tuple[int, int] | int,
    *,
    groups: int = 1,
    bias: bool = True,
    **params: Any,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and weights of a convolution."""
    size = (kernel, kernel) if isinstance(kernel, int) else kernel
    weights = {"weight": normal(outputs, channels // groups, *size)}
    if bias:
        weights["bias"] = normal(outputs)
    given = {
        "in_channels": channels, "out_channels": outputs, "kernel_size": size, "groups": groups, "bias": bias,
        "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "padding_mode": "zeros",
    }  # fmt: skip
    return given | params, weights


@pytest.mark.parametrize("channels", [5, 8, 15, 16, 17, 33])
@pytest.mark.parametrize("outputs", [1, 7, 16, 17, 40])
def test_channels_around_the_vector_width(channels: int, outputs: int) -> None:
    params, weights = convolution(channels, outputs, 3, stride=(2, 2), padding=(1, 1))
    check_operator("nn.Conv2d", [normal(1, channels, 9, 11)], params, weights)


@pytest.mark.parametrize(
    ("size", "kernel", "params"),
    [
        ((7, 9), (1, 1), {}),
        ((7, 9), (1, 1), {"padding": (1, 2)}),
        ((7, 9), (1, 1), {"stride": (2, 3)}),
        ((5, 6), (3, 1), {"padding": (1, 0)}),
        ((8, 30), (3, 5), {"padding": (2, 1), "stride": (1, 2)}),
        ((13, 13), (3, 3), {"dilation": (2, 3), "padding": (2, 3)}),
        ((10, 9), (5, 2), {"padding": "valid"}),
        ((10, 9), (2, 4), {"padding": "same"}),
        ((9, 10), (4, 4), {"padding": "same", "dilation": (2, 1)}),
        ((7, 7), (7, 7), {}),
        ((6, 1), (3, 1), {}),
        ((1, 40), (1, 3), {"padding": (0, 1)}),
        ((3, 3), (3, 3), {"padding": (1, 1), "stride": (3, 3)}),
    ],
)
def test_kernels_strides_and_paddings(size: tuple[int, int], kernel: tuple[int, int], params: dict[str, Any]) -> None:
    given, weights = convolution(20, 24, kernel, **params)
    check_operator("nn.Conv2d", [normal(2, 20, *size)], given, weights)


@pytest.mark.skipif("x86-64-v3" not in TARGETS, reason="this machine has no AVX2")
@pytest.mark.parametrize("channels", [60, 75, 100])
def test_sums_in_slices(channels: int) -> None:
    """Where few registers make small tiles, sums go over some input channels at a time; the activation comes at the end."""
    params, weights = convolution(channels, 29, 3, padding=(1, 1), stride=(2, 2))
    x = normal(2, channels, 23, 40)
    lines: list[Any] = [
        ("nn.Conv2d", "conv", "x0", "a", params, weights),
        ("nn.SiLU", "act", "a", "y", {}, {}),
    ]
    plan = check_graph([x], lines, ["y"], targets=["x86-64-v3"])
    specs = [step.spec for step in plan.steps if isinstance(step, KernelStep)]
    (spec,) = [spec for spec in specs if isinstance(spec, DirectConvolutionSpec)]
    assert 0 < spec.slice < spec.input_blocks


@pytest.mark.parametrize("width", [1, 3, 4, 5, 23])
@pytest.mark.parametrize("kernel", [1, 3])
def test_long_expressions_of_several_pixels(width: int, kernel: int) -> None:
    """Pixels go through such an expression a few at a time, each with operands of its own; unused lanes stay 0."""
    params, weights = convolution(20, 40, kernel, padding=(kernel // 2, kernel // 2))
    x, other = normal(1, 20, 12, width), normal(1, 40, 12, width)
    lines: list[Any] = [
        ("nn.Conv2d", "conv", "x0", "a", params, weights),
        ("pnnx.Expression", "sum", "a x1", "y", {"expr": "add(mul(exp(tanh(@0)),@1),tanh(@1))"}, {}),
    ]
    plan = check_graph([x, other], lines, ["y"], tolerance=WINOGRAD_TOLERANCE)
    assert "MapSpec" not in kernels(plan)


@pytest.mark.parametrize("width", [1, 2, 7, 13, 14, 15, 27, 29, 56])
def test_widths_around_the_tile(width: int) -> None:
    params, weights = convolution(17, 35, (1, 3), padding=(0, 1))
    check_operator("nn.Conv2d", [normal(1, 17, 3, width)], params, weights)


@pytest.mark.parametrize("height", [1, 2, 3, 6, 7])
def test_tiles_of_two_rows_in_narrow_pictures(height: int) -> None:
    params, weights = convolution(16, 64, 3, padding=(1, 1), stride=(1, 2))
    for width in (5, 14):
        check_operator("nn.Conv2d", [normal(2, 16, height, width)], params, weights)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("padding", [(0, 0), (1, 1), (3, 2)])
def test_first_layers_read_planar_pictures(channels: int, padding: tuple[int, int]) -> None:
    params, weights = convolution(channels, 20, (7, 5), stride=(2, 2), padding=padding, bias=False)
    check_operator("nn.Conv2d", [normal(2, channels, 21, 18)], params, weights)


@pytest.mark.parametrize(
    ("channels", "outputs", "groups"),
    [(32, 64, 2), (64, 32, 2), (96, 48, 3), (32, 32, 4), (32, 32, 8), (64, 64, 32)],
)
def test_groups(channels: int, outputs: int, groups: int) -> None:
    params, weights = convolution(channels, outputs, 3, groups=groups, padding=(1, 1))
    check_operator("nn.Conv2d", [normal(2, channels, 7, 9)], params, weights, compiled=False)


@pytest.mark.parametrize("channels", [1, 3, 8, 16, 17, 50])
@pytest.mark.parametrize(
    ("kernel", "params"),
    [
        (3, {"padding": (1, 1)}),
        (3, {"padding": (1, 1), "stride": (2, 2)}),
        (5, {"padding": (2, 2), "stride": (1, 2)}),
        (7, {"padding": (3, 3)}),
        (3, {"padding": (2, 2), "dilation": (2, 2)}),
    ],
)
def test_depthwise(channels: int, kernel: int, params: dict[str, Any]) -> None:
    given, weights = convolution(channels, channels, kernel, groups=channels, **params)
    check_operator("nn.Conv2d", [normal(2, channels, 13, 17)], given, weights)


def test_depthwise_pictures_are_taken_so() -> None:
    params, weights = convolution(32, 32, 3, groups=32, padding=(1, 1))
    x = normal(1, 32, 14, 14)
    plan = compile_graph(graph_of([x], [("nn.Conv2d", "c", "x0", "y", params, weights)], ["y"]), [x])
    assert "DepthwiseSpec" in kernels(plan)


@pytest.mark.parametrize("size", [(9, 9), (12, 16), (13, 14), (14, 15), (11, 30)])
@pytest.mark.parametrize("padding", [(0, 0), (1, 1), (1, 2)])
@pytest.mark.parametrize("channels", [(16, 16), (20, 33)])
def test_winograd(size: tuple[int, int], padding: tuple[int, int], channels: tuple[int, int]) -> None:
    params, weights = convolution(*channels, 3, padding=padding)
    x = normal(3, channels[0], *size)
    plan = check_operator("nn.Conv2d", [x], params, weights, tolerance=WINOGRAD_TOLERANCE)
    assert "WinogradSpec" in kernels(plan)


@pytest.mark.parametrize("size", [(40, 39), (43, 56), (41, 57)])
@pytest.mark.parametrize("padding", [(0, 0), (1, 1), (1, 2)])
@pytest.mark.parametrize("channels", [(32, 32), (40, 33)])
def test_winograd_of_stride_2(size: tuple[int, int], padding: tuple[int, int], channels: tuple[int, int]) -> None:
    params, weights = convolution(*channels, 3, stride=(2, 2), padding=padding)
    x = normal(2, channels[0], *size)
    plan = check_operator("nn.Conv2d", [x], params, weights, tolerance=WINOGRAD_TOLERANCE)
    assert "WinogradSpec" in kernels(plan)


@pytest.mark.parametrize(
    ("channels", "size", "stride", "in_stages", "on_the_way"),
    [
        ((256, 224), (13, 14), 1, True, True),  # small picture, many channels
        ((250, 270), (14, 14), 1, True, True),
        ((128, 100), (28, 27), 1, False, False),  # tiles for two tasks
        ((128, 130), (20, 19), 1, True, False),
        ((128, 250), (64, 64), 2, False, False),
        ((256, 256), (40, 37), 2, True, True),
        ((48, 160), (48, 48), 2, False, False),
        ((96, 160), (40, 40), 2, True, False),
    ],
)
def test_ways_of_winograd(
    channels: tuple[int, int],
    size: tuple[int, int],
    stride: int,
    in_stages: bool,
    on_the_way: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def plan_with_cache(*arguments: Any) -> WinogradSpec:
        *others, target = arguments
        return plan_winograd(*others, replace(target, l2=2 << 20))

    monkeypatch.setattr("kuiperinfer.codegen.convolution.plan_winograd", plan_with_cache)
    params, weights = convolution(*channels, 3, stride=(stride, stride), padding=(1, 1))
    x = normal(1, channels[0], *size)
    for threads in (1, 2):
        plan = check_operator(
            "nn.Conv2d", [x], params, weights, targets=["host"], tolerance=WINOGRAD_TOLERANCE, threads=threads
        )
    specs = [step.spec for step in plan.steps if isinstance(getattr(step, "spec", None), WinogradSpec)]
    assert [spec.stage for spec in specs] == (["input", "rest"] if in_stages else ["all"])
    assert bool(specs[-1].weight_channels) == on_the_way


def test_precision_exact_has_no_winograd() -> None:
    from kuiperinfer.dtypes import TensorSpec
    from kuiperinfer.runtime.plan import make_plan

    params, weights = convolution(32, 32, 3, padding=(1, 1))
    x = normal(1, 32, 20, 20)
    graph = graph_of([x], [("nn.Conv2d", "c", "x0", "y", params, weights)], ["y"])
    plan = make_plan(graph, {"in0": TensorSpec.of(x)}, target_named("host"), exact=True)
    assert "WinogradSpec" not in kernels(plan) and "DirectConvolutionSpec" in kernels(plan)


@pytest.mark.parametrize("size", range(1, 30))
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_the_halo_holds_the_last_tile(size: int, padding: int) -> None:
    outputs = size + 2 * padding - 2
    if outputs > 0:
        needed = -(-outputs // 4) * 4 + 2
        assert padding + size + reach(size, padding) >= needed
        assert reach(size, padding) == max(0, needed - size - padding)


def activation(kind: str, source: str, target: str, **params: Any) -> tuple[Any, ...]:
    return (kind, f"act_{target}", source, target, params)


@pytest.mark.parametrize(
    ("kernel", "stride", "size"), [(1, 1, (7, 7)), (1, 1, (8, 30)), (3, 2, (15, 15)), (3, 1, (14, 14)), (3, 1, (5, 6))]
)
def test_activations_and_residuals_are_fused(kernel: int, stride: int, size: tuple[int, int]) -> None:
    padding = (kernel // 2, kernel // 2)
    first, second = (convolution(24, 24, kernel, padding=padding, stride=(stride, stride)) for _ in range(2))
    lines = [
        ("nn.Conv2d", "left", "x0", "a", *first),
        ("nn.Conv2d", "right", "x0", "b", *second),
        activation("nn.SiLU", "b", "c"),
        ("pnnx.Expression", "add", "a c", "d", {"expr": "add(@0,@1)"}),
        activation("nn.ReLU", "d", "e"),
    ]
    x = normal(2, 24, *size)
    plan = check_graph([x], lines, ["e"], tolerance=WINOGRAD_TOLERANCE)
    assert not {"MapSpec", "ImageMapSpec"} & set(kernels(plan))


@pytest.mark.parametrize(("kernel", "groups"), [(1, 1), (3, 1), (3, 20)])
def test_lanes_beyond_the_last_channel_stay_zero(kernel: int, groups: int) -> None:
    """The reciprocal makes infinities of zeros, which would be NaN in the next convolution."""
    first = convolution(20, 20, kernel, groups=groups, padding=(kernel // 2, kernel // 2))
    first[1]["bias"] += 100  # no result is near 0
    second = convolution(20, 5, 1)
    lines = [
        ("nn.Conv2d", "first", "x0", "a", *first),
        ("pnnx.Expression", "inverse", "a", "b", {"expr": "reciprocal(@0)"}),
        ("nn.Conv2d", "second", "b", "c", *second),
    ]
    check_graph([normal(1, 20, 14, 14)], lines, ["c"], tolerance=WINOGRAD_TOLERANCE)


def test_a_result_with_other_uses_keeps_its_own_memory() -> None:
    params, weights = convolution(16, 16, 1)
    lines = [
        ("nn.Conv2d", "conv", "x0", "a", params, weights),
        activation("nn.ReLU", "a", "b"),
        ("pnnx.Expression", "sub", "a b", "c", {"expr": "sub(@0,@1)"}),
    ]
    check_graph([normal(1, 16, 5, 7)], lines, ["a", "b", "c"])


def test_nan_and_infinities_reach_their_pixels_alone() -> None:
    params, weights = convolution(16, 20, 3, padding=(1, 1), stride=(2, 2))
    x = normal(1, 16, 12, 12)
    x[0, 3, 5, 5], x[0, 4, 0, 0], x[0, 2, 11, 11] = np.nan, np.inf, -np.inf
    lines = [("nn.Conv2d", "conv", "x0", "a", params, weights), activation("nn.ReLU6", "a", "b")]
    check_graph([x], lines, ["b"])


def test_half_precision_weights_calculate_in_float32() -> None:
    params, weights = convolution(16, 16, 3, padding=(1, 1), stride=(2, 2))
    halves = {name: weight.astype(np.float16) for name, weight in weights.items()}
    check_operator("nn.Conv2d", [normal(1, 16, 8, 8)], params, halves)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_other_padding_modes_are_right_too(mode: str) -> None:
    params, weights = convolution(16, 16, 3, padding=(1, 2), padding_mode=mode)
    check_operator("nn.Conv2d", [normal(1, 16, 8, 8)], params, weights, compiled=False)


def test_an_empty_batch() -> None:
    params, weights = convolution(16, 16, 3, padding=(1, 1))
    check_operator("nn.Conv2d", [normal(0, 16, 8, 8)], params, weights, compiled=False)


@pytest.mark.parametrize("target", TARGETS)
def test_tiles_fit_the_registers(target: str) -> None:
    machine = target_named(target)
    for width in (1, 7, 14, 20, 56, 100):
        for blocks in (1, 2, 3, 8):
            tile, tile_blocks = choose_tile(width, blocks, machine)
            assert 1 <= tile <= width and 1 <= tile_blocks <= blocks
            assert tile * tile_blocks + tile_blocks < machine.registers


def test_aarch64_code_has_vector_multiply_adds() -> None:
    params, weights = convolution(16, 16, 3, padding=(1, 1))
    x = normal(1, 16, 20, 20)
    target = target_named("aarch64")
    from kuiperinfer.codegen.joining import plan_slices
    from kuiperinfer.codegen.lowering import Lowering
    from kuiperinfer.dtypes import TensorSpec
    from kuiperinfer.passes import optimise

    graph = graph_of([x], [("nn.Conv2d", "c", "x0", "y", params, weights)], ["y"])
    for exact, kind in ((True, "DirectConvolutionSpec"), (False, "WinogradSpec")):
        operators, specs = optimise(graph, {"in0": TensorSpec.of(x)})
        lowering = Lowering(operators, specs, target, exact=exact, slice_planner=plan_slices)
        lowering.run()
        texts = [
            assembly_of(step.spec.module("kernel", target), target)
            for step in lowering.steps
            if isinstance(step, KernelStep) and type(step.spec).__name__ == kind
        ]
        assert texts and all("fmla" in text and ".4s" in text for text in texts)


class _Asked:
    """What `Ahead` needs of `Code`, with numbers for addresses: it notes the floats whose lines are asked for."""

    def __init__(self) -> None:
        self.floats: set[int] = set()
        self.at: Callable[[int, int], int] = operator.add
        self.mul: Callable[[int, int], int] = operator.mul
        self.div: Callable[[int, int], int] = operator.floordiv

    def prefetch(self, place: int, *, soon: bool) -> None:
        assert not soon
        line = CACHE_LINE // 4
        self.floats.update(range(place // line * line, place // line * line + line))


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("tiles", [2, 3, 5, 8, 16, 21])
def test_tiles_ask_for_all_weights_that_follow(tiles: int, lanes: int) -> None:
    blocks, channel_blocks, positions, turn = 2, 3, 9, 4
    step = lanes * lanes
    apart = channel_blocks * positions * step  # the weights of an output block
    asked: Any = _Asked()
    for tile in range(tiles):
        shares = shares_of(tiles)
        ahead = Ahead(cast(Any, tile % shares * (apart // shares)), apart, shares)
        for index in range(channel_blocks * positions):
            for first in range(0, lanes, turn):
                ahead.further(asked, index, step).further(asked, first, lanes).ask(asked, blocks, turn * lanes)
    assert asked.floats >= set(range(blocks * apart))
    assert len(asked.floats) < 1.1 * blocks * apart
