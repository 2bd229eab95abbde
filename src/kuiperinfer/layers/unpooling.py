"""Unpooling: puts the elements that a maximum pooling picked back where they came from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec
from ..errors import InputError, ShapeError
from ..records import dataclass
from .base import Ints, Layer, Spec, Value, expect_rank, known_ints, register
from .checks import expect_kind, per_dimension, set_field


@register("nn.MaxUnpool1d", "F.max_unpool1d", ndim=1)
@register("nn.MaxUnpool2d", "F.max_unpool2d", "aten::max_unpool2d", ndim=2)
@register("nn.MaxUnpool3d", "F.max_unpool3d", "aten::max_unpool3d", ndim=3)
@dataclass(frozen=True, kw_only=True)
class MaxUnpool(Layer):
    """Zeros, but for the input's elements at the positions that `indices` names in the flattened output plane.

    Both (N, C, *size) or (C, *size) -> (N, C, *size') with size' = (size - 1) * stride + kernel - 2 * padding, or
    `output_size`, which may differ from it by less than the stride, or in any way where there is no kernel. Where a position
    is named twice, the last element stands; one out of range is an `InputError`. torch.nn.MaxUnpool2d
    """

    schemas: ClassVar[Mapping[int, str]] = {
        3: "input indices output_size",
        5: "input indices output_size stride padding",
    }

    ndim: int
    kernel_size: Ints | None = None
    stride: Ints | None = None
    padding: Ints = (0,)
    output_size: Ints | None = None

    def __post_init__(self) -> None:
        if self.kernel_size is not None:
            set_field(self, "kernel_size", per_dimension(self.kernel_size, self.ndim, "kernel_size", at_least=1))
        stride = per_dimension(self.stride, self.ndim, "stride", at_least=1) if self.stride else self.kernel_size
        set_field(self, "stride", stride)
        set_field(self, "padding", per_dimension(self.padding, self.ndim, "padding", at_least=0))

    def infer(self, input: TensorSpec, indices: TensorSpec, output_size: Spec = None) -> TensorSpec:
        expect_kind(input, "float")
        expect_kind(indices, "i64", what="indices")
        expect_rank(input, self.ndim + 1, self.ndim + 2)
        if indices.shape != input.shape:
            raise ShapeError(f"indices: expected the input's shape {input.shape}, found {indices.shape}")
        if 0 in input.shape[-self.ndim - 1 :]:
            raise ShapeError(f"input: only the batch may be empty, found shape {input.shape}")
        return input.like((*input.shape[: -self.ndim], *self.spatial_size(input.shape, output_size)))

    def spatial_size(self, shape: Ints, output_size: Value) -> Ints:
        """The size of the output, as asked for or as it follows from the input's."""
        given = self.output_size if output_size is None else known_ints(output_size, "output_size")
        if given is not None and len(given) == self.ndim + 2:
            given = given[2:]
        if given is not None and (len(given) != self.ndim or min(given) < 1):
            raise ShapeError(f"output_size: expected {self.ndim} numbers of at least 1, found {given}")
        if self.kernel_size is None or self.stride is None:
            if given is None:
                raise ShapeError("expected either output_size or kernel_size, found none of them")
            return given
        layout = zip(shape[-self.ndim :], self.kernel_size, self.stride, self.padding, strict=True)
        usual = tuple((size - 1) * stride + kernel - 2 * padding for size, kernel, stride, padding in layout)
        size = usual if given is None else given
        near = all(abs(s - u) < stride for s, u, stride in zip(size, usual, self.stride, strict=True))
        if not near or min(size) < 1:
            raise ShapeError(f"output_size: expected {usual}, each less than the stride away, found {size}")
        return size

    def forward(self, input: Array, indices: Array, output_size: Value = None) -> Array:
        size = self.spatial_size(input.shape, output_size)
        planes, elements = math.prod(input.shape[: -self.ndim]), math.prod(input.shape[-self.ndim :])
        area = math.prod(size)
        outside = indices[(indices < 0) | (indices >= area)]
        if outside.size:
            raise InputError(f"indices: {outside[0]} is out of range for an output of size {size}")
        result = np.zeros((planes, area), input.dtype)
        np.put_along_axis(result, indices.reshape(planes, elements), input.reshape(planes, elements), axis=1)
        return result.reshape(*input.shape[: -self.ndim], *size)
