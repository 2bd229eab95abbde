"""A convolution and the depthwise convolution or pooling behind it, as one step: against the reference, and bit for bit
against the two steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kuiperinfer.codegen import depth_first
from kuiperinfer.dtypes import Array
from kuiperinfer.runtime.plan import Plan
from kuiperinfer.runtime.session import Session
from kuiperinfer.runtime.team import team
from tests.codegen.running import Line, check_graph, compile_graph, graph_of, kernels, random
from tests.codegen.test_convolution import convolution


@pytest.fixture(autouse=True)
def however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs are fused even where two steps would do as well."""
    monkeypatch.setattr(depth_first, "_STEP", 1e9)


POOL = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1), "dilation": (1, 1), "return_indices": False}


def check_pair(inputs: list[Array], lines: list[Line], output: str, *, fused: bool = True) -> Plan:
    """Against the reference on all targets; and the same bits as without fusing."""
    plan = check_graph(inputs, lines, [output], threads=3)
    assert ("DepthFirstSpec" in kernels(plan)) == fused
    graph = graph_of(inputs, lines, [output])
    apart = compile_graph(graph, inputs, passes_off="fuse_depth_first")
    assert "DepthFirstSpec" not in kernels(apart)
    (found,), (expected,) = (Session(one, 1).run(inputs, team()) for one in (plan, apart))
    np.testing.assert_array_equal(found, expected)
    return plan


def pair(
    channels: int, between: int, first: dict[str, Any], then: dict[str, Any], kernel: Any = 1, window: Any = 3
) -> list[Line]:
    """A convolution with ReLU and a depthwise one."""
    one, weights = convolution(channels, between, kernel, **first)
    two, filters = convolution(between, between, window, groups=between, **then)
    return [
        ("nn.Conv2d", "expand", "x0", "a", one, weights),
        ("nn.ReLU6", "relu", "a", "b", {}, {}),
        ("nn.Conv2d", "depthwise", "b", "y", two, filters),
    ]


@pytest.mark.parametrize("between", [3, 16, 17, 33, 72])
@pytest.mark.parametrize("channels", [5, 15, 24])
def test_channels_around_the_vector_width(channels: int, between: int) -> None:
    first = {"padding": (1, 1), "stride": (2, 2)}
    check_pair([random(2, channels, 9, 11)], pair(channels, between, first, {"padding": (1, 1)}, 3), "y")


@pytest.mark.parametrize(
    ("size", "window", "then"),
    [
        ((1, 1), 3, {"padding": (1, 1)}),
        ((7, 7), 5, {"padding": (2, 2)}),
        ((14, 14), 5, {"padding": (2, 2), "stride": (2, 2)}),
        ((40, 9), 3, {"padding": (1, 1), "stride": (2, 1)}),
        ((23, 29), 3, {"padding": (2, 0), "dilation": (2, 3)}),
        ((30, 5), 3, {"padding": (4, 4)}),  # windows that see padding alone
        ((12, 12), (4, 2), {"padding": (0, 1), "stride": (3, 2)}),
        ((12, 12), (1, 1), {}),
        ((57, 58), 3, {"padding": (1, 1)}),
        ((9, 9), 2, {"stride": (4, 4)}),  # rows between the windows that nobody sees
    ],
)
def test_windows(size: tuple[int, int], window: Any, then: dict[str, Any]) -> None:
    check_pair([random(1, 20, *size)], pair(20, 40, {}, then, window=window), "y")


