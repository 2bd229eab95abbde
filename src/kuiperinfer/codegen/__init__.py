"""Lowering rules, kernel specs, and machine code."""

from . import (
    convolution,
    elementwise,
    joining,
    linear,
    normalization,
    pooling,
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
    "convolution",
    "elementwise",
    "joining",
    "linear",
    "normalization",
    "pooling",
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
