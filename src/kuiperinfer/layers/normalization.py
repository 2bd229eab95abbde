"""Normalisations: subtract a mean, divide by a deviation, scale and shift.

They differ in what the mean is taken over, and in whether it is taken at all or was stored in training. Moments are
calculated in double precision. Weights may be float32 beside a half-precision input, which PyTorch allows, and in half
precision beside any input: models are stored so to save space.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec
from ..errors import DTypeError, InputError, ShapeError
from ..records import dataclass
from .base import Gradients, Ints, Layer, expect_rank, register
from .checks import expect_dimensions, expect_kind

_HALF = ("f16", "bf16")
_MOMENTS = {"affine": ("weight", "bias"), "track_running_stats": ("running_mean", "running_var")}


def _expect_weights(input: TensorSpec, shape: Sequence[int], **weights: TensorSpec | None) -> None:
    """`ShapeError` or `DTypeError` unless all weights that are there have this shape and a dtype that suits the input's."""
    for name, weight in weights.items():
        if weight is None:
            continue
        expect_kind(weight, "float", what=name)
        if weight.shape != tuple(shape):
            raise ShapeError(f"{name}: expected shape {tuple(shape)}, found {weight.shape} beside input {input}")
        if weight.dtype is not input.dtype and weight.dtype.name not in _HALF and input.dtype.name not in _HALF:
            raise DTypeError(f"{name}: expected dtype {input.dtype}, that of the input, found {weight.dtype}")


def _expect_moments(input: TensorSpec, channels: int, mean: TensorSpec | None, variance: TensorSpec | None) -> None:
    _expect_weights(input, (channels,), running_mean=mean, running_var=variance)
    if (mean is None) != (variance is None):
        raise InputError("running_mean and running_var: expected both or neither")


def _expect_several(count: int, what: str, input: TensorSpec) -> None:
    if count == 1:
        raise ShapeError(f"expected more than one value per {what} to take moments of, found input {input}")


def _standardize(x: Array, axes: Ints, eps: float) -> Array:
    """(x - mean) / sqrt(variance + eps), moments taken over `axes`; in double precision."""
    wide = x.astype(np.float64)
    count = max(math.prod(x.shape[axis] for axis in axes), 1)
    centred = wide - wide.sum(axes, keepdims=True) / count
    variance = np.square(centred).sum(axes, keepdims=True) / count
    return np.asarray(centred / np.sqrt(variance + eps))


def _standardize_gradient(gradient: Array, x: Array, standard: Array, axes: Ints, eps: float) -> Array:
    """The gradient of x, given that of `_standardize(x, axes, eps)`, which is `standard`."""
    count = max(math.prod(x.shape[axis] for axis in axes), 1)
    deviation = np.sqrt(x.var(axes, keepdims=True, dtype=np.float64) + eps)
    slope = (gradient * standard).sum(axes, keepdims=True) / count
    return np.asarray((gradient - gradient.sum(axes, keepdims=True) / count - standard * slope) / deviation)


def _affine_gradients(
    gradient: Array, standard: Array, axes: Ints, weight: Array | None, bias: Array | None
) -> tuple[Array | None, Array | None]:
    """The gradients of weight and bias of `_affine`, which were broadcast over `axes`."""
    return (
        None if weight is None else (gradient * standard).sum(axes).astype(weight.dtype),
        None if bias is None else gradient.sum(axes, dtype=np.float64).astype(bias.dtype),
    )


def _affine(x: Array, weight: Array | None, bias: Array | None, shape: Sequence[int]) -> Array:
    """x * weight + bias, the two laid out in `shape` to broadcast."""
    if weight is not None:
        x = x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


def _along_channels(ndim: int) -> Ints:
    """The shape in which one value a channel broadcasts against (N, C, *)."""
    return (1, -1, *[1] * (ndim - 2))


# ------------------------------------------------------------------------------------------- over the batch


