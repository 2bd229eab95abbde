"""Operators of object detectors: features of regions, deformable convolution, non-maximum suppression. torchvision.ops

Boxes are (x1, y1, x2, y2). The converter writes the modules under their own names, and the functions of torchvision as
custom operators with numbered arguments (`arg_2=0.25`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec, i64, widen
from ..errors import DTypeError, InputError, ModelFileError, ShapeError
from ..records import dataclass
from .base import Ints, Layer, expect_rank, known_array, register
from .checks import set_field

# ------------------------------------------------------------------------------------------- features of regions

MAX_SAMPLES = 1 << 16  # of one bin in one direction; more come from broken boxes alone


@register("torchvision.ops.RoIAlign")
@dataclass(frozen=True, kw_only=True)
class RoIAlign(Layer):
    """Means of bilinear samples in the bins of every box. (N, C, H, W), (K, 5) -> (K, C, *output_size)

    A box is (index of the picture, x1, y1, x2, y2), times `spatial_scale` in pixels of the features, and half a pixel less
    where `aligned`. A bin has `sampling_ratio` samples in each direction, or, where that is not positive, one a pixel. Boxes
    may also be a list of (L, 4), one a picture. torchvision.ops.RoIAlign
    """

    output_size: Ints
    spatial_scale: float
    sampling_ratio: int
    aligned: bool = False

    def __post_init__(self) -> None:
        if len(self.output_size) not in (1, 2) or min(self.output_size) < 1:
            raise ModelFileError(f"output_size: expected one or two positive sizes, found {self.output_size}")

    @property
    def bins(self) -> tuple[int, int]:
        """Rows and columns of bins."""
        return self.output_size[0], self.output_size[-1]

    def infer(self, input: TensorSpec, boxes: TensorSpec | list[TensorSpec]) -> TensorSpec:
        expect_rank(input, 4)
        listed = boxes if isinstance(boxes, list) else [boxes]
        columns = 4 if isinstance(boxes, list) else 5
        if isinstance(boxes, list) and len(boxes) != input.shape[0]:
            raise ShapeError(f"boxes: expected one list a picture, found {len(boxes)} for {input.shape[0]} pictures")
        for spec in [input, *listed]:
            if spec.dtype.kind != "float" or spec.dtype is not input.dtype:
                raise DTypeError(
                    f"expected features and boxes of one float dtype, found {input.dtype} and {spec.dtype}"
                )
        for spec in listed:
            if spec.ndim != 2 or spec.shape[1] != columns:
                raise ShapeError(f"boxes: expected shape (K, {columns}), found {spec.shape}")
        return input.like((sum(spec.shape[0] for spec in listed), input.shape[1], *self.bins))

    def forward(self, input: Array, boxes: Array | list[Array]) -> Array:
        regions = _with_index(boxes) if isinstance(boxes, list) else boxes
        count, channels, height, width = input.shape
        output = np.zeros((len(regions), channels, *self.bins), input.dtype)
        for result, region in zip(output, regions, strict=True):
            if not (np.isfinite(region).all() and 0 <= region[0] < count):
                raise InputError(f"boxes: {region.tolist()} is no box in one of {count} pictures")
            picture = input[int(region[0])]
            scaled = region[1:] * input.dtype.type(self.spatial_scale) - input.dtype.type(0.5 * self.aligned)
            rows, row_samples = self._weights(scaled[1], scaled[3], self.bins[0], height)
            columns, column_samples = self._weights(scaled[0], scaled[2], self.bins[1], width)
            result[...] = rows @ picture @ columns.T / max(row_samples * column_samples, 1)
        return output

    def _weights(self, start: Any, end: Any, bins: int, size: int) -> tuple[Array, int]:
        """How much each of `size` pixels counts for each bin between two coordinates, and the samples that a bin has.

        Bilinear samples are separable: a bin sums up what its rows of samples weigh, times what its columns of samples weigh.
        """
        extent = end - start if self.aligned else max(end - start, start.dtype.type(1))
        step = extent / start.dtype.type(bins)
        samples = self.sampling_ratio if self.sampling_ratio > 0 else int(np.ceil(step))
        if samples > MAX_SAMPLES:
            raise InputError(
                f"boxes: a bin of {step:.3g} pixels would have {samples} samples; the limit is {MAX_SAMPLES}"
            )
        weights = np.zeros((bins, size), start.dtype)
        if samples < 1 or not size:
            return weights, 0
        within = (np.arange(samples, dtype=start.dtype) + start.dtype.type(0.5)) * step / start.dtype.type(samples)
        place = start + np.arange(bins, dtype=start.dtype)[:, None] * step + within
        inside = (place >= -1) & (place <= size)
        place = np.where(inside, np.clip(place, 0, size - 1), 0)
        low = np.floor(place).astype(np.int64)
        share = place - low
        of_bin = np.broadcast_to(np.arange(bins)[:, None], place.shape)
        np.add.at(weights, (of_bin, low), np.where(inside, 1 - share, 0))
        np.add.at(weights, (of_bin, np.minimum(low + 1, size - 1)), np.where(inside, share, 0))
        return weights, samples


def _with_index(boxes: Sequence[Array]) -> Array:
    """Lists of boxes, one a picture, as one array with the picture's index in front."""
    indexed = [np.column_stack([np.full(len(b), i, b.dtype), b]) for i, b in enumerate(boxes)]
    return np.concatenate(indexed) if indexed else np.zeros((0, 5), np.float32)


