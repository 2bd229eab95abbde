"""Convolution over pictures."""

from __future__ import annotations

import math

import numpy as np

from ...errors import InputError, ShapeError, did_you_mean
from .. import functional as F
from .. import init
from ..creation import empty
from ..tensor import Tensor
from .module import Module
from .parameter import Parameter

Pair = int | tuple[int, int]

_PADDINGS = ("valid", "same")
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def pair(value: Pair) -> tuple[int, int]:
    """A size for both directions, or one each (vertical, horizontal)."""
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _checked_pair(value: Pair, name: str, at_least: int) -> tuple[int, int]:
    sizes = (value, value) if isinstance(value, (int, np.integer)) else value
    if (
        not isinstance(sizes, (tuple, list))
        or len(sizes) != 2
        or not all(isinstance(size, (int, np.integer)) and size >= at_least for size in sizes)
    ):
        raise InputError(f"Conv2d: {name}={value!r}; expected one integer or two, of at least {at_least}")
    return int(sizes[0]), int(sizes[1])


class Conv2d(Module):
    """Convolution of pictures. (N, in_channels, H, W) -> (N, out_channels, H', W')

    H' = (H + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1. weight is (out_channels, in_channels / groups, kernel
    height, width); it and bias (out_channels,) begin uniform within ±1 / √(inputs of one output), as in PyTorch.
    Padding is of zeros, or what `padding_mode` says: reflect, replicate, circular.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair | str = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
    ) -> None:
        super().__init__()
        counts = (in_channels, out_channels, groups)
        if not all(isinstance(count, (int, np.integer)) for count in counts):
            raise InputError(f"Conv2d: expected numbers of channels and groups as integers, found {counts}")
        if groups < 1 or in_channels % groups or out_channels % groups:
            found = f"in_channels={in_channels}, out_channels={out_channels}, groups={groups}"
            raise ShapeError(f"Conv2d: both numbers of channels must be multiples of groups, found {found}")
        if isinstance(padding, str) and padding not in _PADDINGS:
            raise InputError(
                f"Conv2d: padding '{padding}'; expected sizes, 'valid' or 'same'{did_you_mean(padding, _PADDINGS)}"
            )
        if padding_mode not in _PADDING_MODES:
            known = f"{', '.join(_PADDING_MODES)}{did_you_mean(str(padding_mode), _PADDING_MODES)}"
            raise InputError(f"Conv2d: padding_mode '{padding_mode}'; expected one of {known}")
        self.padding_mode = padding_mode
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = _checked_pair(kernel_size, "kernel_size", 1)
        self.stride, self.dilation = _checked_pair(stride, "stride", 1), _checked_pair(dilation, "dilation", 1)
        self.padding: str | tuple[int, int] = (
            padding if isinstance(padding, str) else _checked_pair(padding, "padding", 0)
        )
        if self.padding == "same" and self.stride != (1, 1):
            raise InputError(f"Conv2d: padding 'same' needs stride 1, found {self.stride}")
        self.weight = Parameter(empty(out_channels, in_channels // groups, *self.kernel_size))
        self.register_parameter("bias", Parameter(empty(out_channels)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights drawn anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.in_channels // self.groups * math.prod(self.kernel_size)
            bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._pads(), mode=self.padding_mode), (0, 0)
        return F.conv2d(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _pads(self) -> list[int]:
        """Elements to be put left, right, above and below."""
        (top, left), (bottom, right) = (
            (self.padding, self.padding) if isinstance(self.padding, tuple) else ((0, 0), (0, 0))
        )
        if self.padding == "same":
            totals = [step * (size - 1) for step, size in zip(self.dilation, self.kernel_size, strict=True)]
            top, left = (total // 2 for total in totals)
            bottom, right = totals[0] - top, totals[1] - left
        return [left, right, top, bottom]

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0, 0):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1, 1):
            parts.append(f"dilation={self.dilation}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)