@register("F.batch_norm")
@register("nn.BatchNorm1d", ranks=(2, 3))
@register("nn.BatchNorm2d", ranks=(4,))
@register("nn.BatchNorm3d", ranks=(5,))
@dataclass(frozen=True, kw_only=True)
class BatchNorm(Layer):
    """(x - mean) / sqrt(variance + eps) * weight + bias, one of each a channel. (N, C, *) -> (N, C, *). torch.nn.BatchNorm2d

    Without running statistics, or with `training`, the moments are those of the batch, taken over all but the channels.
    """

    eps: float = 1e-5
    num_features: int | None = None
    training: bool = False
    ranks: Ints = ()

    presence: ClassVar[Mapping[str, tuple[str, ...]]] = _MOMENTS
    ignored = frozenset({"momentum", "cudnn_enabled"})

    def __post_init__(self) -> None:
        if not self.eps >= 0:
            raise InputError(f"eps={self.eps}: expected a number that is not negative")

    def infer(
        self,
        input: TensorSpec,
        running_mean: TensorSpec | None = None,
        running_var: TensorSpec | None = None,
        weight: TensorSpec | None = None,
        bias: TensorSpec | None = None,
    ) -> TensorSpec:
        expect_kind(input, "float")
        if self.ranks:
            expect_rank(input, *self.ranks)
        expect_dimensions(input.shape, 2)
        channels = input.shape[1]
        if self.num_features not in (None, channels):
            raise ShapeError(f"num_features={self.num_features}, but the input has {channels} channels: {input}")
        _expect_moments(input, channels, running_mean, running_var)
        _expect_weights(input, (channels,), weight=weight, bias=bias)
        if self.training or running_mean is None:
            if self.eps == 0:
                raise InputError("eps=0: moments of a batch may be 0, so that it has to be positive")
            _expect_several(input.shape[0] * math.prod(input.shape[2:]), "channel", input)
        return input.like()

    def forward(
        self,
        input: Array,
        running_mean: Array | None = None,
        running_var: Array | None = None,
        weight: Array | None = None,
        bias: Array | None = None,
    ) -> Array:
        shape = _along_channels(input.ndim)
        if self.training or running_mean is None or running_var is None:
            return _affine(_standardize(input, (0, *range(2, input.ndim)), self.eps), weight, bias, shape)
        return _apply_statistics(input, running_mean, running_var, weight, bias, self.eps)

    def derivative(
        self,
        gradient: Array,
        output: Array,
        needs: Sequence[bool],
        input: Array,
        running_mean: Array | None = None,
        running_var: Array | None = None,
        weight: Array | None = None,
        bias: Array | None = None,
    ) -> Gradients:
        shape, axes = _along_channels(input.ndim), (0, *range(2, input.ndim))
        scaled = _affine(gradient, weight, None, shape)
        if self.training or running_mean is None or running_var is None:
            standard = _standardize(input, axes, self.eps)
            part = _standardize_gradient(scaled, input, standard, axes, self.eps)
        else:
            deviation = np.sqrt(running_var.astype(np.float64) + self.eps).reshape(shape)
            standard = (input - running_mean.reshape(shape)) / deviation
            part = scaled / deviation
        return [part.astype(input.dtype), None, None, *_affine_gradients(gradient, standard, axes, weight, bias)]


def _apply_statistics(
    input: Array, mean: Array, variance: Array, weight: Array | None, bias: Array | None, eps: float
) -> Array:
    """(x - mean) * (weight / sqrt(variance + eps)) + bias, in the input's precision. (N, C, *) -> (N, C, *)"""
    scale = 1 / np.sqrt(variance.astype(np.float64) + eps)
    if weight is not None:
        scale = scale * weight
    shape = _along_channels(input.ndim)
    centred = input - mean.reshape(shape).astype(input.dtype)
    return _affine(centred, scale.astype(input.dtype), bias, shape)


# ------------------------------------------------------------------------------------------- over each sample


