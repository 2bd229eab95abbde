"""Sampling of images and volumes at any places, and the grids of places that affine maps give."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from ..dtypes import Array, TensorSpec
from ..errors import ShapeError, did_you_mean
from ..records import dataclass
from .base import Ints, Layer, Spec, Value, expect_rank, known_ints, register
from .checks import expect_kind, factor_dtype
from .interpolation import cubic_weights

_MODES = ("bilinear", "nearest", "bicubic")


def _leave(places: Array, size: int, align_corners: bool) -> Array:
    return places


def _reflect(places: Array, size: int, align_corners: bool) -> Array:
    """Places outside mirrored at the middles of the outermost elements, or without `align_corners` at their borders."""
    border = places.dtype.type(0 if align_corners else 0.5)
    period = places.dtype.type(2 * (size - 1) if align_corners else 2 * size)
    if period == 0:
        return np.zeros_like(places)
    within = np.fmod(np.abs(places + border), period)
    return np.minimum(within, period - within) - border


# How places outside of the input are brought back, before they are cut off at its ends.
_PADDING_MODES: dict[str, Callable[[Array, int, bool], Array]] = {
    "zeros": _leave,
    "border": _leave,
    "reflection": _reflect,
}


@register("F.grid_sample")
@dataclass(frozen=True, kw_only=True)
class GridSample(Layer):
    """The input at the places of a grid, whose coordinates x, y, z go from -1 to 1 over the last dimension, and so on.

    (N, C, H, W), (N, H', W', 2) -> (N, C, H', W') or (N, C, D, H, W), (N, D', H', W', 3) -> (N, C, D', H', W').
    With `align_corners` -1 and 1 are the middles of the outermost elements, else their outer borders.
    torch.nn.functional.grid_sample
    """

    mode: str = "bilinear"
    padding_mode: str = "zeros"
    align_corners: bool | None = None

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise ShapeError(
                f"mode '{self.mode}' is unknown; known are {', '.join(_MODES)}{did_you_mean(self.mode, _MODES)}"
            )
        if self.padding_mode not in _PADDING_MODES:
            hint = did_you_mean(self.padding_mode, _PADDING_MODES)
            raise ShapeError(
                f"padding mode '{self.padding_mode}' is unknown; known are {', '.join(_PADDING_MODES)}{hint}"
            )

    def infer(self, input: TensorSpec, grid: TensorSpec) -> TensorSpec:
        expect_kind(input, "float")
        expect_kind(grid, "float", what="grid")
        expect_rank(input, *((4,) if self.mode == "bicubic" else (4, 5)))
        ndim = input.ndim - 2
        if grid.ndim != input.ndim or grid.shape[0] != input.shape[0] or grid.shape[-1] != ndim:
            raise ShapeError(f"grid: expected shape ({input.shape[0]}, {'*, ' * ndim}{ndim}), found {grid.shape}")
        if 0 in input.shape[2:]:
            raise ShapeError(f"input: there is nothing to sample in shape {input.shape}")
        return TensorSpec((*input.shape[:2], *grid.shape[1:-1]), factor_dtype(input, grid))

    def forward(self, input: Array, grid: Array) -> Array:
        sizes = input.shape[2:]
        places = [self._place(grid[..., -1 - axis], size) for axis, size in enumerate(sizes)]
        if self.mode == "bicubic":
            return self._bicubic(input, places)
        if len(sizes) == 3 or self.padding_mode != "zeros":
            places = [self._bring_in(place, size, len(sizes)) for place, size in zip(places, sizes, strict=True)]
        if self.mode == "nearest":
            return _gather(input, [np.rint(place) for place in places])[0]
        return _linear(input, places)

    def _place(self, coordinate: Array, size: int) -> Array:
        """A coordinate from -1 to 1 in units of elements."""
        real = coordinate.dtype.type
        if self.align_corners:
            return (coordinate + real(1)) / real(2) * real(size - 1)
        return ((coordinate + real(1)) * real(size) - real(1)) / real(2)

    def _bring_in(self, place: Array, size: int, ndim: int) -> Array:
        """A place within the input; what is no number is the first element, in three dimensions the last."""
        if self.padding_mode == "zeros":
            return place
        place = _PADDING_MODES[self.padding_mode](place, size, bool(self.align_corners))
        end = place.dtype.type(size - 1)
        return np.where(np.isnan(place), 0 if ndim == 2 else end, np.clip(place, 0, end)).astype(place.dtype)

    def _bicubic(self, input: Array, places: Sequence[Array]) -> Array:
        """Four by four neighbours; those outside are brought in one by one."""
        firsts = [np.floor(place) for place in places]
        down, along = (cubic_weights((place - first)[:, None]) for place, first in zip(places, firsts, strict=True))

        def neighbour(row: int, column: int) -> Array:
            around = (firsts[0] + (row - 1), firsts[1] + (column - 1))
            return _gather(
                input, [self._bring_in(p, size, 2) for p, size in zip(around, input.shape[2:], strict=True)]
            )[0]

        lines = (sum(neighbour(row, column) * along[column] for column in range(4)) * down[row] for row in range(4))
        return np.asarray(sum(lines))


def _gather(input: Array, places: Sequence[Array]) -> tuple[Array, Array]:
    """The elements at whole places, each (N, *out), with zeros for those outside; and which are inside: (N, 1, *out)."""
    sizes = input.shape[2:]
    inside = np.logical_and.reduce([(p >= 0) & (p <= size - 1) for p, size in zip(places, sizes, strict=True)])
    flat = np.zeros(inside.shape, np.int64)
    for place, size in zip(places, sizes, strict=True):
        flat = flat * size + np.where(inside, place, 0).astype(np.int64)
    samples, channels = input.shape[:2]
    pixels = input.reshape(samples, channels, math.prod(sizes))
    out = inside.shape[1:]
    found = np.take_along_axis(pixels, flat.reshape(samples, 1, math.prod(out)), 2).reshape(samples, channels, *out)
    return np.where(inside[:, None], found, 0).astype(input.dtype), inside[:, None]


def _linear(input: Array, places: Sequence[Array]) -> Array:
    """The neighbours of each place, in proportion to their distances; those outside count as zeros.

    A place that is no number gives NaN in two dimensions, where PyTorch multiplies first, and 0 in three.
    """
    firsts = [np.floor(place) for place in places]
    shares = [place - first for place, first in zip(places, firsts, strict=True)]
    result: Array = np.zeros((), input.dtype)
    for corner in itertools.product((0, 1), repeat=len(places)):
        found, inside = _gather(input, [first + step for first, step in zip(firsts, corner, strict=True)])
        weight = np.ones((), input.dtype)
        for share, step in reversed(list(zip(shares, corner, strict=True))):
            weight = weight * (share if step else 1 - share)
        term = found * weight[:, None]
        result = result + (np.where(inside, term, 0) if len(places) == 3 else term)
    return result


@register("F.affine_grid")
@dataclass(frozen=True, kw_only=True)
class AffineGrid(Layer):
    """The places where an affine map takes the elements of an image or volume of the given `size`.

    theta (N, 2, 3) and size (N, C, H, W) -> (N, H, W, 2); (N, 3, 4) and (N, C, D, H, W) -> (N, D, H, W, 3). The last
    dimension is x, y, z. torch.nn.functional.affine_grid
    """

    size: Ints | None = None
    align_corners: bool | None = None

    def _sizes(self, size: Value) -> Ints:
        given = self.size if size is None else known_ints(size, "size")
        if given is None:
            raise ShapeError("size: neither a parameter nor an input")
        if len(given) not in (4, 5) or min(given) < 1:
            raise ShapeError(f"size: expected 4 or 5 numbers of at least 1, found {given}")
        return given

    def infer(self, theta: TensorSpec, size: Spec = None) -> TensorSpec:
        expect_kind(theta, "float", what="theta")
        sizes = self._sizes(size)
        ndim = len(sizes) - 2
        if theta.shape != (sizes[0], ndim, ndim + 1):
            raise ShapeError(
                f"theta: expected shape {(sizes[0], ndim, ndim + 1)} for size {sizes}, found {theta.shape}"
            )
        return theta.like((sizes[0], *sizes[2:], ndim))

    def forward(self, theta: Array, size: Value = None) -> Array:
        sizes = self._sizes(size)[2:]
        base = np.ones((*sizes, len(sizes) + 1), theta.dtype)
        for axis, count in enumerate(sizes):
            along = np.linspace(-1, 1, count) if count > 1 else np.zeros(1)
            if not self.align_corners:
                along = along * (count - 1) / count
            base[..., len(sizes) - 1 - axis] = along.reshape(-1, *(1,) * (len(sizes) - axis - 1))
        grid = base.reshape(-1, len(sizes) + 1) @ theta.swapaxes(1, 2)
        return grid.reshape(len(theta), *sizes, len(sizes))
