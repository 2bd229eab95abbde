"""Resizing of images, signals and volumes: upsampling and downsampling to a size or by a factor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec
from ..errors import ShapeError, UnsupportedOperatorError, did_you_mean
from ..records import dataclass
from .adaptive_pooling import adaptive_positions, average_adaptively
from .base import Floats, Ints, Layer, Spec, Value, expect_rank, known_array, known_ints, register
from .checks import expect_kind
from .interpolation import (
    Real,
    ResizedAxis,
    Taps,
    cubic_taps,
    linear_taps,
    nearest_positions,
    weighted_sum,
    weighted_sum_of_bytes,
)

# Ranks of the input, and dtypes beside the floats.
_MODES: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "nearest": ((3, 4, 5), ("u8",)),
    "nearest-exact": ((3, 4, 5), ("u8",)),
    "area": ((3, 4, 5), ()),
    "linear": ((3,), ()),
    "bilinear": ((4,), ("u8",)),
    "trilinear": ((5,), ()),
    "bicubic": ((4,), ("u8",)),
}
_WITHOUT_CORNERS = ("nearest", "nearest-exact", "area")

_TAPS: dict[str, Callable[[ResizedAxis, Real], Taps]] = {
    "linear": linear_taps,
    "bilinear": linear_taps,
    "trilinear": linear_taps,
    "bicubic": cubic_taps,
}


def meant_factor(written: float) -> float:
    """The scale factor that a model had before the converter narrowed it to single precision.

    Six digits are as they were typed; more of them are often a quotient of two sizes, such as 128 / 43.
    """
    if float(f"{written:g}") == written:
        return written
    quotient = Fraction(written).limit_denominator(1000)
    return float(quotient) if np.float32(quotient) == np.float32(written) else written


@register("F.interpolate", "nn.Upsample", "F.upsample")
@register("F.upsample_nearest", "nn.UpsamplingNearest2d", mode="nearest")
@register("F.upsample_bilinear", "nn.UpsamplingBilinear2d", mode="bilinear", align_corners=True)
@dataclass(frozen=True, kw_only=True)
class Resize(Layer):
    """The input at another resolution: (N, C, *size) -> (N, C, *size').

    size' is `size`, or floor(size * scale_factor). A scale factor is also the scale of the positions, unless
    `recompute_scale_factor` asks for size / size'. Modes: nearest, nearest-exact and area for 1 to 3 dimensions, linear for
    one, bilinear and bicubic for two, trilinear for three. torch.nn.functional.interpolate
    """

    size: Ints | None = None
    scale_factor: Floats | None = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None
    antialias: bool = False

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise ShapeError(
                f"mode '{self.mode}' is unknown; known are {', '.join(_MODES)}{did_you_mean(self.mode, _MODES)}"
            )
        if self.align_corners is not None and self.mode in _WITHOUT_CORNERS:
            raise ShapeError(f"align_corners={self.align_corners} has no meaning in mode '{self.mode}'")
        if self.antialias:
            raise UnsupportedOperatorError("antialias=True is not supported", {self.type_name: []})

    def infer(self, input: TensorSpec, size: Spec = None, scale_factor: Spec = None) -> TensorSpec:
        ranks, further = _MODES[self.mode]
        expect_kind(input, "float", *further)
        expect_rank(input, *ranks)
        axes = self.axes(input.shape, size, scale_factor)
        if 0 in input.shape[1:] or any(axis.count < 1 for axis in axes):
            counts = tuple(axis.count for axis in axes)
            raise ShapeError(f"cannot resize shape {input.shape} to {counts}: only the batch may be empty")
        return input.like((*input.shape[:2], *(axis.count for axis in axes)))

    def axes(self, shape: Ints, size: Value = None, scale_factor: Value = None) -> tuple[ResizedAxis, ...]:
        """How each dimension behind batch and channels is resized."""
        sizes = shape[2:]
        wanted = self.size or None if size is None else known_ints(size, "size")
        factors = tuple(map(meant_factor, self.scale_factor or ())) or None
        if scale_factor is not None:
            factors = _known_floats(scale_factor)
        if wanted is not None and factors is None:
            if self.recompute_scale_factor:
                raise ShapeError("recompute_scale_factor has no meaning where a size is given")
            return tuple(
                ResizedAxis(dim, count, None, bool(self.align_corners))
                for dim, count in zip(sizes, _one_each(wanted, len(sizes)), strict=True)
            )
        if factors is None or wanted is not None:
            raise ShapeError(f"expected either size or scale_factor, found size={wanted} and scale_factor={factors}")
        if not all(0 < factor < np.inf for factor in factors):
            raise ShapeError(f"scale_factor: expected numbers above 0, found {factors}")
        return tuple(
            ResizedAxis(
                dim, int(dim * factor), None if self.recompute_scale_factor else factor, bool(self.align_corners)
            )
            for dim, factor in zip(sizes, _one_each(factors, len(sizes)), strict=True)
        )

    def forward(self, input: Array, size: Value = None, scale_factor: Value = None) -> Array:
        axes = self.axes(input.shape, size, scale_factor)
        real: Real = np.float64 if input.dtype == np.float64 else np.float32
        if self.mode == "area":
            return average_adaptively(input, tuple(adaptive_positions(axis.size, axis.count) for axis in axes))
        if self.mode in ("nearest", "nearest-exact"):
            for number, positions in enumerate(self.nearest(axes, real), start=2):
                input = input.take(positions, number)
            return input
        is_bytes = input.dtype == np.uint8
        all_taps = self.taps(axes, np.float64 if is_bytes else real)
        for number, axis, taps in reversed(list(zip(range(2, input.ndim), axes, all_taps, strict=True))):
            if is_bytes and axis.count == axis.size:
                continue  # PyTorch leaves such a dimension alone, whatever the factor
            input = (weighted_sum_of_bytes if is_bytes else weighted_sum)(input, number, taps)
        return input

    def nearest(self, axes: Sequence[ResizedAxis], real: Real) -> list[Array]:
        """For each dimension, the one input element of every output element, in the modes of that name."""
        positions = []
        for axis in axes:
            if len(axes) == 2 and self.mode == "nearest" and axis.count in (axis.size, 2 * axis.size):
                axis = replace(axis, factor=None)  # PyTorch has a way of its own for these
            positions.append(nearest_positions(axis, real, self.mode == "nearest-exact"))
        return positions

    def taps(self, axes: Sequence[ResizedAxis], real: Real) -> list[Taps]:
        """For each dimension, the input elements of every output element, in the linear and cubic modes."""
        return [_TAPS[self.mode](axis, real) for axis in axes]


@register("aten::upsample_nearest1d", "aten::upsample_nearest2d", "aten::upsample_nearest3d", mode="nearest")
@register("aten::_upsample_nearest_exact1d", "aten::_upsample_nearest_exact2d", mode="nearest-exact")
@register("aten::_upsample_nearest_exact3d", mode="nearest-exact")
@dataclass(frozen=True, kw_only=True)
class LeftOverNearest(Resize):
    """The forms that the converter leaves as they are; those with a scale for each dimension have none of them."""

    schemas: ClassVar[Mapping[int, str]] = {
        3: "input size scale_factor",
        4: "input size scale_h scale_w",
        5: "input size scale_d scale_h scale_w",
    }

    scale_d: None = None
    scale_h: None = None
    scale_w: None = None


@register("aten::upsample_linear1d", mode="linear")
@register("aten::upsample_bilinear2d", mode="bilinear")
@register("aten::upsample_bicubic2d", mode="bicubic")
@register("aten::upsample_trilinear3d", mode="trilinear")
@dataclass(frozen=True, kw_only=True)
class LeftOverLinear(LeftOverNearest):
    """The same of the modes that know `align_corners`."""

    schemas: ClassVar[Mapping[int, str]] = {
        4: "input size align_corners scale_factor",
        5: "input size align_corners scale_h scale_w",
        6: "input size align_corners scale_d scale_h scale_w",
    }


def _one_each(numbers: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    if len(numbers) not in (1, ndim):
        raise ShapeError(f"size or scale_factor: expected 1 or {ndim} numbers, found {numbers}")
    return numbers * ndim if len(numbers) == 1 else numbers


def _known_floats(value: Any) -> Floats:
    """A tuple of floats from numbers and one-element tensors; `DataDependent` where one is not known."""
    items = value if isinstance(value, list) else [value]
    arrays = [known_array(item) if isinstance(item, (TensorSpec, np.ndarray)) else np.asarray(item) for item in items]
    return tuple(float(number) for array in arrays for number in array.reshape(-1))
