"""Variance and standard deviation, alone or together with the mean.

The divisor is the number of elements less the correction, but not less than 0. The converter writes the correction in three
forms: `correction=2`, `unbiased=True` (1) or `False` (0), and, for `torch.var(correction=2)`, as `unbiased=2`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec, to_real
from ..errors import ModelFileError
from ..records import dataclass
from .base import register
from .reduction import Reduction, count_reduced, expect_floating, reduced_shape, to_double


@register("torch.var", "aten::var")
@dataclass(frozen=True, kw_only=True)
class Variance(Reduction):
    """The variance of floats or complex numbers, a real number. torch.var"""

    schemas: ClassVar[Mapping[int, str]] = {2: "input unbiased", 4: "input dim unbiased keepdim"}

    unbiased: bool | float | None = None
    correction: float | None = None

    def __post_init__(self) -> None:
        if self.unbiased is not None and self.correction is not None:
            raise ModelFileError("expected either 'unbiased' or 'correction', found both")

    def infer(self, input: TensorSpec) -> TensorSpec | tuple[TensorSpec, ...]:
        expect_floating(input.dtype, "a variance")
        return self.reduced(input, to_real(input.dtype))

    def forward(self, input: Array) -> Array | tuple[Array, ...]:
        return self.variance_and_mean(input)[0]

    def variance_and_mean(self, input: Array) -> tuple[Array, Array]:
        """Both, in double precision."""
        axes = self.axes(input.ndim)
        count = count_reduced(input.shape, axes)
        input = to_double(input)
        mean = np.true_divide(np.sum(input, axis=axes, keepdims=True), count)
        deviation = input - mean
        squares = deviation.real**2 + deviation.imag**2 if np.iscomplexobj(deviation) else deviation**2
        total = np.sum(squares, axis=axes, keepdims=True)
        variance = np.true_divide(total, max(0.0, count - self.lost_degrees))
        shape = reduced_shape(input.shape, axes, self.keepdim)
        return variance.reshape(shape), mean.reshape(shape)

    @property
    def lost_degrees(self) -> float:
        """What is subtracted from the number of elements before the squares are divided by it."""
        given = [value for value in (self.correction, self.unbiased) if value is not None]
        return float(given[0]) if given else 1.0


@register("torch.std", "aten::std")
@dataclass(frozen=True, kw_only=True)
class StandardDeviation(Variance):
    """The square root of the variance. torch.std"""

    def forward(self, input: Array) -> Array:
        return np.asarray(np.sqrt(self.variance_and_mean(input)[0]))


@register("torch.var_mean", "aten::var_mean")
@dataclass(frozen=True, kw_only=True)
class VarianceAndMean(Variance):
    """Two outputs: the variance, and the mean. torch.var_mean"""

    def infer(self, input: TensorSpec) -> tuple[TensorSpec, ...]:
        expect_floating(input.dtype, "a variance")
        return self.reduced(input, to_real(input.dtype)), self.reduced(input, input.dtype)

    def forward(self, input: Array) -> tuple[Array, ...]:
        return self.variance_and_mean(input)


@register("torch.std_mean", "aten::std_mean")
@dataclass(frozen=True, kw_only=True)
class DeviationAndMean(VarianceAndMean):
    """Two outputs: the standard deviation, and the mean. torch.std_mean"""

    def forward(self, input: Array) -> tuple[Array, ...]:
        variance, mean = self.variance_and_mean(input)
        return np.sqrt(variance), mean