@register("F.instance_norm", "aten::instance_norm")
@register("nn.InstanceNorm1d", ndim=1, use_input_stats=False)
@register("nn.InstanceNorm2d", ndim=2, use_input_stats=False)
@register("nn.InstanceNorm3d", ndim=3, use_input_stats=False)
@dataclass(frozen=True, kw_only=True)
class InstanceNorm(Layer):
    """As batch normalisation, each sample by itself. (N, C, *) -> (N, C, *), the nn types also (C, *). torch.nn.InstanceNorm2d

    Running statistics are used where they are given and `use_input_stats` is not set, which it is by default in the functional
    form alone.
    """

    eps: float = 1e-5
    num_features: int | None = None
    use_input_stats: bool = True
    ndim: int | None = None

    presence: ClassVar[Mapping[str, tuple[str, ...]]] = _MOMENTS
    ignored = frozenset({"momentum", "cudnn_enabled"})
    schemas: ClassVar[Mapping[int, str]] = {
        9: "input weight bias running_mean running_var use_input_stats momentum eps cudnn_enabled"
    }

    def infer(
        self,
        input: TensorSpec,
        running_mean: TensorSpec | None = None,
        running_var: TensorSpec | None = None,
        weight: TensorSpec | None = None,
        bias: TensorSpec | None = None,
    ) -> TensorSpec:
        expect_kind(input, "float")
        if self.ndim is not None:
            expect_rank(input, self.ndim + 1, self.ndim + 2)
        expect_dimensions(input.shape, 2)
        channels, *size = input.shape if self.is_unbatched(input) else input.shape[1:]
        if weight is not None and self.num_features not in (None, channels):
            raise ShapeError(f"num_features={self.num_features}, but the input has {channels} channels: {input}")
        _expect_moments(input, channels, running_mean, running_var)
        _expect_weights(input, (channels,), weight=weight, bias=bias)
        if self.use_input_stats or running_mean is None:
            _expect_several(math.prod(size), "channel and sample", input)
        return input.like()

    def forward(
        self,
        input: Array,
        running_mean: Array | None = None,
        running_var: Array | None = None,
        weight: Array | None = None,
        bias: Array | None = None,
    ) -> Array:
        batch = input[np.newaxis] if self.is_unbatched(input) else input
        if self.use_input_stats or running_mean is None or running_var is None:
            standard = _standardize(batch, tuple(range(2, batch.ndim)), self.eps)
            result = _affine(standard, weight, bias, _along_channels(batch.ndim))
        else:
            result = _apply_statistics(batch, running_mean, running_var, weight, bias, self.eps)
        return result.reshape(input.shape)

    def is_unbatched(self, input: Array | TensorSpec) -> bool:
        """Whether the input is one sample: (C, *)."""
        return self.ndim is not None and input.ndim == self.ndim + 1


