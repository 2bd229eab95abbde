"""Shuffling of channels: into pixels, back again, and among themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ..dtypes import Array, TensorSpec
from ..errors import ShapeError
from ..records import dataclass
from .base import Layer, register
from .checks import expect_dimensions, expect_kind

_ANY = ("bool", "int", "float", "complex")


def _expect_factor(factor: int, name: str) -> None:
    if factor < 1:
        raise ShapeError(f"{name}: expected at least 1, found {factor}")


def _expect_image(input: TensorSpec) -> None:
    expect_kind(input, *_ANY)
    expect_dimensions(input.shape, 3)


@register("nn.PixelShuffle", "F.pixel_shuffle", "aten::pixel_shuffle")
@dataclass(frozen=True, kw_only=True)
class PixelShuffle(Layer):
    """Spreads each r * r channels over r by r pixels. (*, C * r * r, H, W) -> (*, C, H * r, W * r). torch.nn.PixelShuffle"""

    schemas: ClassVar[Mapping[int, str]] = {2: "input upscale_factor"}

    upscale_factor: int

    def __post_init__(self) -> None:
        _expect_factor(self.upscale_factor, "upscale_factor")

    def infer(self, input: TensorSpec) -> TensorSpec:
        _expect_image(input)
        *batch, channels, height, width = input.shape
        r = self.upscale_factor
        if channels % (r * r):
            raise ShapeError(f"input: the {channels} channels of {input.shape} are no multiple of {r} * {r}")
        return input.like((*batch, channels // (r * r), height * r, width * r))

    def forward(self, input: Array) -> Array:
        *batch, channels, height, width = input.shape
        r = self.upscale_factor
        pixels = input.reshape(*batch, channels // (r * r), r, r, height, width)
        first = len(batch)
        rows_and_columns = (first + 3, first + 1, first + 4, first + 2)
        pixels = pixels.transpose(*range(first + 1), *rows_and_columns)
        return pixels.reshape(*batch, channels // (r * r), height * r, width * r)


@register("nn.PixelUnshuffle", "F.pixel_unshuffle", "aten::pixel_unshuffle")
@dataclass(frozen=True, kw_only=True)
class PixelUnshuffle(Layer):
    """Stacks each r by r pixels as channels. (*, C, H * r, W * r) -> (*, C * r * r, H, W). torch.nn.PixelUnshuffle"""

    schemas: ClassVar[Mapping[int, str]] = {2: "input downscale_factor"}

    downscale_factor: int

    def __post_init__(self) -> None:
        _expect_factor(self.downscale_factor, "downscale_factor")

    def infer(self, input: TensorSpec) -> TensorSpec:
        _expect_image(input)
        *batch, channels, height, width = input.shape
        r = self.downscale_factor
        if height % r or width % r:
            raise ShapeError(f"input: height and width of {input.shape} are no multiples of {r}")
        return input.like((*batch, channels * r * r, height // r, width // r))

    def forward(self, input: Array) -> Array:
        *batch, channels, height, width = input.shape
        r = self.downscale_factor
        pixels = input.reshape(*batch, channels, height // r, r, width // r, r)
        first = len(batch)
        pixels = pixels.transpose(*range(first + 1), first + 2, first + 4, first + 1, first + 3)
        return pixels.reshape(*batch, channels * r * r, height // r, width // r)


@register("nn.ChannelShuffle", "F.channel_shuffle", "torch.channel_shuffle", "aten::channel_shuffle")
@dataclass(frozen=True, kw_only=True)
class ChannelShuffle(Layer):
    """Deals the channels of `groups` equal groups out in turn. (N, C, *) -> (N, C, *). torch.nn.ChannelShuffle"""

    schemas: ClassVar[Mapping[int, str]] = {2: "input groups"}

    groups: int

    def __post_init__(self) -> None:
        _expect_factor(self.groups, "groups")

    def infer(self, input: TensorSpec) -> TensorSpec:
        _expect_image(input)
        if input.shape[1] % self.groups:
            raise ShapeError(f"input: the {input.shape[1]} channels cannot be split into {self.groups} groups")
        return input.like()

    def forward(self, input: Array) -> Array:
        samples, channels, *size = input.shape
        grouped = input.reshape(samples, self.groups, channels // self.groups, *size)
        return grouped.swapaxes(1, 2).reshape(input.shape)
