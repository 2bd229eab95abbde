"""Lowering rules, kernel specs, and machine code."""

from . import (
    attention,
    convolution,
    einsum,
    elementwise,
    joining,
    linear,
    normalization,
    padding,
    pixel,
    pooling,
    rearranging,
    reduction,
    resize,
    shape,
    slicing,
    softmax,
    transposed_convolution,
)
from .lowering import Lowering, lowers
from .target import Target, current_target, target_named

__all__ = [
    "Lowering",
    "Target",
    "attention",
    "convolution",
    "einsum",
    "elementwise",
    "joining",
    "linear",
    "normalization",
    "padding",
    "pixel",
    "pooling",
    "rearranging",
    "reduction",
    "resize",
    "shape",
    "slicing",
    "transposed_convolution",
    "softmax",
    "current_target",
    "lowers",
    "target_named",
]
