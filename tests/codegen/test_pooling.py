"""Compiled pooling against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen.running import check_operator

GENERATOR = np.random.default_rng(1)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return GENERATOR.standard_normal(shape).astype(np.float32)


WINDOWS = [
    {"kernel_size": (2, 2), "stride": (2, 2), "padding": (0, 0)},
    {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1)},
    {"kernel_size": (5, 5), "stride": (1, 1), "padding": (2, 2)},
    {"kernel_size": (3, 2), "stride": (1, 3), "padding": (1, 0)},
    {"kernel_size": (3, 3), "stride": (2, 2), "padding": (0, 1), "ceil_mode": True},
    {"kernel_size": (2, 3), "stride": (3, 2), "padding": (1, 1), "ceil_mode": True},
    {"kernel_size": (9, 11), "stride": (1, 1), "padding": (4, 5)},
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("channels", [1, 15, 16, 17])
def test_max(window: dict[str, Any], channels: int) -> None:
    check_operator(
        "nn.MaxPool2d", [normal(2, channels, 9, 11) - 3], {"dilation": (1, 1), "return_indices": False, **window}
    )


@pytest.mark.parametrize("dilation", [(2, 1), (1, 3), (2, 2)])
def test_max_with_dilation(dilation: tuple[int, int]) -> None:
    params = {"kernel_size": (3, 3), "stride": (2, 1), "padding": (1, 1), "dilation": dilation, "return_indices": False}
    check_operator("nn.MaxPool2d", [normal(1, 20, 13, 12) - 3], params)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("count_include_pad", [True, False])
def test_average(window: dict[str, Any], count_include_pad: bool) -> None:
    check_operator("nn.AvgPool2d", [normal(2, 17, 9, 11)], {"count_include_pad": count_include_pad, **window})


def test_average_with_a_divisor() -> None:
    check_operator("nn.AvgPool2d", [normal(1, 16, 8, 8)], {**WINDOWS[1], "divisor_override": 7})


@pytest.mark.parametrize("size", [(1, 1), (5, 6), (7, 7), (3, 64)])
@pytest.mark.parametrize("channels", [3, 16, 40])
def test_global(size: tuple[int, int], channels: int) -> None:
    for kind in ("nn.AdaptiveAvgPool2d", "nn.AdaptiveMaxPool2d"):
        check_operator(kind, [normal(2, channels, *size)], {"output_size": (1, 1)})


@pytest.mark.parametrize("target", [(2, 3), (4, 6), (3, 4), (8, 12), (5, 5)])
def test_adaptive(target: tuple[int, int]) -> None:
    for kind in ("nn.AdaptiveAvgPool2d", "nn.AdaptiveMaxPool2d"):
        check_operator(kind, [normal(2, 20, 8, 12)], {"output_size": target})


@pytest.mark.parametrize("channels", [1, 16, 33])
@pytest.mark.parametrize("target", [(3, 5), (7, 11), (1, 4), (13, 3)])
def test_adaptive_with_unequal_windows(target: tuple[int, int], channels: int) -> None:
    x = normal(1, channels, 10, 11)
    x[0, 0, 2, 3], x[0, -1, 9, 10] = np.nan, np.inf
    for kind in ("nn.AdaptiveAvgPool2d", "nn.AdaptiveMaxPool2d"):
        check_operator(kind, [x], {"output_size": target})
    check_operator("F.interpolate", [x], {"size": target, "mode": "area"})


@pytest.mark.parametrize("width", [5, 8, 21])
@pytest.mark.parametrize("kernel", [3, 5, 13])
def test_widths_around_the_tile(width: int, kernel: int) -> None:
    padding = (kernel // 2, kernel // 2)
    for stride in (1, 2):
        params = {"kernel_size": (kernel, kernel), "stride": (stride, stride), "padding": padding}
        check_operator("nn.MaxPool2d", [normal(1, 3, 4, width)], params)
        check_operator("nn.AvgPool2d", [normal(1, 3, 4, width)], {**params, "count_include_pad": False})


def test_windows_that_see_nothing() -> None:
    """With dilation all of a window's elements may lie in the padding."""
    params = {"kernel_size": (3, 3), "stride": (1, 1), "padding": (1, 1), "dilation": (3, 3)}
    check_operator("nn.MaxPool2d", [normal(1, 3, 7, 7)], params)


def test_nan_and_infinities() -> None:
    x = normal(1, 16, 8, 8)
    x[0, 1, 2, 3], x[0, 2, 4, 4], x[0, 3] = np.nan, np.inf, -np.inf
    check_operator("nn.MaxPool2d", [x], {"dilation": (1, 1), "return_indices": False, **WINDOWS[1]})
    check_operator("nn.AvgPool2d", [x], {"count_include_pad": True, **WINDOWS[1]})
