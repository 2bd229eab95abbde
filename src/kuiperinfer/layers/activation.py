"""Activations: one function of every element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import Array, TensorSpec
from .base import Layer, register


@register("nn.ReLU", "F.relu")
@dataclass(frozen=True, kw_only=True)
class ReLU(Layer):
    """max(x, 0); NaN stays NaN. (*) -> (*), any dtype but bool and complex. torch.nn.ReLU"""

    def infer(self, input: TensorSpec) -> TensorSpec:
        return input.like()

    def forward(self, input: Array) -> Array:
        return np.maximum(input, input.dtype.type(0))


@register("nn.LeakyReLU", "F.leaky_relu")
@dataclass(frozen=True, kw_only=True)
class LeakyReLU(Layer):
    """x where x >= 0, else negative_slope * x. (*) -> (*). torch.nn.LeakyReLU"""

    negative_slope: float = 0.01

    def infer(self, input: TensorSpec) -> TensorSpec:
        return input.like()

    def forward(self, input: Array) -> Array:
        return np.where(input >= 0, input, input * input.dtype.type(self.negative_slope))
