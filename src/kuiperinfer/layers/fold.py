"""Sliding blocks of an image as columns of a matrix, and an image from such columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..dtypes import Array, TensorSpec
from ..errors import ShapeError
from ..records import dataclass
from .base import Gradients, Ints, Layer, Spec, Value, expect_rank, known_ints, register
from .checks import expect_affordable, expect_kind, per_dimension, set_field
from .padding import Pads, pad_array
from .windows import Index, overlap_add, sliding_windows, window_count


@dataclass(frozen=True, kw_only=True)
class _Blocks(Layer):
    """How the blocks lie in the image."""

    kernel_size: Ints
    dilation: Ints = (1,)
    padding: Ints = (0,)
    stride: Ints = (1,)

    def __post_init__(self) -> None:
        for name, at_least in (("kernel_size", 1), ("dilation", 1), ("padding", 0), ("stride", 1)):
            set_field(self, name, per_dimension(getattr(self, name), 2, name, at_least))

    def counts(self, size: Ints) -> Ints:
        """How many blocks there are along each dimension of an image."""
        twice = tuple(2 * padding for padding in self.padding)
        return tuple(map(window_count, size, self.kernel_size, self.stride, self.dilation, twice))

    def columns(self, image: Array) -> Array:
        """The blocks of an image as columns."""
        *batch, channels, height, width = image.shape
        ends: Pads = tuple((padding, padding) for padding in self.padding)
        padded = pad_array(image, ((0, 0),) * (image.ndim - 2) + ends, "constant")
        windows = sliding_windows(padded, self.kernel_size, self.stride, self.dilation)  # (*, C, *counts, *kernel)
        first = image.ndim - 2
        columns = windows.transpose(*range(first), first + 2, first + 3, first, first + 1)
        return columns.reshape(*batch, channels * math.prod(self.kernel_size), math.prod(self.counts((height, width))))

    def laid(self, columns: Array, size: Ints) -> Array:
        """Columns as blocks of an image of this size, added up where they overlap."""
        *batch, rows, _ = columns.shape
        channels = rows // math.prod(self.kernel_size)
        windows = columns.reshape(*batch, channels, *self.kernel_size, *self.counts(size))
        padded = tuple(length + 2 * padding for length, padding in zip(size, self.padding, strict=True))
        image = overlap_add(windows, padded, self.stride, self.dilation)
        inner: Index = (..., *(slice(p, p + length) for p, length in zip(self.padding, size, strict=True)))
        return image[inner]

    def _expect_affordable(self, input: TensorSpec, batch: Ints, size: Ints) -> None:
        padded = tuple(length + 2 * padding for length, padding in zip(size, self.padding, strict=True))
        expect_affordable((*batch, *padded), input.dtype, "the padded image")

    def _expect_input(self, input: TensorSpec, *ranks: int) -> None:
        expect_kind(input, "bool", "float", "complex")
        expect_rank(input, *ranks)
        if 0 in input.shape[-min(ranks) :]:
            raise ShapeError(f"input: only the batch may be empty, found shape {input.shape}")


@register("nn.Unfold", "F.unfold")
@dataclass(frozen=True, kw_only=True)
class Unfold(_Blocks):
    """Each block of the zero-padded image as a column. (N, C, H, W) -> (N, C * kernel, L), or both without N.

    torch.nn.Unfold
    """

    def infer(self, input: TensorSpec) -> TensorSpec:
        self._expect_input(input, 3, 4)
        *batch, channels, height, width = input.shape
        self._expect_affordable(input, (*batch, channels), (height, width))
        return input.like((*batch, channels * math.prod(self.kernel_size), math.prod(self.counts((height, width)))))

    def forward(self, input: Array) -> Array:
        return self.columns(input)

    def derivative(self, gradient: Array, output: Array, needs: Sequence[bool], input: Array) -> Gradients:
        return [self.laid(gradient, input.shape[-2:])]


@register("nn.Fold", "F.fold")
@dataclass(frozen=True, kw_only=True)
class Fold(_Blocks):
    """The image of which `unfold` gives these columns, overlapping blocks being added up.

    (N, C * kernel, L) -> (N, C, *output_size), or both without N. torch.nn.Fold
    """

    output_size: Ints | None = None

    def _image(self, output_size: Value) -> Ints:
        given = self.output_size if output_size is None else known_ints(output_size, "output_size")
        if given is None:
            raise ShapeError("output_size: neither a parameter nor an input")
        return per_dimension(given, 2, "output_size", at_least=1)

    def infer(self, input: TensorSpec, output_size: Spec = None) -> TensorSpec:
        self._expect_input(input, 2, 3)
        size = self._image(output_size)
        *batch, rows, columns = input.shape
        elements, blocks = math.prod(self.kernel_size), math.prod(self.counts(size))
        if rows % elements or columns != blocks:
            raise ShapeError(
                f"input: expected a multiple of {elements} rows and {blocks} columns for output_size {size}, "
                f"found shape {input.shape}"
            )
        self._expect_affordable(input, (*batch, rows // elements), size)
        return input.like((*batch, rows // elements, *size))

    def forward(self, input: Array, output_size: Value = None) -> Array:
        return self.laid(input, self._image(output_size))

    def derivative(
        self, gradient: Array, output: Array, needs: Sequence[bool], input: Array, output_size: Value = None
    ) -> Gradients:
        return [self.columns(gradient), None]