@pytest.mark.parametrize(("channels", "kernel", "stride"), [(3, 3, 2), (1, 7, 1), (20, 3, 2), (20, (1, 5), 1)])
def test_convolutions_of_other_sizes(channels: int, kernel: Any, stride: int) -> None:
    params = {"stride": (stride, stride), "padding": (1, 2)}
    check_pair([random(2, channels, 21, 30)], pair(channels, 24, params, {"padding": (1, 1)}, kernel), "y")


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("nn.MaxPool2d", POOL),
        ("nn.MaxPool2d", POOL | {"kernel_size": (2, 2), "padding": (0, 0)}),
        ("nn.MaxPool2d", POOL | {"padding": (0, 0), "ceil_mode": True}),
        ("nn.MaxPool2d", POOL | {"kernel_size": (2, 3), "stride": (3, 2), "ceil_mode": True}),
        ("nn.MaxPool2d", POOL | {"dilation": (2, 2), "stride": (1, 1)}),
        ("nn.AvgPool2d", {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1), "count_include_pad": True}),
        ("nn.AvgPool2d", {"kernel_size": (3, 2), "stride": (1, 2), "padding": (1, 1), "count_include_pad": False}),
    ],
)
@pytest.mark.parametrize("size", [(33, 31), (7, 7)])
def test_pooling(kind: str, params: dict[str, Any], size: tuple[int, int]) -> None:
    given, weights = convolution(3, 35, 3, padding=(1, 1))
    lines: list[Line] = [
        ("nn.Conv2d", "conv", "x0", "a", given, weights),
        ("nn.ReLU", "relu", "a", "b", {}, {}),
        (kind, "pool", "b", "y", params, {}),
    ]
    check_pair([random(2, 3, *size)], lines, "y")


def test_operands_of_both_epilogues() -> None:
    """Pixels of other operands are those of the picture, not of the strip."""
    one, weights = convolution(24, 40, 1)
    two, filters = convolution(40, 40, 3, groups=40, padding=(1, 1))
    three, more = convolution(24, 40, 1)
    lines: list[Line] = [
        ("nn.Conv2d", "side", "x0", "s", three, more),
        ("nn.Hardswish", "act", "s", "t", {}, {}),
        ("nn.Conv2d", "expand", "x0", "a", one, weights),
        ("pnnx.Expression", "sum", "a t", "b", {"expr": "add(@0,@1)"}, {}),
        ("nn.Conv2d", "depthwise", "b", "c", two, filters),
        ("pnnx.Expression", "last", "c t", "y", {"expr": "add(mul(@0,@1),@1)"}, {}),
    ]
    check_pair([random(1, 24, 31, 20)], lines, "y")


def test_not_finite() -> None:
    picture = random(1, 16, 12, 13)
    picture[0, 3, 0, 0], picture[0, 4, 5, 6], picture[0, 5, 11, 12] = np.nan, np.inf, -np.inf
    given, weights = convolution(16, 20, 1)
    check_pair(
        [picture], [("nn.Conv2d", "c", "x0", "a", given, weights), ("nn.MaxPool2d", "p", "a", "y", POOL, {})], "y"
    )


def test_what_somebody_else_reads_stays() -> None:
    lines = pair(16, 32, {}, {"padding": (1, 1)})
    given, weights = convolution(32, 32, 1)
    lines += [
        ("nn.Conv2d", "other", "b", "z", given, weights),
        ("pnnx.Expression", "sum", "y z", "w", {"expr": "add(@0,@1)"}, {}),
    ]
    check_pair([random(1, 16, 10, 10)], lines, "w", fused=False)


@pytest.mark.parametrize(("channels", "kernel", "window", "worth"), [(16, 1, 3, True), (512, 3, 31, False)])
def test_what_is_worth_it(
    channels: int, kernel: int, window: int, worth: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a heavy convolution are not calculated again and again for windows that overlap much."""
    monkeypatch.undo()
    given, weights = convolution(channels, 32, kernel, stride=(2, 2))
    two, filters = convolution(32, 32, window, groups=32)
    lines: list[Line] = [
        ("nn.Conv2d", "conv", "x0", "a", given, weights),
        ("nn.Conv2d", "depthwise", "a", "y", two, filters),
    ]
    x = random(1, channels, 224, 224)
    assert ("DepthFirstSpec" in kernels(compile_graph(graph_of([x], lines, ["y"]), [x], "x86-64-v4"))) == worth


def test_names_of_both_operators() -> None:
    x = random(1, 16, 10, 10)
    plan = compile_graph(graph_of([x], pair(16, 32, {}, {"padding": (1, 1)}), ["y"]), [x])
    assert "expand + depthwise" in str(plan)
