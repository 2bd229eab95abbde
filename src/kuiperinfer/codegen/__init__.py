"""Lowering rules, kernel specs, and machine code."""

from . import convolution, joining, pooling, shape
from .lowering import Lowering, lowers
from .target import Target, current_target, target_named

__all__ = [
    "Lowering",
    "Target",
    "convolution",
    "joining",
    "pooling",
    "shape",
    "current_target",
    "lowers",
    "target_named",
]