@register("pnnx.custom_op.torchvision.roi_align")
@dataclass(frozen=True, kw_only=True)
class RoIAlignFunction(Layer):
    """`RoIAlign` as a function: arguments 2 to 6 are spatial_scale, rows, columns, sampling_ratio, aligned."""

    operand_aliases: ClassVar[Mapping[str, str]] = {"arg_0": "input", "arg_1": "boxes"}

    arg_2: float
    arg_3: int
    arg_4: int
    arg_5: int
    arg_6: bool

    def _module(self) -> RoIAlign:
        return RoIAlign(
            output_size=(self.arg_3, self.arg_4),
            spatial_scale=self.arg_2,
            sampling_ratio=self.arg_5,
            aligned=self.arg_6,
        )

    def infer(self, input: TensorSpec, boxes: TensorSpec) -> TensorSpec:
        return self._module().infer(input, boxes)

    def forward(self, input: Array, boxes: Array) -> Array:
        return self._module().forward(input, boxes)


# ------------------------------------------------------------------------------------------- deformable convolution


@register("torchvision.ops.DeformConv2d")
@dataclass(frozen=True, kw_only=True)
class DeformConv2d(Layer):
    """A convolution whose taps are moved by `offset` and weighted by `mask`. torchvision.ops.DeformConv2d

    (N, C, H, W), (N, 2 * D * KH * KW, H', W'), (N, D * KH * KW, H', W') -> (N, O, H', W'). The channels fall into D groups that
    share their offsets, given as (y, x) for each tap. Beyond the edges the input is 0.
    """

    presence: ClassVar[Mapping[str, tuple[str, ...]]] = {"bias": ("bias",)}

    kernel_size: Ints
    stride: Ints = (1, 1)
    padding: Ints = (0, 0)
    dilation: Ints = (1, 1)
    groups: int = 1
    in_channels: int | None = None
    out_channels: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("kernel_size", 1), ("stride", 1), ("padding", 0), ("dilation", 1)):
            values = getattr(self, name)
            if len(values) not in (1, 2) or min(values) < least:
                raise ModelFileError(f"{name}: expected two numbers of at least {least}, found {values}")
            set_field(self, name, (values[0], values[-1]))
        if self.groups < 1:
            raise ModelFileError(f"groups: expected a positive number, found {self.groups}")

    def infer(
        self,
        input: TensorSpec,
        offset: TensorSpec,
        mask: TensorSpec | None = None,
        *,
        weight: TensorSpec,
        bias: TensorSpec | None = None,
    ) -> TensorSpec:
        expect_rank(input, 4)
        operands = [operand for operand in (input, offset, mask, weight, bias) if operand is not None]
        if {operand.dtype for operand in operands} != {input.dtype} or input.dtype.kind != "float":
            raise DTypeError(f"expected tensors of one float dtype, found {', '.join(map(str, operands))}")
        batch, channels, *size = input.shape
        filters = weight.shape[0]
        if weight.shape != (filters, channels // self.groups, *self.kernel_size) or channels % self.groups:
            raise ShapeError(
                f"weight: {weight.shape} does not fit {channels} channels in {self.groups} groups with a kernel of "
                f"{self.kernel_size}"
            )
        if (self.in_channels, self.out_channels) not in ((None, None), (channels, filters)):
            raise ShapeError(
                f"in_channels={self.in_channels} out_channels={self.out_channels}, but the input has {channels} channels and "
                f"the weight {filters} filters"
            )
        if filters % self.groups or (bias is not None and bias.shape != (filters,)):
            raise ShapeError(f"{filters} filters do not fit {self.groups} groups and a bias {bias}")
        output = [
            (extent + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
            for extent, pad, dilation, kernel, stride in zip(
                size, self.padding, self.dilation, self.kernel_size, self.stride, strict=True
            )
        ]
        if min(output) < 1:
            raise ShapeError(f"the kernel is larger than the padded input {input.shape}")
        taps = self.kernel_size[0] * self.kernel_size[1]
        offset_groups = offset.shape[1] // (2 * taps) if offset.ndim == 4 else 0
        if not offset_groups or channels % offset_groups:
            raise ShapeError(
                f"offset: {offset.shape} does not fit {channels} channels and a kernel of {self.kernel_size}"
            )
        for what, operand, count in (("offset", offset, 2), ("mask", mask, 1)):
            expected = (batch, count * offset_groups * taps, *output)
            if operand is not None and operand.shape != expected:
                raise ShapeError(f"{what}: expected shape {expected}, found {operand.shape}")
        return input.like((batch, filters, *output))

    def forward(
        self,
        input: Array,
        offset: Array,
        mask: Array | None = None,
        *,
        weight: Array,
        bias: Array | None = None,
    ) -> Array:
        batch, channels = input.shape[:2]
        filters, output_size = weight.shape[0], offset.shape[2:]
        taps = self.kernel_size[0] * self.kernel_size[1]
        offset_groups = offset.shape[1] // (2 * taps)
        moved = offset.reshape(batch, offset_groups, taps, 2, *output_size).astype(np.float64)
        rows = self._tap_positions(0, output_size)[:, :, None] + moved[:, :, :, 0]
        columns = self._tap_positions(1, output_size)[:, None, :] + moved[:, :, :, 1]
        features = input.reshape(batch, offset_groups, channels // offset_groups, *input.shape[2:])
        samples = _bilinear(features, rows, columns)
        if mask is not None:
            samples = samples * mask.reshape(batch, offset_groups, 1, taps, *output_size)
        patches = samples.reshape(batch, self.groups, channels // self.groups * taps, -1)
        kernels = weight.reshape(self.groups, filters // self.groups, -1)
        output = (kernels @ patches).reshape(batch, filters, *output_size)
        return output if bias is None else output + bias[:, None, None]

    def _tap_positions(self, axis: int, output_size: Ints) -> Array:
        """Where each tap of the kernel lies along an axis without offsets: (taps, outputs along the axis)."""
        taps = np.indices(self.kernel_size)[axis].reshape(-1, 1) * self.dilation[axis]
        return taps + np.arange(output_size[axis]) * self.stride[axis] - self.padding[axis]


def _bilinear(features: Array, rows: Array, columns: Array) -> Array:
    """(N, G, C, H, W) sampled at (N, G, *places) -> (N, G, C, *places); 0 beyond the edges."""
    batch, groups, channels, height, width = features.shape
    flat = features.reshape(batch, groups, channels, height * width)
    top, left = np.floor(rows), np.floor(columns)
    result = np.zeros((batch, groups, channels, rows[0, 0].size), np.float64)
    for row, column in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        share = (1 - np.abs(rows - row)) * (1 - np.abs(columns - column))
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        place = np.where(inside, row * width + column, 0).astype(np.int64).reshape(batch, groups, 1, -1)
        share = np.where(inside, share, 0.0).reshape(batch, groups, 1, -1)
        result += np.take_along_axis(flat, place, axis=-1) * share
    return result.reshape(batch, groups, channels, *rows.shape[2:])


@register("pnnx.custom_op.torchvision.deform_conv2d")
@dataclass(frozen=True, kw_only=True)
class DeformConv2dFunction(Layer):
    """`DeformConv2d` as a function: arguments 5 to 13 are stride, padding and dilation (y, x each), groups, the groups of
    offsets, and whether the mask counts."""

    operand_aliases: ClassVar[Mapping[str, str]] = {
        "arg_0": "input", "arg_1": "weight", "arg_2": "offset", "arg_3": "mask", "arg_4": "bias",
    }  # fmt: skip
    ignored: ClassVar[frozenset[str]] = frozenset({"arg_12"})  # the groups of offsets: their channels tell

    arg_5: int
    arg_6: int
    arg_7: int
    arg_8: int
    arg_9: int
    arg_10: int
    arg_11: int
    arg_13: bool

    def _module(self, weight: Array | TensorSpec) -> DeformConv2d:
        return DeformConv2d(
            kernel_size=tuple(weight.shape[2:]),
            stride=(self.arg_5, self.arg_6),
            padding=(self.arg_7, self.arg_8),
            dilation=(self.arg_9, self.arg_10),
            groups=self.arg_11,
        )

    def infer(
        self, input: TensorSpec, weight: TensorSpec, offset: TensorSpec, mask: TensorSpec, bias: TensorSpec
    ) -> TensorSpec:
        expect_rank(weight, 4, what="weight")
        used = mask if self.arg_13 else None
        return self._module(weight).infer(input, offset, used, weight=weight, bias=bias)

    def forward(self, input: Array, weight: Array, offset: Array, mask: Array, bias: Array) -> Array:
        used = mask if self.arg_13 else None
        return self._module(weight).forward(input, offset, used, weight=weight, bias=bias)


# ------------------------------------------------------------------------------------------- non-maximum suppression


@register("pnnx.custom_op.torchvision.nms")
@dataclass(frozen=True, kw_only=True)
class NonMaximumSuppression(Layer):
    """Indices of the boxes to keep, the highest score first. (N, 4), (N,) -> (K,) i64. torchvision.ops.nms

    A box goes where one with a higher score is kept that covers more than `arg_2` of their union.
    """

    operand_aliases: ClassVar[Mapping[str, str]] = {"arg_0": "boxes", "arg_1": "scores"}

    arg_2: float

    def infer(self, boxes: TensorSpec, scores: TensorSpec) -> TensorSpec:
        if boxes.ndim != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
            raise ShapeError(f"expected boxes (N, 4) and scores (N,), found {boxes.shape} and {scores.shape}")
        if boxes.dtype is not scores.dtype or boxes.dtype.kind != "float":
            raise DTypeError(f"expected boxes and scores of one float dtype, found {boxes.dtype} and {scores.dtype}")
        kept = self._kept(widen(known_array(boxes)), widen(known_array(scores)))
        return TensorSpec(kept.shape, i64)

    def forward(self, boxes: Array, scores: Array) -> Array:
        return self._kept(boxes, scores)

    def _kept(self, boxes: Array, scores: Array) -> Array:
        order = np.argsort(-scores, kind="stable")
        x1, y1, x2, y2 = boxes.T
        area = (x2 - x1) * (y2 - y1)
        kept = []
        while order.size:
            best, order = order[0], order[1:]
            kept.append(best)
            overlap_width = np.maximum(np.minimum(x2[best], x2[order]) - np.maximum(x1[best], x1[order]), 0)
            overlap_height = np.maximum(np.minimum(y2[best], y2[order]) - np.maximum(y1[best], y1[order]), 0)
            overlap = overlap_width * overlap_height
            with np.errstate(invalid="ignore"):
                order = order[~(overlap / (area[best] + area[order] - overlap) > self.arg_2)]
        return np.array(kept, np.int64)
