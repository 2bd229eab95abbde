"""The error function, which NumPy does not have."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from ..dtypes import Array

# Below the border the Taylor series in x^2 loses nothing to cancellation; above it erfc(x) exp(x^2) is a smooth function of
# 1/x, interpolated at the Chebyshev points with `math.erfc`; beyond the end the result is 1 to the last bit.
_BORDER, _END = 1.25, 6.0
_SERIES = [2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(22)]
_CENTRE, _RADIUS = (1 / _BORDER + 1 / _END) / 2, (1 / _BORDER - 1 / _END) / 2


@np.vectorize
def _scaled_complement(t: float) -> float:
    x = 1 / (_CENTRE + _RADIUS * t)
    return math.erfc(x) * math.exp(x * x)


@functools.cache
def _tail() -> list[float]:
    from numpy.polynomial import chebyshev  # which takes long to import

    return list(chebyshev.cheb2poly(chebyshev.chebinterpolate(_scaled_complement, 20)).tolist())


def erf(x: Array) -> Array:
    """erf(x) of a float array, in its dtype: correctly rounded in float32 up to rare ties, within 4 ulp in float64."""
    size = np.abs(x, dtype=np.float64)
    near = size * _polynomial(_SERIES, np.minimum(size * size, _BORDER * _BORDER))
    inverse = 1 / np.clip(size, _BORDER, _END)
    far = 1 - np.exp(-size * size) * _polynomial(_tail(), (inverse - _CENTRE) / _RADIUS)
    return np.asarray(np.copysign(np.where(size < _BORDER, near, far), x).astype(x.dtype))


def _polynomial(coefficients: Sequence[float], t: Array) -> Array:
    result = np.full_like(t, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result *= t
        result += coefficient
    return result