@register("nn.GroupNorm", "F.group_norm")
@dataclass(frozen=True, kw_only=True)
class GroupNorm(Layer):
    """As layer normalisation, over each of `num_groups` groups of channels. (N, C, *) -> (N, C, *). torch.nn.GroupNorm"""

    num_groups: int
    num_channels: int | None = None
    eps: float = 1e-5

    presence: ClassVar[Mapping[str, tuple[str, ...]]] = {"affine": ("weight", "bias")}
    ignored = frozenset({"cudnn_enabled"})

    def __post_init__(self) -> None:
        if self.num_groups < 1:
            raise InputError(f"num_groups={self.num_groups}: expected at least 1")

    def infer(self, input: TensorSpec, weight: TensorSpec | None = None, bias: TensorSpec | None = None) -> TensorSpec:
        expect_kind(input, "float")
        expect_dimensions(input.shape, 2)
        samples, channels = input.shape[:2]
        if self.num_channels not in (None, channels):
            raise ShapeError(f"num_channels={self.num_channels}, but the input has {channels} channels: {input}")
        if channels % self.num_groups:
            raise ShapeError(f"{channels} channels cannot be divided into num_groups={self.num_groups}: input {input}")
        _expect_weights(input, (channels,), weight=weight, bias=bias)
        _expect_several(samples * channels // self.num_groups * math.prod(input.shape[2:]), "group", input)
        return input.like()

    def forward(self, input: Array, weight: Array | None = None, bias: Array | None = None) -> Array:
        samples, channels = input.shape[:2]
        size = channels // self.num_groups * math.prod(input.shape[2:])
        grouped = _standardize(input.reshape(samples, self.num_groups, size), (2,), self.eps)
        return _affine(grouped.reshape(input.shape), weight, bias, _along_channels(input.ndim))


@register("nn.LayerNorm", "F.layer_norm")
@dataclass(frozen=True, kw_only=True)
class LayerNorm(Layer):
    """(x - mean) / sqrt(variance + eps) * weight + bias, moments over the last dimensions. (*, *S) -> (*, *S)

    torch.nn.LayerNorm
    """

    normalized_shape: Ints
    eps: float = 1e-5

    presence: ClassVar[Mapping[str, tuple[str, ...]]] = {"elementwise_affine": ("weight",), "bias": ("bias",)}
    ignored = frozenset({"cudnn_enable"})

    def infer(self, input: TensorSpec, weight: TensorSpec | None = None, bias: TensorSpec | None = None) -> TensorSpec:
        expect_kind(input, "float")
        _expect_normalized_shape(input, self.normalized_shape)
        _expect_weights(input, self.normalized_shape, weight=weight, bias=bias)
        return input.like()

    def forward(self, input: Array, weight: Array | None = None, bias: Array | None = None) -> Array:
        standard = _standardize(input, _last_axes(self.normalized_shape), self.eps)
        return _affine(standard, weight, bias, self.normalized_shape)

    def derivative(
        self,
        gradient: Array,
        output: Array,
        needs: Sequence[bool],
        input: Array,
        weight: Array | None = None,
        bias: Array | None = None,
    ) -> Gradients:
        axes = _last_axes(self.normalized_shape)
        standard = _standardize(input, axes, self.eps)
        scaled = _affine(gradient, weight, None, self.normalized_shape)
        part = _standardize_gradient(scaled, input, standard, axes, self.eps).astype(input.dtype)
        batch = tuple(range(input.ndim - len(self.normalized_shape)))
        return [part, *_affine_gradients(gradient, standard, batch, weight, bias)]


@register("nn.RMSNorm", "F.rms_norm")
@dataclass(frozen=True, kw_only=True)
class RMSNorm(Layer):
    """x / sqrt(mean(x^2) + eps) * weight, the mean over the last dimensions. (*, *S) -> (*, *S). torch.nn.RMSNorm

    Without `eps` it is the machine epsilon of the input's dtype, for half precision that of f32.
    """

    normalized_shape: Ints
    eps: float | None = None

    presence: ClassVar[Mapping[str, tuple[str, ...]]] = {"elementwise_affine": ("weight",)}

    def infer(self, input: TensorSpec, weight: TensorSpec | None = None) -> TensorSpec:
        expect_kind(input, "float", "c64", "c128")
        _expect_normalized_shape(input, self.normalized_shape)
        if weight is not None:
            expect_kind(weight, input.dtype.kind, what="weight")
            if weight.shape != self.normalized_shape:
                raise ShapeError(f"weight: expected shape {self.normalized_shape}, found {weight.shape}")
        return input.like()

    def forward(self, input: Array, weight: Array | None = None) -> Array:
        axes = _last_axes(self.normalized_shape)
        eps = float(np.finfo(input.dtype).eps) if self.eps is None else self.eps
        wide = input.astype(np.result_type(input.dtype, np.float64))
        square = np.square(wide).sum(axes, keepdims=True) / max(math.prod(self.normalized_shape), 1)
        return _affine(wide / np.sqrt(square + eps), weight, None, self.normalized_shape)


def _expect_normalized_shape(input: TensorSpec, shape: Ints) -> None:
    if not shape:
        raise ShapeError("normalized_shape: expected at least one dimension, found none")
    if input.shape[-len(shape) :] != shape:
        raise ShapeError(f"normalized_shape={shape} is not the end of the input's shape {input.shape}")


def _last_axes(shape: Ints) -> Ints:
    return tuple(range(-len(shape), 0))


# ------------------------------------------------------------------------------------------- over neighbouring channels


@register("nn.LocalResponseNorm", "F.local_response_norm")
@dataclass(frozen=True, kw_only=True)
class LocalResponseNorm(Layer):
    """x / (k + alpha * m)^beta, m being the mean of x^2 over `size` channels around. (N, C, *) -> (N, C, *)

    Channels beyond the ends count as zeros; of an even size, one more lies before than after. torch.nn.LocalResponseNorm
    """

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"size={self.size}: expected at least 1")

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_kind(input, "float")
        expect_dimensions(input.shape, 3)
        return input.like()

    def forward(self, input: Array) -> Array:
        channels = input.shape[1]
        square = np.square(input.astype(np.float64))
        total = np.zeros_like(square)
        before, after = min(self.size // 2, channels - 1), min((self.size - 1) // 2, channels - 1)
        for shift in range(-before, after + 1):
            here = slice(max(0, -shift), channels - max(0, shift))
            there = slice(max(0, shift), channels + min(0, shift))
            total[:, here] += square[:, there]
        return np.asarray(input / (self.k + self.alpha / self.size * total) ** self.beta)
