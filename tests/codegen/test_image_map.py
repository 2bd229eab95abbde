"""Maps of images in blocked layout, against NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from kuiperinfer.codegen.kernels.image_map import ImageMapSpec, plan_image_map
from kuiperinfer.codegen.layout import NO_HALO, Halo, ImageLayout, blocked
from kuiperinfer.codegen.target import target_named
from kuiperinfer.dtypes import Array
from kuiperinfer.expression import evaluate, parse
from tests.codegen.native import TARGETS, aligned, compile_specs

Shape = tuple[int, int, int, int]


@dataclass(frozen=True)
class Case:
    """A map of images of these shapes, each with its halo; the last is the output."""

    text: str
    shapes: tuple[Shape, ...]
    halos: tuple[Halo, ...] = ()

    def layouts(self, lanes: int) -> list[ImageLayout]:
        halos = self.halos or (NO_HALO,) * len(self.shapes)
        return [blocked(shape, lanes, halo) for shape, halo in zip(self.shapes, halos, strict=True)]


ONE, UNEVEN = (1, 1, 1, 1), (2, 0, 1, 3)
SUM = "add(mul(@0,@1),1.5)"
CASES = [
    Case("relu(@0)", ((1, 32, 5, 7), (1, 32, 5, 7))),
    Case("relu(@0)", ((2, 33, 5, 7), (2, 33, 5, 7)), (ONE, NO_HALO)),
    Case("silu(@0)", ((1, 3, 4, 9), (1, 3, 4, 9)), (NO_HALO, UNEVEN)),
    Case("sigmoid(@0)", ((2, 20, 3, 5), (2, 20, 3, 5)), (UNEVEN, ONE)),
    Case("reciprocal(@0)", ((1, 17, 3, 5), (1, 17, 3, 5))),
    Case(SUM, ((2, 20, 6, 5), (2, 20, 1, 1), (2, 20, 6, 5)), (ONE, NO_HALO, ONE)),
    Case(SUM, ((2, 20, 6, 5), (1, 20, 1, 1), (2, 20, 6, 5))),
    Case(SUM, ((2, 20, 6, 5), (2, 1, 6, 5), (2, 20, 6, 5)), (ONE, UNEVEN, NO_HALO)),
    Case(SUM, ((2, 20, 6, 5), (2, 1, 1, 1), (2, 20, 6, 5))),
    Case(SUM, ((2, 20, 6, 1), (2, 20, 1, 5), (2, 20, 6, 5))),
    Case(SUM, ((1, 16, 37, 41), (1, 16, 37, 41), (1, 16, 37, 41))),
    Case(SUM, ((1, 40, 50, 60), (1, 40, 50, 60), (1, 40, 50, 60)), (ONE, NO_HALO, NO_HALO)),
    Case("add(@0,@1)", ((1, 1, 3, 3), (1, 1, 1, 1), (1, 1, 3, 3))),
]


def packed(array: Array, layout: ImageLayout, fill: float) -> Array:
    """A picture in its buffer; `fill` stands in the halo, zeros beyond the last channel."""
    buffer = np.full(layout.floats, fill, np.float32)
    interior(buffer, layout)[...] = 0
    batch, channels, height, width = array.shape
    padded = np.zeros((batch, layout.blocks * layout.block, height, width), np.float32)
    padded[:, :channels] = array
    interior(buffer, layout)[...] = padded.reshape(batch, layout.blocks, layout.block, height, width).transpose(
        0, 1, 3, 4, 2
    )
    return aligned(buffer)


def interior(buffer: Array, layout: ImageLayout) -> Array:
    """(N, blocks, H, W, lanes): the picture within its buffer."""
    strides = (layout.image, layout.block_stride, layout.row, layout.pixel, layout.channel)
    shape = (layout.batch, layout.blocks, layout.height, layout.width, layout.block)
    return np.lib.stride_tricks.as_strided(buffer[layout.origin :], shape, [4 * stride for stride in strides])


@functools.cache
def kernels(target: str) -> list[Callable[..., None]]:
    lanes = target_named(target).lanes
    specs = []
    for case in CASES:
        *operands, output = case.layouts(lanes)
        specs.append(plan_image_map(case.text, operands, output))
    return compile_specs(specs, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: str(CASES[number]).removeprefix("Case"))
def test_image_map(number: int, target: str) -> None:
    case, generator = CASES[number], np.random.default_rng(number)
    *layouts, output = case.layouts(target_named(target).lanes)
    pictures = [generator.normal(0, 2, layout.shape).astype(np.float32) for layout in layouts]
    out = packed(np.full(output.shape, 77, np.float32), output, 88)
    interior(out, output)[...] = 77
    kernels(target)[number](*(packed(p, layout, np.nan) for p, layout in zip(pictures, layouts, strict=True)), out)

    expected = packed(evaluate(parse(case.text, internal=True), pictures), output, 88)
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-7)


def test_a_slice_of_a_concatenation() -> None:
    lanes = target_named(TARGETS[-1]).lanes
    whole = blocked((2, 3 * lanes, 4, 5), lanes, ONE)
    part = whole.channel_slice(lanes, lanes)
    spec = plan_image_map("neg(@0)", [part], part)
    (run,) = compile_specs([spec], TARGETS[-1])
    picture = np.random.default_rng(0).normal(size=whole.shape).astype(np.float32)
    buffer = packed(picture, whole, 5)
    run(buffer, buffer)  # in place
    picture[:, lanes : 2 * lanes] *= -1
    np.testing.assert_array_equal(buffer, packed(picture, whole, 5))


def test_dense_pictures_become_rows_that_fit_a_task() -> None:
    layout = blocked((1, 64, 56, 56), 16)
    spec = plan_image_map("relu(@0)", [layout], layout)
    assert (spec.output.height, spec.output.width, spec.rows, spec.tasks) == (2, 1568, 1, 8)
    halo = blocked((1, 64, 56, 56), 16, ONE)
    spec = plan_image_map("relu(@0)", [halo], layout)
    assert (spec.output.height, spec.output.width, spec.rows, spec.tasks) == (56, 56, 19, 12)


def test_lanes_beyond_the_last_channel_are_masked_only_where_they_would_not_be_zero() -> None:
    layout = blocked((1, 20, 4, 4), 16)
    spec = plan_image_map("relu(@0)", [layout], layout)
    target = target_named("x86-64-v4")
    assert "icmp slt <16 x i32>" in str(replace(spec, text="sigmoid(@0)").module("kernel", target))
    assert isinstance(spec, ImageMapSpec) and spec.flops == 320
    assert "icmp slt <16 x i32>" not in str(spec.module("kernel", target))
