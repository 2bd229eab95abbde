"""Convolutions and transposed convolutions in one, two and three dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec
from ..errors import ShapeError, did_you_mean
from ..records import dataclass
from .base import Gradients, Ints, Layer, Spec, Value, expect_rank, known_ints, register
from .checks import expect_affordable, expect_kind, factor_dtype, per_dimension, set_field
from .padding import Pads, expect_mode, pad_array, padded_shape, pads_of, unpad_gradient
from .windows import Index, overlap_add, sliding_windows, window_count, window_elements

# Elements of the matrix that a block of windows is copied into: 16 MiB of float32.
_BLOCK_ELEMENTS = 1 << 22


@dataclass(frozen=True, kw_only=True)
class _ConvolutionBase(Layer):
    """What both directions have in common: parameters, and the checks of input, weight and bias."""

    presence: ClassVar[Mapping[str, tuple[str, ...]]] = {"bias": ("bias",)}

    ndim: int
    stride: Ints = (1,)
    dilation: Ints = (1,)
    groups: int = 1
    padding_mode: str = "zeros"
    in_channels: int | None = None
    out_channels: int | None = None
    kernel_size: Ints | None = None

    def __post_init__(self) -> None:
        set_field(self, "stride", per_dimension(self.stride, self.ndim, "stride", at_least=1))
        set_field(self, "dilation", per_dimension(self.dilation, self.ndim, "dilation", at_least=1))
        if self.kernel_size is not None:
            set_field(self, "kernel_size", per_dimension(self.kernel_size, self.ndim, "kernel_size", at_least=1))
        if self.groups < 1:
            raise ShapeError(f"groups: expected at least 1, found {self.groups}")

    def _check(self, input: TensorSpec, weight: TensorSpec, bias: Any, channels: tuple[int, int], filters: str) -> None:
        """Checks dtypes, ranks and channels; `channels` are those that the weight asks for, in and out."""
        into, out = channels
        for name, found, wanted in (("in_channels", self.in_channels, into), ("out_channels", self.out_channels, out)):
            if found is not None and found != wanted:
                raise ShapeError(
                    f"{name}={found} and groups={self.groups} do not go with a weight of shape {weight.shape}"
                )
        if self.kernel_size is not None and self.kernel_size != weight.shape[2:]:
            raise ShapeError(f"kernel_size={self.kernel_size} does not go with a weight of shape {weight.shape}")
        if weight.shape[0] < self.groups or weight.shape[0] % self.groups:
            raise ShapeError(f"the {weight.shape[0]} {filters} of the weight cannot be split into {self.groups} groups")
        found_channels = input.shape[-self.ndim - 1]
        if found_channels != into:
            raise ShapeError(
                f"input: expected {into} channels (weight {weight.shape}, groups={self.groups}), "
                f"found {found_channels} in shape {input.shape}"
            )
        if bias is not None and bias.shape != (out,):
            raise ShapeError(f"bias: expected shape ({out},), found {bias.shape}")

    def _expect_tensors(self, input: Spec, weight: Spec, bias: Spec) -> None:
        for name, spec in (("input", input), ("weight", weight), ("bias", bias)):
            if spec is not None or name != "bias":
                expect_kind(spec, "int", "float", "complex", what=name)
        expect_rank(input, self.ndim + 1, self.ndim + 2)
        expect_rank(weight, self.ndim + 2, what="weight")
        batch_is_empty = 0 in input.shape[: -self.ndim - 1]
        if 0 in weight.shape or (0 in input.shape and not batch_is_empty):
            raise ShapeError(f"input {input.shape} and weight {weight.shape}: only the batch may be empty")

    def _result(self, input: TensorSpec, weight: TensorSpec, bias: Any, channels: int, size: Ints) -> TensorSpec:
        dtype = factor_dtype(input, weight, *(() if bias is None else (bias,)))
        return TensorSpec((*input.shape[: -self.ndim - 1], channels, *size), dtype)


@register("nn.Conv1d", "F.conv1d", "aten::conv1d", ndim=1)
@register("nn.Conv2d", "F.conv2d", "aten::conv2d", ndim=2)
@register("nn.Conv3d", "F.conv3d", "aten::conv3d", ndim=3)
@dataclass(frozen=True, kw_only=True)
class Conv(_ConvolutionBase):
    """Cross-correlation of the padded input with each filter of the weight.

    input (N, C, *size) or (C, *size), weight (O, C / groups, *kernel), bias (O) -> (N, O, *size') or (O, *size') with
    size' = floor((size + padding - dilation * (kernel - 1) - 1) / stride) + 1. `padding` "same" keeps the size and puts
    the odd element at the end, "valid" is no padding. Two numbers for each dimension are those of `F.pad`, last dimension
    first: so the converter writes what PyTorch pads in other modes than zeros. torch.nn.Conv2d, torch.nn.functional.conv2d
    """

    schemas: ClassVar[Mapping[int, str]] = {7: "input weight bias stride padding dilation groups"}

    padding: Ints | str = (0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_mode(self.padding_mode, constant="zeros")
        if self.padding == ():  # how the converter writes it in one dimension, where the mode is not zeros
            set_field(self, "padding", "same")
        if not isinstance(self.padding, str):
            count = self.ndim if len(self.padding) == 1 else len(self.padding)
            if count not in (self.ndim, 2 * self.ndim):
                raise ShapeError(f"padding: expected 1, {self.ndim} or {2 * self.ndim} numbers, found {self.padding}")
            set_field(self, "padding", per_dimension(self.padding, count, "padding", at_least=0))
        elif self.padding not in ("same", "valid"):
            hint = did_you_mean(self.padding, ("same", "valid"))
            raise ShapeError(f"padding: expected numbers, 'same' or 'valid', found '{self.padding}'{hint}")
        elif self.padding == "same" and max(self.stride) > 1:
            raise ShapeError(f"padding='same' needs a stride of 1, found {self.stride}")

    @property
    def mode(self) -> str:
        """The padding mode, as `padding.pad_array` calls it."""
        return "constant" if self.padding_mode == "zeros" else self.padding_mode

    def pads(self, kernel: Ints) -> Pads:
        """How much is padded before and after each spatial dimension."""
        if not isinstance(self.padding, str):
            if len(self.padding) == 2 * self.ndim:
                return pads_of(self.padding, self.ndim)
            return tuple((p, p) for p in self.padding)
        if self.padding == "valid":
            return ((0, 0),) * self.ndim
        totals = [d * (k - 1) for k, d in zip(kernel, self.dilation, strict=True)]
        return tuple((total // 2, total - total // 2) for total in totals)

    def infer(self, input: TensorSpec, weight: TensorSpec, bias: Spec = None) -> TensorSpec:
        self._expect_tensors(input, weight, bias)
        channels = weight.shape[1] * self.groups, weight.shape[0]
        self._check(input, weight, bias, channels, "filters")
        kernel = weight.shape[2:]
        padded = padded_shape(input.shape[-self.ndim :], self.pads(kernel), self.mode)
        expect_affordable((*input.shape[: -self.ndim], *padded), input.dtype, "the padded input")
        size = tuple(map(window_count, padded, kernel, self.stride, self.dilation, (0,) * self.ndim))
        return self._result(input, weight, bias, weight.shape[0], size)

    def forward(self, input: Array, weight: Array, bias: Value = None) -> Array:
        samples = input if input.ndim == self.ndim + 2 else input[None]
        padded = pad_array(samples, ((0, 0), (0, 0), *self.pads(weight.shape[2:])), self.mode)
        output = _add_bias(convolve(padded, weight, self.stride, self.dilation, self.groups), bias)
        return output if samples is input else output[0]

    def derivative(
        self, gradient: Array, output: Array, needs: Sequence[bool], input: Array, weight: Array, bias: Value = None
    ) -> Gradients:
        samples = input if input.ndim == self.ndim + 2 else input[None]
        gradient = gradient.reshape(len(samples), *output.shape[-self.ndim - 1 :])
        pads = ((0, 0), (0, 0), *self.pads(weight.shape[2:]))
        padded = pad_array(samples, pads, self.mode)
        parts: list[Array | None] = [None, None, None]
        if needs[0]:
            whole = convolve_input_gradient(gradient, padded.shape, weight, self.stride, self.dilation, self.groups)
            parts[0] = unpad_gradient(whole, pads, self.mode, samples.shape).reshape(input.shape)
        if needs[1]:
            parts[1] = convolve_weight_gradient(gradient, padded, weight.shape, self.stride, self.dilation, self.groups)
        if bias is not None:
            parts[2] = gradient.sum((0, *range(2, gradient.ndim)))
        return parts


def convolve(padded: Array, weight: Array, stride: Ints, dilation: Ints, groups: int) -> Array:
    """The convolution without padding and bias. (N, C, *size), (O, C / groups, *kernel) -> (N, O, *size')"""
    kernel = weight.shape[2:]
    windows = sliding_windows(padded, kernel, stride, dilation)
    size = windows.shape[2 : 2 + len(kernel)]
    output = np.empty((len(padded), len(weight), *size), np.result_type(padded, weight))
    if groups > 1 and weight.shape[1] == 1:
        _convolve_depthwise(padded, weight, stride, dilation, groups, output)
        return output
    # A matrix product for each group: filters by elements of a window, times elements by windows. The windows are copied
    # block by block; a kernel of one element needs no copy and is not cut.
    elements = math.prod(kernel)
    filters = weight.reshape(groups, len(weight) // groups, -1)
    row_elements = padded.shape[1] * elements * math.prod(size[1:])
    rows = size[0] if elements == 1 else max(1, _BLOCK_ELEMENTS // row_elements)
    ndim = len(kernel)
    to_columns = (0, *range(1 + ndim, 1 + 2 * ndim), *range(1, 1 + ndim))  # (C, *size, *kernel) -> (C, *kernel, *size)
    if rows >= size[0]:  # whole samples, several at once where they are small
        of_samples = (0, *(1 + dim for dim in to_columns))
        for some in _sample_blocks(len(padded), row_elements * size[0]):
            columns = windows[some].transpose(of_samples).reshape(-1, groups, filters.shape[2], math.prod(size))
            output[some] = (filters @ columns).reshape(-1, len(weight), *size)
        return output
    for sample, result in zip(windows, output, strict=True):
        for start in range(0, size[0], rows):
            block = sample[:, start : start + rows].transpose(to_columns)
            columns = block.reshape(groups, filters.shape[2], -1)
            result[:, start : start + rows] = (filters @ columns).reshape(len(weight), -1, *size[1:])
    return output


def _sample_blocks(count: int, elements: int) -> Iterator[slice]:
    """Samples cut into blocks for which the elements of all windows, so many a sample, are not too many."""
    step = max(1, _BLOCK_ELEMENTS // max(elements, 1))
    return (slice(start, start + step) for start in range(0, count, step))


def convolve_input_gradient(
    gradient: Array, shape: Ints, weight: Array, stride: Ints, dilation: Ints, groups: int
) -> Array:
    """The gradient of the padded input: each filter laid where it looked. (N, O, *size') -> (N, C, *size)"""
    kernel, size = weight.shape[2:], gradient.shape[2:]
    filters = weight.reshape(groups, len(weight) // groups, -1).swapaxes(1, 2)
    result = np.empty(shape, np.result_type(gradient, weight))
    for block in _sample_blocks(len(gradient), shape[1] * math.prod(kernel) * math.prod(size)):
        pixels = gradient[block].reshape(-1, groups, len(weight) // groups, math.prod(size))
        windows = (filters @ pixels).reshape(-1, shape[1], *kernel, *size)
        result[block] = overlap_add(windows, shape[2:], stride, dilation)
    return result


def convolve_weight_gradient(
    gradient: Array, padded: Array, shape: Ints, stride: Ints, dilation: Ints, groups: int
) -> Array:
    """The gradient of a weight of this shape: what each filter saw, times what came of it. (N, O, *size'), (N, C, *size)"""
    kernel, size = shape[2:], gradient.shape[2:]
    every = sliding_windows(padded, kernel, stride, dilation)
    result = np.zeros((groups, shape[0] // groups, math.prod(shape[1:])), np.result_type(gradient, padded))
    ndim = len(kernel)
    for block in _sample_blocks(len(gradient), padded.shape[1] * math.prod(kernel) * math.prod(size)):
        windows = every[block].reshape(-1, groups, shape[1], *size, *kernel)
        to_rows = (
            1,
            0,
            *range(3, 3 + ndim),
            2,
            *range(3 + ndim, 3 + 2 * ndim),
        )  # (groups, N, *size', C / groups, *kernel)
        rows = windows.transpose(to_rows).reshape(groups, -1, result.shape[2])
        pixels = gradient[block].reshape(-1, groups, shape[0] // groups, math.prod(size)).transpose(1, 2, 0, 3)
        result += pixels.reshape(groups, shape[0] // groups, -1) @ rows
    return result.reshape(shape)


def _add_bias(output: Array, bias: Value) -> Array:
    return output if bias is None else output + bias.reshape(-1, *(1,) * (output.ndim - 2))


def _convolve_depthwise(padded: Array, weight: Array, stride: Ints, dilation: Ints, groups: int, output: Array) -> None:
    """One input channel a group: each element of the kernel scales a shifted copy of the channel."""
    kernel = weight.shape[2:]
    size = output.shape[2:]
    channels = padded[:, :, None]
    multiplier = len(weight) // groups
    scales = np.moveaxis(weight.reshape(groups, multiplier, *kernel), (0, 1), (-2, -1))
    result = output.reshape(len(padded), groups, multiplier, *size)
    result[...] = 0
    for position, elements in window_elements(kernel, stride, dilation, size):
        result += channels[elements] * scales[position].reshape(groups, multiplier, *(1,) * len(kernel))


@register("nn.ConvTranspose1d", "F.conv_transpose1d", "aten::conv_transpose1d", ndim=1)
@register("nn.ConvTranspose2d", "F.conv_transpose2d", "aten::conv_transpose2d", ndim=2)
@register("nn.ConvTranspose3d", "F.conv_transpose3d", "aten::conv_transpose3d", ndim=3)
@dataclass(frozen=True, kw_only=True)
class ConvTranspose(_ConvolutionBase):
    """Each input element lays a scaled filter onto the output; where filters overlap, they add up.

    input (N, C, *size) or (C, *size), weight (C, O / groups, *kernel), bias (O) -> (N, O, *size') or (O, *size') with
    size' = (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1, or the `output_size` asked
    for. torch.nn.ConvTranspose2d, torch.nn.functional.conv_transpose2d
    """

    schemas: ClassVar[Mapping[int, str]] = {8: "input weight bias stride padding output_padding groups dilation"}

    padding: Ints = (0,)
    output_padding: Ints = (0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        set_field(self, "padding", per_dimension(self.padding, self.ndim, "padding", at_least=0))
        if self.padding_mode != "zeros":
            raise ShapeError(f"padding_mode: a transposed convolution knows only 'zeros', found '{self.padding_mode}'")
        set_field(self, "output_padding", per_dimension(self.output_padding, self.ndim, "output_padding", at_least=0))

    def infer(self, input: TensorSpec, weight: TensorSpec, bias: Spec = None, output_size: Spec = None) -> TensorSpec:
        self._expect_tensors(input, weight, bias)
        out = weight.shape[1] * self.groups
        self._check(input, weight, bias, (weight.shape[0], out), "input channels")
        size = self.spatial_size(input.shape, weight.shape, output_size)
        if min(size) < 0:
            raise ShapeError(f"input {input.shape} is too small: the output would have the size {size}")
        laid = tuple(s + 2 * p for s, p in zip(size, self.padding, strict=True))
        expect_affordable(
            (*input.shape[: -self.ndim - 1], out, *laid), input.dtype, "the output before its padding is cut"
        )
        return self._result(input, weight, bias, out, size)

    def spatial_size(self, input_shape: Ints, weight_shape: Ints, output_size: Value) -> Ints:
        """The size of the output, as asked for or as it follows from the input's."""
        smallest = [
            (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
            for size, kernel, stride, padding, dilation in zip(
                input_shape[-self.ndim :], weight_shape[2:], self.stride, self.padding, self.dilation, strict=True
            )
        ]
        extra = self.output_padding
        if output_size is not None:
            wanted = known_ints(output_size, "output_size")[-self.ndim :]
            extra = tuple(w - s for w, s in zip(wanted, smallest, strict=True)) if len(wanted) == self.ndim else (-1,)
        if any(not 0 <= e < max(s, d) for e, s, d in zip(extra, self.stride, self.dilation, strict=False)):
            raise ShapeError(
                f"output_padding {extra}: expected numbers from 0, each smaller than the stride {self.stride} "
                f"or the dilation {self.dilation}"
            )
        return tuple(s + e for s, e in zip(smallest, extra, strict=True))

    def forward(self, input: Array, weight: Array, bias: Value = None, output_size: Value = None) -> Array:
        samples = input if input.ndim == self.ndim + 2 else input[None]
        size, kernel = samples.shape[2:], weight.shape[2:]
        # (N, groups, C / groups, pixels), (groups, O / groups * kernel, C / groups)
        pixels = samples.reshape(len(samples), self.groups, len(weight) // self.groups, math.prod(size))
        filters = weight.reshape(self.groups, len(weight) // self.groups, -1).swapaxes(1, 2)
        windows = (filters @ pixels).reshape(len(pixels), weight.shape[1] * self.groups, *kernel, *size)
        wanted = self.spatial_size(input.shape, weight.shape, output_size)
        laid = overlap_add(
            windows, [w + 2 * p for w, p in zip(wanted, self.padding, strict=True)], self.stride, self.dilation
        )
        without_padding: Index = (..., *(slice(p, p + w) for p, w in zip(self.padding, wanted, strict=True)))
        output = _add_bias(laid[without_padding], bias)
        return output if samples is input else output[0]
